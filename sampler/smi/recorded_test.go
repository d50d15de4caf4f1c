package smi

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

func record(t *testing.T, m *fakesmi.Machine) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for _, p := range Record(t.Context(), Program(m.Program()), testkit.Patience, 1<<20) {
		if p.Err != nil && p.Name != listFile {
			t.Errorf("%s: %v", p.Name, p.Err)
		}
		files[p.Name] = &fstest.MapFile{Data: p.Text}
	}
	return files
}

// lasting returns what a reading says, without the times.
func lasting(snap *gpu.Snapshot) (all []string) {
	for _, d := range snap.Devices {
		d.SampledAt, d.Since = time.Time{}, time.Time{}
		line, err := gpu.MarshalRecord(&gpu.Snapshot{Devices: []gpu.Device{d}})
		if err != nil {
			panic(err)
		}
		all = append(all, strings.SplitAfter(string(line), ",")...)
	}
	return all
}

// A recording is read exactly as the machine itself was.
func TestRecordedMachines(t *testing.T) {
	for _, name := range fakesmi.Names() {
		t.Run(name, func(t *testing.T) {
			m := machine(t, name)
			want := lasting(whole(t, source(t, m)))
			files := record(t, m)
			if len(files) != 6 {
				t.Errorf("%d files", len(files))
			}
			got := lasting(whole(t, source(t, m, func(c *Config) { c.Run, c.Program = Recorded(files), "" })))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRecordedRefusals(t *testing.T) {
	m := machine(t, "blackwell-570")
	run := Recorded(record(t, m))
	ask := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), &out, io.Discard, args...)
		return out.String(), err
	}
	const format = "--format=csv,noheader,nounits"
	all, err := ask("--query-gpu=index,uuid", format)
	one, oneErr := ask("--query-gpu=index,uuid", format, "--id="+m.Addresses()[1])
	if strings.Count(all, "\n") != 2 || err != nil || oneErr != nil || !strings.HasSuffix(all, one) || !strings.HasPrefix(one, "1, GPU-") {
		t.Errorf("all are %q, %v; one is %q, %v", all, err, one, oneErr)
	}
	for text, args := range map[string][]string{
		`"warmth" is not a valid field`: {"--query-gpu=index,warmth", format},
		"not supported":                 {"-q", "-x", "--id=1"},
		"Invalid combination":           {"--reset"},
	} {
		if out, err := ask(args...); err == nil || !strings.Contains(out, text) {
			t.Errorf("%v: %q, %v; want %q", args, out, err, text)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := run(ended, io.Discard, io.Discard, "-L"); err == nil {
		t.Error("a command ran after its end")
	}
	if out, err := func() (string, error) {
		var out bytes.Buffer
		err := Recorded(fstest.MapFS{})(t.Context(), &out, io.Discard, "--query-gpu=index", format)
		return out.String(), err
	}(); err == nil || !strings.Contains(out, "No devices") {
		t.Errorf("an empty recording: %q, %v", out, err)
	}
}
