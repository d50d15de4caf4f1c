package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// inspected is Docker's answer about a container, shortened.
const inspected = `{
  "Id": "` + anID + `",
  "Name": "/vllm",
  "State": {"Status": "running", "Pid": 10},
  "Config": {
    "Hostname": "4f3a9c1e7b25",
    "Env": ["HF_TOKEN=hf_secretsecret"],
    "Image": "vllm/vllm-openai:v0.8.4",
    "Labels": {"com.docker.compose.project": "llm"}
  }
}`

const inspectedPod = `{
  "Name": "/k8s_cuda_train-0_ml_` + aPod + `_0",
  "Config": {"Image": "sha256:0123", "Labels": {
    "io.kubernetes.container.name": "cuda", "io.kubernetes.pod.name": "train-0", "io.kubernetes.pod.namespace": "ml"}}
}`

// A runtime is a container runtime's socket on a fake machine.
type runtime struct {
	asked atomic.Int32
}

// serve puts a socket on the machine that answers with handler.
func (m *machine) serve(socket string, handler http.HandlerFunc) *runtime {
	m.t.Helper()
	rt := &runtime{}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rt.asked.Add(1)
		if r.Method != http.MethodGet {
			m.t.Errorf("%s %s: a runtime is only asked", r.Method, r.URL)
		}
		handler(w, r)
	})}
	ln := m.listen(socket)
	done := make(chan error)
	go func() { done <- server.Serve(ln) }()
	m.t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			m.t.Error(err)
		}
	})
	return rt
}

func (m *machine) listen(socket string) net.Listener {
	m.t.Helper()
	path := filepath.Join(m.root, socket)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		m.t.Fatal(err)
	}
	return ln
}

// newSocketMachine makes a machine whose root path is short enough for socket names, with process 10 in a container.
func newSocketMachine(t *testing.T, cgroup string) *machine {
	t.Helper()
	m := newMachine(t)
	root, err := os.MkdirTemp("", "m") //nolint:usetesting // a socket's path has 107 bytes at most, and the test's name is in TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	if err := os.Rename(m.root, root+"/r"); err != nil {
		t.Fatal(err)
	}
	m.root = root + "/r"
	m.process(10, "python", 1000, 200, 0, "python")
	m.write("proc/10/cgroup", recordedCgroup(t, cgroup))
	return m
}

