//go:build !race

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// self is how sentences call the test's own process.
func self(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s (pid %d, ", filepath.Base(program), os.Getpid())
}

// worker is this process, at work.
func worker() fakenvml.Process {
	return fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 2 << 30, SM: 95}
}

// The activities of the made-up card. Each changes all readings at once.
func toWork(m *fakenvml.Machine) {
	m.GPU(0).SetProcesses(worker())
	card(m, map[fakenvml.Key]any{
		fakenvml.Utilization: 97, fakenvml.Power: 449_000, fakenvml.Temperature: 71, fakenvml.SMClock: 2700,
		fakenvml.PerformanceState: 2, fakenvml.EventReasons: 4,
	}, 60, 1900)
}

// comesToWork waits until the worker is present and has its name. On a busy machine the name may arrive a little later, and with it
// everything that is said about its work.
func (v *viewer) comesToWork(m *fakenvml.Machine) {
	v.t.Helper()
	m.GPU(0).SetProcesses(worker())
	v.await("the worker has its name", func(u contract.Update) bool {
		return len(u.GPUs[0].Processes) == 1 && u.GPUs[0].Processes[0].Name != ""
	})
}

func toRest(m *fakenvml.Machine) {
	m.GPU(0).SetProcesses()
	card(m, map[fakenvml.Key]any{
		fakenvml.Utilization: 0, fakenvml.Power: 24_000, fakenvml.Temperature: 66, fakenvml.SMClock: 210,
		fakenvml.PerformanceState: 8, fakenvml.EventReasons: 1,
	}, 55, 1750)
}

func card(m *fakenvml.Machine, values map[fakenvml.Key]any, percent, rpm int) {
	for i := range 2 {
		values[fakenvml.Fan(i, "speed")] = percent
		values[fakenvml.Fan(i, "target")] = percent
		values[fakenvml.Fan(i, "rpm")] = rpm
	}
	m.GPU(0).SetAll(values)
}

// awaitWhy waits until the machine's sentence has all the parts, and returns
// that update.
func (v *viewer) awaitWhy(parts ...string) contract.Update {
	v.t.Helper()
	return v.await("the answer says "+strings.Join(parts, " … "), func(u contract.Update) bool {
		for _, part := range parts {
			if !strings.Contains(u.Why, part) {
				return false
			}
		}
		return true
	})
}

func kinds(causes []contract.Cause) string {
	var out []string
	for _, c := range causes {
		out = append(out, c.Kind)
	}
	return strings.Join(out, " ")
}

// The answer follows one card through an evening.
func TestTheAnswerFollowsTheCard(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), fast, "--alert-rules="+rulesFile(t, atOnce))
	v := p.dial()
	v.awaitWhy("GPU 0 (NVIDIA GeForce RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off")

	v.comesToWork(m)
	toWork(m)
	u := v.awaitWhy(self(t), "keeps GPU 0 (NVIDIA GeForce RTX 4090) busy at 97 %, 71 °C, 449 W of 450 W, fan at 60 %", "it is held back by its power limit (450 W)")
	if got := kinds(u.Causes); !strings.HasPrefix(got, "work limited_by_power") || u.Causes[0].Since == nil || u.Causes[0].Certainty != "high" {
		t.Errorf("causes %s, the first %+v", got, u.Causes[0])
	}
	var why contract.Why
	testkit.Until(t, "/api/gpu/why says so", func() bool {
		return p.get("/api/gpu/why", &why) == http.StatusOK && strings.HasPrefix(kinds(why.Causes), "work limited_by_power") && strings.Contains(why.GPUs[0].Why, self(t))
	}, func() any { return why })
	var one contract.OneWhy
	testkit.Until(t, "/api/gpu/why/{id} says the same", func() bool {
		return p.get("/api/gpu/why/"+u.GPUs[0].UUID, &one) == http.StatusOK && one.Why == why.GPUs[0].Why && one.Causes[0].ID == "work:"+u.GPUs[0].UUID
	}, func() any { return one })
	var alert contract.Alert
	p.dial().next("high_gpu_usage_alert", &alert) // v may have read past it
	if !strings.Contains(alert.Why, self(t)) || !strings.HasPrefix(kinds(alert.Causes), "work") {
		t.Errorf("the alert says %q, causes %s", alert.Why, kinds(alert.Causes))
	}

	toRest(m)
	u = v.awaitWhy("GPU 0 (NVIDIA GeForce RTX 4090) is cooling down after "+self(t), "which left it", "66 °C")
	if u.Causes[0].Kind != "cooling_down" || u.Causes[0].Since == nil {
		t.Errorf("the first cause: %+v", u.Causes[0])
	}

	m.GPU(0).Set(fakenvml.Fan(0, "policy"), 1)
	v.awaitWhy("The fan of GPU 0 (NVIDIA GeForce RTX 4090) is set to 55 % by hand and does not follow the temperature (66 °C)")
	m.GPU(0).Set(fakenvml.Fan(0, "policy"), 0)

	m.GPU(0).Set(fakenvml.Fan(1, "rpm"), 0)
	u = v.awaitWhy("Fan 2 of GPU 0 (NVIDIA GeForce RTX 4090) is not turning, though it is told to run at 55 %")
	if u.Causes[0].Kind != "fan_failing" || u.Causes[0].Advice == "" {
		t.Errorf("the first cause: %+v", u.Causes[0])
	}

	card(m, map[fakenvml.Key]any{fakenvml.Utilization: 100, fakenvml.Power: 17_000, fakenvml.Temperature: 35}, 0, 0)
	v.awaitWhy("GPU 0 (NVIDIA GeForce RTX 4090) reports 100 % utilization, but its counter looks stuck: nothing is running on it (35 °C, 17 W of 450 W, fan off)")
}

