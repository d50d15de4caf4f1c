package contract

import (
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// Machines answers GET /api/machines: the machines in the order in which people should look at them.
type Machines struct {
	Machines []Machine `json:"machines"` // the worst first; empty before the first reading
}

// Machine is one machine in short: how it stands, and its totals.
type Machine struct {
	Node    string `json:"node"`                                                           // its name
	Cluster string `json:"cluster_id"`                                                     // its cluster; "local" if it has none
	Source  string `json:"source" enum:"source"`                                           // the source of its readings
	State   string `json:"standing" enum:"resting,cooling,busy,loud,unread,silent,broken"` // how it stands: the later in this list, the sooner people should look
	Layers
	Timestamp   string `json:"timestamp" format:"date-time"`              // time of its newest snapshot
	SilentSince string `json:"silent_since,omitempty" format:"date-time"` // when it went silent; left out while it sends data
	Totals
	MayOperate bool `json:"may_operate"` // whether whoever asks may act on it, such as acknowledge and silence its alerts
}

// standingNames are the standings as programs read them.
var standingNames = map[explain.Standing]string{
	explain.Resting: "resting", explain.Cooling: "cooling", explain.Busy: "busy", explain.Loud: "loud",
	explain.Unread: "unread", explain.Silent: "silent", explain.Broken: "broken",
}

// NewMachines makes it. mayOperate says on which machines whoever asks may act.
func NewMachines(f *insight.Fleet, mayOperate func(*insight.Moment) bool) Machines {
	sorted := slices.SortedStableFunc(slices.Values(f.Moments()), insight.WorstFirst)
	return Machines{listOf(sorted, func(m **insight.Moment) Machine { return newMachine(*m, mayOperate(*m)) })}
}

func newMachine(m *insight.Moment, mayOperate bool) Machine {
	return Machine{
		Node: m.Snapshot.Node, Cluster: ClusterOf(m), Source: m.Snapshot.Source, State: standingNames[m.Standing()],
		Layers: NewLayers(&m.Answer), Timestamp: timestamp(m.Snapshot.Time), SilentSince: silentSince(m),
		Totals: Totals(gpu.Nodes{m.Snapshot}.Totals()), MayOperate: mayOperate,
	}
}
