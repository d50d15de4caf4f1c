package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

type state struct {
	Count int `json:"count"`
}

// A counter is a part.
type counter struct {
	state
	err error
}

func (c *counter) Kept() state { return c.state }

func (c *counter) Restore(kept state, _ time.Time) error {
	c.state = kept
	return c.err
}

func newKeeper(dir, origin string, log *bytes.Buffer, c *counter) *Keeper {
	k := New()
	k.Shelf, k.Origin, k.Hold, k.Log = Folder(dir), origin, func(f func()) { f() }, slog.New(slog.NewTextHandler(log, nil))
	k.Documents = []Document{Of("count", "the count", Promptly, c)}
	return k
}

func TestWhatIsWrittenIsRestored(t *testing.T) {
	for _, tt := range []struct {
		name, before, after string
		want                int
		says                string
	}{
		{"the same", "auto", "auto", 7, ""},
		{"another source of the machine", "auto", "nvml", 7, ""},
		{"the same simulation", "simulate:a", "simulate:a", 7, ""},
		{"another simulation", "simulate:a", "simulate:b", 0, "it is for"},
		{"a simulation after the machine", "auto", "simulate:a", 0, ""}, // it has another file
		{"the machine after a simulation", "simulate:a", "auto", 0, ""},
		{"the same recording", "replay:a", "replay:a", 7, ""},
		{"another recording", "replay:a", "replay:b", 0, "it is for"},
		{"a recording after the machine", "auto", "replay:a", 0, ""},
		{"the machine after a recording", "replay:a", "auto", 0, ""},
		{"a recording after a simulation", "simulate:a", "replay:a", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, log := t.TempDir(), new(bytes.Buffer)
			if err := newKeeper(dir, tt.before, log, &counter{state: state{7}}).Close(); err != nil {
				t.Fatal(err)
			}
			var after counter
			newKeeper(dir, tt.after, log, &after).Restore(time.Now())
			if after.Count != tt.want {
				t.Errorf("restored %d, want %d", after.Count, tt.want)
			}
			if (log.Len() > 0) != (tt.says != "") || !strings.Contains(log.String(), tt.says) {
				t.Errorf("the log says %q", log)
			}
		})
	}
}

func TestFilesThatCanNotBeUsed(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want int
		says string
	}{
		"empty":                       {"", 0, "can't be read"},
		"cut off":                     {`{"version":2,"origin":"auto","state":{"cou`, 0, "can't be read"},
		"another form":                {`[1]`, 0, "can't be read"},
		"a state of another form":     {`{"version":2,"state":{"count":"many"}}`, 0, "can't be read"},
		"of a later version":          {`{"version":3,"state":{"count":7}}`, 0, "version 3"},
		"no state":                    {`{"version":2}`, 0, "can't be read"},
		"of an earlier version":       {`{"version":1,"count":7}`, 7, ""},
		"of one without its version":  {`{"origin":"auto","count":7}`, 7, ""},
		"of an earlier version's sim": {`{"version":1,"source":"simulate:a","count":7}`, 0, "it is for"},
	} {
		dir, log := t.TempDir(), new(bytes.Buffer)
		if err := os.WriteFile(filepath.Join(dir, "count.json"), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var c counter
		newKeeper(dir, "auto", log, &c).Restore(time.Now())
		if c.Count != tt.want || (log.Len() > 0) != (tt.says != "") || !strings.Contains(log.String(), tt.says) {
			t.Errorf("%s: restored %d, the log says %q", name, c.Count, log)
		}
	}
	log := new(bytes.Buffer)
	k := newKeeper(t.TempDir(), "auto", log, &counter{err: errors.New("negative")})
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if k.Restore(time.Now()); !strings.Contains(log.String(), "negative") {
		t.Errorf("what the part says is not in the log: %q", log)
	}
}

// Whoever asks for a write gets what became of it; many share one.
func TestFlush(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dir, c := filepath.Join(root, "later"), &counter{state: state{7}}
		k := newKeeper(dir, "auto", new(bytes.Buffer), c)
		var tries atomic.Int64
		k.Hold = func(f func()) { tries.Add(1); f() }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { k.Run(ctx); close(ended) }()
		if err := k.Flush(ctx); err == nil {
			t.Errorf("there is no folder: %v", err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		tries.Store(0)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := k.Flush(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := tries.Load(); n > 25 {
			t.Errorf("%d writes for 50 who ask at the same time", n)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "count.json")); err != nil || !strings.Contains(string(text), `"count":7`) {
			t.Errorf("%s, %v", text, err)
		}
		gone, leave := context.WithCancel(ctx)
		leave()
		if err := k.Flush(gone); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("who asks is gone: %v", err)
		}
		stop()
		<-ended
		if err := k.Flush(t.Context()); !errors.Is(err, ErrEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A file whose disk did not answer at the start is not replaced by what began anew.
func TestAFileThatWasNotReadIsNotReplaced(t *testing.T) {
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	dir, dead := t.TempDir(), t.TempDir()
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0) // which never answers
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("gpuwhy-test", dead, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), syscall.Unmount(dead, syscall.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(dir, "count.json")
	if err := os.Symlink(filepath.Join(dead, "count.json"), file); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(dir, "auto", new(bytes.Buffer), &counter{})
	k.Restore(time.Now())
	if err := k.Close(); err == nil || !strings.Contains(err.Error(), "the disk does not answer") {
		t.Errorf("it is written: %v", err)
	}
	if info, err := os.Lstat(file); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the file was replaced: %v, %v", info, err)
	}
}

// A shelf that can be away.
type awayShelf struct {
	Folder
	mu     sync.Mutex
	away   bool
	writes int
}

func (s *awayShelf) is(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *awayShelf) Read(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, regular.ErrSlow
	}
	return s.Folder.Read(name)
}

func (s *awayShelf) Write(name string, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.Folder.Write(name, text)
}

// What could not be read at the start is restored when it can be, without a change or a restart. Until then it is not replaced.
func TestWhatCanBeReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, log := t.TempDir(), new(bytes.Buffer)
		if err := newKeeper(dir, "auto", log, &counter{state: state{7}}).Close(); err != nil {
			t.Fatal(err)
		}
		shelf := &awayShelf{Folder: Folder(dir), away: true}
		var c, fresh counter
		k := newKeeper(dir, "auto", log, &c)
		k.Shelf = shelf
		k.Documents = append(k.Documents, Of("new", "what there never was", Regularly, &fresh))
		k.Restore(time.Now())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go k.Run(ctx)
		time.Sleep(10 * time.Second)
		if s := k.State(); s.Err == nil || shelf.writes != 0 {
			t.Errorf("while it is away: %+v, %d writes", s, shelf.writes)
		}
		shelf.is(false)
		time.Sleep(time.Minute)
		if s := k.State(); s.Err != nil || c.Count != 7 || shelf.writes != 2 {
			t.Errorf("afterwards: %+v, %d, %d writes", s, c.Count, shelf.writes)
		}
		stop()
		synctest.Wait()
		var again counter
		newKeeper(dir, "auto", log, &again).Restore(time.Now())
		if again.Count != 7 || !strings.Contains(log.String(), "has been read") {
			t.Errorf("%d, and the log says %s", again.Count, log)
		}
	})
}

