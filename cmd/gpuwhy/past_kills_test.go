//go:build !race

package main

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	past "github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// After kill -9 at any moment, while others ask about the past, no answered data and never the file is lost, nothing is stored
// twice, and alerts and silences are as before. A soak test also judges for how long readings are lost; the tests of package
// record check five seconds, in their own time.
func TestKillsOfTheProgram(t *testing.T) {
	t.Parallel()
	lost := losses(t)
	for lane := range killLanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			lib, m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
			m.GPU(0).Set(fakenvml.Temperature, 88)
			m.GPU(0).SetProcesses(fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 3 << 30, SM: 90})
			m.GPU(1).SetProcesses(fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 1 << 30, SM: 20},
				fakenvml.Process{PID: uint32(processNamed(t, "worker")), Type: "compute", Memory: 2 << 30, SM: 30})
			l := &killed{
				T: t, lib: lib, dir: t.TempDir(),
				rules: rulesFile(t, hotRules),
			}
			for range killsPerLane {
				lost(l.life(rand.IntN(mostRounds)))
			}
		})
	}
}

// A killed program is started again and again, with the same files.
type killed struct {
	*testing.T
	lib        *fakenvml.Library
	dir, rules string
	lives      int
	alert      string   // that stands
	silences   []string // that were made
}

// life runs the program once, and ends it after so many rounds of questions. It returns how many of its readings are lost.
func (l *killed) life(rounds int) time.Duration {
	l.Helper()
	p := start(l, l.lib.Env(), fast, "--state-dir="+l.dir, "--alert-rules="+l.rules)
	begin := time.Now()
	l.lives++
	var list contract.Silences
	p.get("/api/silences", &list)
	for _, id := range l.silences {
		if !slices.ContainsFunc(list.Silences, func(s contract.Silence) bool { return s.ID == id }) {
			l.Errorf("life %d: the silence %s is gone", l.lives, id)
		}
	}
	var made contract.Silence
	rule := fmt.Sprintf(`{"rule":"none-%d","duration_seconds":3600}`, l.lives)
	if status := p.ask(http.MethodPost, "/api/silences", rule, &made); status != http.StatusCreated {
		l.Errorf("life %d: a silence: status %d", l.lives, status)
	}
	l.silences = append(l.silences, made.ID)
	var answered time.Time // the newest reading that it has told of its past
	if l.alert == "" {     // the first life
		l.alert = p.dial().nextAlert("it is hot", func(a contract.Alert) bool { return a.Rule == "hot" }).ID
		p.remembered()
	}
	var alerts contract.Alerts
	if p.get("/api/alerts", &alerts); len(alerts.Alerts) != 1 || alerts.Alerts[0].ID != l.alert {
		l.Errorf("life %d: of alerts there are %+v", l.lives, alerts.Alerts)
	}
	for range rounds { // under load
		for _, path := range []string{"/api/gpu/history?from=-10m&step=1s", "/api/gpu/sessions?from=-10m", "/api/gpu/why?from=-10m", "/api/gpu/at"} {
			p.get(path, nil)
		}
		list, _ := p.readings("power_draw", "from=-10m")
		for i := range list {
			if happened := moment(l, &list[i].Time); happened.After(answered) {
				answered = happened
			}
		}
	}
	end := time.Now()
	p.kill()
	newest := l.look()
	if newest.Before(answered) {
		l.Errorf("life %d: it had told of a reading at %v, and the newest is of %v", l.lives, answered, newest)
	}
	if newest.Before(begin) {
		newest = begin
	}
	return end.Sub(newest)
}

// look checks what a life has left behind, and returns the time of the newest reading.
func (l *killed) look() (newest time.Time) {
	l.Helper()
	ctx := l.Context()
	file := filepath.Join(l.dir, historyFile)
	s, err := sqlite.Open(ctx, sqlite.Options{File: file, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		l.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			l.Error(err)
		}
	}()
	if err := s.Check(ctx); err != nil || s.Aside() != "" {
		l.Fatalf("life %d: the file is damaged: %v, %q", l.lives, err, s.Aside())
	}
	type minute struct {
		past.Key
		begin time.Time
	}
	raw := map[minute]int{}
	for r, err := range s.Rows(ctx, past.Query{}) {
		if err != nil {
			l.Fatal(err)
		}
		raw[minute{r.Key, r.Time.UTC().Truncate(time.Minute)}]++
		if r.Time.After(newest) {
			newest = r.Time
		}
	}
	open := map[minute]bool{}
	unsettled, err := s.Unsettled(ctx, past.Minute, time.Time{})
	if err != nil {
		l.Fatal(err)
	}
	for _, b := range unsettled {
		open[minute{b.Key, b.Time.UTC()}] = true
	}
	for r, err := range s.Rows(ctx, past.Query{Tier: past.Minute}) {
		key := minute{r.Key, r.Time.UTC()}
		if err != nil || !open[key] && r.Readings != raw[key] {
			l.Fatalf("life %d: the minute %v has %d readings, and says %d, %v", l.lives, key.begin, raw[key], r.Readings, err)
		}
		open[key] = true
	}
	for key, n := range raw {
		if !open[key] {
			l.Errorf("life %d: %d readings of %v are in no minute", l.lives, n, key.begin)
		}
	}
	type process struct {
		past.Key
		pid int
	}
	sessions := map[process][]past.Session{}
	for e, err := range s.Sessions(ctx, past.Query{}) {
		if err != nil {
			l.Fatal(err)
		}
		key := process{e.Key, e.PID}
		if sessions[key] = append(sessions[key], e); e.To.Before(e.From) || e.Seen > e.To.Sub(e.From) || e.Joules > 1000*e.Seen.Seconds() {
			l.Errorf("life %d: the session is %+v", l.lives, e)
		}
	}
	for _, all := range sessions {
		if len(all) != 1 {
			l.Fatalf("life %d: one process has the sessions %+v", l.lives, all)
		}
	}
	causes := map[string]bool{} // that go on
	for c, err := range s.Causes(ctx, past.Query{Open: true}) {
		if id := c.UUID + " " + c.ID; err != nil || causes[id] {
			l.Errorf("life %d: two causes %s go on, %v", l.lives, id, err)
		} else {
			causes[id] = true
		}
	}
	started := 0
	for e, err := range s.Events(ctx, past.Query{Kinds: []string{"started"}}) {
		if started++; err != nil {
			l.Fatal(e, err)
		}
	}
	if started > l.lives || len(sessions) < 3 || len(raw) == 0 {
		l.Errorf("life %d: it started %d times, has %d sessions, and readings in %d minutes", l.lives, started, len(sessions), len(raw))
	}
	if others, err := filepath.Glob(file + ".damaged*"); err != nil || len(others) > 0 {
		l.Errorf("set aside: %v, %v", others, err)
	}
	return newest
}
