package amd

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// kfd is what the compute driver reports about one card, below /sys/class/kfd/kfd. It answers from its own memory, and wakes no card.
type kfd struct {
	root drm.Folder
	// parts are the card itself, or its partitions if it is divided.
	parts []part
}

// A part is a node of the compute driver's topology.
type part struct {
	id       uint64 // the compute driver's id, used in file names
	target   uint64 // the instruction set: 110000 is gfx1100
	render   uint64 // the minor number of the render node
	units    int    // compute units; 0: not known
	engines  int    // compute chiplets; 0: not known
	cores    uint64 // processor cores in the node beside the GPU
	memory   gpu.Reading[gpu.Bytes]
	location uint64
}

// find looks for the nodes of a card. A card's partitions differ only in the PCI function.
func (k *kfd) find(card *drm.Card) {
	k.parts = nil
	domain, place, ok := placeOf(card.Address)
	if !ok {
		return
	}
	nodes := k.root.In("topology/nodes")
	entries, err := os.ReadDir(nodes.Path)
	if err != nil {
		return
	}
	for _, e := range entries {
		node := nodes.In(e.Name())
		text, err := node.Bytes("properties")
		if err != nil {
			continue // a container sees only its own nodes
		}
		values := properties(text)
		const busAndDevice = 0xfff8
		if values["vendor_id"] != vendor || values["domain"] != domain || values["location_id"]&busAndDevice != place {
			continue
		}
		id, err := node.Number("gpu_id")
		if err != nil || id <= 0 {
			continue
		}
		p := part{
			id: uint64(id), target: values["gfx_target_version"], render: values["drm_render_minor"],
			engines: int(min(values["num_xcc"], 1<<10)), cores: values["cpu_cores_count"],
			location: values["location_id"], memory: memoryOf(node),
		}
		if simds := values["simd_per_cu"]; simds > 0 {
			p.units = int(min(values["simd_count"]/simds, 1<<16))
		}
		k.parts = append(k.parts, p)
	}
	slices.SortFunc(k.parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.location, b.location), cmp.Compare(a.render, b.render), cmp.Compare(a.id, b.id))
	})
}

// placeOf splits an address as the topology does: its domain, and bus and device as bits.
func placeOf(address string) (domain, place uint64, ok bool) {
	var bus, device, function uint64
	n, err := fmt.Sscanf(address, "%x:%x:%x.%x", &domain, &bus, &device, &function)
	return domain, bus<<8 | device<<3, n == 4 && err == nil
}

// properties parses lines with a name and a number.
func properties(text []byte) map[string]uint64 {
	const most = 256
	all := map[string]uint64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan() && len(all) < most; {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
			all[name] = n
		}
	}
	return all
}

// memoryOf adds up the banks of a node that are the card's own memory.
func memoryOf(node drm.Folder) gpu.Reading[gpu.Bytes] {
	const private, public = 1, 2 // the card's own memory: hidden from the host, or visible to it
	banks := node.In("mem_banks")
	entries, err := os.ReadDir(banks.Path)
	if err != nil {
		return gpu.Absent[gpu.Bytes](drm.Quality(err))
	}
	total := gpu.Absent[gpu.Bytes](gpu.NotSupported)
	for _, e := range entries {
		text, err := banks.In(e.Name()).Bytes("properties")
		if err != nil {
			return gpu.Absent[gpu.Bytes](drm.Quality(err))
		}
		values := properties(text)
		heap, known := values["heap_type"]
		if size := gpu.Bytes(values["size_in_bytes"]); known && (heap == private || heap == public) && size <= drm.MostMemory {
			total = gpu.Of(min(total.Or(0)+size, drm.MostMemory))
		}
	}
	return total
}

// architectures are AMD's names, by instruction set version.
var architectures = []struct {
	from, to uint64
	name     string
}{
	{70000, 89999, "GCN"}, {90000, 90007, "GCN 5"}, {90008, 90008, "CDNA"}, {90009, 90009, "GCN 5"},
	{90010, 90010, "CDNA 2"}, {90012, 90012, "GCN 5"}, {90400, 90499, "CDNA 3"}, {90500, 90599, "CDNA 4"},
	{100100, 100199, "RDNA"}, {100300, 100399, "RDNA 2"}, {110000, 110099, "RDNA 3"}, {110500, 110599, "RDNA 3.5"},
	{120000, 120099, "RDNA 4"},
}

// target returns the version of the card's instruction set; 0: not known.
func (k *kfd) target() uint64 {
	if len(k.parts) == 0 {
		return 0
	}
	return k.parts[0].target
}

// architecture returns the card's architecture, such as "RDNA 3".
func (k *kfd) architecture() gpu.Reading[string] {
	target := k.target()
	if target == 0 {
		return gpu.Absent[string](gpu.NotSupported)
	}
	for _, a := range architectures {
		if target >= a.from && target <= a.to {
			return gpu.Of(a.name)
		}
	}
	return gpu.Reading[string]{}
}

// renderNodes returns the render nodes of the card and its partitions.
func (k *kfd) renderNodes() (names []string) {
	const first, last = 128, 1 << 20
	for _, p := range k.parts {
		if p.render >= first && p.render <= last {
			names = append(names, fmt.Sprint("renderD", p.render))
		}
	}
	return names
}

// instances returns the partitions of a divided card.
func (k *kfd) instances(card gpu.Identity, mode gpu.Reading[string]) []gpu.Instance {
	if len(k.parts) < 2 {
		return nil
	}
	all := make([]gpu.Instance, len(k.parts))
	for i, p := range k.parts {
		in := &all[i]
		gpu.Withdraw(in, gpu.NotSupported)
		in.UUID = fmt.Sprintf("%s-partition-%d", card.UUID, i)
		in.Name = strings.Join(strings.Fields(fmt.Sprintf("%s %s partition %d", card.Name, mode.Or(""), i)), " ")
		in.Profile, in.GPUInstance = mode, gpu.Of(i)
		in.Memory.Total = p.memory
		if p.units > 0 {
			in.Multiprocessors = gpu.Of(p.units)
		}
		if p.engines > 0 {
			in.ComputeSliceCount = gpu.Of(p.engines)
		}
	}
	return all
}

// A user is a process that uses the compute driver.
type user struct {
	pid    int
	memory gpu.Reading[gpu.Bytes] // on this card
}

// uses reports whether the process uses this card: a process has a file for each card of the machine, and memory on those that it computes
// on.
func (u *user) uses() bool { return !u.memory.Present() || u.memory.Or(0) > 0 }

// users lists the compute driver's processes that know the card or a partition, by pid; ok is false if the driver has no such list.
func (k *kfd) users() (all []user, ok bool) {
	if len(k.parts) == 0 {
		return nil, false
	}
	list := k.root.In("proc")
	entries, err := os.ReadDir(list.Path)
	if err != nil {
		return nil, false
	}
	const most = 1024
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= 0 || len(all) == most {
			continue
		}
		u := user{pid: pid}
		listed := false
		for _, p := range k.parts {
			bytes := list.In(e.Name()).Size(fmt.Sprint("vram_", p.id))
			if bytes.Quality() == gpu.NotSupported {
				continue // the process does not know this card, or has just ended
			}
			listed = true
			if n, ok := bytes.Get(); ok {
				u.memory = gpu.Of(u.memory.Or(0) + n)
			} else if !u.memory.Present() {
				u.memory = bytes
			}
		}
		if listed {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b user) int { return cmp.Compare(a.pid, b.pid) })
	return all, true
}
