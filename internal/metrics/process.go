package metrics

import (
	"cmp"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	maxGroups   = 20          // of a device that have series; all other processes are one more group
	othersName  = "(others)"  // the name and the user of that group
	unknownName = "(unknown)" // a name or a user that the host does not know
)

// A group is the processes on a device that have one name and one user.
type group struct {
	name, user string
	pids       int
	// Sums over the processes that report it. They are absent if none does.
	memory gpu.Reading[float64] // bytes
	sm     gpu.Reading[float64] // percent
}

func (g *group) add(o group) {
	g.pids += o.pids
	g.memory = sum(g.memory, o.memory)
	g.sm = sum(g.sm, o.sm)
}

func sum(x, y gpu.Reading[float64]) gpu.Reading[float64] {
	v, ok := y.Get()
	if !ok {
		return x
	}
	w, ok := x.Get()
	if !ok {
		return y
	}
	if x.Quality() == gpu.Doubtful || y.Quality() == gpu.Doubtful {
		return gpu.DoubtfulOf(v + w)
	}
	return gpu.Of(v + w)
}

// groupsOf sums processes by name and user.
func groupsOf(processes []gpu.Process) []group {
	type key struct{ name, user string }
	index := make(map[key]int, len(processes))
	var all []group
	for i := range processes {
		p := &processes[i]
		g := group{
			name: validLabel(p.Facts.Name.Or(unknownName)), user: validLabel(p.Facts.User.Or(unknownName)),
			pids: 1, memory: num(p.Memory), sm: num(p.SM),
		}
		k := key{g.name, g.user}
		if j, ok := index[k]; ok {
			all[j].add(g)
			continue
		}
		index[k] = len(all)
		all = append(all, g)
	}
	if len(all) <= maxGroups {
		return all
	}
	return fold(all)
}

// fold keeps the heaviest groups and makes one of the others. A group's weight is
// its share of all processes' memory or of the SMs' time, whichever is more.
// Doubtful readings have no weight.
func fold(all []group) []group {
	memory := 0.0
	for _, g := range all {
		memory += trusted(g.memory)
	}
	weight := func(g group) float64 {
		w := trusted(g.sm) / 100
		if memory > 0 {
			w = max(w, trusted(g.memory)/memory)
		}
		return w
	}
	slices.SortFunc(all, func(x, y group) int {
		return cmp.Or(
			cmp.Compare(weight(y), weight(x)),
			cmp.Compare(x.name, y.name), cmp.Compare(x.user, y.user),
		)
	})
	kept := make([]group, 0, maxGroups+1)
	others := group{name: othersName, user: othersName}
	for i, g := range all {
		if i < maxGroups && (g.name != othersName || g.user != othersName) {
			kept = append(kept, g)
		} else { // one more, or a program that is called so
			others.add(g)
		}
	}
	return append(kept, others)
}

// trusted is the value, or 0 where there is no good one.
func trusted(r gpu.Reading[float64]) float64 {
	if v, ok := r.Trusted(); ok {
		return v
	}
	return 0
}