// A reading on demand is explained as of the time of the request.
func TestAReadingOnDemandIsExplained(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), "--interval=1h")
	v := p.dial()
	if u := v.request("1"); !strings.Contains(u.Why, "is idle") {
		t.Errorf("at rest it says %q", u.Why)
	}
	toWork(m)
	if u := v.request("2"); !strings.Contains(u.Why, self(t)) || !strings.HasPrefix(kinds(u.Causes), "work") {
		t.Errorf("it says %q, causes %s", u.Why, kinds(u.Causes))
	}
}

func TestWhyAsksARunningServer(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090().With(fakenvml.Name, "RTX\x1b[31m 4090"))
	toWork(m)
	p := start(t, lib.Env(), fast, "--base-path=/x")
	p.dial().awaitWhy(self(t))
	listen := strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/x/")
	configured := []string{"GPUWHY_LISTEN=" + listen, "GPUWHY_BASE_PATH=/x/"}

	r := command(t, configured, "why", "-v")
	for _, part := range []string{self(t), "keeps GPU 0", "certainty: high", "power draw: 449 W", "held back by its power limit", "what helps: End or pause"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%q is not in it", part)
		}
	}
	if r.code != exitOK || strings.Contains(r.stdout, "\x1b") || r.stderr != "" {
		t.Errorf("exit status %d, stderr %q:\n%s", r.code, r.stderr, r.stdout)
	}
	for _, gpu := range []string{"0", m.GPU(0).UUID} {
		var one contract.OneWhy
		r := inside("why", gpu, "--json", "--url", p.url)
		if err := json.Unmarshal([]byte(r.stdout), &one); r.code != exitOK || err != nil || one.GPUUUID != m.GPU(0).UUID || one.Causes[0].Kind != "work" {
			t.Errorf("of %s: exit status %d, %v, %s%s", gpu, r.code, err, r.stdout, r.stderr)
		}
	}
	var all contract.Why
	r = inside("why", "--json", "--url", p.url)
	if err := json.Unmarshal([]byte(r.stdout), &all); r.code != exitOK || err != nil || len(all.GPUs) != 1 {
		t.Errorf("exit status %d, %v, %s%s", r.code, err, r.stdout, r.stderr)
	}
	if r := inside("why", "7", "--url", p.url); r.code != exitError || !strings.Contains(r.stderr, `there is no GPU "7"`) {
		t.Errorf("of a GPU that is not there: exit status %d: %s", r.code, r.stderr)
	}
}

