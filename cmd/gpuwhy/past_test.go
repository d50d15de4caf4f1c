//go:build !race

package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// remembered waits until the current newest reading, or a later one, is in the database. It returns the time of that reading.
func (p *program) remembered() (reading string) {
	p.t.Helper()
	u := p.await("there is a reading", func(contract.Update) bool { return true })
	stamp := moment(p.t, &u.Timestamp).Truncate(time.Millisecond) // as it is kept
	testkit.Until(p.t, "the past has the reading of "+u.Timestamp, func() bool {
		// In a database of several programs, readings of another are no news of this one.
		list, ok := p.readings("power_draw", "from="+stamp.Format(time.RFC3339Nano)+"&node="+url.QueryEscape(u.Node))
		return ok && len(list) > 0
	})
	return u.Timestamp
}

// readings returns a metric's readings in the database; false if it can't be asked now.
func (p *program) readings(metric, query string) (list []contract.PastReading, ok bool) {
	p.t.Helper()
	var answer contract.PastReadings
	status := p.get("/api/gpu/readings?tier=raw&metric="+metric+"&"+query, &answer)
	return answer.Readings, status == http.StatusOK
}

// missing returns how many of the readings that the program reports as written the database lacks. The result is too low if a
// batch is in the database but not counted yet. The database must belong to this program and its node alone.
func (p *program) missing() (readings int) {
	p.t.Helper()
	query := "from=-1h&node=" + url.QueryEscape(p.await("there is a reading", func(contract.Update) bool { return true }).Node)
	testkit.Until(p.t, "the database can be asked", func() bool {
		written := p.counted("gpuwhy_history_written_total")
		ofGPUs, some := p.readings("power_draw", query)
		ofMachine, all := p.readings("cpu_percent", query)
		readings = written - len(ofGPUs) - len(ofMachine)
		return some && all
	})
	return readings
}

