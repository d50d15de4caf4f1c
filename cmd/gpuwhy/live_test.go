//go:build !race

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

const fast = "--interval=250ms"

func TestReadingsOfTheDriverReachEveryAddress(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.H100().At(2))
	m.GPU(0).Set(fakenvml.Utilization, 0)
	p := start(t, lib.Env(), fast)
	u := p.await("both GPUs and the machine answer", func(u contract.Update) bool { return u.Answering == 2 && u.Host != nil })

	card, h100 := u.GPUs[0], u.GPUs[1]
	if got := value(t, "utilization", card.Utilization.GPU); got != 0 {
		t.Errorf("an idle GPU's utilization is %v, want a reported 0", got)
	}
	if got := value(t, "fan speed", card.FanSpeedPercent); got != 0 || len(card.Fans) != 2 {
		t.Errorf("the RTX 4090's two fans stand still, which is a reading: got %v of %d fans", got, len(card.Fans))
	}
	if _, ok := h100.FanSpeedPercent.Get(); ok || h100.Quality["fan_speed_percent"] != "not_supported" {
		t.Errorf("the H100 has no fan: got %v, quality %q", h100.FanSpeedPercent, h100.Quality["fan_speed_percent"])
	}
	if u.Source != "nvml" || u.Status != "ok" || !u.Available || len(u.Drivers) != 1 || u.Host == nil {
		t.Errorf("source %q, status %q, drivers %v, host %v", u.Source, u.Status, u.Drivers, u.Host)
	}

	for _, path := range []string{
		"/gpu/metrics", "/gpu/metrics/0", "/gpu/metrics/" + h100.UUID, "/gpu/info", "/api/gpu/summary", "/api/gpu/metrics/1",
		"/api/gpu/recent", "/api/gpu/devices", "/api/gpu/driver", "/api/health", "/health", "/health/live", "/health/ready", "/health/detailed",
	} {
		var answer map[string]any
		if code := p.get(path, &answer); code != http.StatusOK {
			t.Errorf("GET %s: %d %v", path, code, answer)
		}
	}
	if _, text := p.fetch("/metrics", nil); !strings.Contains(string(text), "gpuwhy_gpu_info{") || !strings.Contains(string(text), "DCGM_FI_DEV_GPU_TEMP{") {
		t.Errorf("/metrics lacks a family:\n%s", text)
	}
	var devices contract.Devices
	p.get("/api/gpu/devices", &devices)
	if devices.Count != 2 || !devices.Devices[1].Available || devices.Devices[1].UUID != h100.UUID {
		t.Errorf("devices: %+v", devices)
	}

	m.GPU(0).Set(fakenvml.Temperature, 83)
	p.await("the temperature has changed", func(u contract.Update) bool {
		v, ok := u.GPUs[0].Temperature.GPU.Get()
		return ok && v == 83
	})
}

func TestTheProcessBehindTheHeatIsNamed(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Utilization, 97)
	m.GPU(0).Set(fakenvml.Power, 320_000)
	m.GPU(0).Set(fakenvml.Temperature, 64)
	m.GPU(0).SetProcesses(
		fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 2 << 30, SM: 95},
		fakenvml.Process{PID: uint32(processNamed(t, "child")), Type: "compute", Memory: 1 << 20, SM: 1},
		fakenvml.Process{PID: fakenvml.NoProcess, Type: "compute", Memory: fakenvml.NotAvailable},
	)
	p := start(t, lib.Env(), fast)
	u := p.await("the processes are known", func(u contract.Update) bool {
		return len(u.GPUs) == 1 && len(u.GPUs[0].Processes) == 3 && u.GPUs[0].Processes[0].Name != ""
	})
	me, child, stranger := u.GPUs[0].Processes[0], u.GPUs[0].Processes[1], u.GPUs[0].Processes[2]
	if me.PID != os.Getpid() || !strings.HasSuffix(me.Name, ".test") {
		t.Errorf("the test's own process is called %q (pid %d)", me.Name, me.PID)
	}
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.User == nil || *me.User != who.Username {
		t.Errorf("user %v, want %s", me.User, who.Username)
	}
	if !me.StartedAt.Present() || me.Command == nil || me.StartedAt.Or(time.Time{}).After(child.StartedAt.Or(time.Time{})) {
		t.Errorf("started %v, its child %v, command %v", me.StartedAt, child.StartedAt, me.Command)
	}
	if stranger.Name != "" || stranger.User != nil {
		t.Errorf("a pid that does not exist is called %q of %v", stranger.Name, stranger.User)
	}
	if _, ok := stranger.UsedMemory.Get(); ok {
		t.Errorf("unknown memory is %v", stranger.UsedMemory)
	}
	if !strings.Contains(u.Why, me.Name) || !strings.Contains(u.Why, "97 %") {
		t.Errorf("why: %s", u.Why)
	}
}

