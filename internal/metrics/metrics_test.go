package metrics

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

var update = flag.Bool("update", false, "write the golden files and docs/metrics.md")

// Capabilities are tables of those, which are above this package, in the order of the documents: Healthy has what they say while all
// is well.
var Capabilities struct{ Healthy []Told }

// owner is a context in which the local owner asks.
func owner(ctx context.Context) context.Context {
	who := auth.LocalOwner()
	return auth.NewContext(ctx, &who)
}

// owned answers everybody as the local owner.
func owned(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(owner(r.Context()))) })
}

// get asks for the metrics with some headers, "Name: value".
func get(tb testing.TB, h http.Handler, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequestWithContext(owner(tb.Context()), http.MethodGet, "/metrics", nil)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func text(tb testing.TB, h http.Handler) string {
	tb.Helper()
	res := get(tb, h)
	if res.Code != http.StatusOK {
		tb.Fatalf("%d: %s", res.Code, res.Body)
	}
	return res.Body.String()
}

// samples parses a scrape and returns the value of each series, by its name and
// labels as Prometheus prints them. No two may be the same.
func samples(tb testing.TB, h http.Handler) map[string]float64 {
	tb.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text(tb, h)))
	if err != nil {
		tb.Fatal(err)
	}
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			series := name + "{" + strings.Join(labels, ",") + "}"
			if _, twice := out[series]; twice {
				tb.Errorf("%s is there twice", series)
			}
			out[series] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// withName returns the samples of one name, by their labels.
func withName(all map[string]float64, name string) map[string]float64 {
	out := map[string]float64{}
	for series, v := range all {
		if rest, ok := strings.CutPrefix(series, name+"{"); ok {
			out["{"+rest] = v
		}
	}
	return out
}

