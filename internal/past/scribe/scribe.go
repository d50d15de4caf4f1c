// Package scribe writes what gpuwhy keeps: the database of the past and small files, all in one folder. On Linux another process
// does that, which the program starts and ends ([Start]). A disk can block a process in the kernel, where no signal reaches it: a
// frozen file system, or a mount whose server is gone. The other process waits there, while the one that reads, shows and alerts
// goes on. Elsewhere, and if no process can be started, the program writes by itself ([Here]).
//
// The package knows how to ask the other process, and when to restart it. Packages state and sqlite know what is kept, and how.
//
// With such a process, the program itself writes nothing to the folder and maps none of its files, since a frozen disk would hold it in
// the kernel, where neither the garbage collector nor SIGTERM gets through (docs/adr/0022-helpers.md). What the process costs counts as
// gpuwhy's own.
package scribe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A Scribe writes the files of one folder. Its methods may be called concurrently, and hang as long as the disk does.
type Scribe interface {
	// Take makes sure that only this program can write to the folder, which is created if needed. It tries once;
	// callers that need the folder try again. If another program has it, the error is a [gpu.Advice] that says which.
	Take(ctx context.Context) error
	// Shelf has the folder's small files.
	state.Shelf
	// Remove removes a small file, if there is one.
	Remove(name string) error
	// Open opens a database. Several calls for one file return the same database.
	Open(ctx context.Context, d Database) (Store, error)
	// Other returns a database of another kind, which its first call opens.
	Other(kind, file string) Other
	// Pid is the id of the process that writes; 0: this process does, or there is none now.
	Pid() int
	// Close releases the folder. It returns [helper.ErrStuck] if the disk blocks the writer, which ends once the disk
	// answers.
	Close() error
}

// A Database is a file with a past.
type Database struct {
	File string
	// Begun is called when the file is recreated, see [sqlite.Options].
	Begun func()
}

// A Store keeps a past, and parcels until they are delivered.
type Store interface {
	store.Store
	store.Outbox
}

// Other is a database of a kind that a scribe knows nothing about: it carries calls there, and answers back.
type Other interface {
	// Call does what a method names. What the arguments and the answer are is known to the kind. An error is one of the way there and
	// back; what a call does may be done nevertheless.
	Call(ctx context.Context, method string, args []byte) (answer []byte, err error)
	// Close closes the database. The next call opens it again.
	Close() error
}

// Kinds make databases of other kinds, by the name of the kind. They open no file.
type Kinds map[string]func(file string) Other

// Here returns a scribe that writes in this process.
func Here(dir string, log *slog.Logger, kinds Kinds) Scribe {
	return &local{dir: dir, log: log, kinds: kinds}
}

// local is a scribe in this process.
type local struct {
	dir   string
	log   *slog.Logger
	kinds Kinds

	taking  sync.Mutex // held by the one who takes the folder
	release func() error

	mu     sync.Mutex
	files  map[string]*opened
	others map[place]Other
}

// A place is where a database of another kind is.
type place struct{ kind, file string }

// An opened database is one that is open, or being opened.
type opened struct {
	mu sync.Mutex // held by the one who opens it
	*sqlite.Store
}

// Pid implements [Scribe].
func (l *local) Pid() int { return 0 }

// Take implements [Scribe].
func (l *local) Take(context.Context) error {
	l.taking.Lock()
	defer l.taking.Unlock()
	if l.release != nil {
		return nil
	}
	if err := state.MakeFolder(l.dir); err != nil {
		return err
	}
	probe, err := os.CreateTemp(l.dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("can't be written to: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return err
	}
	l.release, err = state.Lock(l.dir)
	return err
}

// Read implements [Scribe].
func (l *local) Read(name string) ([]byte, error) { return state.Folder(l.dir).Read(name) }

// Write implements [Scribe].
func (l *local) Write(name string, text []byte) error {
	if err := l.Take(context.Background()); err != nil {
		return err
	}
	return state.Folder(l.dir).Write(name, text)
}

// Remove implements [Scribe].
func (l *local) Remove(name string) error { return state.Folder(l.dir).Remove(name) }

// Open implements [Scribe].
func (l *local) Open(ctx context.Context, d Database) (Store, error) {
	s, err := l.open(ctx, d)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (l *local) open(ctx context.Context, d Database) (*sqlite.Store, error) {
	if l.dir != "" {
		if err := l.Take(ctx); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	if l.files == nil {
		l.files = map[string]*opened{}
	}
	o := l.files[d.File]
	if o == nil {
		o = &opened{}
		l.files[d.File] = o
	}
	l.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Store != nil {
		return o.Store, nil
	}
	s, err := sqlite.Open(ctx, sqlite.Options{File: d.File, Log: l.log, Now: time.Now, Begun: d.Begun})
	if err == nil {
		o.Store = s
	}
	return s, err
}

// Other implements [Scribe].
func (l *local) Other(kind, file string) Other { return &otherHere{l, place{kind, file}} }

// other returns a database of another kind.
func (l *local) other(at place) (Other, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.others[at]; o != nil {
		return o, nil
	}
	blank := l.kinds[at.kind]
	if blank == nil {
		return nil, fmt.Errorf("there is no kind of database %q", at.kind)
	}
	if l.others == nil {
		l.others = map[place]Other{}
	}
	l.others[at] = blank(at.file)
	return l.others[at], nil
}

// otherHere is a database of another kind that this process writes to.
type otherHere struct {
	*local
	place
}

// Call implements [Other].
func (o *otherHere) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	if o.dir != "" {
		if err := o.Take(ctx); err != nil {
			return nil, err
		}
	}
	to, err := o.other(o.place)
	if err != nil {
		return nil, err
	}
	return to.Call(ctx, method, args)
}

// Close implements [Other].
func (o *otherHere) Close() error {
	to, err := o.other(o.place)
	if err != nil {
		return err
	}
	return to.Close()
}

// shut closes a database, which is opened again when it is asked for.
func (l *local) shut(file string) error {
	l.mu.Lock()
	o := l.files[file]
	l.mu.Unlock()
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Store == nil {
		return nil
	}
	s := o.Store
	o.Store = nil
	return s.Close()
}

// Close implements [Scribe].
func (l *local) Close() error {
	l.taking.Lock()
	defer l.taking.Unlock()
	if l.release == nil {
		return nil
	}
	release := l.release
	l.release = nil
	return release()
}
