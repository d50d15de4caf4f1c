// Package keep keeps small state over a restart: documents of the program's parts,
// as files of one directory. It decides when a document is written, and writes it
// whole or not at all. A part decides what is in its document.
package keep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/natefinch/atomic"
)

// A Document is the state of one part.
type Document struct {
	Name string // of its file
	What string // for people, such as "alerts and silences"
	When When
	// Keep returns the content to write.
	Keep func() ([]byte, error)
	// Restore gets what Keep returned in an earlier run. If a part can't use it,
	// it returns an error and begins without.
	Restore func(text []byte, now time.Time) error
}

// When says when a document is written. All documents are written at the end.
type When uint8

const (
	AtEnd    When = iota // large, and soon out of date: written at the end alone
	Hourly               // took hours to learn: written every ten minutes
	Promptly             // must not be lost: written when it changes
)

const (
	// every is the time between two writes of Hourly documents.
	every = 10 * time.Minute
	// writePause is the least time between two writes of any kind.
	writePause = time.Second
	// maxSize bounds what is read of a file, in bytes.
	maxSize = 64 << 20
)

// A Keeper writes documents, in their order, to files of Dir.
type Keeper struct {
	Dir       string
	Documents []Document
	// Hold calls a function while no prompt document changes, so that the written
	// documents fit together.
	Hold func(func())
	Log  *slog.Logger
	soon chan struct{}
}

// New makes a Keeper whose fields the caller fills in.
func New() *Keeper { return &Keeper{soon: make(chan struct{}, 1)} }

// Soon says that a prompt document has changed.
func (k *Keeper) Soon() {
	select {
	case k.soon <- struct{}{}:
	default: // a write is planned already
	}
}

// Restore passes each file to its part. It logs files that can't be used.
func (k *Keeper) Restore() {
	for _, d := range k.Documents {
		name := filepath.Join(k.Dir, d.Name)
		text, err := read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = d.Restore(text, time.Now())
		}
		if err != nil {
			k.Log.Warn("something of before is lost, and begins anew", "what", d.What, "file", name, "err", err)
		}
	}
}

func read(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("longer than %d bytes", maxSize)
	}
	return text, err
}

// Run writes documents until ctx ends. A slow disk delays no other part.
func (k *Keeper) Run(ctx context.Context) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	failing := false
	for {
		now := Promptly
		select {
		case <-ctx.Done():
			return
		case <-k.soon:
		case <-ticks.C:
			now = Hourly
		}
		err := k.write(now)
		if err != nil && !failing {
			k.Log.Warn("a restart would lose something", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(writePause):
		}
	}
}

// Close writes all documents for the last time.
func (k *Keeper) Close() error { return k.write(AtEnd) }

// write writes the documents that are due: the prompt ones, and all that are
// written at least as often as now says.
func (k *Keeper) write(now When) error {
	type text struct {
		of   *Document
		text []byte
		err  error
	}
	var due []text
	gather := func(is func(When) bool) {
		for i := range k.Documents {
			if d := &k.Documents[i]; is(d.When) {
				t, err := d.Keep()
				due = append(due, text{d, t, err})
			}
		}
	}
	k.Hold(func() { gather(func(w When) bool { return w == Promptly }) })
	gather(func(w When) bool { return w != Promptly && w >= now })
	var errs []error
	for _, t := range due {
		err := t.err
		if err == nil {
			err = atomic.WriteFile(filepath.Join(k.Dir, t.of.Name), bytes.NewReader(t.text))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s can't be kept: %w", t.of.What, err))
		}
	}
	return errors.Join(errs...)
}
