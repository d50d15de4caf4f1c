package past

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A shelf keeps the program's documents in its store, with the past. Documents that an earlier version, or this one without a
// past, has left in a file are read from there until they are next written.
type shelf struct {
	store     store.Store
	files     state.Files
	installed *state.Installed // several programs may share a store; nil: it is unknown which program this is
	node      string           // the program's name: earlier versions kept documents under it
}

// names returns a document's name in the store, followed by names that it may have had before.
func (s *shelf) names(document string) (names []string, err error) {
	i, err := s.installed.Installation()
	if err != nil {
		return nil, err
	}
	for _, owner := range []string{i.ID, s.node} {
		if name := owner + "/" + document; owner != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (s *shelf) document(name string) (text []byte, err error) {
	names, err := s.names(name)
	for _, stored := range names {
		if text, err = s.store.Document(context.Background(), stored); err != nil || text != nil {
			return text, err
		}
	}
	return nil, err
}

func (s *shelf) Read(name string) ([]byte, error) {
	text, err := regular.InTime(func() ([]byte, error) { return s.document(name) })
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", state.ErrNotNow, err)
	case text == nil:
		return s.files.Read(name)
	}
	if file, err := s.files.Read(name); err == nil && isNewer(file, text) { // of a run without a past
		return file, nil
	}
	return text, nil
}

func (s *shelf) Write(name string, text []byte) error {
	names, err := s.names(name)
	if err != nil {
		return err
	}
	documents := map[string][]byte{names[0]: text}
	for _, former := range names[1:] {
		documents[former] = nil
	}
	if err := s.store.Write(context.Background(), &store.Batch{Documents: documents}); err != nil {
		return err
	}
	return s.files.Remove(name)
}
