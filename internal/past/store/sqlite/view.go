package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// View opens a database to read it, also while another program writes to it. It makes no database, changes nothing in the one that
// there is, and leaves a damaged one where it is; what would write returns [store.ErrReadOnly]. Every error is a [gpu.Advice].
func View(ctx context.Context, file string) (*Store, error) {
	s := &Store{Options: Options{File: file}, viewed: true, unlock: func() error { return nil }, writing: make(chan struct{}, 1)}
	info, err := readable(file)
	if err != nil {
		return nil, err
	}
	s.db = &database{file: file, info: info, readers: pool{name: nameToView(file)}}
	c, err := s.db.readers.get()
	if err != nil {
		return nil, viewAdvice(file, err)
	}
	defer s.db.readers.put(c)
	if s.absent, err = s.db.asExpected(ctx, c); err != nil {
		return nil, errors.Join(viewAdvice(file, err), s.db.close())
	}
	return s, nil
}

// readable says what keeps a file from being read.
func readable(file string) (fs.FileInfo, error) {
	info, err := os.Stat(file)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, irregular(file)
	case err == nil:
		var opened *os.File
		if opened, err = os.Open(file); err == nil {
			return info, opened.Close()
		}
	}
	return nil, viewAdvice(file, err)
}

// viewAdvice says what to do about an error of a database that is only read.
func viewAdvice(file string, err error) error {
	switch {
	case exhausted(err):
		return advise(file, err)
	case errors.Is(err, fs.ErrNotExist):
		return &gpu.Advice{
			What: "there is no " + file + ": no history is kept there",
			Try:  "start gpuwhy, or name the state directory that has it with --state-dir", Err: err,
		}
	case errors.Is(err, fs.ErrPermission):
		return &gpu.Advice{What: "not permitted to read " + file, Try: "run this as the user that runs gpuwhy", Err: err}
	case errors.Is(kind(err), store.ErrGone), errors.Is(kind(err), store.ErrReadOnly):
		// SQLite makes files beside a database that is not in use, also to read it.
		return &gpu.Advice{
			What: file + " can't be opened", Err: err,
			Try: "run this as the user that runs gpuwhy, who has write access to its folder, or copy the file to your own folder",
		}
	}
	return advise(file, err)
}

// asExpected makes sure that the file is ours, and has the tables that this version wants. It returns the columns that these lack, by table:
// an older gpuwhy did not know these quantities, and there is no value of them.
func (db *database) asExpected(ctx context.Context, c *conn) (absent map[string][]string, err error) {
	objects, err := c.number(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return nil, err
	}
	mark, err := c.number(ctx, "PRAGMA application_id")
	switch {
	case err != nil:
		return nil, err
	case objects == 0:
		return nil, &fs.PathError{Op: "open", Path: db.file, Err: fs.ErrNotExist} // somebody has only just made the file
	case mark != application:
		return nil, foreign(db.file)
	}
	knows, err := newest()
	if err != nil {
		return nil, err
	}
	objects, err = c.number(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied")
	switch {
	case err != nil:
		return nil, err
	case objects > knows:
		return nil, newer(db.file, objects, knows)
	case objects < knows:
		return nil, older(db.file)
	}
	missing, err := missing(ctx, c)
	if err != nil {
		return nil, err
	}
	absent = map[string][]string{}
	for table, columns := range missing {
		for _, column := range columns {
			absent[table] = append(absent[table], column.name)
		}
	}
	if len(absent[store.Devices.Name]) > 0 { // of which there are few, and one statement
		return nil, older(db.file)
	}
	return absent, nil
}

func older(file string) error {
	return &gpu.Advice{What: "an older gpuwhy wrote " + file, Try: "start this gpuwhy once, which upgrades it"}
}
