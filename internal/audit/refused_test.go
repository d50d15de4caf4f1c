package audit

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// running runs a room in virtual time until stop.
func running(t *testing.T, r *Room) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// recorded are the entries.
func (b *book) recorded() []ledger.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.entries)
}

// Of refusals, the audit has the first of each principal and address at once, and how many followed after a minute.
func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := &book{}
		r := newRoom(b, &log, Options{})
		stop := running(t, r)
		token := func(address string) {
			r.Refused(&ledger.Entry{Action: "identify", Address: address, Result: refused, Detail: "not valid"})
		}
		viewer := auth.Principal{Name: "eve", ID: "user:9", Way: auth.Password, Address: "192.0.2.9", Access: auth.Read, Audience: auth.Everything}
		d := desk(r)
		for range 500 {
			token("192.0.2.7")
			for i := range 3 { // one household
				token(fmt.Sprintf("2001:db8::%d", i))
			}
			for _, id := range []string{"turn", "undo", "turn"} {
				if _, err := d.Run(t.Context(), action.Call{Action: id, Principal: viewer, Target: "knob"}); err == nil {
					t.Fatal("it is done")
				}
			}
		}
		_ = d.Deny(t.Context(), "GET /users", &anna, action.Denied)
		synctest.Wait()
		first := []string{"identify refused", "identify refused", "turn refused eve knob", "GET /users refused anna"}
		if got := b.said(); !slices.Equal(got, first) {
			t.Fatalf("at once %q", got)
		}
		if e := b.recorded()[2]; e.Identity != "user:9" || e.Way != "password" || e.Address != "192.0.2.9" || !strings.Contains(e.Detail, `needs the access "operate"`) || e.Args != nil {
			t.Errorf("%+v", e)
		}
		time.Sleep(countsFor)
		synctest.Wait()
		var sums []string
		for _, e := range b.recorded()[len(first):] {
			sums = append(sums, fmt.Sprint(e.Of, " ", e.Principal, " ", e.Address, " ", e.Target, ": ", e.Detail))
		}
		slices.Sort(sums)
		if want := []string{
			"1  192.0.2.7 : 499 more within a minute (identify 499)", "2  2001:db8::0 : 1499 more within a minute (identify 1499)",
			"3 eve 192.0.2.9 : 1499 more within a minute (turn 999, undo 500)",
		}; !slices.Equal(sums, want) {
			t.Errorf("after a minute\n%s", strings.Join(sums, "\n"))
		}
		token("192.0.2.7") // a minute of its own
		token("192.0.2.7")
		synctest.Wait()
		if got := len(b.said()); got != 8 {
			t.Errorf("%d entries", got)
		}
		stop()
		if got := b.said(); len(got) != 9 || !strings.HasPrefix(b.recorded()[8].Detail, "1 more") {
			t.Errorf("at the end: %q", got)
		}
	})
}

// However many addresses refusals come from, they make few entries, and none takes the room of what waits while the ledger is away.
func TestAFloodOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, away := range []error{nil, ledger.ErrGone} {
			var log bytes.Buffer
			b := &book{away: away}
			r := newRoom(b, &log, Options{})
			stop := running(t, r)
			const minutes, each = 30, 5000
			for range minutes {
				for i := range each {
					r.Refused(&ledger.Entry{Action: "identify", Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Result: refused})
				}
				time.Sleep(countsFor)
			}
			synctest.Wait()
			if s := r.State(); s.Waiting > mostWaiting/5 || s.Lost > 0 {
				t.Errorf("%+v", s)
			}
			b.be(nil, false)
			time.Sleep(2 * countsFor)
			stop()
			if got := len(b.said()); got > (minutes+1)*2*(mostCounts+1) || got < minutes {
				t.Errorf("%d entries", got)
			}
			all := b.recorded()
			last := all[len(all)-1]
			if !strings.HasPrefix(last.Detail, "from further addresses: ") || last.Address != "" {
				t.Errorf("%+v", last)
			}
		}
	})
}
