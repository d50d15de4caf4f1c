// Package sqlite stores the past in an SQLite file.
//
// One program uses a database at a time, with one connection that writes and a few that read. When Write returns, its data
// is in the write-ahead log: a killed program loses none of it, and a machine that loses
// power loses at most what the system had not yet flushed to disk. A damaged file is set aside under another name.
package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// Options say which database it is.
type Options struct {
	File string // its folder is made where it is not there
	Log  *slog.Logger
	Now  func() time.Time // names what is set aside
	// Begun is called when the file of an open store begins anew, since it was damaged, or is not there any more; nil: nobody
	// wants to know.
	Begun func()
}

// A Store is a [store.Store] in a file.
type Store struct {
	Options                     // whose File is the file itself
	name    string              // of the file, as somebody gave it: perhaps of a link
	viewed  bool                // it is only read, see [View]
	absent  map[string][]string // columns that the tables of a viewed file lack
	unlock  func() error
	writing chan struct{} // has room for the one who writes

	mu     sync.Mutex
	db     *database // nil while there is none
	damage error     // that was found in it by who read
	closed bool
	aside  string
}

var _ store.Store = (*Store)(nil)

// A database is an open file.
type database struct {
	file    string
	info    fs.FileInfo // of the file that was opened
	write   *conn       // of whoever has the room in writing; nil where it is only read
	readers pool
	devices map[store.Key]int64 // their IDs
	frames  frameWriter
	texts   map[string]keptText // some, of what is written often
}

// Open opens a database, and makes it where there is none. A damaged file is set aside, see [Store.Aside]. Errors are those of
// package store, and advice where another program has it: a gpuwhy, or one that made the file for something else.
func Open(ctx context.Context, options Options) (*Store, error) {
	file := options.File
	if err := state.MakeFolder(filepath.Dir(file)); err != nil {
		return nil, advise(file, err)
	}
	file, err := resolved(file)
	if err != nil {
		return nil, advise(options.File, err)
	}
	if err := mayUse(options.File, file); err != nil {
		return nil, err
	}
	name := options.File
	options.File = file
	unlock, holder, err := state.LockFile(file + ".lock")
	if err != nil {
		return nil, advise(file, err)
	}
	if holder != "" {
		return nil, &gpu.Advice{
			What: fmt.Sprintf("another gpuwhy, %s, uses %s", holder, file), Try: "stop it, or give this one its own --state-dir",
			Err: store.ErrLocked,
		}
	}
	s := &Store{Options: options, name: name, unlock: unlock, writing: make(chan struct{}, 1)}
	if s.db, err = openDatabase(ctx, file); errors.Is(kind(err), store.ErrCorrupt) {
		err = s.begin(ctx, err)
	}
	if err != nil {
		return nil, errors.Join(advise(file, err), unlock())
	}
	return s, nil
}

// mostLinks is how many links a name may lead through: as many as Linux follows.
const mostLinks = 40

// resolved is the name of the file itself, where a name is that of a link to it: whoever uses the file locks it by the same name,
// and what belongs to it lies beside it. The file need not be there.
func resolved(name string) (string, error) {
	for file, links := name, 0; links < mostLinks; links++ {
		target, err := os.Readlink(file)
		if err != nil {
			return file, nil //nolint:nilerr // it is no link, or whoever opens it finds out why not
		}
		if !filepath.IsAbs(target) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(file))
			if err != nil {
				return "", err
			}
			target = filepath.Join(dir, target)
		}
		file = target
	}
	return "", &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
}

func openDatabase(ctx context.Context, file string) (_ *database, err error) {
	made, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would let everybody read it
	if err != nil {
		return nil, err
	}
	info, err := made.Stat()
	if err := errors.Join(err, made.Close()); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(file)
	}
	write, err := dial(name(file), "busy_timeout = 2000", cacheOfWriter, "synchronous = normal", "temp_store = memory",
		"journal_size_limit = 16000000") // a log that grew while somebody read for long becomes short again
	if err != nil {
		return nil, err
	}
	db := &database{file: file, info: info, write: write, readers: pool{name: name(file)}}
	if err := db.prepare(ctx); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	return db, nil
}

