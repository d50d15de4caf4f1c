package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	containerd "github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// serveGRPC puts a gRPC socket on the machine.
func (m *machine) serveGRPC(socket string, register func(*grpc.Server)) {
	m.t.Helper()
	server := grpc.NewServer()
	register(server)
	ln := m.listen(socket)
	done := make(chan error)
	go func() { done <- server.Serve(ln) }()
	m.t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			m.t.Error(err)
		}
	})
}

// A criServer is a container runtime with the kubelet's interface.
type criServer struct {
	runtimev1.UnimplementedRuntimeServiceServer
	containers []*runtimev1.Container
	sandboxes  []*runtimev1.PodSandbox
	// fails is its answer to everything; nil: it works.
	fails error
	// hangs: it answers only after the client has gone; the client is told that the question has arrived.
	hangs atomic.Bool
	comes chan struct{}
	// deaf: it ignores the filter and lists everything.
	deaf  bool
	asked atomic.Int32
}

func (s *criServer) ListContainers(ctx context.Context, r *runtimev1.ListContainersRequest) (*runtimev1.ListContainersResponse, error) {
	s.asked.Add(1)
	if s.hangs.Load() {
		s.comes <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var out []*runtimev1.Container
	for _, c := range s.containers {
		if s.deaf || c.GetId() == r.GetFilter().GetId() {
			out = append(out, c)
		}
	}
	return &runtimev1.ListContainersResponse{Containers: out}, s.fails
}

func (s *criServer) ListPodSandbox(_ context.Context, r *runtimev1.ListPodSandboxRequest) (*runtimev1.ListPodSandboxResponse, error) {
	s.asked.Add(1)
	var out []*runtimev1.PodSandbox
	for _, b := range s.sandboxes {
		if s.deaf || b.GetId() == r.GetFilter().GetId() {
			out = append(out, b)
		}
	}
	return &runtimev1.ListPodSandboxResponse{Items: out}, s.fails
}

// listen serves it on a machine.
func (s *criServer) listen(m *machine, socket string) {
	m.serveGRPC(socket, func(g *grpc.Server) { runtimev1.RegisterRuntimeServiceServer(g, s) })
}

// criContainer returns a container as the kubelet makes it.
func criContainer(id string) *runtimev1.Container {
	return &runtimev1.Container{
		Id: id, PodSandboxId: anotherID, Metadata: &runtimev1.ContainerMetadata{Name: "cuda"},
		Image:    &runtimev1.ImageSpec{Image: "sha256:0123", UserSpecifiedImage: "nvcr.io/nvidia/pytorch:25.03-py3"},
		ImageRef: "sha256:0123",
		Labels:   map[string]string{podMemberLabel: "cuda", podNameLabel: "train-0", podNamespaceLabel: "ml", "io.kubernetes.pod.uid": aPod},
	}
}

// A containerdServer is containerd's own API.
type containerdServer struct {
	containerd.UnimplementedContainersServer
	byNamespace map[string]*containerd.Container

	mu    sync.Mutex
	asked []string // namespaces of the questions
}

func (s *containerdServer) Get(ctx context.Context, r *containerd.GetContainerRequest) (*containerd.GetContainerResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	namespace := strings.Join(md.Get("containerd-namespace"), ",")
	s.mu.Lock()
	s.asked = append(s.asked, namespace)
	s.mu.Unlock()
	c := s.byNamespace[namespace]
	if c == nil || c.GetID() != r.GetID() {
		return nil, status.Errorf(codes.NotFound, "container %q in namespace %q: not found", r.GetID(), namespace)
	}
	return &containerd.GetContainerResponse{Container: c}, nil
}

func (s *containerdServer) listen(m *machine, socket string) {
	m.serveGRPC(socket, func(g *grpc.Server) { containerd.RegisterContainersServer(g, s) })
}

func TestNamesOverGRPC(t *testing.T) {
	const containerdSocket = "run/containerd/containerd.sock"
	whole := theContainer("containerd", "cuda", "nvcr.io/nvidia/pytorch:25.03-py3")
	pod := podNamed("ml", "train-0", "cuda")
	nameless := gpu.Container{ID: anID, Runtime: "containerd"}
	unnamed := gpu.Pod{UID: aPod}
	tests := map[string]struct {
		cgroup  string
		prepare func(m *machine)
		want    gpu.Container
		pod     gpu.Pod
	}{
		"containerd": {"k8s-burstable-systemd-v1", func(m *machine) {
			(&criServer{containers: []*runtimev1.Container{criContainer(anotherID), criContainer(anID)}}).listen(m, containerdSocket)
		}, whole, pod},
		"K3s": {"k8s-burstable-systemd-v1", func(m *machine) {
			(&criServer{containers: []*runtimev1.Container{criContainer(anID)}}).listen(m, "run/k3s/containerd/containerd.sock")
		}, whole, pod},
		"a group that does not name its runtime": {"k8s-besteffort-cgroupfs-v1", func(m *machine) {
			(&criServer{containers: []*runtimev1.Container{criContainer(anID)}}).listen(m, containerdSocket)
		}, theContainer("", "cuda", "nvcr.io/nvidia/pytorch:25.03-py3"), pod},
		"CRI-O": {"k8s-crio-systemd-v2", func(m *machine) {
			(&criServer{containers: []*runtimev1.Container{criContainer(anID)}}).listen(m, "run/crio/crio.sock")
		}, theContainer("cri-o", "cuda", "nvcr.io/nvidia/pytorch:25.03-py3"), pod},
		"a pod that only the sandbox names": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			c := criContainer(anID)
			c.Labels = nil
			(&criServer{deaf: true, containers: []*runtimev1.Container{c}, sandboxes: []*runtimev1.PodSandbox{
				{Id: anID, Metadata: &runtimev1.PodSandboxMetadata{Name: "other", Namespace: "other"}},
				{Id: anotherID, Metadata: &runtimev1.PodSandboxMetadata{Name: "train-0", Namespace: "ml", Uid: aPod}},
			}}).listen(m, containerdSocket)
		}, whole, pod},
		"an image by its id alone": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			c := criContainer(anID)
			c.Image = nil
			(&criServer{containers: []*runtimev1.Container{c}}).listen(m, containerdSocket)
		}, theContainer("containerd", "cuda", "sha256:0123"), pod},
		"ten thousand, whatever is asked for": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			s := &criServer{deaf: true}
			for i := range 10_000 {
				c := criContainer(fmt.Sprintf("%064x", i))
				c.Annotations = map[string]string{"note": strings.Repeat("x", 300)}
				s.containers = append(s.containers, c)
			}
			s.containers = append(s.containers, criContainer(anID))
			s.listen(m, containerdSocket)
		}, whole, pod},
		"more than anybody has": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			c := criContainer(anID)
			c.Annotations = map[string]string{"note": strings.Repeat("x", maxMessage)}
			(&criServer{containers: []*runtimev1.Container{c}}).listen(m, containerdSocket)
		}, nameless, unnamed},
		"not known": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			(&criServer{}).listen(m, containerdSocket)
		}, nameless, unnamed},
		"not allowed": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			(&criServer{fails: status.Error(codes.PermissionDenied, "no")}).listen(m, containerdSocket)
		}, forbidden("containerd"), gpu.Pod{UID: aPod, Namespace: gpu.Absent[string](gpu.NotPermitted),
			Name: gpu.Absent[string](gpu.NotPermitted), Container: gpu.Absent[string](gpu.NotPermitted)}},
		"an error": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			(&criServer{fails: status.Error(codes.Internal, "out of order")}).listen(m, containerdSocket)
		}, nameless, unnamed},
		"no such service": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			m.serveGRPC(containerdSocket, func(*grpc.Server) {})
		}, nameless, unnamed},
		"garbage": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			m.babble(containerdSocket, "HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nno!")
		}, nameless, unnamed},
		"more garbage": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			m.babble(containerdSocket, strings.Repeat("\x00\xff\x01", 50_000))
		}, nameless, unnamed},
		"it hangs up": {"k8s-guaranteed-systemd-v2", func(m *machine) { m.babble(containerdSocket, "") }, nameless, unnamed},
		"nobody listens, and there is a file": {"k8s-guaranteed-systemd-v2", func(m *machine) {
			ln := m.listen(containerdSocket).(*net.UnixListener)
			ln.SetUnlinkOnClose(false)
			ln.Close()
			m.write("run/containerd/io.containerd.runtime.v2.task/k8s.io/"+anID+"/config.json", `{"annotations":{
				"io.kubernetes.cri.container-name":"cuda","io.kubernetes.cri.image-name":"nvcr.io/nvidia/pytorch:25.03-py3",
				"io.kubernetes.cri.sandbox-name":"train-0","io.kubernetes.cri.sandbox-namespace":"ml"}}`)
		}, whole, pod},
		"nerdctl": {"nerdctl-systemd-v2", func(m *machine) {
			(&containerdServer{byNamespace: map[string]*containerd.Container{"default": {
				ID: anID, Image: "docker.io/vllm/vllm-openai:v0.8.4", Labels: map[string]string{"nerdctl/name": "trainer"},
				Spec: &anypb.Any{TypeUrl: "types.containerd.io/opencontainers/runtime-spec/1/Spec", Value: []byte(`{"process":{"env":["TOKEN=x"]}}`)},
			}}}).listen(m, containerdSocket)
		}, theContainer("containerd", "trainer", "docker.io/vllm/vllm-openai:v0.8.4"), gpu.Pod{}},
		"Docker's, by containerd alone": {"nerdctl-systemd-v2", func(m *machine) {
			(&containerdServer{byNamespace: map[string]*containerd.Container{"moby": {ID: anID, Image: "vllm"}}}).listen(m, containerdSocket)
		}, gpu.Container{ID: anID, Runtime: "containerd", Image: gpu.Of("vllm")}, gpu.Pod{}},
		"containerd does not know it": {"nerdctl-systemd-v2", func(m *machine) {
			(&containerdServer{}).listen(m, containerdSocket)
		}, nameless, gpu.Pod{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newSocketMachine(t, tt.cgroup)
			tt.prepare(m)
			r := m.reader(ShowAll)
			defer r.Close()
			f := m.described(r)
			if f.Container != gpu.Of(tt.want) || f.Pod != gpu.Of(tt.pod) {
				t.Errorf("container %+v, pod %+v", f.Container, f.Pod)
			}
		})
	}
}