func TestEventsOfTheLiveDashboard(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), "--interval=1h") // nothing comes by itself
	v := p.dial()
	var status contract.GPUStatus
	if first, err := v.message(); err != nil || first.Event != "gpu_status" || first.Decode(&status) != nil {
		t.Fatalf("the first message is %v, %v", first, err)
	}
	if status.Interval != 3600 || status.AlertThreshold != 50 || status.Version == "" || status.Node == "" {
		t.Errorf("gpu_status: %+v", status)
	}
	first := p.reads("the only reading of this hour", func(u contract.Update) bool { return u.Answering == 1 })
	m.GPU(0).Set(fakenvml.Temperature, 77)
	if u := v.request("a1"); u.Seq <= first.Seq || value(t, "temperature", u.GPUs[0].Temperature.GPU) != 77 {
		t.Errorf("the reply is reading %d, after %d: %v", u.Seq, first.Seq, u.GPUs[0].Temperature.GPU)
	}
	v.send(`{"event":"make_coffee","id":7}`)
	var refusal struct{ Code, Message string }
	if m := v.next("error", &refusal); refusal.Code != "unknown_event" || string(m.ID) != "7" {
		t.Errorf("error: %+v, id %s", refusal, m.ID)
	}
}

func TestAlertFiresOnceAndIsResolved(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Utilization, 98)
	m.GPU(0).SetProcesses(fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 1 << 30, SM: 96})
	p := start(t, lib.Env(), fast, "--alert-rules="+rulesFile(t, atOnce))
	v := p.dial()
	var fired contract.Alert
	v.next("high_gpu_usage_alert", &fired)
	if fired.State != "firing" || len(fired.Processes) != 1 || fired.Processes[0].PID != os.Getpid() || value(t, "utilization", fired.Utilization) != 98 {
		t.Fatalf("alert: %+v", fired)
	}
	var late contract.Alert
	p.dial().next("high_gpu_usage_alert", &late)
	if late.ID != fired.ID || late.State != "firing" {
		t.Errorf("one who connects later is sent %s %s, want %s", late.ID, late.State, fired.ID)
	}
	var summary contract.Summary
	if p.get("/api/gpu/summary", &summary); summary.ActiveAlerts != 1 {
		t.Errorf("active_alerts %d, want 1", summary.ActiveAlerts)
	}
	m.GPU(0).Set(fakenvml.Utilization, 1)
	var over contract.Alert
	v.next("high_gpu_usage_alert", &over)
	if over.ID != fired.ID || over.State != "resolved" {
		t.Errorf("then came %s %s, want %s resolved", over.ID, over.State, fired.ID)
	}
	if p.get("/api/gpu/summary", &summary); summary.ActiveAlerts != 0 {
		t.Errorf("active_alerts %d, want 0", summary.ActiveAlerts)
	}
}

func TestAHangingDeviceHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	p := startRaced(t, lib.Env(), fast, "--deadline=1s")
	p.await("both answer", func(u contract.Update) bool { return u.Answering == 2 })

	m.GPU(1).Hang()
	m.AwaitHeld(1) // so that none of its calls begins from now on
	m.GPU(0).Set(fakenvml.Temperature, 66)
	v := p.dial()
	u := v.await("one is not answering, and the other is read", func(u contract.Update) bool {
		other, read := u.GPUs[0].Temperature.GPU.Get()
		return u.GPUs[1].State == "not_answering" && read && other == 66
	})
	if hung := u.GPUs[1]; hung.StateReason == "" || hung.Name == "" {
		t.Errorf("it has no reason or no name: %+v", hung)
	} else if _, ok := hung.Temperature.GPU.Get(); ok {
		t.Errorf("it has readings: %+v", hung.Temperature)
	}
	if u.Status != "degraded" || u.Devices != 2 || u.Answering != 1 {
		t.Errorf("status %s, %d GPUs, %d answer", u.Status, u.Devices, u.Answering)
	}
	calls := m.GPU(1).Calls()
	v.request("r")
	if now := m.GPU(1).Calls(); now != calls {
		t.Errorf("%d calls were made while one hangs", now-calls)
	}
	var devices contract.Devices
	if p.get("/api/gpu/devices", &devices); devices.Devices[1].Available || devices.Devices[1].Error == nil {
		t.Errorf("devices: %+v", devices.Devices[1])
	}

	m.GPU(1).Back()
	v.await("it is live again", func(u contract.Update) bool { return u.GPUs[1].State == "ok" && u.Status == "ok" })

	m.GPU(1).Hang()
	m.AwaitHeld(1)
	if err := p.stop(syscall.SIGTERM); err != nil { // while the call still hangs
		t.Errorf("with a hanging driver it ended so: %v", err)
	}
}

