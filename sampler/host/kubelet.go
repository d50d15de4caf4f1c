package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	reservedEvery   = 10 * time.Second // time between two questions to the kubelet
	reservedFor     = time.Minute      // how long an answer is valid
	maxReservations = 4096             // reservations kept from one answer
)

// kubeletSockets are the kubelet's sockets below the root: the usual one, and those of k0s and MicroK8s.
var kubeletSockets = []string{
	"var/lib/kubelet/pod-resources/kubelet.sock",
	"var/lib/k0s/kubelet/pod-resources/kubelet.sock",
	"var/snap/microk8s/common/var/lib/kubelet/pod-resources/kubelet.sock",
}

// A reservations knows for which containers the kubelet reserves devices.
type reservations = asker[struct{}, holders]

func kubelets(root string) (ways []way[holders]) {
	for _, path := range kubeletSockets {
		ways = append(ways, way[holders]{"the kubelet", root + "/" + path, askKubelet})
	}
	return ways
}

// Reserve sets for whom the devices are reserved; the caller must not change the lists. It asks the kubelet in the background, every ten
// seconds, so the first call knows nothing yet. An answer is valid for a minute.
//
// Source: v1.PodResourcesLister/List on the kubelet's socket (/var/lib/kubelet/pod-resources/kubelet.sock), which root may open. It only
// exists on Linux: elsewhere Reserve does nothing.
func (r *Reader) Reserve(devices []gpu.Device) {
	if len(devices) == 0 || r.portable {
		return
	}
	now := r.now()
	k := r.reservations.lookUp(struct{}{}, now)
	known := !k.asked.IsZero() && now.Sub(k.asked).Abs() <= reservedFor
	for i := range devices {
		devices[i].Reservations = gpu.Absent[[]gpu.Reservation](k.quality)
		if known {
			devices[i].Reservations = k.value.reservations(&devices[i])
		}
	}
}

func askKubelet(ctx context.Context, socket string) (holders, error) {
	list, err := callSocket(ctx, socket, func(conn grpc.ClientConnInterface) (*podresources.ListPodResourcesResponse, error) {
		return podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	})
	if errors.Is(err, errUnknown) { // a failure: the previous answer holds for a while
		err = errors.New(socket + ": the kubelet lists no resources of pods")
	}
	return newHolders(list.GetPodResources()), err
}

// holders are the holders of each device, by the UUID or PCI address that the device plugin uses.
type holders struct {
	byID    map[string][]gpu.Reservation
	unnamed bool // somebody holds a GPU of unknown name: it may be any
}

func newHolders(pods []*podresources.PodResources) holders {
	h := holders{byID: map[string][]gpu.Reservation{}}
	left := maxReservations
	for _, pod := range pods {
		for _, container := range pod.GetContainers() {
			for _, devices := range container.GetDevices() {
				if !gpuResource().MatchString(devices.GetResourceName()) {
					continue
				}
				for _, id := range devices.GetDeviceIds() {
					if left--; left < 0 {
						h.unnamed = true
						return h
					}
					h.add(id, gpu.Reservation{
						Namespace: short(pod.GetNamespace()), Pod: short(pod.GetName()),
						Container: short(container.GetName()), Resource: short(devices.GetResourceName()),
					})
				}
			}
			// A claim (DRA) names a device in a way that only its driver understands.
			for _, claim := range container.GetDynamicResources() {
				for _, resource := range claim.GetClaimResources() {
					h.unnamed = h.unnamed || gpuResource().MatchString(resource.GetDriverName()+"/")
				}
			}
		}
	}
	return h
}

// gpuResource matches a resource that is a GPU or a part of one: "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu", or named after
// a driver.
var gpuResource = lazy.Pattern(`^(?:nvidia\.com/|gpu\.(?:nvidia|amd|intel)\.com/|amd\.com/gpu)`)

// add records who holds a device. A shared device (time slices, MPS) has "::" and a number after its UUID, and one container may hold it
// twice. Old drivers name an instance "MIG-GPU-<uuid>/1/0".
func (h *holders) add(id string, r gpu.Reservation) {
	id, _, _ = strings.Cut(id, "::")
	switch {
	case strings.HasPrefix(id, "MIG-GPU-"):
		r.Instance = short(id)
		id, _, _ = strings.Cut(strings.TrimPrefix(id, "MIG-"), "/")
	case strings.HasPrefix(id, "MIG-"):
		r.Instance = short(id)
	case !strings.HasPrefix(id, "GPU-") && strings.Count(id, ":") != 2:
		h.unnamed = true
		return
	}
	if id = strings.ToLower(id); !slices.Contains(h.byID[id], r) {
		h.byID[id] = append(h.byID[id], r)
	}
}

// reservations returns who holds a device, or an instance of it.
func (h *holders) reservations(d *gpu.Device) gpu.Reading[[]gpu.Reservation] {
	out := []gpu.Reservation{}
	for _, id := range []string{d.UUID, d.PCI} {
		out = append(out, h.byID[strings.ToLower(id)]...)
	}
	for i := range d.Instances {
		out = append(out, h.byID[strings.ToLower(d.Instances[i].UUID)]...)
	}
	switch {
	case len(out) > 0:
		return gpu.Of(out)
	case h.unnamed:
		return gpu.Absent[[]gpu.Reservation](gpu.NotSupported)
	case d.Modes.MIG.Or(false) && len(d.Instances) == 0:
		return gpu.Reading[[]gpu.Reservation]{} // the names of its instances are not known
	}
	return gpu.Of(out)
}
