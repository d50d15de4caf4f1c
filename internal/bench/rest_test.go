//go:build !race && linux

package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// built is the program.
func built(tb testing.TB) string {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), "gpuwhy")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/gpuwhy").CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// gpuwhy builds the program, starts it with a simulation, and returns where it listens.
func gpuwhy(tb testing.TB, simulation string, args ...string) (p *process, addr string) {
	tb.Helper()
	cmd := exec.Command(built(tb), append([]string{"--source=simulate:" + simulation}, args...)...)
	cmd.Stderr = io.Discard
	return listening(tb, cmd)
}

// listening starts the program with a page, and returns where it listens.
func listening(tb testing.TB, cmd *exec.Cmd) (p *process, addr string) {
	tb.Helper()
	cmd.Args = append(cmd.Args, "--listen=127.0.0.1:0")
	cmd.Env = append(os.Environ(), append(cmd.Env, "GPUWHY_KERNEL_LOG="+os.DevNull, "GPUWHY_STATE_DIR="+tb.TempDir())...)
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

// BenchmarkSummaryToConstant compares /api/gpu/summary, requested all the time on 64
// connections, whole, compressed, and with a current ETag, with a constant of the same size
// from net/http, by turns.
func BenchmarkSummaryToConstant(b *testing.B) {
	const path = "/api/gpu/summary"
	program, addr := gpuwhy(b, eight)
	ask := func() (summary contract.Summary, size int) {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close(), json.Unmarshal(body, &summary)); err != nil {
			b.Fatalf("%v: %s", err, body)
		}
		return summary, len(body)
	}
	testkit.Until(b, "a GPU answers", func() bool {
		summary, _ := ask()
		return summary.Answering > 0
	})
	time.Sleep(6 * time.Second) // the next reading says more
	_, size := ask()
	var greeting hello
	constant := begin(b, role{Server: kindConstant, Size: size}, &greeting)
	type asked struct {
		answer          string
		server, clients *process
		rate            []float64 // requests for each second of CPU, of rounds
	}
	begins := func(answer string, server *process, cfg crowdConfig) *asked {
		cfg.Path, cfg.Viewers, cfg.Does = path, 64, doesGet
		var connected int
		return &asked{answer: answer, server: server, clients: begin(b, role{Crowd: &cfg}, &connected)}
	}
	all := []*asked{
		begins("constant", constant, crowdConfig{Addr: greeting.Addr}),
		begins("whole", program, crowdConfig{Addr: addr}),
		begins("compressed", program, crowdConfig{Addr: addr, Header: "Accept-Encoding: gzip\r\n"}),
		begins("same", program, crowdConfig{Addr: addr, Again: true}),
	}
	for range 7 {
		for _, a := range all {
			var got gotten
			before := a.server.cpu()
			a.clients.ask(&got, "get 1000")
			a.rate = append(a.rate, float64(got.Answers)/(a.server.cpu()-before).Seconds())
			if share := float64(got.Same) / float64(got.Answers); (a.answer == "same") != (share > 0.9) {
				b.Fatalf("%s: %.2f of the answers are 304", a.answer, share)
			}
		}
	}
	if _, then := ask(); math.Abs(float64(then-size)) > 0.1*float64(size) {
		b.Errorf("the answer had %d bytes, as the constant, and has %d", size, then)
	}
	for _, a := range all {
		b.Run("answer="+a.answer, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(size), "bytes-whole")
			b.ReportMetric(median(a.rate), "requests/cpu-s")
			b.ReportMetric(median(quotients(a.rate, all[0].rate)), "x-constant-requests")
			b.ReportMetric(median(quotients(a.rate, all[1].rate)), "x-whole-requests")
		})
	}
}

// BenchmarkTick measures the cost of a reading of eight GPUs for each of 2,000 viewers of the whole program: whole, compressed
// and as patches, at four readings a second.
func BenchmarkTick(b *testing.B) {
	const viewers, seconds = 2000, 5
	program, addr := gpuwhy(b, eight, "--interval=250ms", fmt.Sprintf("--max-viewers=%d", 5*viewers))
	type form struct {
		name       string
		cfg        crowdConfig
		cpu, bytes []float64
	}
	forms := []*form{
		{name: "whole"}, {name: "compressed", cfg: crowdConfig{Deflate: true}},
		{name: "patches", cfg: crowdConfig{Delta: true}}, {name: "patches-compressed", cfg: crowdConfig{Delta: true, Deflate: true}},
	}
	descriptors := program.descriptors()
	for range 3 {
		for _, f := range forms {
			f.cfg.Addr, f.cfg.Path, f.cfg.Viewers, f.cfg.Does = addr, "/ws", viewers, doesRead
			var connected int
			var got counted
			crowd := begin(b, role{Crowd: &f.cfg}, &connected)
			crowd.ask(&got, "count 1") // what came with the beginning
			before := program.cpu()
			crowd.ask(&got, "count %d", seconds)
			f.cpu = append(f.cpu, (program.cpu()-before).Seconds()*1e6/float64(got.Messages))
			f.bytes = append(f.bytes, float64(got.Bytes)/float64(got.Messages))
			crowd.end()
			testkit.Until(b, "the viewers are gone", func() bool { return program.descriptors() <= descriptors+10 })
		}
	}
	for _, f := range forms {
		b.Run("form="+f.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(f.bytes), "bytes/msg")
			b.ReportMetric(median(f.cpu), "us-cpu/msg")
			b.ReportMetric(median(quotients(f.cpu, forms[0].cpu)), "x-whole-cpu")
		})
	}
}
