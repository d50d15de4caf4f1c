package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A kubelet lists which container holds which device.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	pods  []*podresources.PodResources
	fails error
	hangs atomic.Bool
	empty atomic.Bool // it has released everything
	asked atomic.Int32
	comes chan struct{} // receives when a question starts to hang
}

func (k *kubelet) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.asked.Add(1)
	if k.hangs.Load() {
		k.comes <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if k.empty.Load() {
		return &podresources.ListPodResourcesResponse{}, nil
	}
	return &podresources.ListPodResourcesResponse{PodResources: k.pods}, k.fails
}

func (k *kubelet) listen(m *machine, socket string) {
	m.serveGRPC(socket, func(g *grpc.Server) { podresources.RegisterPodResourcesListerServer(g, k) })
}

const kubeletSocket = "var/lib/kubelet/pod-resources/kubelet.sock"

// holding is a pod of one container with devices.
func holding(pod, container, resource string, ids ...string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "ml", Name: pod, Containers: []*podresources.ContainerResources{{
		Name: container, Devices: []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: ids}},
	}}}
}

// claiming is a pod with a claim (DRA).
func claiming(driver string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "ml", Name: "claims", Containers: []*podresources.ContainerResources{{
		Name: "main", DynamicResources: []*podresources.DynamicResource{{
			ClaimName: "one-gpu", ClaimResources: []*podresources.ClaimResource{{DriverName: driver, PoolName: "node", DeviceName: "gpu-0"}},
		}},
	}}}
}

// someDevices returns two whole devices and one with MIG instances.
func someDevices() []gpu.Device {
	cutUp := gpu.Device{Identity: gpu.Identity{UUID: "GPU-c", PCI: "0000:41:00.0"}, Readings: gpu.Readings{
		Modes:     gpu.Modes{MIG: gpu.Of(true)},
		Instances: []gpu.Instance{{UUID: "MIG-c1"}, {UUID: "MIG-c2"}},
	}}
	return []gpu.Device{{Identity: gpu.Identity{UUID: "GPU-a", PCI: "0000:01:00.0"}}, {Identity: gpu.Identity{UUID: "GPU-b", PCI: "0000:02:00.0"}}, cutUp}
}