// babble puts a socket on the machine that sends the same text to everybody and hangs up.
func (m *machine) babble(socket, text string) {
	ln := m.listen(socket)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(text)) // it does not matter who hangs up first
			conn.Close()
		}
	}()
	m.t.Cleanup(func() { ln.Close(); <-done })
}

// A control group may name containerd's namespace; then no other namespace is asked.
func TestContainerdNamespaces(t *testing.T) {
	for _, tt := range []struct {
		cgroup string
		want   []string
	}{
		{"nerdctl-systemd-v2", []string{"default", "k8s.io", "moby"}},
		{"nerdctl-cgroupfs-v2", []string{"default"}},
	} {
		t.Run(tt.cgroup, func(t *testing.T) {
			m := newSocketMachine(t, tt.cgroup)
			s := &containerdServer{}
			s.listen(m, "run/containerd/containerd.sock")
			r := m.reader(ShowAll)
			defer r.Close()
			m.described(r)
			if !slices.Equal(s.asked, tt.want) {
				t.Errorf("asked in %q, want %q", s.asked, tt.want)
			}
		})
	}
}

// A hanging runtime holds no reading up, is given up after its deadline, and is left alone for a while.
func TestHangingGRPC(t *testing.T) {
	m := newSocketMachine(t, "k8s-guaranteed-systemd-v2")
	s := &criServer{containers: []*runtimev1.Container{criContainer(anID)}, comes: make(chan struct{}, 1)}
	s.hangs.Store(true)
	s.listen(m, "run/containerd/containerd.sock")
	r := m.reader(ShowAll)
	defer r.Close()
	facts(t, r, 10) // the test would hang here
	m.pass(s.comes)
	f := m.described(r)
	if c := f.Container.Or(gpu.Container{}); c.ID != anID || c.Name.Present() {
		t.Errorf("container = %+v", c)
	}
	for range 10 {
		m.described(r)
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times within its rest", n)
	}
	s.hangs.Store(false)
	m.now = m.now.Add(restFor)
	if c := m.described(r).Container.Or(gpu.Container{}); c.Name != gpu.Of("cuda") {
		t.Errorf("well again: %+v", c)
	}
}