// described returns process 10's facts once the runtimes have been asked.
func (m *machine) described(r *Reader) gpu.ProcessFacts {
	m.t.Helper()
	facts(m.t, r, 10)
	if err := r.Settle(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	return facts(m.t, r, 10)
}

func answers(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
}

func refuses(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func TestNamesOfContainers(t *testing.T) {
	const bundle = "/io.containerd.runtime.v2.task/"
	tests := map[string]struct {
		cgroup  string
		prepare func(m *machine)
		want    gpu.Container
		pod     gpu.Pod
	}{
		"Docker": {"docker-systemd-v2", func(m *machine) {
			m.serve("run/docker.sock", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/containers/"+anID+"/json" {
					w.WriteHeader(http.StatusBadRequest)
				}
				answers(inspected)(w, r)
			})
		}, theContainer("docker", "vllm", "vllm/vllm-openai:v0.8.4"), gpu.Pod{}},
		"Docker, the older place": {"docker-systemd-v2", func(m *machine) {
			m.serve("var/run/docker.sock", answers(inspected))
		}, theContainer("docker", "vllm", "vllm/vllm-openai:v0.8.4"), gpu.Pod{}},
		"a container of nobody knows which runtime": {"docker-parent-v2", func(m *machine) {
			m.serve("run/docker.sock", answers(inspected))
		}, theContainer("", "vllm", "vllm/vllm-openai:v0.8.4"), gpu.Pod{}},
		"Podman": {"podman-v2", func(m *machine) {
			m.serve("run/podman/podman.sock", answers(inspected))
		}, theContainer("podman", "vllm", "vllm/vllm-openai:v0.8.4"), gpu.Pod{}},
		"containerd's file": {"k8s-burstable-systemd-v1", func(m *machine) {
			m.write("run/containerd"+bundle+"k8s.io/"+anID+"/config.json", `{"ociVersion":"1.2.0","process":{"env":["TOKEN=x"]},"annotations":{
				"io.kubernetes.cri.container-name":"cuda","io.kubernetes.cri.image-name":"nvcr.io/nvidia/pytorch:25.03-py3",
				"io.kubernetes.cri.sandbox-name":"train-0","io.kubernetes.cri.sandbox-namespace":"ml"}}`)
		}, theContainer("containerd", "cuda", "nvcr.io/nvidia/pytorch:25.03-py3"), podNamed("ml", "train-0", "cuda")},
		"K3s": {"k8s-burstable-cgroupfs-v2", func(m *machine) {
			m.write("run/k3s/containerd"+bundle+"k8s.io/"+anID+"/config.json", `{"annotations":{
				"io.kubernetes.cri.container-name":"cuda","io.kubernetes.cri.sandbox-name":"train-0","io.kubernetes.cri.sandbox-namespace":"ml"}}`)
		}, gpu.Container{ID: anID, Name: gpu.Of("cuda")}, podNamed("ml", "train-0", "cuda")},
		"nerdctl": {"nerdctl-systemd-v2", func(m *machine) {
			m.write("run/containerd"+bundle+"default/"+anID+"/config.json", `{"annotations":{"nerdctl/name":"trainer"}}`)
		}, gpu.Container{ID: anID, Runtime: "containerd", Name: gpu.Of("trainer")}, gpu.Pod{}},
		"a pod of Docker": {"k8s-docker-systemd-v2", func(m *machine) {
			m.serve("run/docker.sock", answers(inspectedPod))
		}, theContainer("docker", "cuda", "sha256:0123"), podNamed("ml", "train-0", "cuda")},
		"LXC": {"lxc-v2", func(*machine) {}, gpu.Container{
			ID: "webserver", Runtime: "lxc", Name: gpu.Of("webserver"), Image: gpu.Absent[string](gpu.NotSupported)}, gpu.Pod{}},
		"no socket":   {"docker-systemd-v2", func(*machine) {}, gpu.Container{ID: anID, Runtime: "docker"}, gpu.Pod{}},
		"not known":   {"docker-systemd-v2", func(m *machine) { m.serve("run/docker.sock", refuses(404)) }, gpu.Container{ID: anID, Runtime: "docker"}, gpu.Pod{}},
		"an error":    {"docker-systemd-v2", func(m *machine) { m.serve("run/docker.sock", refuses(500)) }, gpu.Container{ID: anID, Runtime: "docker"}, gpu.Pod{}},
		"nonsense":    {"docker-systemd-v2", func(m *machine) { m.serve("run/docker.sock", answers("<html>")) }, gpu.Container{ID: anID, Runtime: "docker"}, gpu.Pod{}},
		"a redirect":  {"docker-systemd-v2", func(m *machine) { m.serve("run/docker.sock", refuses(302)) }, gpu.Container{ID: anID, Runtime: "docker"}, gpu.Pod{}},
		"not allowed": {"docker-systemd-v2", func(m *machine) { m.serve("run/docker.sock", refuses(403)) }, forbidden("docker"), gpu.Pod{}},
		"nobody listens": {"docker-systemd-v2", func(m *machine) {
			ln := m.listen("run/docker.sock").(*net.UnixListener)
			ln.SetUnlinkOnClose(false)
			ln.Close()
		}, gpu.Container{ID: anID, Runtime: "docker"}, gpu.Pod{}},
		"a name that moves the cursor": {"docker-systemd-v2", func(m *machine) {
			m.serve("run/docker.sock", answers(`{"Name":"/a\u001b[31m","Config":{"Image":"`+strings.Repeat("x", 4000)+`"}}`))
		}, theContainer("docker", "a\uFFFD[31m", strings.Repeat("x", maxName-3)+"…"), gpu.Pod{}},
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

func theContainer(runtime, name, image string) gpu.Container {
	return gpu.Container{ID: anID, Runtime: runtime, Name: gpu.Of(name), Image: gpu.Of(image)}
}

func forbidden(runtime string) gpu.Container {
	no := gpu.Absent[string](gpu.NotPermitted)
	return gpu.Container{ID: anID, Runtime: runtime, Name: no, Image: no}
}

func podNamed(namespace, name, member string) gpu.Pod {
	return gpu.Pod{UID: aPod, Namespace: gpu.Of(namespace), Name: gpu.Of(name), Container: gpu.Of(member)}
}

// A rootless container's runtime belongs to its user, and nobody else's socket is asked instead.
func TestRootlessRuntimes(t *testing.T) {
	// Only root may create a file of another user; otherwise the test plays user 1000.
	uid, other := 1000, "1001"
	text := recordedCgroup(t, "podman-rootless-v2")
	m := newSocketMachine(t, "podman-rootless-v2")
	machines := m.serve("run/podman/podman.sock", answers(inspected))
	rt := m.serve("run/user/1000/podman/podman.sock", answers(inspected))
	socket := m.root + "/run/user/1000/podman/podman.sock"
	if os.Geteuid() == 0 {
		if err := os.Chown(socket, uid, -1); err != nil {
			t.Fatal(err)
		}
	} else if uid = os.Geteuid(); uid != 1000 {
		m.serve(fmt.Sprintf("run/user/%d/podman/podman.sock", uid), answers(inspected))
		text = strings.ReplaceAll(text, "1000", strconv.Itoa(uid))
	}
	m.write("proc/10/cgroup", text)
	r := m.reader(ShowAll)
	defer r.Close()
	if f := m.described(r); f.Container != gpu.Of(theContainer("podman", "vllm", "vllm/vllm-openai:v0.8.4")) {
		t.Errorf("container = %+v", f.Container)
	}

	// A socket in a user's folder that is not that user's.
	asked := rt.asked.Load()
	m.serve("run/user/"+other+"/podman/podman.sock", func(http.ResponseWriter, *http.Request) { t.Error("another's socket was asked") })
	m.write("proc/10/cgroup", strings.ReplaceAll(recordedCgroup(t, "podman-rootless-v2"), "1000", other))
	m.now = m.now.Add(2 * refreshAfter)
	if f := m.described(r); f.Container != gpu.Of(gpu.Container{ID: anID, Runtime: "podman"}) || rt.asked.Load() != asked {
		t.Errorf("container = %+v", f.Container)
	}

	// A link to another user's socket.
	other = "1002"
	m.write("proc/10/cgroup", strings.ReplaceAll(recordedCgroup(t, "podman-rootless-v2"), "1000", other))
	m.link("run/user/"+other+"/podman/podman.sock", m.root+"/run/podman/podman.sock")
	m.now = m.now.Add(2 * refreshAfter)
	if f := m.described(r); f.Container != gpu.Of(gpu.Container{ID: anID, Runtime: "podman"}) {
		t.Errorf("a link was followed: %+v", f.Container)
	}
	if n := machines.asked.Load(); n != 0 {
		t.Errorf("the machine's runtime was asked %d times about a user's container", n)
	}
}

// A runtime that does not answer holds no reading up, and is not asked again at each reading.
func TestSilentRuntime(t *testing.T) {
	m := newSocketMachine(t, "docker-systemd-v2")
	ln := m.listen("run/docker.sock")
	defer ln.Close()
	connected := make(chan net.Conn, 16)
	go func() {
		defer close(connected)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			connected <- conn // and never answers
		}
	}()
	r := m.reader(ShowAll)
	f := facts(t, r, 10) // returns although nobody answers; otherwise the test would hang here
	if f.Container != gpu.Of(gpu.Container{ID: anID, Runtime: "docker"}) {
		t.Errorf("container = %+v", f.Container)
	}
	conn := testkit.Receive(t, "somebody who asks", connected)
	for range 100 {
		facts(t, r, 10)
	}
	r.names.mu.Lock()
	queued := len(r.names.queue)
	r.names.mu.Unlock()
	if queued != 0 || len(connected) != 0 {
		t.Errorf("it is to be asked %d times more while it is being asked", queued)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Settle(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("settled, while nobody has answered: %v", err)
	}
	if err := r.Close(); err != nil { // ends although nobody answers
		t.Error(err)
	}
	conn.Close()
	facts(t, r, 10)
	if err := r.Settle(t.Context()); err != nil || len(connected) != 0 {
		t.Errorf("asked after Close: %v", err)
	}
}

func TestDeadSocketsRest(t *testing.T) {
	m := newSocketMachine(t, "docker-systemd-v2")
	m.process(11, "python", 1000, 200, 0, "python")
	m.write("proc/11/cgroup", strings.ReplaceAll(recordedCgroup(t, "docker-systemd-v2"), anID, anotherID))
	status := http.StatusInternalServerError
	rt := m.serve("run/docker.sock", func(w http.ResponseWriter, r *http.Request) {
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		answers(inspected)(w, r)
	})
	r := m.reader(ShowAll)
	defer r.Close()
	m.described(r)
	facts(t, r, 11) // another container of the same runtime
	m.described(r)
	if n := rt.asked.Load(); n != 1 {
		t.Fatalf("a socket that failed was asked %d times at once", n)
	}
	status = http.StatusOK
	m.now = m.now.Add(restFor)
	if f := m.described(r); f.Container.Or(gpu.Container{}).Name != gpu.Of("vllm") || rt.asked.Load() != 2 {
		t.Errorf("asked %d times, container %+v", rt.asked.Load(), f.Container)
	}

	// An answer is kept, then requested again; it stays while nobody answers.
	m.now = m.now.Add(namesFor - time.Second)
	m.described(r)
	if n := rt.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	status = http.StatusBadGateway
	m.now = m.now.Add(2 * time.Second)
	if f := m.described(r); f.Container.Or(gpu.Container{}).Name != gpu.Of("vllm") || rt.asked.Load() != 3 {
		t.Errorf("asked %d times, container %+v", rt.asked.Load(), f.Container)
	}
	status = http.StatusNotFound // removed
	m.now = m.now.Add(restFor)
	if f := m.described(r); f.Container != gpu.Of(gpu.Container{ID: anID, Runtime: "docker"}) {
		t.Errorf("of a container that was removed: %+v", f.Container)
	}
	m.now = m.now.Add(restFor)
	m.described(r)
	if n := rt.asked.Load(); n != 4 {
		t.Errorf("that a container is not known is not remembered: asked %d times", n)
	}
}

// A removed runtime has no containers. A runtime that is gone for a moment was not asked meanwhile, since an answer is kept.
func TestRuntimeThatIsGone(t *testing.T) {
	m := newSocketMachine(t, "docker-systemd-v2")
	m.serve("run/docker.sock", answers(inspected))
	r := m.reader(ShowAll)
	defer r.Close()
	m.described(r)
	m.remove("run/docker.sock")
	m.now = m.now.Add(namesFor - time.Second)
	if f := m.described(r); f.Container != gpu.Of(theContainer("docker", "vllm", "vllm/vllm-openai:v0.8.4")) {
		t.Errorf("gone for a while: %+v", f.Container)
	}
	m.now = m.now.Add(2 * time.Second)
	if f := m.described(r); f.Container != gpu.Of(gpu.Container{ID: anID, Runtime: "docker"}) {
		t.Errorf("of a runtime that was removed: %+v", f.Container)
	}
}

func TestForgetsContainers(t *testing.T) {
	m := newSocketMachine(t, "docker-systemd-v2")
	r := m.reader(ShowAll)
	defer r.Close()
	m.described(r)
	m.end(10)
	if len(r.names.known) != 1 {
		t.Fatalf("known: %v", r.names.known)
	}
	m.now = m.now.Add(2 * namesFor)
	facts(t, r, 10)
	if len(r.names.known) != 0 {
		t.Errorf("still known: %v", r.names.known)
	}
}
