package metrics

import (
	"cmp"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	// maxGroups is how many groups of processes a device has series for;
	// the rest is one more, so that 500 processes are 21 groups.
	maxGroups = 20
	// othersName is the name and the user of that one, and unknownName
	// stands for what the host does not say. No program is called so, and if
	// one is, it is added to it.
	othersName  = "(others)"
	unknownName = "(unknown)"
)

// A group is the processes on a device that have one name and one user.
type group struct {
	name, user string
	pids       int
	// Sums over those that report it; absent where none does.
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

// groupsOf sums processes up by name and user: at most maxGroups of them, those
// that weigh most, and one for the rest.
func groupsOf(processes []gpu.Process) []group {
	type key struct{ name, user string }
	at := make(map[key]int, len(processes))
	var all []group
	for i := range processes {
		p := &processes[i]
		g := group{
			name: validLabel(p.Facts.Name.Or(unknownName)), user: validLabel(p.Facts.User.Or(unknownName)),
			pids: 1, memory: num(p.Memory), sm: num(p.SM),
		}
		k := key{g.name, g.user}
		j, ok := at[k]
		if !ok {
			at[k] = len(all)
			all = append(all, g)
			continue
		}
		all[j].add(g)
	}
	if len(all) <= maxGroups {
		return all
	}
	return fold(all)
}

// fold keeps the heaviest groups and makes one of the others. A group weighs
// its share of all processes' memory, or of the SMs' time where that is more;
// what can't be right weighs nothing.
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
	kept := all[:maxGroups:maxGroups]
	rest := group{name: othersName, user: othersName}
	for _, g := range all[maxGroups:] {
		rest.add(g)
	}
	same := slices.IndexFunc(kept, func(g group) bool { return g.name == rest.name && g.user == rest.user })
	if same >= 0 {
		kept[same].add(rest)
		return kept
	}
	return append(kept, rest)
}

// trusted is the value, or 0 where there is none that can be right.
func trusted(r gpu.Reading[float64]) float64 {
	v, ok := r.Trusted()
	if !ok {
		return 0
	}
	return v
}
