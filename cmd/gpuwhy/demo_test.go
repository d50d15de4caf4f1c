//go:build !race

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// "make demo" begins with a quarter of an hour of past that the program knows as if it had run then, all of it marked as simulated. The
// commands that it prints work, and it removes what it wrote.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := new(logBuffer)
	demo := exec.CommandContext(t.Context(), top+"/tools/demo", binary, "--listen", "127.0.0.1:0")
	demo.Env = append(os.Environ(), "TMPDIR="+dir)
	demo.Stdout, demo.Stderr = said, said
	demo.Cancel = func() error { return demo.Process.Signal(os.Interrupt) }
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			if err := demo.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			_ = demo.Wait() // it ends by a signal
		}
	}
	t.Cleanup(end)
	said.await(t, "Ctrl-C ends it")
	if !strings.Contains(said.String(), "SIMULATED") {
		t.Errorf("it does not say that it is simulated:\n%s", said)
	}
	answers := map[string]string{}
	for line := range strings.Lines(said.String()) {
		line, is := strings.CutPrefix(line, "  ")
		if !is {
			continue
		}
		words := strings.Fields(line)
		r := command(t, nil, words[1:]...)
		if r.code != exitOK {
			t.Errorf("%s exits with status %d: %s", line, r.code, r.stderr)
		}
		answers[words[1]] = r.stdout
	}
	for name, texts := range map[string][]string{
		"why":      {"SIMULATED", "blender (ben)", "GPU 2", "slows down"},
		"top":      {"SIMULATED", "blender (ben)", "WATTS"},
		"past":     {"SIMULATED", "train.py of anna", "blender of ben"},
		"sessions": {"SIMULATED", "anna", "ben", "ended"},
		"usage":    {"SIMULATED", "anna", "ben"},
		"do":       {"Silenced until"},
	} {
		for _, text := range texts {
			if !strings.Contains(answers[name], text) {
				t.Errorf("gpuwhy %s does not say %q:\n%s", name, text, answers[name])
			}
		}
	}
	url := said.String()[strings.Index(said.String(), "http://"):]
	url, _, _ = strings.Cut(url, "\n")
	var history struct {
		Kinds []string `json:"gpu_kinds"`
		GPUs  []struct {
			Metrics struct {
				Power struct {
					Mean []*float64 `json:"mean"`
				} `json:"power_draw"`
			} `json:"metrics"`
		} `json:"gpus"`
	}
	testkit.Until(t, "each of the minutes before the start has been written", func() bool {
		answer, err := http.Get(url + "api/gpu/history?metric=power_draw&gpu=2&from=-14m&step=1m") //nolint:noctx // on loopback
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(answer.Body).Decode(&history); err != nil {
			t.Fatal(err)
		}
		return len(history.GPUs) == 1 && len(history.GPUs[0].Metrics.Power.Mean) >= 12 && !slices.Contains(history.GPUs[0].Metrics.Power.Mean, nil)
	}, said)
	if len(history.Kinds) != 1 || history.Kinds[0] != "simulated" {
		t.Errorf("the past is of the kinds %q", history.Kinds)
	}
	if mean := history.GPUs[0].Metrics.Power.Mean; *mean[0] > 30 || *mean[len(mean)-1] < 350 {
		t.Errorf("GPU 2 draws %.0f W at first and %.0f W at last", *mean[0], *mean[len(mean)-1])
	}
	end()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v: %v", left, err)
	}
}