func names(all map[string]float64) []string {
	set := map[string]bool{}
	for series := range all {
		name, _, _ := strings.Cut(series, "{")
		set[name] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func TestGolden(t *testing.T) {
	for name, snap := range map[string]*gpu.Snapshot{
		"rtx4090": desktop(), "h100": server(), "no_gpu": bare(), "zero": zeros(), "starting": nil,
	} {
		t.Run(name, func(t *testing.T) {
			e := exporterOf(t, snap)
			e.runtime = prometheus.NewRegistry() // what the process costs differs from run to run
			got := text(t, e)
			path := filepath.Join("testdata", name+".prom")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("differs from %s (-update writes it):\n%s", path, diff)
			}
		})
	}
}

// Every metric of every table is there where the device reports a zero.
func TestZeroIsASample(t *testing.T) {
	all := samples(t, exporterOf(t, zeros()))
	want := func(name string, isOne bool) {
		t.Helper()
		series := withName(all, name)
		if len(series) == 0 {
			t.Errorf("%s has no series, though the device reports a zero", name)
		}
		for labels, v := range series {
			if !isOne && v != 0 {
				t.Errorf("%s%s is %v, want 0", name, labels, v)
			}
		}
	}
	notZero := []string{ // who it is, and when; counts of what is there
		"gpuwhy_gpu_info", "gpuwhy_gpu_state", "gpuwhy_gpu_state_since_timestamp_seconds", "gpuwhy_gpu_sampled_timestamp_seconds",
		"gpuwhy_gpu_mig_info", "gpuwhy_gpu_processes", "gpuwhy_gpu_process_pids", "gpuwhy_gpu_compute_mode", "gpuwhy_host_info", "gpuwhy_gpus",
		"gpuwhy_gpu_virtualization_mode", "gpuwhy_gpu_compute_partition", "gpuwhy_gpu_memory_partition",
	}
	for _, r := range deviceRows {
		if r.name == "gpuwhy_gpu_pcie_measured_timestamp_seconds" {
			continue // TestMeasuredTraffic: a device has it or the counters
		}
		want(r.name, slices.Contains(notZero, r.name))
		if r.dcgm != nil {
			want(r.dcgm.name, false)
		}
	}
	for _, r := range nodeRows {
		ofParts := []string{"gpuwhy_host_disk_", "gpuwhy_host_network_", "gpuwhy_host_fan_", "gpuwhy_host_temperature_"} // it has none
		if !slices.ContainsFunc(ofParts, func(p string) bool { return strings.HasPrefix(r.name, p) }) {
			want(r.name, slices.Contains(notZero, r.name))
		}
	}
}

func TestAbsentHasNoSeries(t *testing.T) {
	e := exporterOf(t, silent())
	e.runtime = prometheus.NewRegistry()
	got := slices.DeleteFunc(names(samples(t, e)), func(n string) bool {
		return slices.ContainsFunc(ofProgram(), func(m metric) bool { return m.Name == n })
	})
	want := []string{"gpuwhy_gpu_info", "gpuwhy_gpu_state", "gpuwhy_gpu_state_since_timestamp_seconds", "gpuwhy_gpus", "gpuwhy_host_info"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a device that reports nothing:\n%s", diff)
	}
}

func TestDeviceThatIsNotOK(t *testing.T) {
	for _, state := range []gpu.State{gpu.StateNotAnswering, gpu.StateLost, gpu.StateAsleep} {
		t.Run(string(state), func(t *testing.T) {
			s := desktop()
			s.Devices[0].State = state // with readings, which no source leaves there
			all := samples(t, exporterOf(t, s))
			for series, v := range withName(all, "gpuwhy_gpu_state") {
				if is := strings.Contains(series, `"`+string(state)+`"`); is != (v == 1) {
					t.Errorf("gpuwhy_gpu_state%s is %v", series, v)
				}
			}
			for _, name := range names(all) {
				ofDevice := strings.HasPrefix(name, "DCGM_") || strings.HasPrefix(name, "gpuwhy_gpu_")
				if ofDevice && !slices.ContainsFunc(deviceRows, func(r Row[*device]) bool {
					return r.always && (r.name == name || r.dcgm != nil && r.dcgm.name == name)
				}) {
					t.Errorf("%s of a device that is %s", name, state)
				}
			}
			if len(withName(all, "gpuwhy_gpu_info")) != 1 {
				t.Error("the device is not on the list")
			}
		})
	}
}

// A reading that was put off while nobody looked is not stale.
func TestStaleKnowsTheLongerInterval(t *testing.T) {
	far := insight.Of(desktop()).At(insight.Place{}, insight.Link{Remote: true, Every: time.Minute})
	for name, cfg := range map[string]Config{
		"while nobody looks": {Newest: func() *insight.Fleet { return fleetOf(desktop()) }, Longest: time.Minute},
		"by another program": {Newest: func() *insight.Fleet { return insight.NewFleet(far) }},
	} {
		now := noon
		cfg.Self, cfg.Interval, cfg.Node, cfg.Now = healthy, 5*time.Second, "desk", func() time.Time { return now }
		e, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for after, up := range map[time.Duration]float64{3 * time.Minute: 1, 3*time.Minute + time.Second: 0} {
			now = noon.Add(after)
			if got := samples(t, e)[`gpuwhy_up{node="desk"}`]; got != up {
				t.Errorf("%s, after %v: up %v, want %v", name, after, got, up)
			}
		}
	}
}

func TestStale(t *testing.T) {
	now := noon
	s := desktop()
	e, err := New(Config{
		Newest: func() *insight.Fleet { return fleetOf(s) }, Self: healthy, Interval: 5 * time.Second,
		Node: "desk", Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	readings := func(all map[string]float64) (n int) {
		for _, name := range names(all) {
			for _, prefix := range []string{"gpuwhy_gpu", "gpuwhy_host_", "DCGM_"} {
				if strings.HasPrefix(name, prefix) {
					n++
				}
			}
		}
		return n
	}

	now = noon.Add(15 * time.Second)
	fresh := samples(t, e)
	if fresh[`gpuwhy_up{node="desk"}`] != 1 || readings(fresh) < 50 {
		t.Errorf("after three intervals: up %v, %d names", fresh[`gpuwhy_up{node="desk"}`], readings(fresh))
	}
	now = now.Add(time.Nanosecond)
	stale := samples(t, e)
	if up, ok := stale[`gpuwhy_up{node="desk"}`]; up != 0 || !ok || readings(stale) != 0 {
		t.Errorf("after more than three intervals: up %v (%v), %d names", up, ok, readings(stale))
	}
	for _, name := range []string{"gpuwhy_last_reading_timestamp_seconds", "gpuwhy_source_up", "gpuwhy_viewers", "gpuwhy_simulated", "process_resident_memory_bytes", "go_goroutines"} {
		if !slices.Contains(names(stale), name) {
			t.Errorf("%s is missing while the readings are stale", name)
		}
	}
	s = desktop()
	s.Time = now
	if again := samples(t, e); again[`gpuwhy_up{node="desk"}`] != 1 || readings(again) != readings(fresh) {
		t.Error("a new snapshot does not bring the readings back")
	}
}

// What gpuwhy says about itself moves on while no snapshot comes.
func TestAnswersAge(t *testing.T) {
	now := noon
	viewers := 1
	e, err := New(Config{
		Newest:   func() *insight.Fleet { return nil },
		Self:     func() Self { return Self{Viewers: viewers} },
		Interval: time.Hour, Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after   time.Duration
		viewers int
		want    float64
	}{{0, 1, 1}, {maxAge - 1, 2, 1}, {maxAge, 3, 3}} {
		now, viewers = noon.Add(step.after), step.viewers
		for series, got := range withName(samples(t, e), "gpuwhy_viewers") {
			if got != step.want {
				t.Errorf("after %v: gpuwhy_viewers%s is %v, want %v", step.after, series, got, step.want)
			}
		}
	}
}

func TestEncodedOnce(t *testing.T) {
	const scrapers = 50
	e := exporterOf(t, server())
	kinds := [][]string{
		nil,
		{"Accept-Encoding: gzip"},
		{"Accept: application/openmetrics-text; version=1.0.0"},
	}
	bodies := make([]string, scrapers)
	var wg sync.WaitGroup
	for i := range scrapers {
		wg.Go(func() {
			bodies[i] = get(t, e, kinds[i%len(kinds)]...).Body.String()
		})
	}
	wg.Wait()
	if e.scrapes != scrapers || e.encodings != 2 { // text and OpenMetrics; gzip packs the text there is
		t.Errorf("%d scrapes of one snapshot made %d encodings, want 2", e.scrapes, e.encodings)
	}
	for i, body := range bodies {
		if body != bodies[i%len(kinds)] {
			t.Errorf("scrape %d got another answer than scrape %d", i, i%len(kinds))
		}
	}
}

// A text that is too long is not kept, and is the same as one that is, packed or not.
func TestALongTextIsNotKept(t *testing.T) {
	kept, long := exporterOf(t, server()), exporterOf(t, server())
	long.large = 1000
	for range 3 {
		want, got := withName(samples(t, kept), "gpuwhy_gpu_power_watts"), withName(samples(t, long), "gpuwhy_gpu_power_watts")
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
			t.Fatal(diff)
		}
		if long.answer != nil || long.size < 1000 {
			t.Errorf("an answer of %d bytes is kept", long.size)
		}
		packed := readBody(t, get(t, long, "Accept-Encoding: gzip"))
		if long.answer != nil || long.size != len(packed) || !strings.Contains(packed, "gpuwhy_gpu_power_watts") {
			t.Errorf("%d bytes came packed, of %d", len(packed), long.size)
		}
	}
	if kept.answer == nil {
		t.Error("a short answer is not kept")
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		name         string
		headers      []string
		contentType  string
		gzip, theEOF bool
	}{
		{"curl", []string{"Accept: */*"}, "text/plain; version=0.0.4; charset=utf-8", false, false},
		{"nothing", nil, "text/plain; version=0.0.4; charset=utf-8", false, false},
		{"prometheus 2", []string{"Accept: application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "Accept-Encoding: gzip"},
			"application/openmetrics-text; version=1.0.0; charset=utf-8", true, true},
		{"prometheus 3", []string{"Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.1", "Accept-Encoding: gzip"},
			"application/openmetrics-text; version=1.0.0; charset=utf-8", true, true},
		{"old", []string{"Accept: application/openmetrics-text; version=0.0.1"}, "application/openmetrics-text; version=0.0.1; charset=utf-8", false, true},
		{"browser", []string{"Accept: text/html,*/*;q=0.8", "Accept-Encoding: br, GZIP;q=0.5"}, "text/plain; version=0.0.4; charset=utf-8", true, false},
		{"no gzip", []string{"Accept-Encoding: gzip;q=0, identity"}, "text/plain; version=0.0.4; charset=utf-8", false, false},
		{"protobuf", []string{"Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"}, "text/plain; version=0.0.4; charset=utf-8", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := get(t, exporterOf(t, desktop()), c.headers...)
			if got := res.Header().Get("Content-Type"); got != c.contentType {
				t.Errorf("Content-Type %q, want %q", got, c.contentType)
			}
			if got := res.Header().Get("Content-Encoding") == "gzip"; got != c.gzip {
				t.Errorf("gzip %v, want %v", got, c.gzip)
			}
			body := readBody(t, res)
			if got := strings.HasSuffix(body, "# EOF\n"); got != c.theEOF {
				t.Errorf("ends with # EOF: %v, want %v", got, c.theEOF)
			}
			if !strings.Contains(body, `gpuwhy_gpu_utilization_ratio{node="desk",uuid="GPU-4090"} 0.57`+"\n") {
				t.Error("the utilization is missing")
			}
			// OpenMetrics would have a counter end in _total, and boards
			// look for this name.
			if !strings.Contains(body, "\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{") {
				t.Error("DCGM's counter has lost its name")
			}
		})
	}
}

func readBody(t *testing.T, res *httptest.ResponseRecorder) string {
	t.Helper()
	var r io.Reader = res.Body
	if res.Header().Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		r = unpacked
	}
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestMethods(t *testing.T) {
	srv := httptest.NewServer(owned(exporterOf(t, desktop())))
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.Body.Close() != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", method, res.Status)
		}
		if method == http.MethodHead && (len(body) > 0 || res.ContentLength <= 0) {
			t.Errorf("HEAD: %d bytes, Content-Length %d", len(body), res.ContentLength)
		}
	}
}

// What is kept on the way depends on these, and on what was named before.
func TestVary(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		w := httptest.NewRecorder()
		w.Header().Set("Vary", "Origin")
		exporterOf(t, desktop()).ServeHTTP(w, httptest.NewRequestWithContext(owner(t.Context()), method, "/metrics", nil))
		if diff := cmp.Diff([]string{"Origin", "Accept", "Accept-Encoding"}, w.Header().Values("Vary")); diff != "" {
			t.Errorf("%s: Vary:\n%s", method, diff)
		}
	}
}

