package export

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/metrics/promtest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A real Prometheus takes what is sent, has what /metrics has, and knows when a series has ended.
func TestPrometheus(t *testing.T) {
	prometheus := promtest.Start(t, "global: {}\n", "--web.enable-remote-write-receiver")
	query := func(expr string, instant time.Time) []promtest.Series {
		t.Helper()
		return prometheus.Query(t, expr, strconv.FormatFloat(float64(instant.UnixMilli())/1000, 'f', 3, 64))
	}
	all, err := RemoteWrite([]string{prometheus.URL + "/api/v1/write"}, "")
	if err != nil {
		t.Fatal(err)
	}
	p := newPusher(t, t.Output(), all...)
	stop := running(t, p)
	taken := func() {
		t.Helper()
		testkit.Until(t, "Prometheus has taken all", func() bool { return p.States()[0].Waiting == 0 })
		if s := p.States()[0]; s.Err != nil || s.Failed+s.Dropped > 0 {
			t.Fatalf("%+v", s)
		}
	}
	now := time.Now().Add(-10 * time.Second).Truncate(time.Millisecond)
	p.setClock(clockAt(now))
	first := server("node-1", now)
	p.observeNow(first)
	taken()

	// All that /metrics has of the node, and no more.
	got := map[string]int{}
	for _, s := range query(`count by (__name__) ({node="node-1"})`, now) {
		n, err := strconv.Atoi(s.Value[1].(string))
		if err != nil {
			t.Fatal(err)
		}
		got[s.Metric["__name__"]] = n
	}
	want := map[string]int{}
	for _, f := range p.cfg.Metrics.Readings(first, false).Families {
		if name := f.GetName(); name[:4] != "DCGM" {
			want[name] = len(f.GetMetric())
		}
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d series, want %d", name, got[name], n)
		}
	}
	if len(got) != len(want) || len(want) < 40 {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
	one := query(`gpuwhy_gpu_power_watts{uuid="`+first.Devices[0].UUID+`"}`, now)
	power, _ := first.Devices[0].Power.Draw.Get()
	if len(one) != 1 || one[0].Value[1] != strconv.FormatFloat(float64(power), 'g', -1, 64) || one[0].Metric["instance"] != "node-1" || one[0].Metric["job"] != "gpuwhy" {
		t.Errorf("the power: %+v, want %v", one, power)
	}
	if n := len(query(`DCGM_FI_DEV_GPU_TEMP{hostname="node-1"}`, now)); n != 8 {
		t.Errorf("%d temperatures under DCGM's name", n)
	}
	sampled := float64(first.Devices[0].SampledAt.UnixMilli()) / 1000
	if s := query(`timestamp(gpuwhy_gpu_power_watts{uuid="`+first.Devices[0].UUID+`"})`, now); len(s) != 1 || s[0].Value[1] != strconv.FormatFloat(sampled, 'f', -1, 64) {
		t.Errorf("the time of a reading: %+v, want %v", s, sampled)
	}

	// A reading that is not there any more, and a device that is gone.
	second := server("node-1", now.Add(5*time.Second))
	gone := second.Devices[1].UUID
	second.Devices[0].Power.Draw = gpu.Absent[gpu.Watts](gpu.NotReported)
	second.Devices = slices.Delete(second.Devices, 1, 2)
	p.setClock(clockAt(second.Time))
	p.observeNow(second)
	taken()
	for expr, want := range map[string]int{
		`gpuwhy_gpu_power_watts`:           6,
		`gpuwhy_gpu_temperature_celsius`:   7,
		`{uuid="` + gone + `"}`:            0,
		`gpuwhy_gpu_power_watts offset 5s`: 8, // what was, was
	} {
		if n := len(query(expr, second.Time)); n != want {
			t.Errorf("%s: %d series, want %d", expr, n, want)
		}
	}

	if n := len(query(`gpuwhy_build_info{node="hub",version="v1"}`, time.Now().Add(time.Second))); n != 1 {
		t.Errorf("%d series say what the program is", n)
	}

	stop()
	if s := query(`{job="gpuwhy"}`, time.Now().Add(time.Second)); len(s) != 0 {
		t.Errorf("%d series go on after the end, such as %v", len(s), s[0].Metric)
	}
	if s := p.States()[0]; s.Err != nil || s.Waiting > 0 {
		t.Errorf("%+v", s)
	}
}

// What a request has beside series: credentials, and nothing of them in what is told.
func TestHeaders(t *testing.T) {
	got := make(chan http.Header, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case got <- r.Header:
		default:
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "credentials.yaml")
	if err := os.WriteFile(file, []byte("bearer_token: secret\nheaders: {X-Scope-OrgID: lab}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := RemoteWrite([]string{srv.URL}, file)
	if err != nil {
		t.Fatal(err)
	}
	p := newPusher(t, t.Output(), all...)
	running(t, p)
	p.observeNow(server("node-1", time.Now()))
	h := <-got
	for name, want := range map[string]string{
		"Authorization": "Bearer secret", "X-Scope-OrgID": "lab", "Content-Encoding": "snappy", "Content-Type": "application/x-protobuf",
		"X-Prometheus-Remote-Write-Version": "0.1.0", "User-Agent": "gpuwhy/v1",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, h.Get(name), want)
		}
	}
}
