package history

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Two moments are made anew at once.
func TestRoomForMoments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Past{Store: &memory{}}
		for range 2 {
			leave, err := p.moments.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
		}
		if _, err := p.Moment(t.Context(), "a", midnight, insight.NewStage()); !errors.Is(err, ErrBusy) {
			t.Errorf("a third one: %v", err)
		}
	})
}

// Of large questions two are answered at once, the third waits for a moment, and small ones don't care.
func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Past{}
		leave := make([]func(), 2)
		for i := range leave {
			var err error
			if leave[i], err = p.Room(t.Context(), MostValues); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Room(t.Context(), 1); err != nil {
			t.Errorf("a small one: %v", err)
		}
		begun := time.Now()
		if _, err := p.Room(t.Context(), MostValues); !errors.Is(err, ErrBusy) || time.Since(begun) != patience {
			t.Errorf("a third one: %v after %v", err, time.Since(begun))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Room(gone, MostValues); !errors.Is(err, context.Canceled) {
			t.Errorf("one that nobody waits for: %v", err)
		}
		time.AfterFunc(patience/2, leave[0])
		again, err := p.Room(t.Context(), MostValues)
		if err != nil {
			t.Fatalf("one that waited: %v", err)
		}
		again()
		leave[1]()
	})
}
