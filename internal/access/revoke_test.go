package access

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/part"
)

// sockets are open sockets, as the hub has them.
type sockets struct {
	mu   sync.Mutex
	open []auth.Principal
}

func (s *sockets) revoke(is func(auth.Principal) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, is)
}

func (s *sockets) connect(who ...auth.Principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, who...)
}

func (s *sockets) names() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, who := range s.open {
		names = append(names, who.Name)
	}
	return strings.Join(names, " ")
}

// A switchable ledger counts calls, and may answer none.
type switchable struct {
	ledger.Ledger
	mu    sync.Mutex
	calls int
	err   error
	read  func(kind string) // is told what was just listed; it may be nil
}

func (s *switchable) called() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.err
}

// asked is how often the ledger was called.
func (s *switchable) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *switchable) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *switchable) List(ctx context.Context, kind, owner string) ([]ledger.Item, error) {
	if err := s.called(); err != nil {
		return nil, err
	}
	items, err := s.Ledger.List(ctx, kind, owner)
	s.mu.Lock()
	read := s.read
	s.mu.Unlock()
	if read != nil {
		read(kind)
	}
	return items, err
}

// tell has a function told what was listed.
func (s *switchable) tell(read func(kind string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = read
}

func (s *switchable) Revision(ctx context.Context) (int64, error) {
	if err := s.called(); err != nil {
		return 0, err
	}
	return s.Ledger.Revision(ctx)
}

// change is a change that writes a value.
func changeOf[T any](t *testing.T, kind table[T], id, owner string, expires time.Time, value T) ledger.Change {
	t.Helper()
	c, err := kind.put(&row[T]{Item: ledger.Item{ID: id, Owner: owner, Expires: expires}, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	c.Was = ledger.Any
	return c
}

// A watched room has a user "ann" with a session, a token and a socket for each, and others.
type watched struct {
	*sockets
	t     *testing.T
	room  *Room
	under *switchable
}

func (w *watched) apply(to ledger.Ledger, changes ...ledger.Change) {
	w.t.Helper()
	if err := to.Apply(w.t.Context(), changes...); err != nil {
		w.t.Fatal(err)
	}
}

// watching runs a test with a room that runs. every is as in [ledger.Cached].
func watching(t *testing.T, every time.Duration, test func(t *testing.T, w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memory, err := ledger.InMemory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{sockets: &sockets{}, t: t, under: &switchable{Ledger: memory}}
		w.room = New(Config{
			Host:    part.Host{Log: slog.New(slog.DiscardHandler)},
			Options: Options{Ledger: ledger.Cached(w.under, every)}, Revoke: w.revoke,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := w.room.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		defer func() {
			cancel()
			running.Wait()
			if err := w.room.Close(); err != nil {
				t.Error(err)
			}
		}()
		forever := time.Time{}
		ann, bob := User{Name: "ann", Role: Operator, Scope: "node:gpu-1"}, User{Name: "bob", Role: Viewer}
		own := &row[Token]{Item: ledger.Item{ID: "ta", Owner: "a"}, Value: Token{Title: "token-of-ann", Access: auth.Read, Scope: "node:gpu-1"}}
		other := &row[Token]{Item: ledger.Item{ID: "tb"}, Value: Token{Title: "token", Access: auth.Metrics}}
		picture := &row[Token]{Item: ledger.Item{ID: "tp"}, Value: Token{Title: "picture", Access: auth.Read, Path: "/picture.svg"}}
		w.apply(w.room.ledger,
			changeOf(t, users, "a", "", forever, ann), changeOf(t, users, "b", "", forever, bob),
			changeOf(t, sessions, "sa", "a", time.Now().Add(time.Hour), Session{User: "a", Ends: time.Now().Add(time.Hour)}),
			changeOf(t, sessions, "sb", "b", time.Now().Add(24*time.Hour), Session{User: "b", Ends: time.Now().Add(24 * time.Hour)}),
			changeOf(t, tokens, "ta", "a", time.Now().Add(2*time.Hour), own.Value),
			changeOf(t, tokens, "tb", "", forever, other.Value), changeOf(t, tokens, "tp", "", forever, picture.Value),
		)
		w.connect(ann.principal("a", auth.Password, "192.0.2.7", "sa"), bob.principal("b", auth.Passkey, "192.0.2.8", "sb"))
		for _, token := range []*row[Token]{own, other, picture} {
			var owner *holder
			if token.Owner != "" {
				owner = ann.holder()
			}
			who, valid := tokenPrincipal(token, owner, "192.0.2.9")
			if !valid {
				t.Fatalf("%s lets nobody in", token.Value.Title)
			}
			w.connect(who)
		}
		w.connect(auth.Principal{Name: "ann-by-proxy", ID: "proxy:ann", Way: auth.Proxy, Access: auth.Read}, auth.LocalOwner())
		w.room.noticeKey(&auth.Principal{Key: "sa"})
		test(t, w)
	})
}

const everybody = "ann bob token-of-ann token picture ann-by-proxy local owner"

// Whoever may no longer do what it could loses its socket within a second, and nobody else does.
func TestRevoked(t *testing.T) {
	t.Parallel()
	remove := func(kind, id string) func(*testing.T) ledger.Change {
		return func(*testing.T) ledger.Change {
			return ledger.Change{Item: ledger.Item{Kind: kind, ID: id}, Was: ledger.Any, Remove: true}
		}
	}
	user := func(u User) func(*testing.T) ledger.Change {
		return func(t *testing.T) ledger.Change { return changeOf(t, users, "a", "", time.Time{}, u) }
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T) ledger.Change
		stay   string
	}{
		{"nothing", user(User{Name: "ann", Role: Operator, Scope: "node:gpu-1", Seen: time.Unix(7, 0)}), everybody},
		{"a session ends", remove("session", "sa"), "bob token-of-ann token picture ann-by-proxy local owner"},
		{"a token ends", remove("token", "tb"), "ann bob token-of-ann picture ann-by-proxy local owner"},
		{"a picture's token ends", remove("token", "tp"), "ann bob token-of-ann token ann-by-proxy local owner"},
		{"a user is removed", remove("user", "a"), "bob token picture ann-by-proxy local owner"},
		{"a user is disabled", user(User{Name: "ann", Role: Operator, Scope: "node:gpu-1", Disabled: true}), "bob token picture ann-by-proxy local owner"},
		{"a role is lowered", user(User{Name: "ann", Role: Viewer, Scope: "node:gpu-1"}), "bob token-of-ann token picture ann-by-proxy local owner"},
		{"a role is raised", user(User{Name: "ann", Role: Administrator, Scope: "node:gpu-1"}), "bob token-of-ann token picture ann-by-proxy local owner"},
		{"a role is unknown", user(User{Name: "ann", Role: "root", Scope: "node:gpu-1"}), "bob token picture ann-by-proxy local owner"},
		{"a scope changes", user(User{Name: "ann", Role: Operator}), "bob token-of-ann token picture ann-by-proxy local owner"},
		{"a token may do less", func(t *testing.T) ledger.Change {
			return changeOf(t, tokens, "ta", "a", time.Time{}, Token{Title: "token-of-ann", Access: auth.Metrics, Scope: "node:gpu-1"})
		}, "ann bob token picture ann-by-proxy local owner"},
		{"a session is another user's", func(t *testing.T) ledger.Change {
			return changeOf(t, sessions, "sa", "b", time.Time{}, Session{User: "b"})
		}, "bob token-of-ann token picture ann-by-proxy local owner"},
	} {
		for place, every := range map[string]time.Duration{"own": 0, "shared": ledger.Often} {
			t.Run(tt.name+"/"+place, func(t *testing.T) {
				t.Parallel()
				watching(t, every, func(t *testing.T, w *watched) {
					time.Sleep(time.Minute)
					if got := w.names(); got != everybody {
						t.Fatalf("before, sockets have %s", got)
					}
					to := ledger.Ledger(w.room.ledger)
					if every > 0 {
						to = w.under.Ledger // another program changes it
					}
					w.apply(to, tt.change(t))
					time.Sleep(time.Second)
					if got := w.names(); got != tt.stay {
						t.Errorf("sockets have %s, want %s", got, tt.stay)
					}
				})
			})
		}
	}
}

// Who signs in while the sockets are compared with the ledger keeps the socket.
func TestWhoComesDuringACheck(t *testing.T) {
	t.Parallel()
	watching(t, 0, func(t *testing.T, w *watched) {
		time.Sleep(time.Minute)
		carol := User{Name: "carol", Role: Viewer}
		var came atomic.Bool
		w.under.tell(func(kind string) {
			if kind != sessions.kind || !came.CompareAndSwap(false, true) {
				return
			}
			w.apply(w.under.Ledger, changeOf(t, users, "c", "", time.Time{}, carol), changeOf(t, sessions, "sc", "c", time.Now().Add(time.Hour), Session{User: "c", Ends: time.Now().Add(time.Hour)}))
			w.connect(carol.principal("c", auth.Password, "192.0.2.9", "sc"))
		})
		w.apply(w.room.ledger, changeOf(t, users, "b", "", time.Time{}, User{Name: "bob", Role: Viewer, Seen: time.Unix(7, 0)}))
		time.Sleep(time.Minute)
		if got := w.names(); !came.Load() || got != everybody+" carol" {
			t.Errorf("sockets have %s", got)
		}
	})
}

// Sessions and tokens end by themselves.
func TestExpired(t *testing.T) {
	t.Parallel()
	watching(t, 0, func(t *testing.T, w *watched) {
		for _, tt := range []struct {
			at   time.Duration
			have string
		}{
			{time.Hour - 2*time.Second, everybody}, {time.Hour + 2*time.Second, "bob token-of-ann token picture ann-by-proxy local owner"},
			{2*time.Hour + 2*time.Second, "bob token picture ann-by-proxy local owner"}, {25 * time.Hour, "token picture ann-by-proxy local owner"},
		} {
			time.Sleep(tt.at - time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))) // when the bubble began
			if got := w.names(); got != tt.have {
				t.Errorf("after %s sockets have %s", tt.at, got)
			}
		}
	})
}

// A socket that was opening when its session ended is found.
func TestRevokedWhileItOpens(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{0, ledger.Often} {
		watching(t, every, func(t *testing.T, w *watched) {
			time.Sleep(time.Minute)
			late := auth.Principal{Name: "late", ID: "user:a", Key: "sa", Way: auth.Password, Access: auth.Operate, Scope: "node:gpu-1"}
			w.apply(w.room.ledger, sessions.remove("sa"))
			synctest.Wait() // the first check is over
			w.connect(late)
			time.Sleep(2 * time.Second)
			if got := w.names(); got != "bob token-of-ann token picture ann-by-proxy local owner" {
				t.Errorf("sockets have %s", got)
			}
		})
	}
}

// While the ledger does not answer, sockets stay open for a minute; health says what is wrong.
func TestSocketsWithoutALedger(t *testing.T) {
	t.Parallel()
	watching(t, ledger.Often, func(t *testing.T, w *watched) {
		time.Sleep(time.Minute)
		if part := w.room.Health()["access"]; part.State != "ok" || part.LastSuccess == nil {
			t.Errorf("health says %+v", part)
		}
		w.under.fail(errors.Join(ledger.ErrGone, errors.New("the server is away")))
		time.Sleep(30 * time.Second)
		if got := w.names(); got != everybody {
			t.Errorf("soon after, sockets have %s", got)
		}
		if part := w.room.Health()["access"]; part.State != "failed" {
			t.Errorf("health says %+v", part)
		}
		time.Sleep(35 * time.Second)
		if got := w.names(); got != "ann-by-proxy local owner" {
			t.Errorf("later, sockets have %s", got)
		}
		w.under.fail(nil)
		time.Sleep(time.Minute)
		if part := w.room.Health()["access"]; part.State != "ok" {
			t.Errorf("health says %+v", part)
		}
	})
}

// Nothing is asked while nobody has a socket with a session or a token.
func TestNobodyIsWatched(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{0, ledger.Often} {
		watching(t, every, func(t *testing.T, w *watched) {
			w.revoke(func(auth.Principal) bool { return true })
			time.Sleep(time.Minute)
			before := w.under.asked()
			time.Sleep(50 * time.Minute)
			if after := w.under.asked(); after != before {
				t.Errorf("the ledger was asked %d times", after-before)
			}
			w.connect(auth.Principal{Name: "revoked long ago", Key: "gone", Way: auth.Password})
			w.room.noticeKey(&auth.Principal{Key: "gone"})
			time.Sleep(time.Second)
			if got := w.names(); got != "" {
				t.Errorf("sockets have %s", got)
			}
		})
	}
}