func TestProcessesAreBounded(t *testing.T) {
	var processes []gpu.Process
	for i := range 500 {
		processes = append(processes, process(fmt.Sprintf("worker-%03d", i), fmt.Sprintf("user%d", i%7), gpu.Bytes(i*mib), gpu.Percent(0)))
	}
	processes[3].SM = gpu.Of(gpu.Percent(90)) // little memory, most of the work
	processes = append(processes,
		process(othersName, othersName, 40*gib, 1), // somebody's joke
		process("bad\xff", "root\n\"x\"", 50*gib, 1),
		process("bad\xfe", "root\n\"x\"", 50*gib, 1),
	)
	s := desktop()
	s.Devices[0].Processes = gpu.Of(processes)
	all := samples(t, exporterOf(t, s))

	sum := func(series map[string]float64) (total float64) {
		for _, v := range series {
			total += v
		}
		return total
	}
	for name, want := range map[string]float64{
		"gpuwhy_gpu_process_pids":         503,
		"gpuwhy_gpu_process_memory_bytes": float64(499*500/2*mib + 140*gib),
		"gpuwhy_gpu_process_sm_ratio":     0.93,
	} {
		series := withName(all, name)
		if len(series) > maxGroups+1 || len(series) < maxGroups {
			t.Errorf("%s has %d series, want at most %d", name, len(series), maxGroups+1)
		}
		if got := sum(series); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s adds up to %v, want %v", name, got, want)
		}
	}
	pids := withName(all, "gpuwhy_gpu_process_pids")
	const device = `{node="desk",uuid="GPU-4090",`
	for labels, want := range map[string]float64{
		`name="worker-003",user="user3"}`:                1,
		`name="worker-499",user="user2"}`:                1,
		`name="(others)",user="(others)"}`:               503 - 2 - 18, // the joke is in it
		`name="bad` + "\uFFFD" + `",user="root\n\"x\""}`: 2,
	} {
		if got := pids[device+labels]; got != want {
			t.Errorf("%s: %v processes, want %v", labels, got, want)
		}
	}
	if got := all[`gpuwhy_gpu_processes{node="desk",uuid="GPU-4090"}`]; got != 503 {
		t.Errorf("gpuwhy_gpu_processes is %v, want 503", got)
	}
}

