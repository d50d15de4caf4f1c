//go:build !race

package main

import (
	"archive/tar"
	"compress/gzip"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// formerState unpacks the state directory of a gpuwhy built from commit d4ef48e. It read a simulated RTX 4090, on a machine called
// workstation, from 03:00:35 to 03:02:03 on 28 November 2026 (UTC), twice a second. Meanwhile somebody acknowledged an alert and made
// a silence, and then let the machine gpu-2 join its fleet. Its fleet's keys were made for this test.
func formerState(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	file, err := os.Open("testdata/state-d4ef48e.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// An upgrade keeps what an earlier gpuwhy stored: readings, sessions, causes, events, who acknowledged which alert, silences, and
// the members of its fleet.
func TestUpgradeKeepsData(t *testing.T) {
	t.Parallel()
	dir := formerState(t)
	rules := rulesFile(t, onlyRules("{name: hot, above: 30, hold: 0s, enabled: true}"))
	// These years never pass, so that nothing of it is too old.
	p := start(t, nil, "--source=simulate:rtx-4090", "--node=workstation", "--state-dir="+dir, "--alert-rules="+rules, "--history-retention=raw=99y,1m=99y,15m=99y")
	const span = "from=2026-11-28T03:00:00Z&to=2026-11-28T03:02:30Z"
	if list, ok := p.readings("power_draw", span); !ok || len(list) != 176 || list[0].Time != "2026-11-28T03:00:35.709000Z" {
		t.Errorf("%d readings", len(list))
	}
	var sessions contract.PastSessions
	p.get("/api/gpu/sessions?"+span, &sessions)
	blender := false
	for _, s := range sessions.Sessions {
		blender = blender || s.Name == "blender" && s.User == "alex" && s.PID == 3266851 && s.From == "2026-11-28T03:01:24.246000Z" && s.Busy > 20
	}
	if len(sessions.Sessions) != 4 || !blender {
		t.Errorf("sessions: %+v", sessions.Sessions)
	}
	for path, text := range map[string]string{
		"/api/gpu/causes?" + span:               "blender (pid 3266851, alex) keeps GPU 0",
		"/api/events?" + span:                   "gpuwhy devel started.",
		"/api/gpu/at?time=2026-11-28T03:01:50Z": "blender",
	} {
		if answer, body := p.fetch(path, nil); answer.StatusCode != http.StatusOK || !strings.Contains(string(body), text) {
			t.Errorf("%s: %d without %q\n%s", path, answer.StatusCode, text, body)
		}
	}
	testkit.Until(t, "the alert is there, and somebody had acknowledged it", func() bool {
		list := p.alerts()
		return len(list.Alerts) == 1 && list.Alerts[0].Rule == "hot" && list.Alerts[0].Acknowledged != nil && list.Alerts[0].Acknowledged.Comment == "a fan is on its way"
	}, func() any { return p.alerts() })
	if ends := time.Date(2027, time.November, 29, 3, 0, 0, 0, time.UTC); time.Now().Before(ends) {
		var silences contract.Silences
		if p.get("/api/silences", &silences); len(silences.Silences) != 1 || silences.Silences[0].Rule != "ecc" || silences.Silences[0].By != "local owner" {
			t.Errorf("silences: %+v", silences)
		}
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := command(t, nil, "fleet", "list", "--state-dir="+dir); r.code != exitOK || !strings.Contains(r.stdout, "gpu-2") {
		t.Errorf("fleet list: %+v", r)
	}
}

// A gpuwhy whose database is of a later version keeps nothing there, changes nothing, and says what to do.
func TestLaterDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := formerState(t)
	name := filepath.Join(dir, historyFile)
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const refused = "a newer gpuwhy wrote"
	if r := command(t, nil, "sessions", "7d", "--state-dir="+dir, "--listen=127.0.0.1:1"); r.code != exitError || !strings.Contains(r.stderr, refused) || !strings.Contains(r.stderr, "start the newer gpuwhy") {
		t.Errorf("sessions: %+v", r)
	}
	p := start(t, nil, "--source=simulate:rtx-4090", "--node=workstation", "--state-dir="+dir)
	p.part("history", "failed", refused, "start the newer gpuwhy")
	if err := p.stop(syscall.SIGTERM); err == nil {
		t.Error("it ends as if nothing were lost")
	}
	after, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(after) != string(before) {
		t.Error("it changed the database")
	}
}
