package kube

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/kube/fakekube"
)

// A node is read as its nvidia-smi would be on the machine, through one stream or with an exec per reading.
func TestModes(t *testing.T) {
	for _, mode := range []Mode{Loop, Once, Auto} {
		t.Run(string(mode), func(t *testing.T) {
			s, m := lab(t)
			f := watch(t, parsed(t, s.URL, "mode: "+string(mode)+"\n"))
			snap := f.well("gpu-1")
			d := snap.Devices[0]
			if snap.Source != gpu.SourceKubernetes || d.Source != gpu.SourceKubernetes || d.Name != "NVIDIA GeForce RTX 4090" {
				t.Errorf("%s of %s, %s", d.Name, d.Source, snap.Source)
			}
			m.Set(m.Addresses()[0], "temperature.gpu", "83")
			f.reads("gpu-1", "another temperature", func(snap *gpu.Snapshot, err error) bool {
				return err == nil && len(snap.Devices) > 0 && snap.Devices[0].Thermal.GPU.Or(0) == 83
			})
			f.until("many commands are executed", func() bool { return m.Count(" start ") >= 20 }) // at most four at a time
			if counts := s.Counts(); mode == Once == (counts.Execs < 4) {
				t.Errorf("%s: %+v", mode, counts)
			}
			f.is(OK)
			f.end()
			f.until("everything ends in the container", func() bool { c := s.Counts(); return c.Ended == c.Commands })
		})
	}
}

// A node's problem is reported, and ends when it is over.
func TestTrouble(t *testing.T) {
	s, m := lab(t)
	folder := filepath.Dir(m.Program())
	f := watch(t, parsed(t, s.URL, ""))
	f.well("gpu-1")
	pod := func(change ...func(map[string]any)) { s.Pod("gpu-operator", "driver-1", "gpu-1", folder, change...) }
	for _, tt := range []struct {
		name, says string
		begin, end func()
		err        error
	}{
		{"restarting", "is restarting (CrashLoopBackOff)", func() { pod(fakekube.Container("nvidia-driver-ctr", false, 1, "waiting")); s.Cut() }, func() { pod() }, gpu.ErrNoDriver},
		{"not ready", "is not ready", func() { pod(fakekube.Container("nvidia-driver-ctr", false, 1, "running")) }, func() { pod() }, gpu.ErrNoDriver},
		{"no pod", "no driver pod runs on node gpu-1", func() { s.Remove("pods", "gpu-operator", "driver-1") }, func() { pod() }, gpu.ErrNoDriver},
		{"another container", "has no container", func() { pod(fakekube.Container("other", true, 0, "running")) }, func() { pod() }, gpu.ErrNoDriver},
		{"node not ready", "container runtime is down", func() { s.Node("gpu-1", fakekube.Ready(false)) }, func() { s.Node("gpu-1") }, gpu.ErrNotAnswering},
		{
			"no right", "the right to get on pods/exec", func() { s.Deny("get pods/exec", true); s.Cut() },
			func() { s.Deny("get pods/exec", false) }, gpu.ErrNotPermitted,
		},
		{"no nvidia-smi", "no nvidia-smi", m.Hide, func() { m.Show(); pod(fakekube.Container("nvidia-driver-ctr", true, 2, "running")) }, gpu.ErrNoDriver},
		{"no driver", "not loaded", func() {
			m.Fault("fail 9 NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
		}, func() { m.Heal("fail") }, gpu.ErrNoDriver},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.begin()
			if a := f.says("gpu-1", tt.says); !errors.Is(a, tt.err) {
				t.Errorf("%v is no %v", a, tt.err)
			}
			tt.end()
			f.well("gpu-1")
		})
	}
}

