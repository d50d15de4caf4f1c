//go:build linux

package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// gpuwhy builds the program, starts it with a simulation, and says where it listens.
func gpuwhy(tb testing.TB, simulation string, args ...string) (p *process, addr string) {
	tb.Helper()
	dir := tb.TempDir()
	binary := filepath.Join(dir, "gpuwhy")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/gpuwhy").CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, append([]string{"--source=simulate:" + simulation, "--listen=127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "GPUWHY_KERNEL_LOG="+os.DevNull, "GPUWHY_STATE_DIR="+dir)
	cmd.Stderr = io.Discard
	p = launch(tb, cmd)
	line, err := bufio.NewReader(p.out).ReadString('\n')
	_, addr, found := strings.Cut(strings.TrimSpace(line), "http://")
	if err != nil || !found {
		tb.Fatalf("gpuwhy did not say where it listens: %q, %v", line, err)
	}
	return p, strings.TrimSuffix(addr, "/")
}

// eight is the simulation of a machine with eight GPUs.
const eight = "dgx-h100"

// BenchmarkSummaryToConstant is /api/gpu/summary, asked for on 64 connections all the
// time, beside a constant of the same size from net/http, in turn.
func BenchmarkSummaryToConstant(b *testing.B) {
	const path = "/api/gpu/summary"
	program, addr := gpuwhy(b, eight)
	var summary contract.Summary
	size := 0
	for begun := time.Now(); summary.Answering == 0; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close(), json.Unmarshal(body, &summary)); err != nil || time.Since(begun) > patience {
			b.Fatalf("no readings: %v, %s", err, body)
		}
		size = len(body)
	}
	var at hello
	constant := begin(b, role{Server: kindConstant, Size: size}, &at)
	gets := func(addr string) *process {
		var connected int
		return begin(b, role{Crowd: &crowdConfig{Addr: addr, Path: path, Viewers: 64, Does: doesGet}}, &connected)
	}
	clients := map[*process]*process{program: gets(addr), constant: gets(at.Addr)}
	rate := map[*process][]float64{} // requests for each second of CPU
	for range 5 {
		for _, server := range []*process{constant, program} {
			var got int
			before := server.cpu()
			clients[server].ask(&got, "get 1500")
			rate[server] = append(rate[server], float64(got)/(server.cpu()-before).Seconds())
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(size), "bytes")
	b.ReportMetric(median(rate[program]), "requests/cpu-s")
	b.ReportMetric(median(quotients(rate[program], rate[constant])), "x-constant-requests")
}
