//go:build !race

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

func TestSnapshotShowsWhereProcessesRun(t *testing.T) {
	t.Parallel()
	r := inside("snapshot", "--source=simulate:dgx-h100")
	for _, want := range []string{"RUNS IN", "docker vllm-llama-70b", "pod inference/triton", "job "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in the table:\n%s", want, r.stdout)
		}
	}
}

// The test's own process appears as itself, and the memory of a process that does not
// exist belongs to nobody.
func TestSnapshotTellsTheLivingFromTheDead(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.H100())
	m.GPU(0).SetProcesses(
		fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 1 << 30, SM: 12},
		fakenvml.Process{PID: fakenvml.NoProcess, Type: "compute", Memory: 2 << 30},
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
			if p.Name == "" || p.User == nil || !p.StartedAt.Present() || p.Exists == nil || !*p.Exists || value(t, "watts", p.Power) <= 0 {
				t.Errorf("our own process: %+v", p)
			}
		case fakenvml.NoProcess:
			if p.Name != "" || p.Exists == nil || *p.Exists {
				t.Errorf("a process that has ended: %+v", p)
			}
		}
	}
	if o := g.Attribution.Orphans; len(o) != 1 || o[0].PID != fakenvml.NoProcess || value(t, "memory", o[0].UsedMemory) != 2048 {
		t.Errorf("orphans = %+v", o)
	}
	if r := command(t, lib.Env(), "snapshot"); !strings.Contains(r.stdout, "(process has ended)") {
		t.Errorf("the table does not say that it has ended:\n%s", r.stdout)
	}
}
