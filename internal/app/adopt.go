package app

import (
	"context"
	"errors"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// documents are the names of everything that is kept across a restart.
var documents = []string{"notifications", "alerts", "floors", "baselines", "recent", "hues", "cooldowns"}

// called is the document with the name that the machine had when its past was last written to the store.
const called = "called"

// An Adopter takes over data of this installation that a store has under an earlier name of the machine, or from an earlier version.
type Adopter struct {
	Store        store.Store
	Installation string // its ID; empty: it has none, so nothing is taken over
	Program      string // the program's name now: earlier versions kept documents under it
	Node         string // the only node that it reads; empty for several
	Records      bool   // it writes what a fleet delivers
}

// Adopt moves everything that belongs to the installation to its ID, and to the machine's current name. was is the former name, if it was different.
func (a *Adopter) Adopt(ctx context.Context) (was string, err error) {
	if a.Installation == "" {
		return "", nil
	}
	b := &store.Batch{Documents: map[string][]byte{}}
	if was, err = a.was(ctx); err != nil {
		return "", err
	}
	if a.Node != "" && was != a.Node {
		b.Documents[a.Installation+"/"+called] = []byte(a.Node)
	}
	if was == a.Node {
		was = ""
	}
	if was != "" {
		b.Renamed = []store.Renaming{{From: was, To: a.Node}}
		if a.Records {
			err = deliver.MakeRoom(ctx, a.Store, a.Node, a.Installation, b)
		}
		err = errors.Join(err, a.documents(ctx, was, b))
	}
	if a.Program != was {
		err = errors.Join(err, a.documents(ctx, a.Program, b))
	}
	if err != nil || len(b.Documents) == 0 {
		return "", err
	}
	if err = a.Store.Write(ctx, b); was == "" && errors.Is(err, store.ErrLocked) {
		return "", nil // another program has the name, and what there is can be read all the same
	}
	return was, err
}

// was returns the machine's former name; empty if it is unknown, or if the program reads several machines.
func (a *Adopter) was(ctx context.Context) (string, error) {
	if a.Node == "" {
		return "", nil
	}
	if name, err := a.Store.Document(ctx, a.Installation+"/"+called); err != nil || len(name) > 0 {
		return string(name), err
	}
	// Earlier versions kept documents only of their own machine, under its name. In a file, the newest documents are this machine's.
	devices, err := a.Store.Devices(ctx)
	if err != nil {
		return "", err
	}
	names := []string{a.Node}
	for i := range devices {
		if names[len(names)-1] != devices[i].Node { // they are by node
			names = append(names, devices[i].Node)
		}
	}
	was, newest := "", time.Time{}
	for _, of := range append(names, a.Installation) {
		for _, file := range state.Names("alerts") {
			text, err := a.Store.Document(ctx, of+"/"+file)
			if err != nil {
				return "", err
			}
			at, name := state.Written(text)
			if of != a.Installation {
				name = of
			}
			if name != "" && at.After(newest) {
				was, newest = name, at
			}
		}
	}
	if was == a.Node { // it is noted now
		return "", nil
	}
	return was, nil
}

// documents adds to a batch what moves the documents under a name to the installation, unless it has newer ones.
func (a *Adopter) documents(ctx context.Context, name string, b *store.Batch) error {
	for _, document := range documents {
		for _, file := range state.Names(document) {
			text, err := a.Store.Document(ctx, name+"/"+file)
			if err != nil {
				return err
			}
			if text == nil {
				continue
			}
			own := a.Installation + "/" + file
			have := b.Documents[own]
			if have == nil {
				if have, err = a.Store.Document(ctx, own); err != nil {
					return err
				}
			}
			if have == nil || isNewer(text, have) {
				if a.Node != "" {
					text = state.About(text, name)
				}
				b.Documents[own] = text
			}
			b.Documents[name+"/"+file] = nil
		}
	}
	return nil
}

// isNewer reports whether a document was written after another one.
func isNewer(text, than []byte) bool {
	at, _ := state.Written(text)
	before, _ := state.Written(than)
	return at.After(before)
}
