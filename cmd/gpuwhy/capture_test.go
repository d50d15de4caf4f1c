//go:build !race && linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// recordUntil records a machine until there are so many readings, then stops the recording as
// Ctrl-C does. It returns the program's output.
func recordUntil(t *testing.T, dir string, readings int, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"capture", dir, "--for=1h", "--every=250ms"}, args...)...)
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), env...)
	var out, log logBuffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // it has ended, unless the test has failed
	testkit.Until(t, fmt.Sprintf("there are %d readings", readings), func() bool {
		text, err := os.ReadFile(filepath.Join(dir, recording.ReadingsFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte("\n")) >= readings
	}, &log)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("it ended with %v\n%s", err, &log)
	}
	if !strings.Contains(log.String(), "recording into") {
		t.Errorf("it did not say that it records:\n%s", &log)
	}
	return out.String()
}

// A recorded machine can be played: the page, the API and the metrics say that it is a
// recording, and have the machine's values.
func TestCaptureAndReplay(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090().At(0x41))
	others := drmtest.In(t, m.SysfsRoot, m.ProcRoot)
	others.Load("radeon-rx-7900-xtx")
	others.Open(fakenvml.NoProcess, 7, "dri/renderD128", "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\n")
	m.GPU(0).Set(fakenvml.Temperature, 71)
	program := fakesmi.New(t, "rtx4090-550")
	dir := filepath.Join(t.TempDir(), "capture")
	machineArgs := []string{"--node=looking-glass", "--sysfs-root=" + m.SysfsRoot, "--proc-root=" + m.ProcRoot, "--nvidia-smi=" + program.Program()}
	said := recordUntil(t, dir, 4, lib.Env(), machineArgs...)
	for _, want := range []string{"readings over", "Replaced by numbers: ", "hosts: 2", "Read it before you send it", "--source replay:" + dir} {
		if !strings.Contains(said, want) {
			t.Errorf("it did not say %q:\n%s", want, said)
		}
	}
	c, err := recording.Open(dir)
	if err != nil || c.Len() < 4 || len(c.Unread) != 0 || c.Readings != c.Len() || c.Ended.IsZero() || !slices.Equal(c.Sources, []string{"auto"}) {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, name := range []string{"raw/sysfs.txt", "raw/proc.txt", "raw/nvidia-smi/query.xml", "raw/nvidia-smi/commands.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if strings.Contains(string(text), "looking-glass") {
			t.Errorf("the machine's name is in %s", file)
		}
		return err
	}); err != nil {
		t.Error(err)
	}

	if r := command(t, lib.Env(), append([]string{"capture", dir}, machineArgs...)...); r.code != exitError || !strings.Contains(r.stderr, "is not empty") {
		t.Errorf("a second recording into it: exit status %d, %s", r.code, r.stderr)
	}

	p := start(t, nil, fast, "--source=replay:"+dir)
	u := p.await("both are played", func(u contract.Update) bool { return u.Answering == 2 })
	if u.Source != gpu.SourceRecorded || !strings.HasPrefix(u.Node, "host-") {
		t.Errorf("source %q, node %v", u.Source, u.Node)
	}
	if note := strings.Join(u.Notes, "\n"); !strings.Contains(note, "his is a recording of "+c.Began.UTC().Format("2006-01-02 15:04 MST")) {
		t.Errorf("the notes are %q", u.Notes)
	}
	recorded := c.Reading(0)
	for i := range u.GPUs {
		g := &u.GPUs[i]
		d, ok := recorded.Device(g.UUID)
		if !ok {
			t.Fatalf("there is no %s in the recording", g.UUID)
		}
		if g.Source != gpu.SourceRecorded || g.Name != d.Name || g.Temperature.GPU != d.Thermal.GPU || g.Utilization.GPU != d.Utilization.GPU ||
			len(g.Fans) != len(d.Fans.Fans) || g.SampledAt == nil || !moment(t, g.SampledAt).After(c.Ended) {
			t.Errorf("%+v is played, of %+v", g, d)
		}
	}
	if warm := value(t, "temperature", u.GPUs[1].Temperature.GPU); warm != 71 {
		t.Errorf("the card was recorded at 71 °C, and is played at %v", warm)
	}
	_, page := p.fetch("/", http.Header{"Accept": {"text/html"}})
	if !strings.Contains(string(page), `<span>Recorded</span>`) {
		t.Error("the page does not say that it shows a recording")
	}
	if _, docs := p.fetch("/redoc", nil); !strings.Contains(string(docs), "<strong>Recorded data.</strong>") {
		t.Error("the documents do not say that this is a recording")
	}
	for path, want := range map[string]string{
		"/api/gpu/summary": `"source":"recorded"`, "/api/gpu/metrics": `"source":"recorded"`, "/api/gpu/why": `"source":"recorded"`,
		"/metrics": "gpuwhy_recorded{node=\"" + u.Node + "\"} 1",
	} {
		if _, body := p.fetch(path, nil); !strings.Contains(string(body), want) {
			t.Errorf("%s does not say %s: %.2000s", path, want, body)
		}
	}
	if r := command(t, nil, "snapshot", "--source=replay:"+dir); r.code != exitOK || !strings.HasPrefix(r.stdout, "RECORDED: ") {
		t.Errorf("snapshot: exit status %d: %s", r.code, r.stdout)
	}
}

func TestCapturesThatDoNotFit(t *testing.T) {
	t.Parallel()
	made := filepath.Join(top, "sampler/captures/arc-b580")
	for _, tt := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"check-config", "--source=replay:/nowhere"}, "has no capture.yaml", exitUsage},
		{[]string{"check-config", "--source=nvml,replay:" + made}, "can't be combined", exitUsage},
		{[]string{"check-config", "--source=replay:" + made, "--pcie-throughput"}, "has no effect", exitUsage},
		{[]string{"check-config", "--source=replay:" + made}, "", exitOK},
		{[]string{"capture", filepath.Join(t.TempDir(), "x"), "--source=replay:" + made}, "copy its folder", exitUsage},
		{[]string{"capture", filepath.Join(t.TempDir(), "x"), "--source=simulate:rtx-4090"}, "nothing in it is real", exitUsage},
		{[]string{"capture", filepath.Join(t.TempDir(), "x"), "--for=1ms"}, "from 1s to 24h", exitUsage},
		{[]string{"capture", filepath.Join(t.TempDir(), "x"), "--every=1ms"}, "from 250ms to 1h", exitUsage},
		{[]string{"capture", "/proc/x"}, "name another folder", exitError},
		{[]string{"capture"}, "dir", exitUsage},
	} {
		if r := command(t, nil, tt.args...); r.code != tt.code || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("%v: exit status %d, %s", tt.args, r.code, r.stderr)
		}
	}
}

// The sources that read a vendor's format play made-up cards in it.
func TestRawCapture(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "snapshot", "--source=replay:"+filepath.Join(top, "sampler/captures/arc-b580"))
	if r.code != exitOK || !strings.Contains(r.stdout, "Intel Arc B580") || !strings.Contains(r.stdout, "blender") || !strings.HasPrefix(r.stdout, "RECORDED: ") {
		t.Errorf("exit status %d: %s\n%s", r.code, r.stdout, r.stderr)
	}
}