func TestWhyReadsItselfWhereNoServerRuns(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	toWork(m)
	env := append(lib.Env(), "GPUWHY_LISTEN="+freeAddress(t), "GPUWHY_LOG_LEVEL=error")
	r := command(t, env, "why")
	if r.code != exitOK || !strings.Contains(r.stdout, self(t)) || !strings.Contains(r.stderr, "this command's own readings") {
		t.Errorf("exit status %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
	r = command(t, env, "why", "0", "--json")
	var one contract.OneWhy
	if err := json.Unmarshal([]byte(r.stdout), &one); r.code != exitOK || err != nil || one.Causes[0].Kind != "work" {
		t.Errorf("exit status %d, %v: %s", r.code, err, r.stdout)
	}
	if r := command(t, env, "why", "3"); r.code != exitError || !strings.Contains(r.stderr, `there is no GPU "3"`) {
		t.Errorf("of a GPU that is not there: exit status %d: %s", r.code, r.stderr)
	}
	several := []string{"GPUWHY_SOURCE=simulate:fleet:16", "GPUWHY_LISTEN=" + freeAddress(t)}
	if r := command(t, several, "why", "0"); r.code != exitError || !strings.Contains(r.stderr, "name the GPU by its UUID") {
		t.Errorf("of an index with several nodes: exit status %d: %s", r.code, r.stderr)
	}
	r = command(t, []string{"LD_LIBRARY_PATH=" + t.TempDir(), "GPUWHY_LISTEN=" + freeAddress(t)}, "why", "--sysfs-root="+withoutGPU(t))
	if r.code != exitOK || r.stdout == "" || strings.HasPrefix(r.stdout, "No GPU can be read") {
		t.Errorf("without a card: exit status %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
	r = command(t, []string{"LD_LIBRARY_PATH=" + t.TempDir(), "GPUWHY_LISTEN=" + freeAddress(t)}, "why", "--sysfs-root="+t.TempDir())
	if r.code != exitError || !strings.Contains(r.stderr, "No GPU can be read") || !strings.Contains(r.stdout, "what helps:") {
		t.Errorf("without a driver: exit status %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
	r = command(t, []string{"GPUWHY_LISTEN=" + freeAddress(t)}, "why", "--source=simulate:rtx-4090")
	if r.code != exitOK || !strings.HasPrefix(r.stdout, "SIMULATED") {
		t.Errorf("a simulation: exit status %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
}

func TestWhySaysWhatIsWrongWithTheServer(t *testing.T) { //nolint:tparallel // they ask one server
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<!doctype html>")
	}))
	defer other.Close()
	for _, tt := range []struct {
		name, url, says string
		code            int
	}{
		{"nobody there", "http://" + freeAddress(t), "no gpuwhy answers at http://127.0.0.1:", exitError},
		{"another program", other.URL, "is not gpuwhy: give its address with --url", exitError},
		{"no URL", "http://a b", "is not a URL of gpuwhy", exitUsage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := inside("why", "--url", tt.url)
			if r.code != tt.code || !strings.Contains(r.stderr, tt.says) || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("exit status %d: %s", r.code, r.stderr)
			}
		})
	}
}

// watching is a gpuwhy why --watch, and the lines that it prints.
func watching(t *testing.T, env []string, args ...string) (next func() string, end func()) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"why", "--watch"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	next = func() string {
		t.Helper()
		return testkit.Receive(t, "a line", lines)
	}
	end = func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		for range lines { // until it ends
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
	return next, end
}

func TestWhyWatches(t *testing.T) { //nolint:tparallel // they change one machine
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), fast)
	p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	for _, tt := range []struct {
		name string
		env  []string
		args []string
	}{
		{"a server", nil, []string{"--url", p.url}},
		{"its own readings", append(lib.Env(), "GPUWHY_LISTEN="+freeAddress(t)), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			toRest(m)
			next, end := watching(t, tt.env, tt.args...)
			if line := next(); strings.Contains(line, "busy") {
				t.Errorf("first it says %q", line)
			}
			toWork(m)
			for !strings.Contains(next(), "is heating the GPU.") {
			}
			end()
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		next, end := watching(t, nil, "0", "--json", "--url", p.url)
		var before contract.OneWhy
		for range 3 {
			var now contract.OneWhy
			if err := json.Unmarshal([]byte(next()), &now); err != nil || now.Timestamp <= before.Timestamp {
				t.Errorf("%v, %s after %s", err, now.Timestamp, before.Timestamp)
			}
			before = now
		}
		end()
	})
}
