package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// A book is a ledger in memory that can be away, or hang.
type book struct {
	ledger.Ledger // its other methods are not called

	mu      sync.Mutex
	entries []ledger.Entry
	items   map[string]ledger.Item
	away    error
	hangs   bool
	pruned  time.Time
}

func (b *book) be(away error, hangs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.hangs = away, hangs
}

// answers waits as long as the ledger hangs.
func (b *book) answers(ctx context.Context) error {
	b.mu.Lock()
	hangs := b.hangs
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	b.mu.Lock()
	return b.away // with the lock held
}

func (b *book) Append(ctx context.Context, e *ledger.Entry) error {
	err := b.answers(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	defer b.mu.Unlock()
	if err == nil {
		e.Number = int64(len(b.entries) + 1)
		b.entries = append(b.entries, *e)
	}
	return err
}

func (b *book) Prune(_ context.Context, before time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pruned = before
	return nil
}

func (b *book) Get(_ context.Context, _, id string) (*ledger.Item, error) {
	if it, ok := b.items[id]; ok {
		return &it, b.away
	}
	return nil, b.away
}

func (b *book) Apply(_ context.Context, changes ...ledger.Change) error {
	for _, c := range changes {
		if c.Was != b.items[c.ID].Version {
			return ledger.ErrConflict
		}
		c.Version++
		b.items[c.ID] = c.Item
	}
	return nil
}

// said are the entries in short.
func (b *book) said() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		lines = append(lines, strings.TrimSpace(e.Action+" "+e.Result+" "+e.Principal+" "+e.Target))
	}
	return lines
}

func newRoom(b *book, log *bytes.Buffer, opt Options) *Room {
	b.items = map[string]ledger.Item{}
	began := time.Now()
	return New(Config{
		Host: part.Host{Node: "box", Clock: clock.Of(time.Now, func() time.Duration { return time.Since(began) }), Log: slog.New(slog.NewJSONHandler(log, nil))}, Options: opt, Ledger: b,
	})
}

type pass struct {
	Name   string `json:"name"`
	Secret string `json:"secret" secret:"true"`
}

// desk has an action that changes something, one that is urgent, and one that looks.
func desk(r *Room) *action.Desk {
	do := func(_ context.Context, c *action.Call, args pass) (any, error) {
		c.Note("before", pass{"after", "sesame"})
		switch args.Name {
		case "refuse":
			return nil, &action.Refusal{Code: "no", Status: http.StatusConflict, What: "it can't be"}
		case "fail":
			return nil, errors.New("it broke")
		}
		return nil, nil
	}
	return action.NewDesk(r,
		action.Action{ID: "turn", Needs: auth.Operate, Func: action.Takes(do)},
		action.Action{ID: "undo", Needs: auth.Operate, Urgent: true, Func: action.Takes(do)},
		action.Action{ID: "look", Needs: auth.Read, Func: action.Takes(do)},
	)
}

var anna = auth.Principal{Name: "anna", ID: "user:7f", Way: auth.Password, Address: "10.0.0.7", Access: auth.Operate, Audience: auth.Everything}

// An entry says who, from where, what, on what, before and after, and the result, and never a secret; the log has it too.
func TestActionsAreRecorded(t *testing.T) {
	var log bytes.Buffer
	b := &book{}
	d := desk(newRoom(b, &log, Options{}))
	for _, name := range []string{"do", "refuse", "fail"} {
		_, _ = d.Run(t.Context(), action.Call{Action: "turn", Principal: anna, Target: "knob", Node: "box", Args: pass{name, "sesame"}, Asked: name == "fail"})
	}
	_, _ = d.Run(t.Context(), action.Call{Action: "look", Principal: anna})
	if want := []string{
		"turn begun anna knob", "turn done anna knob", "turn begun anna knob", "turn refused anna knob", "turn begun anna knob", "turn failed anna knob",
	}; !slices.Equal(b.said(), want) {
		t.Fatalf("%q", b.said())
	}
	first, second, last := b.entries[0], b.entries[1], b.entries[5]
	if first.Identity != "user:7f" || first.Way != "password" || first.Address != "10.0.0.7" || first.Node != "box" || first.Asked != "" || first.Time.IsZero() ||
		string(first.Args) != `{"name":"do","secret":"(hidden)"}` {
		t.Errorf("%+v", first)
	}
	if second.Of != 1 || second.Args != nil || string(second.Before) != `"before"` || string(second.After) != `{"name":"after","secret":"(hidden)"}` {
		t.Errorf("%+v", second)
	}
	if last.Detail != "it broke" || last.Asked == "" || last.Of != 5 {
		t.Errorf("%+v", last)
	}
	text := log.String()
	if strings.Contains(text, "sesame") || strings.Count(text, `"msg":"audit"`) != 6 {
		t.Errorf("%s", text)
	}
	var line struct {
		Msg, Action, Result, By, ID, Way, Address, Target string
		Entry, Of                                         int
		After                                             map[string]string
	}
	if err := json.Unmarshal([]byte(strings.Split(text, "\n")[1]), &line); err != nil || line.By != "anna" || line.Entry != 2 || line.Of != 1 || line.After["name"] != "after" || line.Result != "done" {
		t.Errorf("%+v, %v", line, err)
	}
}