func TestALostDeviceStaysOnTheListAndComesBack(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	p := start(t, lib.Env(), fast)
	v := p.dial()
	v.await("both answer", func(u contract.Update) bool { return u.Answering == 2 })
	m.GPU(0).RaiseXID(79)
	m.GPU(0).Lost()
	u := v.await("one is lost, and its error known", func(u contract.Update) bool {
		return u.GPUs[0].State == "lost" && len(u.GPUs[0].Health.XIDs) > 0
	})
	if u.GPUs[1].State != "ok" || u.GPUs[0].ID != 0 || u.GPUs[0].UUID != m.GPU(0).UUID {
		t.Errorf("%+v", u.GPUs)
	}
	if x := u.GPUs[0].Health.XIDs; len(x) != 1 || x[0].Code != 79 {
		t.Errorf("the driver's error that says why: %+v", x)
	}
	if _, text := p.fetch("/metrics", nil); !strings.Contains(string(text), `xid="79"`) {
		t.Error("/metrics does not have it while the GPU is lost")
	}
	m.GPU(0).Back()
	v.await("it is back", func(u contract.Update) bool { return u.GPUs[0].State == "ok" && u.GPUs[0].ID == 0 })
}

func TestASleepingCardIsLeftAsleep(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	p := start(t, lib.Env(), fast, "--sysfs-root="+m.SysfsRoot)
	v := p.dial()
	v.await("both answer", func(u contract.Update) bool { return u.Answering == 2 })
	m.GPU(1).Sleep()
	u := v.await("one is asleep", func(u contract.Update) bool { return u.GPUs[1].State == "asleep" })
	if u.Status != "ok" || u.GPUs[1].StateReason == "" || u.GPUs[0].State != "ok" {
		t.Errorf("status %s, %+v", u.Status, u.GPUs[1])
	}
	calls := m.GPU(1).Calls()
	seq := u.Seq
	v.await("three more readings were made", func(u contract.Update) bool { return u.Seq > seq+3 })
	if now := m.GPU(1).Calls(); now != calls {
		t.Errorf("the driver was asked %d times about a card that sleeps", now-calls)
	}
	m.GPU(1).Wake()
	v.await("it is awake", func(u contract.Update) bool { return u.GPUs[1].State == "ok" })
}

func TestNoDriverAtStartThenOne(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	if err := lib.Hide(); err != nil {
		t.Fatal(err)
	}
	p := start(t, lib.Env(), fast, "--sysfs-root="+m.SysfsRoot)
	v := p.dial()
	u := v.await("there is a verdict", func(u contract.Update) bool { return u.Status == "no_gpu" })
	if u.Available || u.Devices != 0 || !strings.Contains(u.Reason, "libnvidia-ml.so.1") || len(u.Failures) != 1 || u.Failures[0].Try == "" {
		t.Errorf("no driver: %+v", u)
	}
	var summary contract.Summary
	if code := p.get("/api/gpu/summary", &summary); code != http.StatusOK || summary.Status != "no_gpu" || summary.Reason == "" {
		t.Errorf("summary: %d %+v", code, summary)
	}
	var problem struct{ Detail string }
	if code := p.get("/gpu/metrics", &problem); code != http.StatusServiceUnavailable || problem.Detail == "" {
		t.Errorf("/gpu/metrics: %d %+v", code, problem)
	}
	if code := p.get("/health/ready", nil); code != http.StatusOK {
		t.Errorf("/health/ready: %d; the verdict that none can be had is an answer", code)
	}
	if _, page := p.fetch("/", http.Header{"Accept": {"text/html"}}); !strings.Contains(string(page), "libnvidia-ml.so.1") {
		t.Error("the page does not say what was tried")
	}
	if err := lib.Show(); err != nil {
		t.Fatal(err)
	}
	v.await("the driver is found", func(u contract.Update) bool { return u.Status == "ok" && u.Answering == 1 })
}