// prepare makes sure that the file is ours and as this version wants it.
func (db *database) prepare(ctx context.Context) error {
	mark, err := db.write.number(ctx, "PRAGMA application_id")
	if err != nil {
		return err
	}
	objects, err := db.write.number(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	if objects > 0 && mark != application {
		return foreign(db.file)
	}
	var version int64
	if objects == 0 {
		// There is nothing to lose yet, and waiting for the disk some times would keep the program from its first answer.
		if err := db.write.run("PRAGMA synchronous = off"); err != nil {
			return err
		}
		err = db.write.run("PRAGMA auto_vacuum = incremental") // for ever
	} else {
		version, err = db.write.number(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied")
	}
	if err != nil {
		return err
	}
	if err := db.write.run("PRAGMA journal_mode = wal"); err != nil {
		return err
	}
	if mark != application {
		if err := db.write.run(fmt.Sprint("PRAGMA application_id = ", application)); err != nil {
			return err
		}
	}
	if err := migrate(ctx, db.file, db.write, version); err != nil {
		return err
	}
	if err := db.complete(ctx); err != nil {
		return err
	}
	if err := db.write.run("PRAGMA synchronous = normal"); err != nil {
		return err
	}
	return db.identify(ctx)
}

// identify reads which devices there are.
func (db *database) identify(ctx context.Context) error {
	db.devices = map[store.Key]int64{}
	return db.write.query(ctx, "SELECT id, node, uuid FROM devices", nil, func(row []driver.Value) error {
		db.devices[store.Key{Node: text(row[1]), UUID: text(row[2])}] = integer(row[0])
		return nil
	})
}

// complete makes sure that the file is as long as it says. What SQLite has not found cut off by now, it finds when it
// comes there.
func (db *database) complete(ctx context.Context) error {
	if err := db.write.run("PRAGMA wal_checkpoint(passive)"); err != nil { // what a program that was killed has left
		return err
	}
	bytes, err := db.write.number(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
	if err != nil {
		return err
	}
	info, err := os.Stat(db.file)
	if err == nil && info.Size() < bytes {
		err = fmt.Errorf("%w: it has %d bytes of %d", store.ErrCorrupt, info.Size(), bytes)
	}
	return err
}

// close ends the connections, those of readers when they are done.
func (db *database) close() error {
	err := db.readers.close()
	if db.write != nil {
		err = errors.Join(err, db.write.Close())
	}
	return err
}

// Aside is where a damaged file lies now; empty where none was found.
func (s *Store) Aside() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aside
}

// begin sets the damaged file aside and begins a new one. It is called by the one who writes, and returns advice.
func (s *Store) begin(ctx context.Context, damage error) error {
	if err := maySetAside(s.name, s.File); err != nil {
		return err
	}
	if s.db != nil {
		_ = s.db.close() // what it says is that it is damaged
	}
	s.use(nil)
	aside, err := setAside(s.File, s.Now())
	if err != nil {
		return &gpu.Advice{
			What: s.File + " is damaged and can't be set aside", Try: "move it and the files beside it away",
			Err: fmt.Errorf("%w: %w: %w", store.ErrCorrupt, err, damage),
		}
	}
	s.Log.Warn("the past is damaged, and begins anew", "aside", aside, "err", damage)
	s.mu.Lock()
	s.aside = aside
	s.mu.Unlock()
	db, err := openDatabase(ctx, s.File)
	s.use(db)
	return err
}

// use makes a database the one to write to and read from; nil: there is none.
func (s *Store) use(db *database) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.damage = db, nil
	if db != nil && s.Begun != nil {
		s.Begun()
	}
}

// setAside renames a database with what belongs to it. What is renamed last is the file itself: a log without its file is
// harmless, and one beside another file is not.
func setAside(file string, now time.Time) (aside string, err error) {
	name := file + ".damaged-" + now.UTC().Format("20060102T150405Z")
	aside = name
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s-%d", name, n)
	}
	for _, end := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(file+end, aside+end); err != nil && (end == "" || !errors.Is(err, fs.ErrNotExist)) {
			return "", err
		}
	}
	return aside, nil
}