// An action whose record can't be written within 2 s is refused with the reason; what looks, and what is urgent, is not.
func TestUnrecordedActionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, away := range map[string]error{
			"within 2s": nil, "can't be written": ledger.ErrGone,
			"can't be written: the disk is full": &gpu.Advice{What: "the disk is full", Try: "free some space", Err: ledger.ErrGone},
		} {
			var log bytes.Buffer
			b := &book{away: away, hangs: away == nil}
			r := newRoom(b, &log, Options{})
			d, begin := desk(r), time.Now()
			_, err := d.Run(t.Context(), action.Call{Action: "turn", Principal: anna})
			refused, is := errors.AsType[*action.Refusal](err)
			if !is || refused.Status != http.StatusServiceUnavailable || refused.Code != "unrecorded" || !strings.Contains(refused.What, what) {
				t.Errorf("%v", err)
			}
			if took := time.Since(begin); took > ledger.DefaultDeadline {
				t.Errorf("it took %v", took)
			}
			if _, err := d.Run(t.Context(), action.Call{Action: "look", Principal: anna}); err != nil {
				t.Errorf("looking: %v", err)
			}
			begin = time.Now()
			if _, err := d.Run(t.Context(), action.Call{Action: "undo", Principal: anna}); err != nil || time.Since(begin) > 0 {
				t.Errorf("urgent: %v after %v", err, time.Since(begin))
			}
			if said := log.String(); strings.Count(said, `"action":"undo"`) != 2 || len(b.said()) > 0 {
				t.Errorf("%q, the log has %s", b.said(), said)
			}
			if health := r.Health()["audit"]; health.State != "failed" || !strings.Contains(*health.LastError, "entries that wait: 3") {
				t.Errorf("%+v", health)
			}
		}
	})
}

// What waits is recorded once the ledger answers: also the end of an action that began in time, which refers to its beginning.
func TestWaitingEntriesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := &book{}
		r := newRoom(b, &log, Options{Keep: 400 * 24 * time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		end, err := r.Begin(t.Context(), &action.Record{Action: "turn", Needs: auth.Operate, Principal: anna})
		if err != nil {
			t.Fatal(err)
		}
		b.be(ledger.ErrGone, false)
		end(action.Outcome{})
		if _, err := desk(r).Run(t.Context(), action.Call{Action: "undo", Principal: anna}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // of the test's time
		if s := r.State(); s.Waiting != 4 || s.Recorded != 1 || len(b.said()) != 1 {
			t.Errorf("%+v, %q", s, b.said())
		}
		b.be(nil, false)
		time.Sleep(2 * again)
		synctest.Wait()
		if want := []string{"turn begun anna", "record failed gpuwhy", "turn done anna", "undo begun anna", "undo done anna"}; !slices.Equal(b.said(), want) {
			t.Errorf("%q", b.said())
		}
		if b.entries[2].Of != 1 || b.entries[4].Of != 4 || b.entries[3].Time.After(time.Now().Add(-5*time.Second)) {
			t.Errorf("%+v", b.entries)
		}
		if health := r.Health()["audit"]; health.State != "ok" || r.State().Waiting != 0 {
			t.Errorf("%+v", health)
		}
		if !b.pruned.Equal(time.Now().Add(-7*time.Second - 400*24*time.Hour)) {
			t.Errorf("pruned before %v", b.pruned)
		}
		// Of a failure to record what was refused, the audit has when it was.
		b.be(ledger.ErrGone, false)
		if err := r.Append(t.Context(), NewEntry("signIn", &anna, failed)); err == nil || r.Health()["audit"].State != "failed" {
			t.Error("a failure is not noticed")
		}
		b.be(nil, false)
		time.Sleep(2 * again)
		if synctest.Wait(); r.Health()["audit"].State != "ok" {
			t.Error("health stays failed")
		}
		// At the end, what waits is tried once more.
		r.Later(NewEntry("last", &anna, done))
		stop()
		if err := <-ended; err != nil || b.said()[len(b.said())-1] != "last done anna" {
			t.Errorf("%v, %q", err, b.said())
		}
	})
}

