package host

import (
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func portable(show ShowCommands) *Reader {
	r := New("/sys", show, slog.New(slog.DiscardHandler))
	r.portable, r.hint = true, gpu.Advice{}
	return r
}

// Both ways report the same about this machine.
func TestReadPortable(t *testing.T) {
	want, whole := readThisMachine(t, thisMachine)
	got, r := readThisMachine(t, portable)
	after, err := whole.Read(t.Context())
	if err != nil {
		t.Log(err) // somebody has removed a disk
	}
	if diff := cmp.Diff(want, got, readings, cmpopts.IgnoreFields(gpu.Host{},
		"OS", "Uptime", "Boot", "CPUModel", "Load1", "Load5", "Load15", "MemoryAvailable", "MemoryUsed", "SwapUsed", "Disks", "Networks",
		"Self", "Fans", "Temperatures", "NoFans", "CPUPower", "CPUThrottled", "Busiest")); diff != "" {
		t.Errorf("(-whole +portable):\n%s", diff)
	}
	// It rounds, and derives the uptime from two clocks.
	if up := got.Uptime.Or(0); up < want.Uptime.Or(0)-time.Minute || up > after.Uptime.Or(0)+time.Minute {
		t.Errorf("up for %v, want between %v and %v", up, want.Uptime, after.Uptime)
	}
	if m := got.MemoryAvailable.Or(0); m == 0 || m+got.MemoryUsed.Or(0) != got.MemoryTotal.Or(1) {
		t.Errorf("memory: %v + %v of %v", got.MemoryUsed, m, got.MemoryTotal)
	}
	if !got.Load1.Present() || got.OS == "" || got.Self.RSS.Or(0) < 1<<20 || got.CPU.Present() {
		t.Errorf("read %+v", got)
	}
	for _, d := range got.Disks {
		if d.Total.Or(0) == 0 || d.Used.Or(0) > d.Total.Or(0) {
			t.Errorf("disk %+v", d)
		}
	}
	for _, n := range got.Networks {
		if n.Name == "lo" || n.ReceivedTotal.Or(0)+n.SentTotal.Or(0) == 0 {
			t.Errorf("network %+v", n)
		}
	}
	readRates(t, r)
}

// Both ways report the same about a process.
func TestDescribePortable(t *testing.T) {
	pid, end := child(t, "--token", "hunter2", "--epochs=3")
	whole, r := thisMachine(ShowNames), portable(ShowNames)
	want, got := facts(t, whole, pid), facts(t, r, pid)
	if got.Started.Or(time.Time{}).Sub(want.Started.Or(time.Time{})).Abs() > 2*time.Second {
		t.Errorf("started %v and %v", want.Started, got.Started)
	}
	want.Started, want.RSS, want.Container, want.Pod, want.Unit, want.Job = got.Started, got.RSS, got.Container, got.Pod, got.Unit, got.Job
	if want != got {
		t.Errorf("whole:    %+v\nportable: %+v", want, got)
	}
	if got.RSS.Or(0) == 0 || !got.Command.Present() || got.Container.Quality() != gpu.NotSupported {
		t.Errorf("%+v", got)
	}
	if hidden := facts(t, portable(ShowNone), pid); hidden.Command.Quality() != gpu.NotPermitted || hidden.Name != got.Name {
		t.Errorf("hidden: %+v", hidden)
	}
	end()
	if got = facts(t, r, pid); got.Exists != gpu.Of(false) || got.Name.Present() || len(r.known) != 0 {
		t.Errorf("after its end: %+v, %d known", got, len(r.known))
	}
	if got = facts(t, r, -1); got.Exists.Present() {
		t.Errorf("of no pid: %+v", got)
	}
}

func TestUnixNames(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`C:\Python312\python.exe|C:\work\train.py|--token|x`, "train.py"},
		{`C:\Program Files\Blender\blender.exe|-b|C:\x\scene.blend`, "blender"},
		{`python.exe|-m|vllm.entrypoints.openai.api_server`, "vllm serve"},
	} {
		args := strings.Split(tt.line, "|")
		if got := programOf(path.Base(unixNames(args)[0]), unixNames(args)); got != tt.want {
			t.Errorf("%s is %q, want %q", tt.line, got, tt.want)
		}
	}
}
