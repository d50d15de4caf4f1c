package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// A Reservation is one container that a device, or one of its MIG instances, is
// reserved for. Several may share one.
type Reservation struct {
	Namespace, Pod, Container string
	Resource                  string // what the container asked for, such as "nvidia.com/gpu"
	Instance                  string // UUID of the MIG instance; empty: the whole device
}

// ReservedBy says, for people, who a device is reserved for: "pod ml/train-0",
// "pod ml/train-0, pod ml/eval and 3 more", or "nobody". It is absent if
// Reservations is.
func (d *Device) ReservedBy() Reading[string] {
	return Map(d.Reservations, func(list []Reservation) string {
		const most = 3
		pods := ReservingPods(list)
		switch {
		case len(pods) == 0:
			return "nobody"
		case len(pods) > most:
			return fmt.Sprintf("pod %s and %d more", strings.Join(pods[:most-1], ", pod "), len(pods)-most+1)
		default:
			return "pod " + strings.Join(pods, ", pod ")
		}
	})
}

// ReservingPods returns the names of the reserving pods, such as "ml/train-0", each once.
func ReservingPods(list []Reservation) (pods []string) {
	for _, r := range list {
		if pod := r.Namespace + "/" + r.Pod; !slices.Contains(pods, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}
