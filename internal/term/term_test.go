package term

import (
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

func TestRunsIn(t *testing.T) {
	const id = "4f3a9c1e7b25d806f1c4a3b2e5d69788c0a1b2c3d4e5f60718293a4b5c6d7e8f"
	const uid = "0b5e3a1c-6f2d-4c8e-9a71-2d4f6b8c0e13"
	service := gpu.Of(gpu.Unit{Name: "ollama.service", Slice: "system.slice"})
	for want, f := range map[string]gpu.ProcessFacts{
		"-":                      {},
		"ollama.service":         {Unit: service, Container: gpu.Of(gpu.Container{}), Pod: gpu.Of(gpu.Pod{}), Job: gpu.Of(gpu.Job{})},
		"docker vllm":            {Unit: service, Container: gpu.Of(gpu.Container{ID: id, Runtime: gpu.RuntimeDocker, Name: gpu.Of("vllm")})},
		"podman 4f3a9c1e7b25":    {Container: gpu.Of(gpu.Container{ID: id, Runtime: gpu.RuntimePodman})},
		"container 4f3a9c1e7b25": {Container: gpu.Of(gpu.Container{ID: id})},
		"lxc lab":                {Container: gpu.Of(gpu.Container{ID: "lab", Runtime: gpu.RuntimeLXC})},
		"pod ml/train-0":         {Container: gpu.Of(gpu.Container{ID: id}), Pod: gpu.Of(gpu.Pod{UID: uid, Namespace: gpu.Of("ml"), Name: gpu.Of("train-0")})},
		"pod 0b5e3a1c-6f2":       {Container: gpu.Of(gpu.Container{ID: id}), Pod: gpu.Of(gpu.Pod{UID: uid})},
		"job 280678":             {Unit: service, Job: gpu.Of(gpu.Job{ID: 280678, Step: "0"})},
		"podman sim, job 9":      {Container: gpu.Of(gpu.Container{ID: id, Runtime: gpu.RuntimePodman, Name: gpu.Of("sim")}), Job: gpu.Of(gpu.Job{ID: 9})},
	} {
		if got := runsIn(&f); got != want {
			t.Errorf("%+v runs in %q, want %q", f, got, want)
		}
	}
}

// Without a device the table is about the machine.
func TestTableOfAMachine(t *testing.T) {
	var b strings.Builder
	s := fixture.Named("no card", fixture.Time).Snapshot
	s.Host.Fans[1].Name = "fan\x1b[31m"
	f := (*insight.Fleet)(nil).With(insight.Of(s))
	if err := Table(Screen{Writer: &b}, f, false); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"cc1plus (31 processes, ann) keeps the CPU busy at 94 %", "CPU fan", "2210 RPM", "88 °C", "0 RPM", "session-4.scope", "2710 %", "fan\ufffd[31m"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing in\n%s", part, b.String())
		}
	}
}