// reserved returns the devices' reservations once the kubelet has answered.
func (m *machine) reserved(r *Reader, devices []gpu.Device) []gpu.Device {
	m.t.Helper()
	r.Reserve(devices)
	if err := r.Settle(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	r.Reserve(devices)
	return devices
}

func TestReservations(t *testing.T) {
	reserved := func(pod, container, resource, instance string) gpu.Reservation {
		return gpu.Reservation{Namespace: "ml", Pod: pod, Container: container, Resource: resource, Instance: instance}
	}
	reservations := func(list ...gpu.Reservation) gpu.Reading[[]gpu.Reservation] { return gpu.Of(slices.Clip(list)) }
	none := reservations()
	absent := func(q gpu.Quality) gpu.Reading[[]gpu.Reservation] { return gpu.Absent[[]gpu.Reservation](q) }
	whole := reserved("train-0", "cuda", "nvidia.com/gpu", "")
	type want [3]gpu.Reading[[]gpu.Reservation]
	answer := func(pods ...*podresources.PodResources) func(*machine) {
		return func(m *machine) { (&kubelet{pods: pods}).listen(m, kubeletSocket) }
	}
	many := func(m *machine) {
		k := &kubelet{}
		for i := range 10_000 {
			k.pods = append(k.pods, holding(fmt.Sprintf("web-%d", i), "nginx", "example.com/nic", "eth0"))
		}
		k.pods = append(k.pods, holding("train-0", "cuda", "nvidia.com/gpu", "GPU-a"))
		k.listen(m, kubeletSocket)
	}
	for name, tt := range map[string]struct {
		prepare func(*machine)
		want    want
	}{
		"one of them": {answer(holding("train-0", "cuda", "nvidia.com/gpu", "GPU-a")), want{reservations(whole), none, none}},
		"in other places": {func(m *machine) {
			(&kubelet{pods: []*podresources.PodResources{holding("train-0", "cuda", "nvidia.com/gpu", "GPU-b")}}).listen(m, "var/lib/k0s/kubelet/pod-resources/kubelet.sock")
		}, want{none, reservations(whole), none}},
		"nobody": {answer(), want{none, none, none}},
		"time slices, twice by the same": {answer(holding("train-0", "cuda", "nvidia.com/gpu", "GPU-a::0", "GPU-a::3"), holding("eval", "main", "nvidia.com/gpu.shared", "GPU-a::1")),
			want{reservations(whole, reserved("eval", "main", "nvidia.com/gpu.shared", "")), none, none}},
		"instances": {answer(holding("train-0", "cuda", "nvidia.com/mig-1g.10gb", "MIG-c2")),
			want{none, none, reservations(reserved("train-0", "cuda", "nvidia.com/mig-1g.10gb", "MIG-c2"))}},
		"an instance as old drivers name it": {answer(holding("train-0", "cuda", "nvidia.com/mig-1g.5gb", "MIG-GPU-c/7/0")),
			want{none, none, reservations(reserved("train-0", "cuda", "nvidia.com/mig-1g.5gb", "MIG-GPU-c/7/0"))}},
		"by address":              {answer(holding("train-0", "rocm", "amd.com/gpu", "0000:02:00.0")), want{none, reservations(reserved("train-0", "rocm", "amd.com/gpu", "")), none}},
		"not a GPU":               {answer(holding("web", "nginx", "example.com/nic", "GPU-a"), claiming("net.example.com")), want{none, none, none}},
		"one that is not here":    {answer(holding("train-0", "cuda", "nvidia.com/gpu", "GPU-z")), want{none, none, none}},
		"by a number":             {answer(holding("train-0", "cuda", "nvidia.com/gpu", "GPU-a"), holding("eval", "main", "nvidia.com/gpu", "1")), want{reservations(whole), absent(gpu.NotSupported), absent(gpu.NotSupported)}},
		"by a claim":              {answer(claiming("gpu.nvidia.com")), want{absent(gpu.NotSupported), absent(gpu.NotSupported), absent(gpu.NotSupported)}},
		"among ten thousand pods": {many, want{reservations(whole), none, none}},
		"names that move the cursor": {answer(holding("a\x1b[31m", "cuda", "nvidia.com/gpu", "GPU-a")),
			want{reservations(reserved("a\uFFFD[31m", "cuda", "nvidia.com/gpu", "")), none, none}},
		"no kubelet": {func(*machine) {}, want{}},
		"not allowed": {func(m *machine) {
			(&kubelet{fails: status.Error(codes.PermissionDenied, "no")}).listen(m, kubeletSocket)
		},
			want{absent(gpu.NotPermitted), absent(gpu.NotPermitted), absent(gpu.NotPermitted)}},
		"an error": {func(m *machine) {
			(&kubelet{fails: status.Error(codes.Unavailable, "starting")}).listen(m, kubeletSocket)
		}, want{}},
		"garbage": {func(m *machine) { m.babble(kubeletSocket, strings.Repeat("?", 4000)) }, want{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSocketMachine(t, "root-v2")
			tt.prepare(m)
			r := m.reader(ShowAll)
			defer r.Close()
			for i, d := range m.reserved(r, someDevices()) {
				got, want := d.Reservations, tt.want[i]
				if got.Quality() != want.Quality() || !slices.Equal(got.Or(nil), want.Or(nil)) {
					t.Errorf("%s: %v, want %v", d.UUID, got, want)
				}
			}
		})
	}
}

// A socket without access. Root has access everywhere, so only other users can be refused.
func TestClosedKubeletSocket(t *testing.T) {
	r := New("/sys", ShowNone, slog.New(slog.DiscardHandler)).reservations
	defer r.close()
	if _, err := r.ask(struct{}{}, time.Now()); absence(err) != gpu.NotReported {
		t.Errorf("without a kubelet: %v", err)
	}
	if !boundByPermissions(t) {
		return
	}
	m := newSocketMachine(t, "root-v2")
	(&kubelet{}).listen(m, kubeletSocket)
	if err := os.Chmod(m.root+"/"+kubeletSocket, 0); err != nil {
		t.Fatal(err)
	}
	closed := m.reader(ShowAll)
	defer closed.Close()
	if got := m.reserved(closed, someDevices())[0].Reservations; got.Quality() != gpu.NotPermitted {
		t.Errorf("reservations = %v", got)
	}
}

// The kubelet is asked now and then, not at each reading; a silent one holds nothing up, and its previous answer stays valid for a while.
func TestKubeletIsAskedNowAndThen(t *testing.T) {
	m := newSocketMachine(t, "root-v2")
	k := &kubelet{pods: []*podresources.PodResources{holding("train-0", "cuda", "nvidia.com/gpu", "GPU-a")}, comes: make(chan struct{}, 1)}
	k.listen(m, kubeletSocket)
	r := m.reader(ShowAll)
	defer r.Close()
	first := someDevices()
	r.Reserve(first)
	if first[0].Reservations.Present() {
		t.Error("something is known before the kubelet was asked")
	}
	for range 5 {
		m.reserved(r, someDevices())
	}
	if n := k.asked.Load(); n != 1 {
		t.Errorf("asked %d times at once", n)
	}
	m.now = m.now.Add(reservedEvery)
	k.empty.Store(true)
	if got := m.reserved(r, someDevices())[0].Reservations; !got.Present() || len(got.Or(nil)) != 0 || k.asked.Load() != 2 {
		t.Errorf("let go: %v, asked %d times", got, k.asked.Load())
	}

	m.now = m.now.Add(reservedEvery)
	k.hangs.Store(true)
	r.Reserve(someDevices())
	m.pass(k.comes)
	if got := m.reserved(r, someDevices())[0].Reservations; !got.Present() {
		t.Errorf("silent for a moment: %v", got)
	}
	m.now = m.now.Add(reservedFor - reservedEvery + time.Second)
	m.reserved(r, someDevices())
	if n := k.asked.Load(); n != 3 {
		t.Errorf("a silent kubelet is asked again within its rest: %d times", n)
	}
	m.now = m.now.Add(reservedFor)
	r.Reserve(someDevices())
	m.pass(k.comes)
	if got := m.reserved(r, someDevices())[0].Reservations; got.Present() || k.asked.Load() != 4 {
		t.Errorf("silent for minutes: %v, asked %d times", got, k.asked.Load())
	}
}

// An answer is valid for a minute, whatever happens to the kubelet.
func TestReservationsOfAKubeletThatIsGone(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"removed":            func(*machine) {},
		"without the method": func(m *machine) { m.serveGRPC(kubeletSocket, func(*grpc.Server) {}) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newSocketMachine(t, "root-v2")
			(&kubelet{pods: []*podresources.PodResources{holding("train-0", "cuda", "nvidia.com/gpu", "GPU-a")}}).listen(m, kubeletSocket)
			r := m.reader(ShowAll)
			defer r.Close()
			m.reserved(r, someDevices())
			m.remove(kubeletSocket)
			change(m)
			m.now = m.now.Add(reservedFor)
			if got := m.reserved(r, someDevices())[0].Reservations; len(got.Or(nil)) != 1 {
				t.Errorf("after a minute: %v", got)
			}
			m.now = m.now.Add(time.Second)
			if got := m.reserved(r, someDevices())[0].Reservations; got.Present() {
				t.Errorf("after more than a minute: %v", got)
			}
		})
	}
}

// Close ends the current question, and none follows.
func TestCloseEndsTheKubeletsQuestion(t *testing.T) {
	m := newSocketMachine(t, "root-v2")
	k := &kubelet{comes: make(chan struct{}, 1)}
	k.hangs.Store(true)
	k.listen(m, kubeletSocket)
	r := m.reader(ShowAll)
	r.Reserve(someDevices()) // the test would hang here
	testkit.Receive(t, "the question comes", k.comes)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r.Reserve(someDevices())
	if err := r.Settle(t.Context()); err != nil || k.asked.Load() != 1 {
		t.Errorf("asked after Close: %d times, %v", k.asked.Load(), err)
	}
}