// A cluster says what is wrong with it as a whole.
func TestConditions(t *testing.T) {
	s := fakekube.New(t)
	f := watch(t, parsed(t, s.URL, ""))
	f.is(NoGPUNodes)
	s.Node("cpu-1", fakekube.Capacity(map[string]any{"cpu": "4", "nvidia.com/gpu": "0"}))
	s.Node("gpu-1", fakekube.Capacity(map[string]any{"nvidia.com/mig-1g.10gb": "7"}))
	f.is(NoOperator)
	if _, there := f.node("cpu-1"); there {
		t.Error("a node without a GPU joins")
	}
	m, folder := machine(t, "rtx4090-550")
	s.Pod("gpu-operator", "driver-1", "gpu-1", folder)
	f.is(OK)
	f.well("gpu-1")
	s.Remove("nodes", "", "gpu-1")
	f.is(NoGPUNodes)
	f.until("it leaves", func() bool { _, there := f.node("gpu-1"); return !there })
	f.until("its commands end", func() bool { return len(m.Running()) == 0 })

	s.Deny("list nodes", true)
	s.Deny("watch nodes", true)
	s.CloseClientConnections()
	f.is(Forbidden)
	s.Deny("list nodes", false)
	s.Deny("watch nodes", false)
	f.is(NoGPUNodes)
}

// An API server that goes away and returns is reported, and reading continues by itself.
func TestServerAway(t *testing.T) {
	s, _ := lab(t)
	f := watch(t, parsed(t, s.URL, ""))
	f.well("gpu-1")
	s.Away(true)
	f.is(Unreachable)
	_ = f.says("gpu-1", "can't be")
	if _, there := f.node("gpu-1"); !there {
		t.Error("the node has left")
	}
	s.Away(false)
	f.is(OK)
	f.well("gpu-1")
}

// A token file may change: the new token is used, for watches and for exec.
func TestTokenRotates(t *testing.T) {
	s, _ := lab(t)
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "first")
	s.Tokens("first")
	f := watch(t, parsed(t, s.URL, "token_file: "+token+"\nmode: once\n"))
	f.well("gpu-1")
	s.Tokens("second")
	s.CloseClientConnections()
	f.is(Unauthenticated)
	write(t, token, "second")
	f.is(OK)
	f.well("gpu-1")
}

// A refused token is read again for the next request, not after a while.
func TestTokenRefused(t *testing.T) {
	s, _ := lab(t)
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "first")
	s.Tokens("second")
	a, err := newAPI(&parsed(t, s.URL, "token_file: "+token+"\n").Clusters[0])
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	ask := func() error {
		_, _, err := list[node](t.Context(), a, "/api/v1/nodes", nil, mostNodes)
		return err
	}
	if err := ask(); conditionOf(err) != Unauthenticated {
		t.Errorf("a wrong token: %v", err)
	}
	write(t, token, "second")
	_ = ask() // it may still use the first one
	if err := ask(); err != nil {
		t.Errorf("the right token: %v", err)
	}
}

// A pod that is gone before its watch reports that is described as gone.
func TestGonePod(t *testing.T) {
	s, _ := lab(t)
	cfg := &parsed(t, s.URL, "").Clusters[0]
	goneAdvice(t, cfg, target{namespace: "gpu-operator", pod: "driver-2", container: "nvidia-driver-ctr"})
}

