package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/shirou/gopsutil/v3/net"
)

// readNetworks lists the interfaces that are up, except loopback and virtual ones.
func (r *Reader) readNetworks(ctx context.Context, h *gpu.Host) error {
	all, err := net.IOCountersByFileWithContext(ctx, true, r.path("proc/net/dev"))
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range all {
		if virtual(n.Name) {
			continue
		}
		up, err := r.isUp(n.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
		}
		if !up {
			continue
		}
		h.Networks = append(h.Networks, gpu.Interface{
			Name:          n.Name,
			Received:      r.rates.bytes(n.Name+" received", n.BytesRecv),
			Sent:          r.rates.bytes(n.Name+" sent", n.BytesSent),
			ReceivedTotal: gpu.Of(gpu.Bytes(n.BytesRecv)),
			SentTotal:     gpu.Of(gpu.Bytes(n.BytesSent)),
		})
	}
	slices.SortFunc(h.Networks, func(a, b gpu.Interface) int { return cmp.Compare(a.Name, b.Name) })
	return errors.Join(errs...)
}

// virtualPrefixes belong to containers and virtual machines. The real interfaces count their traffic too.
var virtualPrefixes = []string{
	"veth", "docker", "br-", "virbr", "vnet", "tap", "cni", "cali", "flannel", "cilium", "lxc", "lxdbr",
	"incusbr", "podman", "kube-ipvs", "nodelocaldns", "dummy", "ifb", "tunl", "sit",
}

func virtual(name string) bool {
	return slices.ContainsFunc(virtualPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// isUp reports whether an interface is up and not loopback, by its flags (/sys/class/net/<name>/flags). A driver without link state reports
// "unknown".
func (r *Reader) isUp(name string) (bool, error) {
	const up, loopback = 0x1, 0x8 // IFF_UP, IFF_LOOPBACK
	text, err := r.line("sys/class/net/" + name + "/flags")
	if err != nil {
		return false, err
	}
	flags, err := strconv.ParseUint(text, 0, 32)
	if err != nil || flags&up == 0 || flags&loopback != 0 {
		return false, err
	}
	state, err := r.line("sys/class/net/" + name + "/operstate")
	return state == "up" || state == "unknown", err
}
