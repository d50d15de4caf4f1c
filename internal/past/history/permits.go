package history

import (
	"context"
	"iter"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Permits says what may be shown now of a user's processes: what people call them, and their command lines. More may have been
// kept of them, under another setting. nil permits all.
type Permits func(user string) (program, command bool)

// Store is a store whose sessions have no more than may be shown. What was simulated or recorded is nobody's.
func (p Permits) Store(s store.Store) store.Store {
	if p == nil {
		return s
	}
	return &permitted{s, p}
}

type permitted struct {
	store.Store
	permits Permits
}

// Sessions yields sessions by when they began.
func (s *permitted) Sessions(ctx context.Context, q store.Query) iter.Seq2[store.Session, error] {
	return func(yield func(store.Session, error) bool) {
		devices, err := s.Devices(ctx)
		if err != nil {
			yield(store.Session{}, err)
			return
		}
		invented := map[store.Key]bool{}
		for i := range devices {
			invented[devices[i].Key()] = devices[i].Kind == gpu.Simulated || devices[i].Kind == gpu.Recorded
		}
		for e, err := range s.Store.Sessions(ctx, q) {
			if program, command := s.permits(e.User); !invented[e.Key] {
				if !program {
					e.Program = ""
				}
				if !command {
					e.Command = ""
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// withhold takes from a snapshot what may not be shown any more.
func (p Permits) withhold(s *gpu.Snapshot) {
	if p == nil || s.Kind() != gpu.Live {
		return
	}
	for i := range s.Devices {
		if list, ok := s.Devices[i].Processes.Get(); ok {
			for j := range list {
				p.facts(&list[j].Facts)
			}
		}
	}
	if s.Host == nil {
		return
	}
	if list, ok := s.Host.Busiest.Get(); ok {
		for i := range list {
			p.facts(&list[i].Facts)
		}
	}
}

func (p Permits) facts(f *gpu.ProcessFacts) {
	program, command := p(f.User.Or(""))
	if !program {
		f.Program = gpu.Absent[string](gpu.NotPermitted)
	}
	if !command {
		f.Command = gpu.Absent[string](gpu.NotPermitted)
	}
}