// goneAdvice executes in a pod or container that does not exist, and returns the advice about that.
func goneAdvice(t *testing.T, cfg *Cluster, pod target) {
	t.Helper()
	a, err := newAPI(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	if err = a.exec(t.Context(), pod, []string{"true"}, nil, io.Discard, io.Discard); err == nil {
		t.Fatal("it is executed")
	}
	said := newCluster(cfg, a, slog.New(slog.DiscardHandler)).explain(t.Context(), pod, err)
	if !strings.Contains(said.What, "restarting or gone") || !errors.Is(said, gpu.ErrNoDriver) {
		t.Errorf("%v: %s", err, said.Text())
	}
}

// When the server has forgotten changes, everything is listed again, and nodes that went meanwhile leave.
func TestGone(t *testing.T) {
	s, _ := lab(t)
	_, folder := machine(t, "rtx4090-550")
	s.Node("gpu-2")
	s.Pod("nvidia-gpu-operator", "driver-2", "gpu-2", folder, fakekube.Labels(map[string]any{"app.kubernetes.io/component": "nvidia-driver", "app": "nvidia-gpu-driver-ubuntu22.04-7c6"}))
	f := watch(t, parsed(t, s.URL, ""))
	f.well("gpu-1")
	f.well("gpu-2")
	s.Away(true)
	s.Remove("nodes", "", "gpu-2")
	s.Compact()
	lists := s.Counts().Lists
	s.Away(false)
	f.until("gpu-2 leaves", func() bool { _, there := f.node("gpu-2"); return !there })
	if s.Counts().Lists == lists {
		t.Error("it left without a list")
	}
	f.well("gpu-1")
}

// If streams don't hold, each reading is its own exec.
func TestFallsBack(t *testing.T) {
	for name, spoil := range map[string]func(*fakekube.Server){
		"no input":        func(s *fakekube.Server) { s.NoInput(true) },
		"streams are cut": func(s *fakekube.Server) { s.Breaks(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := lab(t)
			spoil(s)
			f := watch(t, parsed(t, s.URL, ""))
			f.well("gpu-1")
		})
	}
}

// A stream that opens and prints nothing is given up after the deadline, and an exec that prints nothing is reported.
func TestMute(t *testing.T) {
	s, _ := lab(t)
	s.Mute(true)
	f := watch(t, parsed(t, s.URL, ""))
	f.until("a stream opens", func() bool { return s.Counts().Execs == 1 })
	was := f.step
	f.step = deadline
	_ = f.says("gpu-1", "has not answered within 24h")
	f.until("an exec of its own is tried", func() bool { return s.Counts().Execs >= 2 }) // the first may have been given up on its way
	f.step = was
	s.Mute(false)
	s.Cut()
	f.well("gpu-1")
}

// An exec that is given up as it begins leaves nothing behind.
func TestGivenUpAsItBegins(t *testing.T) {
	s, _ := lab(t)
	s.Mute(true)
	a, err := newAPI(&parsed(t, s.URL, "").Clusters[0])
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	before := goleak.IgnoreCurrent()
	pod := target{namespace: "gpu-operator", pod: "driver-1", container: "nvidia-driver-ctr"}
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.exec(ctx, pod, []string{"sh"}, nil, io.Discard, io.Discard) }()
		for s.Counts().Execs <= i && len(done) == 0 { // to cancel it at once
			runtime.Gosched()
		}
		cancel()
		if err := testkit.Receive(t, "the exec ends", done); !errors.Is(err, context.Canceled) {
			t.Fatalf("it ended with %v", err)
		}
	}
	testkit.Until(t, "nothing is left", func() bool { return goleak.Find(before) == nil }, func() any { return goleak.Find(before) })
}

// Clouds without a driver pod have other pods that can run nvidia-smi, in the order of the list.
func TestOtherPods(t *testing.T) {
	s := fakekube.New(t)
	_, folder := machine(t, "rtx4090-550")
	empty := t.TempDir()
	s.Node("gpu-1")
	s.Pod("kube-system", "installer", "gpu-1", empty, fakekube.Labels(map[string]any{"k8s-app": "nvidia-driver-installer"}), fakekube.Container("pause", true, 0, "running"))
	s.Pod("kube-system", "plugin", "gpu-1", folder, fakekube.Labels(map[string]any{"k8s-app": "nvidia-gpu-device-plugin"}), fakekube.Container("nvidia-gpu-device-plugin", true, 0, "running"))
	s.Pod("kube-system", "other", "gpu-1", empty, fakekube.Labels(map[string]any{"k8s-app": "dns"}))
	f := watch(t, parsed(t, s.URL, ""))
	f.well("gpu-1")
}

// An agent in a pod requests the labels of its own node, and needs the right to.
func TestLabelsOfANode(t *testing.T) {
	s := fakekube.New(t)
	s.Node("gpu-1", func(node map[string]any) {
		node["metadata"].(map[string]any)["labels"] = map[string]any{"rack": "r7"}
	})
	a, err := newAPI(&parsed(t, s.URL, "").Clusters[0])
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	if labels, err := a.labels(t.Context(), "gpu-1"); err != nil || labels["rack"] != "r7" {
		t.Errorf("%v, %v", labels, err)
	}
	if _, err := a.labels(t.Context(), "gpu-2"); err == nil {
		t.Error("a node that is none has labels")
	}
	s.Deny("get nodes", true)
	if _, err := a.labels(t.Context(), "gpu-1"); err == nil || !strings.Contains(err.Error(), "cannot get nodes") {
		t.Errorf("without the right to: %v", err)
	}
	if labels, err := OwnLabels(t.Context(), "gpu-1"); labels != nil || err != nil {
		t.Errorf("outside of a cluster: %v, %v", labels, err)
	}
}
