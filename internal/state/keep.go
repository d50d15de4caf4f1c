// Package state keeps small documents over a restart, in the database of the past or as files. It
// knows when a document is written, by which version and about which machine, and writes it as a
// whole or not at all. Parts exchange plain values with it.
//
// Alerts, silences, waiting messages and idle floors are written soon after they change; baselines, forecasts of cool-downs and the
// colors of people every ten minutes; the last minutes of readings when the program ends. A person who changes an alert or a silence
// gets an answer after the change is on disk, and a message is sent after its alert is ([Keeper.Flush]). A failed write is tried again;
// until it succeeds, /api/health says "degraded" for the part "state". The directory is locked, so that only one program writes to it
// (docs/adr/0003-state-dir.md).
package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/natefinch/atomic"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// A Part has state that survives a restart.
type Part[T any] interface {
	// Kept returns a copy of the state, which encoding/json can write.
	Kept() T
	// Restore takes what Kept returned in an earlier run. It leaves out what is too old at now, and
	// returns an error about implausible values.
	Restore(kept T, now time.Time) error
}

// A Document is the state of one part.
type Document struct {
	Name string // of its file
	What string // for people, such as "alerts and silences"
	When When
	// KnowsNames says that the part itself handles a renamed machine; otherwise the Keeper replaces the former name.
	KnowsNames bool
	Kept       func() any
	Restore    func(text []byte, now time.Time) error
}

// When says when a document is written. All documents are written at the end.
type When uint8

// How often documents are written.
const (
	AtEnd     When = iota // large, and soon out of date
	Regularly             // took hours to learn: written every ten minutes
	Promptly              // must not be lost: written when [Keeper.Soon] says that it has changed, such as an alert or an idle floor
)

// Of makes a document from a part. The part gets a whole value or none.
func Of[T any](name, what string, when When, part Part[T]) Document {
	restore := func(text []byte, now time.Time) error {
		var kept T
		if err := json.Unmarshal(text, &kept); err != nil {
			return fmt.Errorf("it can't be read: %w", err)
		}
		return part.Restore(kept, now)
	}
	return Document{Name: name, What: what, When: when, Kept: func() any { return part.Kept() }, Restore: restore}
}

const (
	every = 10 * time.Minute // for what took hours to learn
	// The pause after a write is that of a good one, or doubles with each failure.
	writePause   = time.Second
	longestPause = time.Minute
	maxSize      = 64 << 20 // bytes of a file
	// version is that of the files. Files of version 1 were written by each part
	// in a form of its own, which had the state's fields beside its header.
	version = 2
)

type header struct {
	Version int       `json:"version"`
	Origin  string    `json:"origin"`
	Source  string    `json:"source,omitzero"` // the origin, in some files of version 1
	Node    string    `json:"node,omitzero"`   // see [Keeper.Node]
	Written time.Time `json:"written"`
	State   any       `json:"state"`
}

// ErrNotNow says that a shelf may have something that can't be read now.
var ErrNotNow = errors.New("it can't be read now")

// A Shelf stores documents by name. Its calls may hang.
type Shelf interface {
	// Read returns what was last written. The error is [fs.ErrNotExist] if nothing was, and [ErrNotNow] or
	// [regular.ErrSlow] if there may be something that can't be read now.
	Read(name string) ([]byte, error)
	// Write returns once the document would survive a power loss.
	Write(name string, text []byte) error
}

// Files are small files of one folder, which is a Shelf.
type Files interface {
	Shelf
	// Remove removes a file, if there is one.
	Remove(name string) error
}

// A Folder is a Shelf of files.
type Folder string

// Read reads a file.
func (f Folder) Read(name string) ([]byte, error) { return regular.Read(f.file(name), maxSize) }

// Write writes a file whole or not at all.
func (f Folder) Write(name string, text []byte) error {
	if err := atomic.WriteFile(f.file(name), bytes.NewReader(text)); err != nil {
		return err
	}
	if err := Bequeath(f.file(name)); err != nil {
		return err
	}
	return SyncFolder(string(f))
}

