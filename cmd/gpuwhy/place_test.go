package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
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

func TestSnapshotShowsWhereProcessesRun(t *testing.T) {
	r := command(t, nil, "snapshot", "--source=simulate:dgx-h100")
	for _, want := range []string{"RUNS IN", "docker vllm-llama-70b", "pod inference/triton", "job "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in the table:\n%s", want, r.stdout)
		}
	}
}

// The test's own process is itself, and one that has ended holds memory that
// is nobody's.
func TestSnapshotTellsTheLivingFromTheDead(t *testing.T) {
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dead := ended.Process.Pid
	lib, m := machine(t, fakenvml.H100())
	m.GPU(0).SetProcesses(
		fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 1 << 30, SM: 12},
		fakenvml.Process{PID: uint32(dead), Type: "compute", Memory: 2 << 30},
	)
	r := command(t, lib.Env(), "snapshot", "--json")
	var u contract.Update
	if err := json.Unmarshal([]byte(r.stdout), &u); err != nil || r.code != exitOK || len(u.GPUs) != 1 {
		t.Fatalf("exit status %d, %v:\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	g := &u.GPUs[0]
	if len(u.Notes) > 0 { // the tests run in a pid namespace of their own: nothing can be told
		for _, p := range g.Processes {
			if p.Name != "" || p.Exists != nil || p.Container != nil {
				t.Errorf("of a pid of another namespace: %+v", p)
			}
		}
		return
	}
	for _, p := range g.Processes {
		switch p.PID {
		case os.Getpid():
			if p.Name == "" || p.User == nil || p.StartedAt == nil || p.Exists == nil || !*p.Exists || value(t, "watts", p.Power) <= 0 {
				t.Errorf("our own process: %+v", p)
			}
		case dead:
			if p.Name != "" || p.Exists == nil || *p.Exists {
				t.Errorf("a process that has ended: %+v", p)
			}
		}
	}
	if o := g.Attribution.Orphans; len(o) != 1 || o[0].PID != dead || value(t, "memory", o[0].UsedMemory) != 2048 {
		t.Errorf("orphans = %+v", o)
	}
	if r := command(t, lib.Env(), "snapshot"); !strings.Contains(r.stdout, "no such process") {
		t.Errorf("the table does not say that it has ended:\n%s", r.stdout)
	}
}

func TestIdleFloorReachesViewers(t *testing.T) {
	var c commands
	if parsed, _ := parse(&c, []string{"--source=simulate:dgx-h100"}, io.Discard, io.Discard); parsed == nil {
		t.Fatal("the command line is wrong")
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	a, err := newApp(&c.Config, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		s := fixture.Orphaned() // draws 113.4 W
		s.Seq = uint64(i)
		s.Devices[0].SampledAt = s.Time.Add(time.Duration(i) * 5 * time.Second)
		s.Devices[0].IdleFloor = gpu.Reading[gpu.Watts]{}
		s.Devices[0].Processes = gpu.Of([]gpu.Process{}) // nobody holds it
		a.publish(s)
	}
	snap, encoded := a.newest()
	if snap.Devices[0].IdleFloor.Or(0) != 113.4 {
		t.Errorf("floor = %v", snap.Devices[0].IdleFloor)
	}
	if want := `"idle_floor_watts":113.4`; !strings.Contains(string(encoded), want) {
		t.Errorf("%s is not in %s", want, encoded)
	}
}
