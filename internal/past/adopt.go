package past

import (
	"context"
	"errors"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// documents are the names of all that earlier versions kept under the name of their machine.
var documents = []string{"notifications", "alerts", "floors", "baselines", "recent", "hues", "cooldowns"}

// nameDocument is the document in which a store has what the machine was called when its past was written there last.
const nameDocument = "called"

// An Adopter takes over what a store has of an installation of gpuwhy under another name of the machine, or of an earlier version.
type Adopter struct {
	Store        store.Store
	Installation string // its ID; empty: it has none, and nothing is taken over
	Program      string // what it is called now: earlier versions kept documents under that
	Node         string // the only node that it reads; empty for several
	Records      bool   // it writes what a fleet delivers
}

// Adopt gives all that belongs to the installation to it, and to the name that the machine has now. was is the name of before, where that is another.
func (a *Adopter) Adopt(ctx context.Context) (was string, err error) {
	if a.Installation == "" {
		return "", nil
	}
	b := &store.Batch{Documents: map[string][]byte{}}
	if was, err = a.was(ctx); err != nil {
		return "", err
	}
	if a.Node != "" && was != a.Node {
		b.Documents[a.Installation+"/"+nameDocument] = []byte(a.Node)
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

// was is what the machine was called before; empty where that is not known, or the program reads several.
func (a *Adopter) was(ctx context.Context) (string, error) {
	if a.Node == "" {
		return "", nil
	}
	if name, err := a.Store.Document(ctx, a.Installation+"/"+nameDocument); err != nil || len(name) > 0 {
		return string(name), err
	}
	// Earlier versions kept documents of their own machine alone, under its name. In a file, those of the newest are this one's.
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
	for _, owner := range append(names, a.Installation) {
		for _, file := range state.Names("alerts") {
			text, err := a.Store.Document(ctx, owner+"/"+file)
			if err != nil {
				return "", err
			}
			writtenAt, name := state.Written(text)
			if owner != a.Installation {
				name = owner
			}
			if name != "" && writtenAt.After(newest) {
				was, newest = name, writtenAt
			}
		}
	}
	if was == a.Node { // it is noted now
		return "", nil
	}
	return was, nil
}

// documents adds to a batch what makes the documents that are kept under a name those of the installation, unless it has newer ones.
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
	writtenAt, _ := state.Written(text)
	before, _ := state.Written(than)
	return writtenAt.After(before)
}