func TestAnOlderDriverWithoutNewerFunctions(t *testing.T) {
	t.Parallel()
	newer := []string{
		"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons",
		"nvmlDeviceGetFanSpeedRPM", "nvmlDeviceGetMarginTemperature", "nvmlDeviceGetFanControlPolicy_v2",
		"nvmlDeviceGetTargetFanSpeed", "nvmlDeviceGetJpgUtilization", "nvmlDeviceGetOfaUtilization",
		"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
	}
	lib := fakenvml.Build(t, newer...)
	lib.Machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), fast)
	u := p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	g := u.GPUs[0]
	value(t, "temperature", g.Temperature.GPU)
	value(t, "memory", g.Memory.Used)
	value(t, "fan", g.FanSpeedPercent)
	value(t, "utilization", g.Utilization.GPU)
	if g.Quality["utilization.jpeg_percent"] != "not_supported" {
		t.Errorf("a function that is missing: %v", g.Quality)
	}
}

func TestTheEnd(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		lib, _ := machine(t, fakenvml.RTX4090())
		p := startRaced(t, lib.Env(), fast, "--state-dir="+t.TempDir())
		v := p.dial()
		v.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
		if err := p.stop(signal); err != nil {
			t.Errorf("%v: it ended so: %v", signal, err)
		}
		var err error
		for err == nil {
			_, err = v.message()
		}
		var goodbye websocket.CloseError
		if !errors.As(err, &goodbye) || goodbye.Code != websocket.StatusGoingAway || goodbye.Reason == "" {
			t.Errorf("%v: the viewer was told %v, want 1001 and a reason", signal, err)
		}
	}
}

func TestTheLastMinutesSurviveARestart(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 71)
	dir := t.TempDir()
	p := start(t, lib.Env(), fast, "--state-dir="+dir)
	p.await("three readings were made", func(u contract.Update) bool { return u.Seq >= 3 })
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.GPU(0).Set(fakenvml.Temperature, 42)
	p = start(t, lib.Env(), "--interval=1h", "--state-dir="+dir)
	p.reads("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	var recent contract.Recent
	p.get("/api/gpu/recent", &recent)
	if len(recent.GPUs) != 1 || !slices.ContainsFunc(recent.GPUs[0].Values["temperature_celsius"], func(v contract.Int) bool {
		got, ok := v.Get()
		return ok && got > 42 // 71, or a mean with it where both fell into one point
	}) {
		t.Errorf("the past is gone: %+v", recent)
	}
}

// After a restart, gpuwhy still knows a card's draw at rest. It reports and replaces a
// damaged file, and a simulation has its own.
func TestWhatWasLearnedSurvivesARestart(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	dir := t.TempDir()
	floors := filepath.Join(dir, "floors.json")
	learned := fmt.Sprintf(`{"version":1,"floors":[{"node":"box","uuid":%q,"watts":11.5,"seen":%q}]}`, m.GPU(0).UUID, time.Now().UTC().Format(time.RFC3339))
	for name, text := range map[string]string{
		floors:                                 learned,
		filepath.Join(dir, "baselines.json"):   `{"version":1,"devi`,
		filepath.Join(dir, "simulated-x.json"): "another's",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		p := start(t, lib.Env(), fast, "--node=box", "--history=off", "--state-dir="+dir)
		p.await("the idle floor is known", func(u contract.Update) bool {
			if len(u.GPUs) == 0 {
				return false
			}
			watts, ok := u.GPUs[0].Attribution.IdleFloor.Get()
			return ok && watts == 11.5
		})
		if err := p.stop(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "baselines.json"))
	if err != nil || !json.Valid(text) {
		t.Errorf("a damaged file was not written anew: %s, %v", text, err)
	}

	p := start(t, nil, fast, "--node=box", "--source=simulate:rtx-4090", "--history=off", "--state-dir="+dir)
	p.await("it reads", func(u contract.Update) bool { return u.Answering == 1 })
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(floors); err != nil || !strings.Contains(string(text), "11.5") {
		t.Errorf("a simulation has written over what is known of a card: %s, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "simulated-floors.json")); err != nil {
		t.Error(err)
	}
}
