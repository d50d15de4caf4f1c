//go:build !race && linux

package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVar is the environment variable that makes this program a server, its viewers or a part of a fleet.
const roleVar = "GPUWHY_BENCH_ROLE"

// A role is what a process of the benchmarks does: it says when it is ready, then answers
// each line of its input with a line of JSON. It ends with its input.
type role struct {
	Server string // the kind of it, if it is one
	Size   int    // of the constant
	Crowd  *crowdConfig
	Agents *agentsConfig
	NATS   string // the folder of a NATS, if it is one
}

func TestMain(m *testing.M) {
	text := os.Getenv(roleVar)
	if text == "" {
		os.Exit(m.Run())
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = raiseLimit()
	}
	switch {
	case err != nil:
	case r.Crowd != nil:
		err = runCrowd(r.Crowd)
	case r.Agents != nil:
		err = runAgents(r.Agents)
	case r.NATS != "":
		err = runNATS(r.NATS)
	default:
		err = runServer(r.Server, r.Size)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// raiseLimit raises the process's limit of descriptors as far as allowed.
func raiseLimit() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
}

// converse says hello, and answers each line of the input.
func converse(hello any, answer func(words []string) (any, error)) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(hello); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		reply, err := answer(strings.Fields(in.Text()))
		if err == nil {
			err = out.Encode(reply)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", in.Text(), err)
		}
	}
	return in.Err()
}

// number returns the number at a position of a command.
func number(words []string, index int) (int64, error) {
	if index >= len(words) {
		return 0, errors.New("a number is missing")
	}
	return strconv.ParseInt(words[index], 10, 64)
}

// A process is a process that a benchmark started.
type process struct {
	tb  testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out io.Reader
	say *json.Decoder // of out
}

// begin starts this program in a role, and waits for its hello.
func begin(tb testing.TB, r role, hello any) *process {
	tb.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"="+string(text))
	p := launch(tb, cmd)
	p.decode("its start", hello)
	return p
}

// launch starts a command, which ends with the benchmark.
func launch(tb testing.TB, cmd *exec.Cmd) *process {
	tb.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ours, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	p := &process{tb: tb, cmd: cmd, in: ours, out: out, say: json.NewDecoder(out)}
	tb.Cleanup(p.end)
	return p
}

// end kills the process, once.
func (p *process) end() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // Wait says how it ended
		_ = p.cmd.Wait()         // it was killed
	}
}

// ask makes the process do something and decodes its answer.
func (p *process) ask(into any, format string, args ...any) {
	p.tb.Helper()
	line := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.tb.Fatalf("%s: %v", line, err)
	}
	p.decode(line, into)
}

func (p *process) decode(what string, into any) {
	p.tb.Helper()
	if err := p.say.Decode(into); err != nil {
		p.tb.Fatalf("%s: no answer: %v", what, err)
	}
}

// cpu returns the CPU time of the process's threads, as the scheduler counts it, including the kernel's.
func (p *process) cpu() time.Duration {
	p.tb.Helper()
	files, err := filepath.Glob(p.proc("task/*/schedstat"))
	if err != nil || len(files) == 0 {
		p.tb.Fatalf("no threads of process %d: %v", p.cmd.Process.Pid, err)
	}
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended just now
		}
		if err != nil {
			p.tb.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), " ")
		ran, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			p.tb.Fatalf("%s: %v", file, err)
		}
		sum += time.Duration(ran)
	}
	return sum
}

// anonymous returns the resident memory that does not belong to a file, in kB.
func (p *process) anonymous() float64 { return p.value("status", "RssAnon") }

// writes returns how many calls to write and similar functions the process has made.
func (p *process) writes() float64 { return p.value("io", "syscw") }

// descriptors returns how many descriptors are open.
func (p *process) descriptors() int {
	p.tb.Helper()
	entries, err := os.ReadDir(p.proc("fd"))
	if err != nil {
		p.tb.Fatal(err)
	}
	return len(entries)
}

// value returns the value of a line "name: value" of a file in /proc.
func (p *process) value(file, name string) float64 {
	p.tb.Helper()
	text, err := os.ReadFile(p.proc(file))
	if err != nil {
		p.tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, name+":"); is {
			v, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				p.tb.Fatal(err)
			}
			return v
		}
	}
	p.tb.Fatalf("%s has no %s", p.proc(file), name)
	return 0
}

func (p *process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

// now returns the machine's clock, which is the same in all processes.
func now() (int64, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano(), err
}
