package history

import (
	"context"
	"errors"
	"iter"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// endless has sessions without an end, as long as somebody waits for them: one a second.
type endless struct{ memory }

func (*endless) Sessions(ctx context.Context, q store.Query) iter.Seq2[store.Session, error] {
	return func(yield func(store.Session, error) bool) {
		for {
			select {
			case <-ctx.Done():
				yield(store.Session{}, ctx.Err())
				return
			case <-time.After(time.Second):
			}
			if !yield(store.Session{From: q.From, To: q.From}, nil) {
				return
			}
		}
	}
}

// lengthyQuestions are those about a year.
func lengthyQuestions(p *Past) map[string]func(context.Context) error {
	q := store.Query{From: midnight.AddDate(-1, 0, 0), To: midnight}
	return map[string]func(context.Context) error{
		"why":   func(ctx context.Context) error { _, err := p.Why(ctx, q, Names(nil)); return err },
		"usage": func(ctx context.Context) error { _, err := p.Usage(ctx, ByUser, q); return err },
		"all": func(ctx context.Context) error {
			_, err := p.All(ctx, ByUser, q, []time.Time{q.From, q.To}, Names(nil), func(*store.Session) {})
			return err
		},
	}
}

// A question about a long time ends when nobody waits for its answer, or when it has taken too long; and of many at once two are answered.
func TestLengthyQuestionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPast(nil, midnight)
		p.Store = &endless{}
		for name, ask := range lengthyQuestions(p) {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 3*time.Second {
				t.Errorf("%s, abandoned: %v after %v", name, err, time.Since(begun))
			}
			cancel()
			begun = time.Now()
			if err := ask(t.Context()); !errors.Is(err, ErrBusy) || time.Since(begun) != most {
				t.Errorf("%s: %v after %v", name, err, time.Since(begun))
			}
		}
		for range 2 {
			go func() { _ = lengthyQuestions(p)["why"](t.Context()) }()
		}
		synctest.Wait()
		for name, ask := range lengthyQuestions(p) {
			begun := time.Now()
			if err := ask(t.Context()); !errors.Is(err, ErrBusy) || time.Since(begun) != patience {
				t.Errorf("%s, beside two others: %v after %v", name, err, time.Since(begun))
			}
		}
		time.Sleep(most)
	})
}

// The story of a long time that has many causes is of those that lasted, and of all that was broken; its work is measured by the sessions.
func TestTheStoryOfAYear(t *testing.T) {
	t.Parallel()
	m := &memory{}
	now := midnight.AddDate(1, 0, 0)
	cause := func(kind explain.Kind, begin time.Time, long time.Duration) {
		m.causes = append(m.causes, store.Cause{Key: gpu3, Kind: string(kind), From: begin, To: begin.Add(long)})
	}
	for at := midnight; at.Before(now); at = at.Add(3 * time.Hour) {
		cause(explain.Work, at, time.Hour)
		cause(explain.Work, at.Add(2*time.Hour), time.Minute)
		m.sessions = append(m.sessions, session("ann", "train.py", gpu3, at.Sub(midnight), at.Sub(midnight)+time.Hour, func(s *store.Session) {
			s.SMSeconds, s.SMKnown = 0.75*3600, time.Hour
		}))
	}
	cause(explain.Lost, now.Add(-time.Hour), time.Minute)
	p := newPast(m, now)
	s, err := p.Why(t.Context(), store.Query{From: midnight, To: now}, func(store.Key) string { return "GPU 3" })
	if err != nil {
		t.Fatal(err)
	}
	want := "GPU 3 was lost"
	if len(s.Chapters) != 365*8+1 || s.Chapters[0].Utilization.Or(0) != 75 || s.Tales[0].What != "train.py of ann ran on GPU 3 at 75 %" || s.Tales[1].What != want {
		t.Errorf("%d chapters, the first %+v; %+v", len(s.Chapters), s.Chapters[0], s.Tales)
	}
	if s.Causes[0].From != midnight {
		t.Errorf("it is known since %v", s.Causes[0].From)
	}
}

// A process that reads files before and after its work has kept the device as busy as the readings of that work say.
func TestHowBusyOfAYear(t *testing.T) {
	t.Parallel()
	m := &memory{}
	now := midnight.AddDate(1, 0, 0)
	for at := midnight; at.Before(now); at = at.Add(3 * time.Hour) {
		m.causes = append(m.causes, store.Cause{Key: gpu3, Kind: string(explain.Work), From: at.Add(10 * time.Minute), To: at.Add(30 * time.Minute)})
		begin := at.Sub(midnight)
		m.sessions = append(m.sessions, session("ann", "train.py", gpu3, begin, begin+50*time.Minute, func(s *store.Session) {
			s.Busy, s.SMSeconds, s.SMKnown = 20*time.Minute, 0.93*20*60*0.5, 25*time.Minute // of half of it nobody told
		}))
		// Of its hour of work only half is in a chapter: the rest was in shorter ones.
		m.causes = append(m.causes, store.Cause{Key: gpu3, Kind: string(explain.Work), From: at.Add(time.Hour), To: at.Add(90 * time.Minute)})
		m.sessions = append(m.sessions, session("bob", "serve", gpu3, begin+time.Hour, begin+170*time.Minute, func(s *store.Session) {
			s.Busy, s.SMSeconds, s.SMKnown = time.Hour, 0.6*3600, 110*time.Minute
		}))
	}
	s, err := newPast(m, now).Why(t.Context(), store.Query{From: midnight, To: now}, func(store.Key) string { return "GPU 3" })
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{93, 60} {
		if u, ok := s.Chapters[i].Utilization.Get(); !ok || math.Abs(float64(u)-want) > 0.5 {
			t.Errorf("%+v: %v, want %v", s.Chapters[i], u, want)
		}
	}
}
