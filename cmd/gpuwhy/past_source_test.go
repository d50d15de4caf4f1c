//go:build !race

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// noServer is an address where no gpuwhy listens.
const noServer = "--listen=127.0.0.1:1"

// Commands can also read the past from a program's file: while it writes, with the program's own answer, and after it was killed.
func TestThePastWithoutAServer(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.RTX4090())
	dir := t.TempDir()
	p := start(t, lib.Env(), fast, "--state-dir="+dir, "--electricity-price=0.3")
	p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	p.remembered()
	offline := func(args ...string) []string {
		return append(args, noServer, "--state-dir="+dir, "--electricity-price=0.3")
	}
	keys := func(r result) (pids []int) {
		t.Helper()
		var list contract.PastSessions
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		for _, s := range list.Sessions {
			pids = append(pids, s.PID)
		}
		return pids
	}
	asked := keys(command(t, nil, "sessions", "10m", "--json", "--url="+p.url))
	read := keys(command(t, nil, offline("sessions", "10m", "--json")...))
	if len(asked) == 0 || len(asked) != len(read) {
		t.Errorf("asked of the program %v, read from its file %v", asked, read)
	}
	p.remembered() // which nobody has kept from writing
	p.kill()

	for _, args := range [][]string{
		{"past", "10m"}, {"past", "10m", "0"}, {"sessions", "10m"}, {"sessions", "10m", "--csv"}, {"usage", "--since", "10m"},
		{"usage", "--by", "gpu", "--json"}, {"usage", "10m"}, {"past", "-10m"}, {"sessions", "-10m..-0s"}, {"usage", "--since", "-10m"}, {"past", "-10m", "--csv"},
		{"history", "export", "readings", "-10m"},
	} {
		r := command(t, nil, offline(args...)...)
		if r.code != exitOK || len(r.stdout) < 40 || !strings.Contains(r.stderr, "the answer is from "+filepath.Join(dir, historyFile)) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if after := keys(command(t, nil, offline("sessions", "10m", "--json")...)); len(after) != len(asked) {
		t.Errorf("after it was killed %v, before %v", after, asked)
	}
	if r := command(t, nil, offline("usage", "10m", "--since=5m")...); r.code != exitUsage || !strings.Contains(r.stderr, "give the time span once") {
		t.Errorf("%+v", r)
	}
	if r := command(t, nil, offline("past", "10m", "--tz=Pacific/Apia")...); !strings.Contains(r.stdout, " (Pacific/Apia):\n") {
		t.Errorf("%+v", r)
	}
	for want, args := range map[string][]string{
		`"soon" is not a span of time`:   {"past", "soon"},
		`no history is kept for GPU "9"`: {"sessions", "--gpu=9"},
		`unknown time zone "Nowhere"`:    {"usage", "--tz=Nowhere"},
	} {
		if r := command(t, nil, offline(args...)...); r.code != exitError || r.stdout != "" || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// A reading of a program that reads seldom stands until the next would have been due, also for a command that reads the file.
func TestARarePastWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), sqlite.Options{File: filepath.Join(dir, historyFile), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	s := store.Session{From: time.Now().Add(-time.Hour), To: time.Now().Add(-5 * time.Minute), Outcome: store.Open}
	s.Key, s.PID = store.Key{Node: "a", UUID: "GPU-1"}, 7
	if err := errors.Join(st.Write(t.Context(), &store.Batch{Sessions: []store.Session{s}}), st.Close()); err != nil {
		t.Fatal(err)
	}
	for interval, want := range map[string]string{"5s": `"outcome":"unseen"`, "4m": `"outcome":"open"`} {
		r := command(t, nil, "sessions", "2h", "--json", noServer, "--state-dir="+dir, "--interval="+interval)
		if text := strings.ReplaceAll(r.stdout, ": ", ":"); r.code != exitOK || !strings.Contains(text, want) {
			t.Errorf("each %s: %+v, want %s", interval, r, want)
		}
	}
}

// Times are understood in the time zone of the person who asks, wherever gpuwhy runs.
func TestTimesAreOfWhoAsks(t *testing.T) {
	t.Parallel()
	unnamed := filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(unnamed, zoneFile(5*time.Hour+45*time.Minute, "+0545"), 0o600); err != nil {
		t.Fatal(err)
	}
	var zone atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		zone.Store(r.URL.Query().Get("tz"))
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	for _, tt := range []struct {
		env  []string
		args string
		want string
	}{
		{nil, "", localNamed()},
		{[]string{"TZ=America/New_York"}, "", "America/New_York"},
		{[]string{"TZ=/usr/share/zoneinfo/America/New_York"}, "", "America/New_York"},
		{[]string{"TZ=" + unnamed}, "", "+05:45"},
		{[]string{"TZ=America/New_York"}, "--tz=Asia/Tokyo", "Asia/Tokyo"},
	} {
		for _, args := range [][]string{{"past", "5m"}, {"history", "export", "events", "5m"}} {
			if tt.args != "" {
				args = append(args, tt.args)
			}
			if command(t, tt.env, append(args, "--url="+server.URL)...); zone.Load() != tt.want {
				t.Errorf("%v with %v: %q, want %q", args, tt.env, zone.Load(), tt.want)
			}
		}
	}
}

// localNamed is this machine's time zone by name, or by its offset.
func localNamed() string {
	if name := named(time.Local, "/etc").String(); name != "Local" { //nolint:gosmopolitan // it is meant
		return name
	}
	return time.Now().Format("-07:00")
}

// If there is nothing to read, the error says why and what to do, and the file stays as it is.
func TestNoPastToRead(t *testing.T) {
	t.Parallel()
	dir := func(content string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, historyFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	text := dir(strings.Repeat("no database", 1000))
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, historyFile), 0o700); err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	for name, tt := range map[string]struct{ arg, says string }{
		"nothing kept": {"--state-dir=none", "no past is kept with these settings: name the folder with --state-dir"},
		"no file":      {"--state-dir=" + t.TempDir(), "no history is kept there: start gpuwhy"},
		"no folder":    {"--state-dir=/proc/nowhere", "no history is kept there"},
		"empty":        {"--state-dir=" + dir(""), "no history is kept there"},
		"no database":  {"--state-dir=" + text, "is damaged: keep gpuwhy running, or start it: it sets the file aside"},
		"a folder":     {"--state-dir=" + folder, "is not a regular file"},
		"no server":    {"--history=postgres://me@127.0.0.1:1/past", "PostgreSQL server at 127.0.0.1:1 is not answering"},
		"nobody there": {"--url=http://127.0.0.1:1", "no gpuwhy answers at http://127.0.0.1:1: start it"},
		"no URL":       {"--url=gpu box", "is not a URL of gpuwhy"},
		"not gpuwhy":   {"--url=" + other.URL, "is not gpuwhy: give its address with --url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"past", "--csv"}, {"sessions", "--csv"}, {"usage"}} {
				r := command(t, nil, append(args, noServer, tt.arg)...)
				if r.code == exitOK || r.stdout != "" || !strings.Contains(r.stderr, tt.says) {
					t.Errorf("%v: %+v", args, r)
				}
			}
		})
	}
	t.Cleanup(func() {
		if left, err := os.ReadFile(filepath.Join(text, historyFile)); err != nil || !bytes.HasPrefix(left, []byte("no database")) {
			t.Errorf("what is no database was changed: %v", err)
		}
	})
}