func TestProcessesOfUnknownMemory(t *testing.T) {
	all := samples(t, exporterOf(t, desktop()))
	const device = `{node="desk",uuid="GPU-4090",`
	want := map[string]float64{
		device + `name="python",user="anna"}`: 8000 * mib, device + `name="Xorg",user="root"}`: 120 * mib,
	}
	if diff := cmp.Diff(want, withName(all, "gpuwhy_gpu_process_memory_bytes")); diff != "" {
		t.Error(diff)
	}
	if got := all[`gpuwhy_gpu_process_pids`+device+`name="(unknown)",user="(unknown)"}`]; got != 1 {
		t.Errorf("a process without facts: %v", got)
	}
}

// Whatever a process and its user are called, the answer can be parsed, and
// says as much of each.
func FuzzNames(f *testing.F) {
	f.Add("python", "anna", "Xorg", "root")
	f.Add("a\xff", "b", "a\xfe", "b")
	f.Add("", "", othersName, othersName)
	f.Add("x\"}\ny 1", "\\", "\x00", unknownName)
	f.Fuzz(func(t *testing.T, name, user, otherName, otherUser string) {
		s := desktop()
		s.Devices[0].Processes = gpu.Of([]gpu.Process{process(name, user, 3*gib, 1), process(otherName, otherUser, 4*gib, 2)})
		total := 0.0
		for _, v := range withName(samples(t, exporterOf(t, s, FamilyGPUWhy)), "gpuwhy_gpu_process_memory_bytes") {
			total += v
		}
		if total != 7*gib {
			t.Errorf("%q of %q and %q of %q: %v bytes, want 7 GiB", name, user, otherName, otherUser, total)
		}
	})
}

