package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/sampler"
)

func TestReadsSeldomUntilSomebodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		in := &reading.Inputs{Node: "box", Origin: "auto", Sources: []sampler.Source{&busyCard{clock: c}}}
		a, err := New(Options{
			Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/gpus/"}, Interval: 5 * time.Second, IdleInterval: time.Minute,
			Deadline: time.Second, MaxViewers: 1, AlertUtilization: 99.5, Clock: clock.Of(c.now, c.elapsed),
		}, []*reading.Inputs{in}, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.nodes.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		get := func(path string) []byte {
			t.Helper()
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1"+path, nil))
			if w.Code != http.StatusOK {
				t.Errorf("GET %s: %d", path, w.Code)
			}
			synctest.Wait()
			return w.Body.Bytes()
		}
		// read is the number of the newest reading.
		read := func(what string, want uint64) {
			t.Helper()
			if got := a.Hub.Newest().Nodes()[0].Seq; got != want {
				t.Errorf("%s: reading %d, want %d", what, got, want)
			}
		}
		time.Sleep(80 * time.Second)
		read("nobody looks", 2)
		get("/gpus/health")
		get("/gpus/health/ready")
		get("/gpus/api/health")
		read("only its health is asked for", 2)
		get("/gpus/api/gpu/summary")
		time.Sleep(time.Second)
		read("somebody asks", 3)
		for range 4 {
			time.Sleep(5 * time.Second)
			get("/gpus/api/gpu/summary")
		}
		read("somebody asks once each interval", 7)
		time.Sleep(100 * time.Second)
		asked := c.now().Truncate(time.Second)
		var summary struct{ Timestamp time.Time }
		if err := json.Unmarshal(get("/gpus/api/gpu/summary"), &summary); err != nil || summary.Timestamp.Before(asked) {
			t.Errorf("who asks after a rest, at %s, got a reading of %s; %v", asked, summary.Timestamp, err)
		}
		time.Sleep(5 * time.Minute)
		before := a.Hub.Newest().Nodes()[0].Seq
		time.Sleep(3 * time.Minute)
		read("nobody asks any more", before+3)
		if n := a.Hub.Newest().Nodes()[0].Breaks; n > 0 {
			t.Errorf("%d breaks: what goes on would begin anew", n)
		}
	})
}