// A serverShelf is a server that is away: it says so each time in other words, to programmers.
type serverShelf struct{ tries int }

func (s *serverShelf) Read(string) ([]byte, error) { return []byte("no JSON"), nil }

func (s *serverShelf) Write(string, []byte) error {
	s.tries++
	return &gpu.Advice{What: "the server does not answer", Try: "check that it runs", Err: fmt.Errorf("try %d", s.tries)}
}

// What fails for one reason is said once, of all documents. No file is named where there may be none.
func TestOneReasonIsSaidOnce(t *testing.T) {
	log := new(bytes.Buffer)
	k := newKeeper(t.TempDir(), "simulate:a", log, new(counter))
	k.Documents = append(k.Documents, Of("fans", "the fans", Regularly, new(counter)), Of("floors", "the floors", AtEnd, new(counter)))
	k.Shelf = new(serverShelf)
	k.Restore(time.Now())
	if text := log.String(); strings.Count(text, "starts over") != 3 || strings.Contains(text, "file=") || !strings.Contains(text, "document=simulated-fans.json") {
		t.Errorf("the log says %s", text)
	}
	err := k.Close()
	if text := fmt.Sprint(err); strings.Count(text, "check that it runs") != 1 || !strings.HasPrefix(text, "the count, the fans, the floors can't be saved: ") {
		t.Errorf("%s", text)
	}
	if _, ok := errors.AsType[*gpu.Advice](err); !ok {
		t.Errorf("no advice is left in %v", err)
	}
	if text := log.String(); strings.Count(text, "check that it runs") != 1 {
		t.Errorf("the log says %s", text)
	}
}

// When the shelf has lost all, what took long to learn is written again, too.
func TestAShelfThatBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, log := t.TempDir(), new(bytes.Buffer)
		k := newKeeper(dir, "auto", log, &counter{state: state{7}})
		k.Documents = append(k.Documents, Of("learned", "what was learned", Regularly, &counter{state: state{8}}),
			Of("much", "much", AtEnd, &counter{state: state{9}}))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go k.Run(ctx)
		k.Again()
		k.Again()
		synctest.Wait()
		for name, want := range map[string]bool{"count": true, "learned": true, "much": false} {
			if _, err := os.Stat(filepath.Join(dir, name+".json")); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	release, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(dir)
	if advice, ok := errors.AsType[*gpu.Advice](err); !ok || !strings.Contains(advice.What, fmt.Sprint("process ", os.Getpid())) || advice.Try == "" {
		t.Errorf("taken twice: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if release, err = Lock(dir); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

// A write that fails is tried again until it succeeds, ever more slowly, and is
// logged twice: at the beginning and at the end.
func TestAFailedWriteIsTriedAgain(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dir, log := filepath.Join(root, "later"), new(bytes.Buffer)
		k := newKeeper(dir, "auto", log, &counter{state: state{7}})
		var tries atomic.Int64
		k.Hold = func(f func()) { tries.Add(1); f() }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { k.Run(ctx); close(ended) }()
		begun := time.Now()
		k.Soon()
		time.Sleep(time.Hour + time.Second) // between two tries
		if s := k.State(); s.Err == nil || !s.Since.Equal(begun) {
			t.Errorf("while it fails: %+v", s)
		}
		if n := tries.Load(); n < 60 || n > 80 { // one a minute, and what becomes due beside it
			t.Errorf("%d tries in an hour", n)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(longestPause + time.Second) // past the try, not beside it
		if s := k.State(); s.Err != nil || s.Written.Before(begun.Add(time.Hour)) || !s.Since.IsZero() {
			t.Errorf("afterwards: %+v", s)
		}
		stop()
		<-ended
		if got := strings.Count(log.String(), "\n"); got != 2 || !strings.Contains(log.String(), "written again") {
			t.Errorf("the log says %s", log)
		}
	})
}