// A question has a deadline, after which the next one is asked.
func TestDeadlineOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		a := newAsker("it", time.Hour, slog.New(slog.DiscardHandler), func(key string) []way[string] {
			return []way[string]{{"a way", "", func(ctx context.Context, _ string) (string, error) {
				if asked = append(asked, key); key == "a mute one" {
					<-ctx.Done()
				}
				return key, ctx.Err()
			}}, {"another", "", func(context.Context, string) (string, error) { return "", errUnknown }}}
		})
		defer a.close()
		begun := time.Now()
		for _, key := range []string{"a good one", "a mute one"} {
			a.lookUp(key, begun)
		}
		if err := a.settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != askFor || !slices.Equal(asked, []string{"a good one", "a mute one"}) {
			t.Errorf("asked %q in %v, want both in %v", asked, took, askFor)
		}
		if f := a.failed["a way"]; !errors.Is(f.err, context.DeadlineExceeded) || !f.until.Equal(begun.Add(restFor)) {
			t.Errorf("it failed with %v until %v", f.err, f.until)
		}
	})
}

// A folder without access is tried once a minute, not once per container.
func TestClosedBundlesRest(t *testing.T) {
	n := New("/sys", ShowNone, slog.New(slog.DiscardHandler)).names
	defer n.close()
	now := time.Now()
	a := (&containerKey{id: anID, runtime: gpu.RuntimeContainerd, owner: -1, pod: true}).ways("")
	b := (&containerKey{id: anotherID, runtime: gpu.RuntimeContainerd, owner: -1, pod: true}).ways("")
	for _, w := range a {
		n.note(w.name, failure{fs.ErrPermission, now.Add(restFor)})
	}
	for _, w := range b {
		if f := n.failed[w.name]; !now.Before(f.until) {
			t.Errorf("%s does not rest", w.name)
		}
	}
}

// This very process, with the pid that a driver would report, and the name that a runtime gives its container.
func TestOurOwnContainer(t *testing.T) {
	m := newSocketMachine(t, "k8s-burstable-systemd-v1")
	pid := os.Getpid()
	for _, name := range []string{"stat", "status", "cmdline"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			t.Fatal(err)
		}
		m.write("proc/"+strconv.Itoa(pid)+"/"+name, string(text))
	}
	m.write("proc/"+strconv.Itoa(pid)+"/cgroup", recordedCgroup(t, "k8s-burstable-systemd-v1"))
	(&criServer{containers: []*runtimev1.Container{criContainer(anID)}}).listen(m, "run/containerd/containerd.sock")
	r := m.reader(ShowAll)
	defer r.Close()
	facts(t, r, pid)
	if err := r.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := facts(t, r, pid)
	if !strings.Contains(f.Name.Or(""), "host.test") || f.Pod != gpu.Of(podNamed("ml", "train-0", "cuda")) || f.Container.Or(gpu.Container{}).Name != gpu.Of("cuda") {
		t.Errorf("facts = %+v", f)
	}
}