// What can't be right has no series in either family but the one that says so;
// what stands beside it has.
func TestDoubtful(t *testing.T) {
	s := desktop()
	d := &s.Devices[0]
	d.Thermal.GPU = gpu.DoubtfulOf(gpu.Celsius(500))
	d.Power.Draw = gpu.DoubtfulOf(gpu.Watts(9999))
	d.Fans.Fans[1].RPM = gpu.DoubtfulOf(gpu.RPM(1e6))
	d.Clocks.EventReasons = gpu.DoubtfulOf(gpu.ReasonPowerCap)
	d.Modes.Compute = gpu.DoubtfulOf("anything")
	doubted := process("python", "anna", 3*gib, 1)
	doubted.Memory = gpu.DoubtfulOf(gpu.Bytes(1 << 60))
	d.Processes = gpu.Of([]gpu.Process{doubted, process("python", "anna", 3*gib, 1), process("Xorg", "root", gib, 2)})
	all := samples(t, exporterOf(t, s))

	const device = `{node="desk",uuid="GPU-4090"`
	want := map[string]float64{}
	for _, name := range []string{
		"temperature_celsius", "power_watts", "fan_rpm", "clock_event", "compute_mode", "process_memory_bytes",
	} {
		want[device+`,metric="gpuwhy_gpu_`+name+`"}`] = 1
	}
	if diff := cmp.Diff(want, withName(all, doubtfulRow.name)); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{
		"gpuwhy_gpu_temperature_celsius", "gpuwhy_gpu_power_watts", "gpuwhy_gpu_clock_event", "gpuwhy_gpu_compute_mode",
		"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE",
	} {
		if got := withName(all, name); len(got) > 0 {
			t.Errorf("%s has what can't be right: %v", name, got)
		}
	}
	if diff := cmp.Diff(map[string]float64{device + `,name="Xorg",user="root"}`: gib}, withName(all, "gpuwhy_gpu_process_memory_bytes")); diff != "" {
		t.Error(diff)
	}
	if got := withName(all, "gpuwhy_gpu_fan_rpm"); len(got) != len(d.Fans.Fans)-1 || got[device+`,fan="1"}`] != 0 {
		t.Errorf("the other fans: %v", got)
	}
	if len(withName(all, "DCGM_FI_DEV_GPU_UTIL")) != 1 || len(withName(all, "gpuwhy_gpu_utilization_ratio")) != 1 {
		t.Error("other readings are gone too")
	}
}

// A process whose memory can't be right takes no other's place among those that
// have series.
func TestDoubtfulWeighsNothing(t *testing.T) {
	var processes []gpu.Process
	for i := range maxGroups + 1 {
		processes = append(processes, process(fmt.Sprint("p", i), "anna", gpu.Bytes(gib*(i+1)), 0))
	}
	processes[0].Memory = gpu.DoubtfulOf(gpu.Bytes(1 << 60))
	for _, g := range groupsOf(processes)[:maxGroups] {
		if g.name == "p0" {
			t.Error("it is among the heaviest")
		}
	}
}

// A part's reading that can't be right is absent too.
// What stands ends again, and so it is in no counter: its moment alone has a series, while it stands.
func TestStandingFaultsAreNotCounted(t *testing.T) {
	s := desktop()
	when := time.Unix(1_700_000_000, 0)
	s.Devices[0].Health.Faults = gpu.Of([]gpu.Fault{
		{Kind: gpu.FaultInitFailed, Count: 3, Last: when}, {Kind: gpu.FaultNeedsReset, Count: 2, Last: when}, {Kind: gpu.FaultFanUnreadable, Count: 1, Last: when},
	})
	all := samples(t, exporterOf(t, s))
	for name, want := range map[string]int{"gpuwhy_gpu_fault_errors_total": 1, "gpuwhy_gpu_fault_last_timestamp_seconds": 3, "gpuwhy_gpu_faults_total": 1} {
		got := withName(all, name)
		if len(got) != want {
			t.Errorf("%s: %v", name, got)
		}
		for series, n := range got {
			if strings.HasSuffix(name, "_total") && n != 3 {
				t.Errorf("%s%s is %v", name, series, n)
			}
		}
	}
}