// counted returns the value of a counter about readings.
func (p *program) counted(name string) int {
	p.t.Helper()
	_, text := p.fetch("/metrics", nil)
	found := regexp.MustCompile(`(?m)^` + name + `\{[^}]*kind="readings"[^}]*\} (\d+)$`).FindSubmatch(text)
	if found == nil {
		p.t.Fatalf("/metrics lacks %s:\n%s", name, text)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// whole makes sure that the database has all readings that the program has written, except those that it lacked before, and
// that none was dropped.
func (p *program) whole(before int) {
	p.t.Helper()
	var now int
	testkit.Until(p.t, fmt.Sprintf("the database lacks %d readings", before), func() bool { now = p.missing(); return now == before }, func() any { return now })
	if lost := p.counted("gpuwhy_history_dropped_total"); lost > 0 {
		p.t.Errorf("%d readings were dropped", lost)
	}
}

// After a kill and a restart, the program still knows what ran: each process once, with the gap.
func TestThePastSurvivesAKill(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).SetProcesses( // one that runs, and one of which nothing is known but its pid
		fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 1 << 30, SM: 20},
		fakenvml.Process{PID: fakenvml.NoProcess, Type: "graphics", Memory: 1 << 28},
	)
	dir := t.TempDir()
	begin := func() *program { return start(t, lib.Env(), fast, "--state-dir="+dir, "--electricity-price=0.3") }
	p := begin()
	p.await("it answers, and the machine is known", func(u contract.Update) bool { return u.Answering == 1 && u.Host != nil })
	before := p.remembered()
	p.kill()
	p = begin()
	p.await("the machine is known again", func(u contract.Update) bool { return u.Answering == 1 && u.Host != nil })
	after := p.remembered()

	var list contract.PastSessions
	p.get("/api/gpu/sessions?from=-10m", &list)
	pids := map[int]int{}
	for _, s := range list.Sessions {
		pids[s.PID]++
	}
	if want := map[int]int{os.Getpid(): 1, fakenvml.NoProcess: 1}; !maps.Equal(pids, want) {
		t.Errorf("sessions by pid: %v, want %v: %+v", pids, want, list.Sessions)
	}
	kept, _ := p.readings("power_draw", "from=-10m")
	for _, reading := range []string{before, after} {
		if !slices.ContainsFunc(kept, func(r contract.PastReading) bool { return sameReading(t, r.Time, reading) }) {
			t.Errorf("of %d readings none is that of %s", len(kept), reading)
		}
	}
	var history contract.History
	p.get("/api/gpu/history?from=-10m&step=1s&metric=power_draw", &history)
	if len(history.GPUs) != 1 || !slices.ContainsFunc(history.GPUs[0].Metrics["power_draw"].Mean, contract.Float.Present) {
		t.Errorf("history: %+v", history)
	}
	var events contract.PastEvents
	p.get("/api/events?from=-10m&kind=started", &events)
	if len(events.Events) != 2 {
		t.Errorf("it started twice: %+v", events.Events)
	}
	var then contract.PastMoment
	if status := p.get("/api/gpu/at", &then); status != http.StatusOK || len(then.Then.GPUs) != 1 || then.Then.Headline == "" {
		t.Errorf("as it was: status %d, %+v", status, then)
	}
	for _, args := range [][]string{{"past", "10m"}, {"past", "10m", "0"}, {"sessions", "10m"}, {"usage", "--since", "10m", "--by", "process"}, {"usage", "--csv"}, {"sessions", "--json"}} {
		r := inside(append(args, "--url="+p.url)...)
		if r.code != exitOK || len(r.stdout) < 40 {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := inside("past", "soon", "--url="+p.url); r.code != exitError || !strings.Contains(r.stderr, `"soon" is not a span of time`) {
		t.Errorf("%+v", r)
	}
}

// sameReading reports whether the second time is how the first time of a reading is stored.
func sameReading(t *testing.T, kept, read string) bool {
	t.Helper()
	return moment(t, &kept).Equal(moment(t, &read).Truncate(time.Millisecond))
}

// An alert that lasts across a restart has one event, since nothing happened to it.
func TestARestartIsNoNewsOfAnAlert(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.RTX4090())
	args := []string{fast, "--state-dir=" + t.TempDir(), "--alert-rules=" + rulesFile(t, onlyRules("{name: warm, watch: temperature, above: 1, hold: 0s, enabled: true}"))}
	stands := func() (p *program) {
		p = start(t, lib.Env(), args...)
		testkit.Until(t, "the alert fires", func() bool {
			return slices.ContainsFunc(p.alerts().Alerts, func(a contract.Alert) bool { return a.Rule == "warm" && a.State == "firing" })
		})
		p.remembered()
		return p
	}
	if err := stands().stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var events contract.PastEvents
	stands().get("/api/events?from=-10m", &events)
	fired := 0
	for _, e := range events.Events {
		if news, isAlert := strings.CutPrefix(e.Kind, "alert_"); isAlert && news != "fired" {
			t.Errorf("%+v", e)
		} else if isAlert && strings.Contains(e.ID, "alert warm-") {
			fired++
		}
	}
	if fired != 1 {
		t.Errorf("it fired %d times", fired)
	}
}

// With --history off, no past is kept, and the answers say how to change that.
func TestNoPast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, nil, "--source=simulate:rtx-4090", "--state-dir="+dir, "--history=off")
	if response, body := p.fetch("/api/gpu/history", nil); response.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "--history") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if _, err := os.Stat(filepath.Join(dir, historyFile)); err == nil {
		t.Error("there is a database")
	}
	if r := command(t, nil, "serve", "--source=simulate:rtx-4090", "--listen=127.0.0.1:0", "--state-dir="+t.TempDir(), "--history-retention=raw=1x"); r.code != exitUsage || !strings.Contains(r.stderr, "history-retention") {
		t.Errorf("%+v", r)
	}
}