// What waits is bounded, and health says what is lost.
func TestWaitingIsBounded(t *testing.T) {
	var log bytes.Buffer
	b := &book{away: ledger.ErrGone}
	r := newRoom(b, &log, Options{})
	for range mostWaiting + 2 {
		r.Later(NewEntry("undo", &anna, done))
	}
	if s := r.State(); s.Waiting != mostWaiting || s.Lost != 2 {
		t.Errorf("%+v", s)
	}
	if health := r.Health()["audit"]; health.State != "failed" || !strings.Contains(*health.LastError, "2") {
		t.Errorf("%+v", health)
	}
}

// Looking is recorded once an hour for each session.
func TestLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := &book{}
		r := newRoom(b, &log, Options{})
		look := func(key string) {
			t.Helper()
			who := anna
			who.Key = key
			if err := r.Looked(auth.NewContext(t.Context(), &who), readAudit); err != nil {
				t.Error(err)
			}
		}
		for range 3 {
			look("a")
			look("b")
		}
		time.Sleep(often)
		look("a")
		if len(b.said()) != 3 {
			t.Errorf("%q", b.said())
		}
		b.be(ledger.ErrGone, false)
		look("a")
		who := anna
		if err := r.Looked(auth.NewContext(t.Context(), &who), "other"); err == nil {
			t.Error("somebody looks without a record")
		} else if _, is := errors.AsType[*gpu.Advice](err); !is {
			t.Error(err)
		}
	})
}

// Changes of settings at a restart and at a reload are recorded, with the old value and the new one.
func TestSettings(t *testing.T) {
	var log bytes.Buffer
	b := &book{}
	first := newRoom(b, &log, Options{Settings: map[string]string{"listen": ":8003", "interval": "1s"}})
	first.settings()
	first.settings()
	read := map[string]string{"alert rule hot": "60"}
	second := New(Config{Host: first.cfg.Host, Ledger: b, Options: Options{Settings: map[string]string{"listen": ":9000", "history": "off"}}, Read: func() map[string]string { return maps.Clone(read) }})
	second.settings()
	read["alert rule hot"] = "70"
	second.Reload()
	waiting := append(first.waiting, second.waiting...)
	var got []string
	for _, l := range waiting {
		got = append(got, l.entry.Action+" "+l.entry.Target+" "+string(l.entry.Before)+" "+string(l.entry.After))
	}
	want := []string{
		`changeSettings box {} {"interval":"1s","listen":":8003"}`,
		`changeSettings box {"interval":"1s","listen":":8003"} {"alert rule hot":"60","history":"off","listen":":9000"}`,
		`changeSettings box {"alert rule hot":"60"} {"alert rule hot":"70"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// No client makes an entry long or invalid.
func TestEntriesAreShort(t *testing.T) {
	var log bytes.Buffer
	b := &book{}
	r := newRoom(b, &log, Options{})
	if err := r.Append(t.Context(), &ledger.Entry{Action: "signIn", Principal: strings.Repeat("x", 1<<20), Detail: "\xff", Result: failed}); err != nil {
		t.Fatal(err)
	}
	if e := b.entries[0]; len(e.Principal) > longestText+4 || e.Detail != "�" {
		t.Errorf("%d bytes, %q", len(e.Principal), e.Detail)
	}
}