// Remove removes a file, if there is one.
func (f Folder) Remove(name string) error {
	if err := os.Remove(f.file(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// A Keeper writes documents, in their order, to a Shelf.
type Keeper struct {
	Shelf Shelf
	// Origin is "simulate:PROFILE", "replay:DIR", or anything else for the real machine. State of
	// one is never used for another.
	Origin string
	// Node is the name of the only machine that the documents are about; empty for several. State saved under another name is
	// restored under this one.
	Node      string
	Documents []Document
	// Hold calls a function while no prompt document changes.
	Hold func(func())
	Log  *slog.Logger
	soon chan struct{}
	lost chan struct{} // the shelf has lost what was written

	asked chan chan<- error // those who wait for a write
	ended chan struct{}     // closed when Run has ended

	unread map[string]bool // documents whose disk has not answered yet, by name. Restore and who holds writing use it

	writing sync.Mutex // held by the write that is under way

	mu    sync.Mutex
	state State
}

// State is the state of writing.
type State struct {
	Written time.Time // last successful write; zero: never
	Err     error     // error of the last attempt
	Since   time.Time // when it began to fail
}

// New makes a Keeper whose fields the caller fills in.
func New() *Keeper {
	return &Keeper{soon: make(chan struct{}, 1), lost: make(chan struct{}, 1), asked: make(chan chan<- error), ended: make(chan struct{}), unread: map[string]bool{}}
}

// ErrEnded is what Flush returns once Run has ended: Close writes what is left.
var ErrEnded = errors.New("nothing more is written: the program is ending")

// State returns the current state of writing.
func (k *Keeper) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// Soon says that a prompt document has changed.
func (k *Keeper) Soon() {
	select {
	case k.soon <- struct{}{}:
	default: // already known
	}
}

// Again says that the shelf has lost what was written, for example because a damaged database was recreated:
// everything except documents written at the end is written at once.
func (k *Keeper) Again() {
	select {
	case k.lost <- struct{}{}:
	default: // already known
	}
}

// unreal are the origins that are not the real machine, with the prefixes of their file names.
var unreal = map[string]string{"simulate:": "simulated-", "replay:": "recorded-"}

// profile is the simulation or recording of an origin; empty for the real machine.
func profile(origin string) string {
	for begins := range unreal {
		if _, name, ok := strings.Cut(origin, begins); ok && name != "" {
			return begins + name
		}
	}
	return ""
}

// name is a document's name on the shelf. Documents of a simulation or recording have their own names.
func (k *Keeper) name(d Document) string {
	name := d.Name + ".json"
	for begins, prefix := range unreal {
		if strings.HasPrefix(profile(k.Origin), begins) {
			name = prefix + name
		}
	}
	return name
}

// Restore gives each document to its part. It logs what can't be used. Run restores what can't be read now, as soon as it
// can be.
func (k *Keeper) Restore(now time.Time) {
	var unread []string
	var why error
	for _, d := range k.Documents {
		name := k.name(d)
		state, err := k.read(name, d.KnowsNames)
		if err == nil {
			err = d.Restore(state, now)
		}
		switch {
		case notNow(err):
			k.unread[d.Name] = true
			unread, why = append(unread, d.What), err
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			k.Log.Warn("saved state is lost and starts over", "what", d.What, "document", name, "err", err)
		}
	}
	if len(unread) > 0 {
		k.Log.Warn("saved state can't be read now and will be read as soon as possible", "what", strings.Join(unread, ", "), "err", why)
		k.Soon()
	}
}

func notNow(err error) bool { return errors.Is(err, ErrNotNow) || errors.Is(err, regular.ErrSlow) }

// late restores a document that could not be read at the start. Until then its state is not
// written.
func (k *Keeper) late(d Document) (state any, err error) {
	text, err := k.read(k.name(d), d.KnowsNames)
	if notNow(err) {
		return nil, err
	}
	if err == nil {
		if err = d.Restore(text, time.Now()); err == nil {
			k.Log.Info("saved state that could not be read at the start has been read", "what", d.What)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.Log.Warn("saved state is lost and starts over", "what", d.What, "document", k.name(d), "err", err)
	}
	delete(k.unread, d.Name)
	if d.When == Promptly {
		k.Hold(func() { state = d.Kept() })
		return state, nil
	}
	return d.Kept(), nil
}

func (k *Keeper) read(name string, knowsNames bool) ([]byte, error) {
	text, err := k.Shelf.Read(name)
	if err != nil {
		return nil, err
	}
	var state json.RawMessage
	h := header{State: &state}
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("it can't be read: %w", err)
	}
	if origin := cmp.Or(h.Origin, h.Source); origin != "" && profile(origin) != profile(k.Origin) {
		return nil, fmt.Errorf("it is for %q, not %q", origin, k.Origin)
	}
	switch {
	case h.Version == version && !knowsNames && h.Node != "" && k.Node != "" && h.Node != k.Node:
		return renamed(state, h.Node, k.Node)
	case h.Version == version:
		return state, nil
	case h.Version < version && state == nil:
		return text, nil
	}
	return nil, fmt.Errorf("it has version %d, but this program reads version %d", h.Version, version)
}

// Flush writes the prompt documents and returns once everything changed before the call is on disk,
// or with the error of the attempt. Concurrent calls share one write.
func (k *Keeper) Flush(ctx context.Context) error {
	if len(k.Documents) == 0 {
		return nil
	}
	done := make(chan error, 1)
	select {
	case k.asked <- done:
	case <-k.ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run writes documents until ctx ends. A slow disk holds up only callers that wait for it. Failed
// writes are retried.
func (k *Keeper) Run(ctx context.Context) {
	defer close(k.ended)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var pause <-chan time.Time // after a write
	owed, fails := Promptly, 0
	if len(k.unread) > 0 {
		owed = Regularly
	}
	for {
		soon := k.soon
		if pause != nil {
			soon = nil
		}
		var waiting []chan<- error
		select {
		case <-ctx.Done():
			return
		case <-pause:
			if pause = nil; fails == 0 {
				continue
			}
		case w := <-k.asked:
			waiting = k.others(w)
		case <-soon:
		case <-ticks.C:
			owed = Regularly
		case <-k.lost:
			owed = Regularly
		}
		select {
		case <-k.soon: // this write is for those changes too
		default:
		}
		err := k.write(owed)
		for _, w := range waiting {
			w <- err
		}
		switch {
		case err == nil:
			owed, fails = Promptly, 0
		case waiting == nil || fails == 0: // those who wait make the pause no longer
			fails++
		}
		pause = time.After(min(writePause<<min(max(fails-1, 0), 10), longestPause))
	}
}

// others adds those who ask at the same time.
func (k *Keeper) others(first chan<- error) []chan<- error {
	waiting := []chan<- error{first}
	for {
		select {
		case w := <-k.asked:
			waiting = append(waiting, w)
		default:
			return waiting
		}
	}
}

// Close writes all documents for the last time.
func (k *Keeper) Close() error { return k.write(AtEnd) }

// write writes what is due. A hanging disk blocks one write and nobody else.
func (k *Keeper) write(due When) error {
	states := k.due(due)
	_, err := regular.InTime(func() (none struct{}, err error) {
		if !k.writing.TryLock() {
			return none, regular.ErrSlow // another write still waits
		}
		defer k.writing.Unlock()
		return none, k.writeDue(states)
	})
	k.note(err)
	return err
}

// due returns the states of the documents that are due, and nil for the others: the prompt
// ones, and all that are written at least as often as when says.
func (k *Keeper) due(when When) []any {
	states := make([]any, len(k.Documents))
	gather := func(prompt bool) {
		for i, d := range k.Documents {
			if d.When >= when && prompt == (d.When == Promptly) {
				states[i] = d.Kept()
			}
		}
	}
	k.Hold(func() { gather(true) })
	gather(false)
	return states
}

// writeDue tries all documents that have a state. Failures with the same reason become one error about all of these
// documents.
func (k *Keeper) writeDue(states []any) error {
	type failure struct {
		how, why string
		what     []string
		err      error
	}
	var failures []failure
	failed := func(d Document, how string, err error) {
		why := err.Error()
		if advice, ok := errors.AsType[*gpu.Advice](err); ok {
			why = advice.Text() // what it wraps can differ each time
		}
		i := slices.IndexFunc(failures, func(f failure) bool { return f.how == how && f.why == why })
		if i < 0 {
			i = len(failures)
			failures = append(failures, failure{how, why, nil, err})
		}
		failures[i].what = append(failures[i].what, d.What)
	}
	for i, d := range k.Documents {
		if states[i] == nil {
			continue // not due
		}
		if k.unread[d.Name] {
			var err error
			if states[i], err = k.late(d); err != nil {
				failed(d, "could not be read at the start, and will not be overwritten until read", err)
				continue
			}
		}
		if err := k.writeOne(k.name(d), states[i]); err != nil {
			failed(d, "can't be saved", err)
		}
	}
	errs := make([]error, len(failures))
	for i, f := range failures {
		errs[i] = fmt.Errorf("%s %s: %w", strings.Join(f.what, ", "), f.how, f.err)
	}
	return errors.Join(errs...)
}

func (k *Keeper) writeOne(name string, state any) error {
	text, err := json.Marshal(header{Version: version, Origin: k.Origin, Node: k.Node, Written: time.Now().UTC(), State: state})
	if err != nil {
		return err
	}
	if len(text) > maxSize {
		return fmt.Errorf("longer than %d bytes", maxSize)
	}
	return k.Shelf.Write(name, text)
}

// SyncFolder makes sure that the disk knows the names of a folder's files; not on Windows.
func SyncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// note logs when writing begins to fail, and when it is well again.
func (k *Keeper) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	failed := k.state.Err != nil
	switch now := time.Now(); {
	case err == nil:
		k.state = State{Written: now}
		if failed {
			k.Log.Info("a restart no longer loses anything: the state can be written again")
		}
	case failed:
		k.state.Err = err
	default:
		k.state.Err, k.state.Since = err, now
		k.Log.Warn("a restart would lose changes", "err", err)
	}
}