// A damaged database is set aside, and the program starts with a new one.
func TestADamagedPast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, historyFile), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "--source=simulate:rtx-4090", fast, "--state-dir="+dir)
	p.remembered()
	kept, err := filepath.Glob(filepath.Join(dir, historyFile+"?*"))
	found := false
	for _, name := range kept {
		text, err := os.ReadFile(name)
		found = found || err == nil && strings.HasPrefix(string(text), "no database")
	}
	if err != nil || !found {
		t.Errorf("set aside: %v, %v", kept, err)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// If the driver accounts for processes, a process that came and went between two readings is one session, also after gpuwhy
// was killed and restarted. A process that was also seen in a reading is not a second one.
func TestAccountedProcessesAreSessions(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090().With(fakenvml.Accounting, 1))
	dir := t.TempDir()
	begin := func() *program { return start(t, lib.Env(), fast, "--state-dir="+dir) }
	p := begin()
	p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	gpu := m.GPU(0)
	m.Await("the first list", func() bool { return gpu.Calls("nvmlDeviceGetAccountingPids") > 0 })
	wasSeen, wasNot := fakenvml.NoProcess, processNamed(t, "short")
	gpu.SetProcesses(fakenvml.Process{PID: uint32(wasSeen), Type: "compute", Memory: 1 << 30})
	seen := p.await("it is seen", func(u contract.Update) bool {
		return len(u.GPUs) == 1 && slices.ContainsFunc(u.GPUs[0].Processes, func(c contract.Process) bool { return c.PID == wasSeen })
	})
	gpu.SetProcesses()
	began := moment(t, &seen.Timestamp).Add(-500 * time.Millisecond).Truncate(time.Millisecond)
	gpu.SetAccounted(
		fakenvml.Accounted{PID: uint32(wasSeen), Utilization: 40, Memory: 2 << 30, Started: began, Ran: time.Second},
		fakenvml.Accounted{PID: uint32(wasNot), Utilization: 40, Memory: 2 << 30, Started: began, Ran: 2 * time.Second},
	)
	sessions := func() (found []contract.PastSession) {
		var list contract.PastSessions
		p.get("/api/gpu/sessions?from=-10m", &list)
		for _, s := range list.Sessions {
			if s.PID == wasSeen || s.PID == wasNot {
				found = append(found, s)
			}
		}
		return found
	}
	testkit.Until(t, "both are sessions", func() bool { return len(sessions()) >= 2 }, func() any { return sessions() })
	asked := gpu.Calls("nvmlDeviceGetAccountingStats")
	p.kill()
	p = begin()
	lists := gpu.Calls("nvmlDeviceGetAccountingPids")
	m.Await("a list of the second run", func() bool { return gpu.Calls("nvmlDeviceGetAccountingPids") > lists })
	m.Await("a process of it", func() bool { return gpu.Calls("nvmlDeviceGetAccountingStats") > asked })
	p.remembered()
	all := sessions()
	if len(all) != 2 || all[0].Accounted == all[1].Accounted {
		t.Fatalf("%+v", all)
	}
	for _, s := range all {
		if s.PID == wasSeen {
			if s.Accounted || s.Outcome != "ended" {
				t.Errorf("the one that was seen: %+v", s)
			}
			continue
		}
		if !s.Accounted || !moment(t, &s.From).Equal(began) || s.Seen != 2 || s.User != "" || s.Started != nil ||
			s.SMSeconds.Or(0) != 0.8 || s.Busy != 0.8 || s.PeakMemory.Or(0) != 2<<30 || s.Joules.Present() {
			t.Errorf("the one that was not: %+v", s)
		}
	}
}

// Simulated data stays marked as simulated in a program that now reads a real GPU, and in commands without a program.
func TestASimulatedPastIsSaidToBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := aSimulation(t, dir)
	p.await("it works", func(u contract.Update) bool { return len(u.GPUs) == 1 && len(u.GPUs[0].Processes) > 0 })
	p.remembered()
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	output := func(args ...string) string {
		t.Helper()
		r := command(t, nil, append(args, noServer, "--state-dir="+dir)...)
		if r.code != exitOK {
			t.Fatalf("%v: %+v", args, r)
		}
		return r.stdout
	}
	for _, args := range [][]string{{"past", "10m"}, {"sessions", "10m"}, {"usage", "--since", "10m"}} {
		if got := output(args...); !strings.Contains(got, "SIMULATED: none of these readings is real.") {
			t.Errorf("%v: %s", args, got)
		}
		if got := output(append(args, "--json")...); !strings.Contains(strings.Join(strings.Fields(got), ""), `"gpu_kinds":["simulated"]`) {
			t.Errorf("%v --json: %s", args, got)
		}
	}
	for _, args := range [][]string{
		{"sessions", "10m", "--csv"}, {"usage", "--since", "10m", "--csv"}, {"history", "export", "readings", "10m"}, {"history", "export", "causes", "10m"},
	} {
		if got := output(args...); !strings.Contains(got, "gpu_kind") || !strings.Contains(got, "simulated") {
			t.Errorf("%v: %s", args, got)
		}
	}

	lib, _ := machine(t, fakenvml.RTX4090())
	p = start(t, lib.Env(), fast, "--state-dir="+dir)
	p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	p.remembered()
	if _, page := p.fetch("/past?from=10m", nil); !strings.Contains(string(page), "Some of this is not real") || !strings.Contains(string(page), "GPU 0 (simulated)") {
		t.Error("the page does not say what is real")
	}
	var usage contract.PastUsage
	if p.get("/api/gpu/usage?from=10m&by=gpu", &usage); len(usage.Kinds) != 2 {
		t.Errorf("of real and invented GPUs: %+v", usage)
	}
	for _, row := range usage.Rows {
		p.get("/api/gpu/usage?from=10m&by=gpu&gpu="+row.GPU.GPUUUID, &usage)
		if len(usage.Kinds) != 1 || usage.Kinds[0] != row.GPU.GPUKind {
			t.Errorf("of one: %+v", usage)
		}
	}
	if got := inside("usage", "--since=10m", "--url="+p.url).stdout; !strings.Contains(got, "PARTLY NOT REAL: some of these GPUs are simulated; sums include them.") {
		t.Error(got)
	}
}
