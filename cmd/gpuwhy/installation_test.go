//go:build !race

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A renamed machine keeps its acknowledgments and silences, what gpuwhy learned about it, and its past, in a file and on a server. Waiting data is
// sent under the new name.
func TestAMachineWithAnotherName(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"in a file", "on a server"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			lib, m := machine(t, fakenvml.RTX4090())
			m.GPU(0).Set(fakenvml.Temperature, 88)
			dir, rules := t.TempDir(), rulesFile(t, onlyRules("{name: hot, above: 80, hold: 0s, enabled: true}", "{name: ecc}"))
			history := "--history=sqlite"
			if place == "on a server" {
				history = "--history=" + postgresServer(t).Schema()
			}
			begin := func(name string) *program {
				p := start(t, lib.Env(), fast, "--state-dir="+dir, "--alert-rules="+rules, history, "--node="+name)
				p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 && u.Node == name })
				return p
			}
			p := begin("former")
			var fired contract.Alert
			testkit.Until(t, "it is hot", func() bool {
				if list := p.alerts(); len(list.Alerts) == 1 {
					fired = list.Alerts[0]
				}
				return fired.Rule == "hot"
			})
			if status := p.ask(http.MethodPost, "/api/alerts/"+fired.ID+"/acknowledge", `{"comment":"a fan is on its way"}`, nil); status != http.StatusOK {
				t.Errorf("acknowledge: %d", status)
			}
			if status := p.ask(http.MethodPost, "/api/silences", `{"rule":"ecc","node":"former","duration_seconds":3600}`, nil); status != http.StatusCreated {
				t.Errorf("silence: %d", status)
			}
			p.remembered()
			before, _ := p.readings("power_draw", "from=-10m&node=former")
			if err := p.stop(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}

			p = begin("other")
			var list contract.Alerts
			testkit.Until(t, "the alert stands under the new name, and somebody knows of it", func() bool {
				list = p.alerts()
				return len(list.Alerts) == 1 && list.Alerts[0].ID == fired.ID && list.Alerts[0].Node == "other" && list.Alerts[0].Acknowledged != nil
			}, func() any { return list })
			var silences contract.Silences
			if p.get("/api/silences", &silences); len(silences.Silences) != 1 || silences.Silences[0].Node != "other" {
				t.Errorf("silences: %+v", silences)
			}
			p.remembered()
			testkit.Until(t, "its past is that of the new name", func() bool {
				after, ok := p.readings("power_draw", "from=-10m&node=other")
				return ok && len(before) > 0 && len(after) > 0 && slices.ContainsFunc(after, func(r contract.PastReading) bool { return r.Time == before[0].Time })
			})
			if err := p.stop(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			st := inFile
			if place == "on a server" {
				st = func(t *testing.T, _ string) store.Store {
					return onServer(t, strings.TrimPrefix(history, "--history="))
				}
			}
			if n := len(allRows(t, st(t, dir), "former")); n > 0 {
				t.Errorf("%d rows are left under the former name", n)
			}
		})
	}
}

// Without a folder to keep state in, a program says so.
func TestNoHome(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.RTX4090())
	for _, home := range []string{"", "relative", "/"} {
		if home == "/" && os.Getuid() == 0 {
			continue // who may write there
		}
		p := start(t, append(lib.Env(), "GPUWHY_STATE_DIR=", "STATE_DIRECTORY=", "XDG_STATE_HOME=", "HOME="+home), fast)
		p.log.await(t, "nothing is kept across a restart")
		p.part("state", "failed", "nothing is kept across a restart", "--state-dir")
	}
}

// gpuwhy warns about state that others may change or read.
func TestOpenStateIsWarnedOf(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	args := []string{"serve", "--source=simulate:rtx-4090", "--fleet-listen=127.0.0.1:0", "--state-dir=" + state}
	p := start(t, nil, args...)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(p.log.String(), "remove that permission") {
		t.Errorf("a folder of its own is warned of: %s", p.log)
	}
	for name, mode := range map[string]os.FileMode{"": 0o777, "fleet/authority.json": 0o644, "fleet/server.creds": 0o640} {
		if err := os.Chmod(filepath.Join(state, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	p = start(t, nil, args...)
	for _, says := range []string{"everyone may write to a folder", "authority.json", "server.creds"} {
		p.log.await(t, says)
	}
}