var errClosed = &gpu.Advice{What: "the history database is closed", Try: "start gpuwhy again", Err: store.ErrGone}

// now is the open database.
func (s *Store) now() (*database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.db == nil:
		return nil, advise(s.File, &fs.PathError{Op: "open", Path: s.File, Err: fs.ErrNotExist})
	}
	return s.db, nil
}

// change is for those who write: one at a time. A file that is not there any more is begun anew, and so is one that
// turns out to be damaged, also to those who read; what was to be written then has to be written again.
func (s *Store) change(ctx context.Context, do func(db *database) error) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.writing }()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.viewed {
		return &gpu.Advice{What: s.File + " is open for reading only", Try: "only the gpuwhy that owns it may write to it", Err: store.ErrReadOnly}
	}
	if err := s.present(ctx); err != nil {
		return advise(s.File, err)
	}
	s.mu.Lock()
	err := s.damage
	s.mu.Unlock()
	if err == nil {
		db, gone := s.now()
		if gone != nil {
			return gone
		}
		err = do(db)
	}
	if !errors.Is(kind(err), store.ErrCorrupt) {
		return advise(s.File, err)
	}
	if err := s.begin(ctx, err); err != nil {
		return advise(s.File, err)
	}
	return &gpu.Advice{
		What: s.File + " was damaged; gpuwhy has begun a new one",
		Try:  "use the sqlite3 program to recover data from " + s.Aside(),
		Err:  fmt.Errorf("%w: %w", store.ErrCorrupt, err),
	}
}

// present opens the file again where it was removed or replaced.
func (s *Store) present(ctx context.Context) error {
	s.mu.Lock()
	db, closed := s.db, s.closed
	s.mu.Unlock()
	if closed {
		return errClosed
	}
	if db != nil {
		if info, err := os.Stat(s.File); err == nil && os.SameFile(info, db.info) {
			return nil
		}
		s.Log.Warn("the file with the past is not there any more", "file", s.File)
		_ = db.close() // the file has no name any more
		for _, end := range []string{"-wal", "-shm"} {
			_ = os.Remove(s.File + end) // of the file that is gone; another one beside them would be damaged
		}
	}
	if err := mayUse(s.name, s.File); err != nil {
		s.use(nil)
		return err
	}
	db, err := openDatabase(ctx, s.File)
	s.use(db)
	if errors.Is(kind(err), store.ErrCorrupt) {
		return s.begin(ctx, err)
	}
	return err
}

// view lets do read the database as it is now. What do reads later is the same, whatever is written meanwhile.
func (s *Store) view(ctx context.Context, do func(c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db, err := s.now()
	if err != nil {
		return err
	}
	c, err := db.readers.get()
	if err != nil {
		return advise(s.File, err)
	}
	defer db.readers.put(c)
	err = c.transact("BEGIN", func() error { return do(c) })
	if errors.Is(kind(err), store.ErrCorrupt) {
		s.mu.Lock()
		if s.db == db { // else it is set aside already
			s.damage = err
		}
		s.mu.Unlock()
	}
	if ctx.Err() != nil {
		return ctx.Err() // SQLite would say that it was interrupted
	}
	return advise(s.File, err)
}

// Close ends writing, and lets other programs have the file.
func (s *Store) Close() error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.db != nil {
		err = advise(s.File, s.db.close())
	}
	return errors.Join(err, s.unlock())
}
