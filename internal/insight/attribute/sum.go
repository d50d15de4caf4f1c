package attribute

import (
	"cmp"
	"iter"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Sum is what one user, container or pod of a machine has of all its devices.
type Sum[K any] struct {
	// Of whom. A reported zero is the processes that are in no container or
	// pod; absent, those of which it is not known.
	Of   gpu.Reading[K]
	Node string
	// Processes are counted once, on however many Devices they are.
	Processes int
	Devices   int
	// Memory and Power are absent where none of the processes has one.
	Memory gpu.Reading[gpu.Bytes]
	Power  gpu.Reading[gpu.Watts]
}

// Devices yields devices, each with its attribution.
type Devices = iter.Seq2[*gpu.Device, *Attribution]

// ByUser adds up what each user has, most watts first. What is held by
// processes that don't exist any more is nobody's, and not in it.
func ByUser(devices Devices) []Sum[string] {
	return sums(devices, func(f *gpu.ProcessFacts) (gpu.Reading[string], string) {
		return f.User, f.User.Or("")
	})
}

// ByContainer does the same by container.
func ByContainer(devices Devices) []Sum[gpu.Container] {
	return sums(devices, func(f *gpu.ProcessFacts) (gpu.Reading[gpu.Container], string) {
		return f.Container, f.Container.Or(gpu.Container{}).ID
	})
}

// ByPod does the same by pod.
func ByPod(devices Devices) []Sum[gpu.Pod] {
	return sums(devices, func(f *gpu.ProcessFacts) (gpu.Reading[gpu.Pod], string) {
		return f.Pod, f.Pod.Or(gpu.Pod{}).UID
	})
}

// sums adds up by what of says of a process: to whom it belongs, and the text
// by which that one is known.
func sums[K any](devices Devices, of func(*gpu.ProcessFacts) (gpu.Reading[K], string)) []Sum[K] {
	type key struct {
		node, id string
		known    bool
	}
	type counted struct{ sum, pid int }
	var out []Sum[K]
	var ids []string
	var last []int // device that counts in the sum
	at := map[key]int{}
	seen := map[counted]bool{}
	i := -1
	for d, a := range devices {
		i++
		list := d.Processes.Or(nil)
		for j := range list {
			share := &a.Shares[j]
			if share.Orphan || share.Repeated {
				continue
			}
			who, id := of(&list[j].Facts)
			k := key{d.Node, id, who.Present()}
			n, ok := at[k]
			if !ok {
				n = len(out)
				at[k] = n
				out, ids, last = append(out, Sum[K]{Of: who, Node: d.Node}), append(ids, id), append(last, -1)
			}
			sum := &out[n]
			if c := (counted{n, list[j].PID}); !seen[c] {
				seen[c] = true
				sum.Processes++
			}
			if last[n] != i {
				last[n] = i
				sum.Devices++
			}
			sum.Memory = add(sum.Memory, share.Memory)
			sum.Power = add(sum.Power, share.Power)
		}
	}
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(out[b].Power.Or(0), out[a].Power.Or(0)),
			cmp.Compare(out[b].Memory.Or(0), out[a].Memory.Or(0)),
			cmp.Compare(out[a].Node, out[b].Node),
			cmp.Compare(ids[a], ids[b]),
		)
	})
	sorted := make([]Sum[K], len(out))
	for i, n := range order {
		sorted[i] = out[n]
	}
	return sorted
}

func add[T gpu.Bytes | gpu.Watts](sum, r gpu.Reading[T]) gpu.Reading[T] {
	v, ok := r.Get()
	switch {
	case !ok:
		return sum
	case r.Quality() == gpu.Doubtful || sum.Quality() == gpu.Doubtful:
		return gpu.DoubtfulOf(sum.Or(0) + v)
	}
	return gpu.Of(sum.Or(0) + v)
}