func TestDoubtfulPart(t *testing.T) {
	in := &gpu.Instance{UUID: "MIG-1", Name: "NVIDIA H100 MIG 3g.40gb", Profile: gpu.Of("3g.40gb"), GPUInstance: gpu.Of(1)}
	in.Memory.Used = gpu.DoubtfulOf(gpu.Bytes(1 << 60))
	in.Memory.Total = gpu.Of(gpu.Bytes(40 * gib))
	s := desktop()
	s.Devices[0].Instances = []gpu.Instance{*in}
	all := samples(t, exporterOf(t, s))
	if got := withName(all, "DCGM_FI_DEV_FB_USED"); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := withName(all, "DCGM_FI_DEV_FB_TOTAL"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestDeviceListedTwice(t *testing.T) {
	s := desktop()
	s.Devices = append(s.Devices, s.Devices[0])
	if got := withName(samples(t, exporterOf(t, s)), "gpuwhy_gpu_power_watts"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestFamilies(t *testing.T) {
	for _, c := range []struct {
		families   []string
		ours, dcgm bool
	}{
		{nil, true, true},
		{[]string{"gpuwhy"}, true, false},
		{[]string{"dcgm"}, false, true},
		{[]string{"dcgm", "gpuwhy", "dcgm"}, true, true},
	} {
		var ours, dcgm bool
		for _, name := range names(samples(t, exporterOf(t, desktop(), c.families...))) {
			if strings.HasPrefix(name, "DCGM_") {
				dcgm = true
			} else {
				ours = true
			}
		}
		if ours != c.ours || dcgm != c.dcgm {
			t.Errorf("%v: ours %v, dcgm %v", c.families, ours, dcgm)
		}
	}

	_, err := New(Config{Newest: func() *insight.Fleet { return nil }, Self: healthy, Interval: 1, Families: []string{"gpuwhy", "nvidia_smi"}})
	advice, ok := errors.AsType[*gpu.Advice](err)
	if !ok || !strings.Contains(advice.What, `"nvidia_smi"`) || !strings.Contains(advice.Try, "gpuwhy, dcgm") {
		t.Errorf("an unknown family: %v", err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration is taken")
	}
}

// promlint knows Prometheus' conventions. DCGM's names follow none of them
// (upper case, units that are not base units, counters without _total) and are
// exempt: boards look for them letter by letter.
func TestLint(t *testing.T) {
	doubtful := desktop()
	doubtful.Devices[0].Power.Draw = gpu.DoubtfulOf(gpu.Watts(9999))
	for name, snap := range map[string]*gpu.Snapshot{"zero": zeros(), "rtx4090": doubtful, "h100": server(), "no_gpu": bare()} {
		problems, err := promlint.New(strings.NewReader(text(t, exporterOf(t, snap, FamilyGPUWhy)))).Lint()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
	}
}

// Labels beside node and uuid say what there are several of.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range document() {
		if seen[m.Name] {
			t.Errorf("%s is declared twice", m.Name)
		}
		seen[m.Name] = true
		if !strings.HasPrefix(m.Name, "gpuwhy_") || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: %q", m.Name, m.Help)
		}
		if !m.hasGetter {
			t.Errorf("%s has not exactly one getter", m.Name)
		}
		if m.dcgmNeedsValue {
			t.Errorf("%s has several series, and its DCGM form no value of its own", m.Name)
		}
	}
}

func TestDCGMLabels(t *testing.T) {
	s := server()
	s.Devices[1].Source = gpu.SourceSimulated
	s.Devices[7].Source, s.Devices[7].RecordedFrom = gpu.SourceRecorded, gpu.SourceNVML
	s.Devices[2].Vendor = gpu.AMD
	s.Devices[4].VendorIndex = gpu.Reading[int]{}
	all := samples(t, exporterOf(t, s, FamilyDCGM))
	const tail = `modelName="NVIDIA H100 80GB HBM3",hostname="dgx",DCGM_FI_DRIVER_VERSION="550.54.15"`
	want := map[string]float64{
		`{gpu="0",UUID="GPU-h100-a",pci_bus_id="00000000:1B:00.0",device="nvidia0",` + tail + `}`:                  31,
		`{gpu="1",UUID="GPU-h100-b",pci_bus_id="00000000:2B:00.0",device="nvidia1",` + tail + `,simulated="true"}`: 31,
		`{gpu="4",UUID="GPU-h100-e",pci_bus_id="00000000:5B:00.0",` + tail + `}`:                                   31,
		`{gpu="5",UUID="GPU-h100-f",pci_bus_id="00000000:6B:00.0",device="nvidia5",` + tail + `}`:                  31,
		`{gpu="6",UUID="GPU-h100-g",pci_bus_id="00000000:7B:00.0",device="nvidia6",` + tail + `}`:                  31,
		`{gpu="7",UUID="GPU-h100-h",pci_bus_id="00000000:8B:00.0",device="nvidia7",` + tail + `,recorded="true"}`:  31,
	}
	if diff := cmp.Diff(want, withName(all, "DCGM_FI_DEV_GPU_TEMP")); diff != "" {
		t.Error(diff)
	}
	// The parts in place of the whole, each GPU instance once.
	const mig = `modelName="NVIDIA H100 80GB HBM3",GPU_I_PROFILE="%s",GPU_I_ID="%d",hostname="dgx",DCGM_FI_DRIVER_VERSION="550.54.15"}`
	const parted = `{gpu="5",UUID="GPU-h100-f",pci_bus_id="00000000:6B:00.0",device="nvidia5",`
	want = map[string]float64{
		parted + fmt.Sprintf(mig, "3g.40gb", 1): 0,
		parted + fmt.Sprintf(mig, "1g.10gb", 2): 5,
	}
	got := withName(all, "DCGM_FI_DEV_FB_USED")
	maps.DeleteFunc(got, func(labels string, _ float64) bool { return !strings.HasPrefix(labels, parted) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDCGMUnits(t *testing.T) {
	all := samples(t, exporterOf(t, desktop(), FamilyDCGM))
	const labels = `{gpu="0",UUID="GPU-4090",pci_bus_id="00000000:0F:00.0",device="nvidia0",modelName="NVIDIA GeForce RTX 4090",hostname="desk",DCGM_FI_DRIVER_VERSION="550.54.15"}`
	for name, want := range map[string]float64{
		"DCGM_FI_DEV_GPU_UTIL": 57, "DCGM_FI_DEV_FB_USED": 8200, "DCGM_FI_DEV_SM_CLOCK": 2730, "DCGM_FI_DEV_POWER_USAGE": 312.471,
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 123456789, "DCGM_FI_DEV_FAN_SPEED": 104, "DCGM_FI_DEV_XID_ERRORS": 13,
		"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 4,
	} {
		if got, ok := all[name+labels]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
}

// Profiling metrics are ratios and bytes a second, as dcgm-exporter has them; of a
// device without the counters there are none.
func TestDCGMProfiling(t *testing.T) {
	all := samples(t, exporterOf(t, server(), FamilyDCGM))
	const labels = `{gpu="0",UUID="GPU-h100-a",pci_bus_id="00000000:1B:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",hostname="dgx",DCGM_FI_DRIVER_VERSION="550.54.15"}`
	for name, want := range map[string]float64{
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.004, "DCGM_FI_PROF_SM_ACTIVE": 0.002, "DCGM_FI_PROF_SM_OCCUPANCY": 0,
		"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.125, "DCGM_FI_PROF_DRAM_ACTIVE": 0.25, "DCGM_FI_PROF_PCIE_TX_BYTES": 1 << 20,
	} {
		if got, ok := all[name+labels]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "DCGM_FI_PROF_") && strings.Contains(name, "GPU-h100-f") {
			t.Errorf("in MIG mode: %s", name)
		}
	}
	for name := range samples(t, exporterOf(t, desktop())) {
		if strings.HasPrefix(name, "DCGM_FI_PROF_") || strings.HasPrefix(name, "gpuwhy_gpu_tensor_") {
			t.Errorf("of a product without counters: %s", name)
		}
	}
}

// Traffic that is measured for a moment, and not counted, has its time, and is not
// in DCGM's family, whose names promise counters.
func TestMeasuredTraffic(t *testing.T) {
	s := desktop()
	a := &s.Devices[0].Activity
	a.PCIeSent, a.PCIeReceived = gpu.Of(gpu.BytesPerSecond(350e3)), gpu.Of(gpu.BytesPerSecond(0))
	a.PCIeMeasuredAt = gpu.Of(noon.Add(-9500 * time.Millisecond))
	all := samples(t, exporterOf(t, s))
	const labels = `{node="desk",uuid="GPU-4090"}`
	for name, want := range map[string]float64{
		"gpuwhy_gpu_pcie_sent_bytes_per_second": 350e3, "gpuwhy_gpu_pcie_received_bytes_per_second": 0,
		"gpuwhy_gpu_pcie_measured_timestamp_seconds": float64(noon.UnixMicro())/1e6 - 9.5,
		"gpuwhy_gpu_encoder_sessions":                1, "gpuwhy_gpu_encoder_frames_per_second": 119, "gpuwhy_gpu_encoder_latency_seconds": 0.00421,
	} {
		if got, ok := all[name+labels]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "DCGM_FI_PROF_") || strings.HasPrefix(name, "gpuwhy_gpu_nvlink_") {
			t.Errorf("of a product without counters: %s", name)
		}
	}
}

// What dcgm-exporter exports by default is served, or said not to be had.
func TestDCGMDefaults(t *testing.T) {
	for _, name := range []string{
		"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE",
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL",
		"DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED",
		"DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
		"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_FAILURE",
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE",
		"DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES",
	} {
		served := slices.ContainsFunc(deviceRows, func(r Row[*device]) bool { return r.dcgm != nil && r.dcgm.name == name })
		_, missing := dcgmMissing[name]
		if served == missing {
			t.Errorf("%s: served %v, said to be missing %v", name, served, missing)
		}
	}
}

func TestBusID(t *testing.T) {
	for pci, want := range map[string]string{
		"0000:0f:00.0": "00000000:0F:00.0", "10000:e1:00.0": "00010000:E1:00.0", "": "",
	} {
		if got := busID(pci); got != want {
			t.Errorf("busID(%q) = %q, want %q", pci, got, want)
		}
	}
}

func TestProfile(t *testing.T) {
	for name, want := range map[string]string{
		"1g.5gb": "1g.5gb", "1c.3g.40gb": "3g.40gb", "": "",
	} {
		if got := profile(name); got != want {
			t.Errorf("profile(%q) = %q, want %q", name, got, want)
		}
	}
}

// A gatherer that fails costs what it gathers, not the readings.
func TestRuntimeFails(t *testing.T) {
	var log bytes.Buffer
	e := exporterOf(t, desktop())
	e.cfg.Log = newLogger(&log)
	e.runtime = prometheus.GathererFunc(func() (families, error) { return nil, errors.New("no /proc") })
	for range 2 {
		e.answer = nil
		if got := withName(samples(t, e), "gpuwhy_gpu_power_watts"); len(got) != 1 {
			t.Errorf("%v", got)
		}
	}
	if n := strings.Count(log.String(), "no /proc"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

// fleetOf is the fleet of one snapshot; nil for none.
func fleetOf(s *gpu.Snapshot) *insight.Fleet {
	if s == nil {
		return nil
	}
	return insight.Of(s).Alone()
}

// always has one snapshot as the newest.
func always(s *gpu.Snapshot) func() *insight.Fleet {
	f := fleetOf(s)
	return func() *insight.Fleet { return f }
}

// Of several nodes each has its own series, and one whose readings are old has
// none.
func TestSeveralNodes(t *testing.T) {
	when := noon
	moments := simulated(t, "fleet:24", when)
	moments[1] = insight.Of(old(moments[1].Snapshot, time.Minute))
	e, err := New(Config{
		Newest: func() *insight.Fleet { return insight.NewFleet(moments...) }, Self: healthy, Interval: 5 * time.Second,
		Node: "board", Now: func() time.Time { return when },
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequestWithContext(owner(t.Context()), http.MethodGet, "/metrics", nil))
	text := w.Body.String()
	for want, n := range map[string]int{
		`gpuwhy_gpus{node="node-001"} 8`: 1, `gpuwhy_gpus{node="node-002"}`: 0, `gpuwhy_gpus{node="node-003"} 8`: 1,
		"# TYPE gpuwhy_gpus gauge": 1, "\ngpuwhy_gpu_info{": 16, `gpuwhy_up{node="board"} 1`: 1, "\ngpuwhy_host_uptime_seconds{": 2,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q is there %d times, want %d", want, got, n)
		}
	}
}

// old is a snapshot that was read a while before.
func old(s *gpu.Snapshot, age time.Duration) *gpu.Snapshot {
	s = new(*s)
	s.Time = s.Time.Add(-age)
	return s
}
