package attribute

import (
	"cmp"
	"iter"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Sum is what one user, container or pod of a machine uses of all its devices.
type Sum[K any] struct {
	// Of is the user, container or pod. A reported zero value stands for processes in none, an absent one for processes for which it is not
	// known.
	Of gpu.Reading[K]
	Holding
}

// A Holding is what somebody has of a machine's devices.
type Holding struct {
	Node string
	// Processes counts a process once, however many Devices it uses.
	Processes int
	Devices   int
	// Memory and Power are absent if none of the processes has one.
	Memory gpu.Reading[gpu.Bytes]
	Power  gpu.Reading[gpu.Watts]
}

// Devices yields devices, each with its attribution.
type Devices = iter.Seq2[*gpu.Device, *Attribution]

// ByUser adds up what each user has, most watts first. It leaves out memory held by processes that no longer exist.
func ByUser(devices Devices) []Sum[string] {
	return sums(devices, func(f *gpu.ProcessFacts) (gpu.Reading[string], string) {
		return f.User, f.User.Or("")
	})
}

// ByContainer is ByUser for containers.
func ByContainer(devices Devices) []Sum[gpu.Container] {
	return sums(devices, func(f *gpu.ProcessFacts) (gpu.Reading[gpu.Container], string) {
		return f.Container, f.Container.Or(gpu.Container{}).ID
	})
}

// ByPod is ByUser for pods.
func ByPod(devices Devices) []Sum[gpu.Pod] {
	return sums(devices, func(f *gpu.ProcessFacts) (gpu.Reading[gpu.Pod], string) {
		return f.Pod, f.Pod.Or(gpu.Pod{}).UID
	})
}

// sums adds up by owner. of returns a process's owner, and the owner's key.
func sums[K any](devices Devices, ownerOf func(*gpu.ProcessFacts) (gpu.Reading[K], string)) []Sum[K] {
	type key struct {
		node, id string
		known    bool
	}
	type keyed struct {
		Sum[K]
		id   string
		last *gpu.Device // last device counted in the sum
		pids map[int]bool
	}
	var all []*keyed
	totals := map[key]*keyed{}
	for d, a := range devices {
		list := d.Processes.Or(nil)
		for j := range list {
			share := &a.Shares[j]
			if share.Orphan || share.Repeated {
				continue
			}
			owner, id := ownerOf(&list[j].Facts)
			k := key{d.Node, id, owner.Present()}
			sum := totals[k]
			if sum == nil {
				sum = &keyed{Sum: Sum[K]{owner, Holding{Node: d.Node}}, id: id, pids: map[int]bool{}}
				totals[k] = sum
				all = append(all, sum)
			}
			sum.pids[list[j].PID] = true
			if sum.last != d {
				sum.last = d
				sum.Devices++
			}
			sum.Memory = add(sum.Memory, share.Memory)
			sum.Power = add(sum.Power, share.Power)
		}
	}
	slices.SortStableFunc(all, func(a, b *keyed) int {
		return cmp.Or(
			cmp.Compare(b.Power.Or(0), a.Power.Or(0)),
			cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)),
			cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.id, b.id),
		)
	})
	out := make([]Sum[K], len(all))
	for i, sum := range all {
		out[i] = sum.Sum
		out[i].Processes = len(sum.pids)
	}
	return out
}

// add adds a reading to a sum. An absent reading adds nothing.
func add[T gpu.Bytes | gpu.Watts](sum, r gpu.Reading[T]) gpu.Reading[T] {
	v, ok := r.Get()
	switch {
	case !ok:
		return sum
	case r.Quality() == gpu.Doubtful || sum.Quality() == gpu.Doubtful:
		return gpu.DoubtfulOf(sum.Or(0) + v)
	default:
		return gpu.Of(sum.Or(0) + v)
	}
}
