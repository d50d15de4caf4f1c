package alert

import (
	"bytes"
	"cmp"
	_ "embed"
	"maps"
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A Watch is what a rule looks at.
type Watch string

// What can be watched.
const (
	Utilization       Watch = "utilization"        // of the GPU, in percent
	Temperature       Watch = "temperature"        // of the die
	TemperatureMargin Watch = "temperature_margin" // degrees left to the device's own slowdown limit; fires below the threshold
	MemoryTemperature Watch = "memory_temperature" // of the memory
	Memory            Watch = "memory"             // used, in percent
	MemoryFullIn      Watch = "memory_full_in"     // minutes until the memory is full, where that can be told; fires below the threshold
	Power             Watch = "power"              // draw in watts
	PowerShare        Watch = "power_share"        // draw in percent of the limit in force
	Fan               Watch = "fan"                // the highest commanded speed, in percent
	FanFailing        Watch = "fan_failing"        // a fan does not turn as it is told to
	ThrottledByHeat   Watch = "throttled_by_heat"
	ThrottledByPower  Watch = "throttled_by_power"
	XID               Watch = "xid"            // errors that the driver reported
	Fault             Watch = "fault"          // hangs, resets and errors without a code
	NeedsAction       Watch = "needs_action"   // the driver asks for a reset or the like
	FanUnreadable     Watch = "fan_unreadable" // the driver fails to read a fan
	ECC               Watch = "ecc"            // uncorrected memory errors
	RowRemap          Watch = "row_remap"      // memory that waits to be replaced, or can't be
	Lost              Watch = "lost"           // gone from the bus
	NotAnswering      Watch = "not_answering"
	DriverGone        Watch = "driver_gone"   // a source that worked fails; about the machine
	NodeSilent        Watch = "node_silent"   // nothing comes from the gpuwhy that reads a node of the fleet; about the machine
	IdleHeld          Watch = "idle_held"     // MiB that processes hold while the GPU has no work
	IdleReserved      Watch = "idle_reserved" // the scheduler keeps the GPU for somebody, and it has no work
	OrphanMemory      Watch = "orphan_memory" // MiB held by processes that don't exist any more
)

// Watches lists what can be watched, by name.
func Watches() []Watch { return slices.Sorted(maps.Keys(watches)) }

// Unit is that of the threshold and the value; empty for counters and conditions.
func (w Watch) Unit() string { return w.watch().Unit }

// Below reports whether the watch fires below its threshold.
func (w Watch) Below() bool { return w.watch().Below }

// Condition reports whether the watch either is so or not: it has no threshold.
func (w Watch) Condition() bool { return w.watch().Condition }

func (w Watch) watch() *watch { return cmp.Or(watches[w], &watch{}) }

// A subject is a kind of things that rules look at.
type subject string

const (
	aDevice subject = ""
	aSource subject = "source" // of a machine
	aNode   subject = "node"   // that another program reads
)

// A watch is how something is measured: a row of watches.yaml.
type watch struct {
	Condition   bool   // its value is so (1) or not (0); it has no threshold
	Counter     bool   // its value is how many more came since the last look
	Reading     string // of [catalog.Readings], which has the unit and the value; may be empty
	Unit        string
	Below       bool
	Least, Most float64 // of thresholds
	About       subject // what it is about
	Shares      bool    // can be narrowed to users and processes
	Holds       bool    // culprits cause it by the memory that they hold, not by their work
	SinceStart  bool    `yaml:"since_start"` // the counter began at 0 when gpuwhy did: all that the first look shows is new
	Rule        Rule    // what a rule has unless it says otherwise
	words       words   `yaml:"-"`
	means       `yaml:"-"`
}

// means are what a watch calls; each may be nil.
type means struct {
	measure  func(*look) (float64, bool)       // a device's value; not ok where it is absent, or can't be trusted
	narrowed func(*look) (float64, bool)       // measure for a rule that looks at some of the processes alone
	pooled   func(*look) (float64, bool)       // measure of a device that works in the machine's memory
	culprits func(*look) []gpu.Process         // the processes that cause it
	more     func(*look) (text, advice string) // of what is beyond the threshold
	began    func(*look) time.Time             // since when it is so, of what is found to be so only later; zero where it was so from the first reading on
	instead  func(*look) string                // in place of words.over, unless it returns an empty text
}

const mib = 1 << 20

//go:embed watches.yaml
var inFile []byte

// watches and defaults are what watches.yaml has.
var watches, defaults = func() (map[Watch]*watch, []Rule) {
	var file struct {
		Anchors any
		Watches map[Watch]*watch
		Rules   []Rule
	}
	decoder := yaml.NewDecoder(bytes.NewReader(inFile))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		panic(err)
	}
	for name, w := range file.Watches {
		w.means, w.words = meansOf[name], wordsOf[name]
		if w.Reading == "" {
			continue
		}
		row := catalog.Reading(w.Reading)
		w.Unit = row.Unit.String()
		w.measure = func(s *look) (float64, bool) {
			switch {
			case name == Utilization && s.counterStuck():
				return 0, false
			case w.narrowed != nil && s.Scope.narrows():
				return w.narrowed(s)
			case w.pooled != nil && s.d.Shared.Unified.Or(false):
				return w.pooled(s)
			}
			return row.Number(s.d).Trusted()
		}
	}
	return file.Watches, file.Rules
}()

var meansOf = map[Watch]means{
	Utilization:       {narrowed: usedByThose, culprits: workers},
	Temperature:       {culprits: workers},
	TemperatureMargin: {measure: margin, culprits: workers},
	MemoryTemperature: {culprits: workers},
	Memory:            {narrowed: heldByThose, pooled: usedOfPool, culprits: holders},
	MemoryFullIn:      {measure: memoryFullIn, culprits: holders, instead: notFullSoon},
	Power:             {culprits: workers},
	PowerShare:        {measure: powerShare, culprits: workers},
	Fan:               {culprits: workers},
	FanFailing:        {measure: fanFailing, began: fanFailedAt},
	FanUnreadable:     {measure: driverSays(isUnreadableFan)},
	NeedsAction:       {measure: driverSays(gpu.FaultKind.AsksForAction), more: asked},
	ThrottledByHeat:   {measure: reasons(gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal), culprits: workers},
	ThrottledByPower:  {measure: reasons(gpu.ReasonPowerCap | gpu.ReasonHardwarePowerBrake), culprits: workers},
	XID:               {measure: xids, more: newestXID},
	Fault:             {measure: faults, more: newestFault},
	RowRemap:          {measure: remap},
	Lost:              {measure: inState(gpu.StateLost), instead: inOtherState},
	NotAnswering:      {measure: inState(gpu.StateNotAnswering), instead: inOtherState},
	IdleHeld:          {measure: idleHeld, culprits: holders, instead: notHeldIdle},
	IdleReserved:      {measure: idleReserved, more: reservedBy, instead: notReservedIdle},
	OrphanMemory:      {measure: orphans, culprits: gone},
}

// HighGPUUsage is the name of the rule about utilization, the oldest rule.
const HighGPUUsage = "high_gpu_usage"

// Default returns a rule with the times and margins that fit what it watches.
func Default(name string, w Watch) Rule {
	r := w.watch().Rule
	r.Name = name
	return r
}

// Defaults are the rules that hold without a file. Not all are enabled.
func Defaults() []Rule { return slices.Clone(defaults) }

// usedByThose sums the multiprocessor shares of the processes that the rule looks at.
func usedByThose(s *look) (float64, bool) {
	used, ok := sum(s, anyone, func(p *gpu.Process) gpu.Reading[gpu.Percent] { return p.SM })
	return min(used, 100), ok
}

func heldByThose(s *look) (float64, bool) {
	held, ok := s.held(anyone)
	total, known := s.d.Pool().Total.Trusted()
	if !ok || !known || total == 0 {
		return 0, false
	}
	return min(100*held/float64(total), 100), true
}

// usedOfPool is the share of the machine's memory and what is set apart of it together: the latter
// alone is always nearly full, and no program minds.
func usedOfPool(s *look) (float64, bool) {
	share, ok := s.d.Pool().Utilization().Trusted()
	return float64(share), ok
}

// held is how many bytes the wanted processes hold that the rule looks at.
func (s *look) held(wanted func(*gpu.Process) bool) (float64, bool) {
	return sum(s, wanted, func(p *gpu.Process) gpu.Reading[gpu.Bytes] { return p.Memory })
}

// sum adds up what the wanted processes report that the rule looks at. It is not
// ok where one does not report it, or the driver does not list processes.
func sum[T gpu.Percent | gpu.Bytes](
	s *look, wanted func(*gpu.Process) bool, of func(*gpu.Process) gpu.Reading[T],
) (float64, bool) {
	list, ok := s.d.Processes.Trusted()
	var all T
	for i := range list {
		if p := &list[i]; s.Scope.has(p) && wanted(p) {
			v, known := of(p).Trusted()
			all += v
			ok = ok && known
		}
	}
	return float64(all), ok
}

func anyone(*gpu.Process) bool { return true }

// margin is what the device says, or the distance to its slowdown limit.
func margin(s *look) (float64, bool) {
	if v, ok := s.d.Thermal.Margin.Trusted(); ok {
		return float64(v), true
	}
	temperature, ok := s.d.Thermal.GPU.Trusted()
	limit, known := s.d.Thermal.Slowdown.Trusted()
	return float64(limit - temperature), ok && known
}

// memoryFullIn is infinite where it was tried to tell when the memory is full, and that can't be told: most memory does not grow.
func memoryFullIn(s *look) (float64, bool) {
	if s.answer == nil || !s.answer.Asked || !s.d.Memory.Used.Present() {
		return 0, false
	}
	for _, p := range s.answer.Next {
		if left, ok := p.Left.Get(); ok && p.Kind == "memory_full" {
			return left.Minutes(), true
		}
	}
	return math.Inf(1), true
}

func powerShare(s *look) (float64, bool) {
	draw, ok := s.d.Power.Draw.Trusted()
	limit, known := s.d.Power.EnforcedLimit.Trusted()
	if !ok || !known || limit <= 0 {
		return 0, false
	}
	return 100 * float64(draw/limit), true
}

func is(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// fanFailing is whether a failing fan is one of the device's causes. It is known
// not to be one where all fans report their command and their speed.
func fanFailing(s *look) (float64, bool) {
	if s.answer == nil || s.d.State != gpu.StateOK {
		return 0, false
	}
	if fanFailure(s) != nil {
		return 1, true
	}
	mute := slices.ContainsFunc(s.d.Fans.Fans, func(f gpu.Fan) bool {
		_, commanded := f.Commanded.Trusted()
		_, turns := f.RPM.Trusted()
		return !commanded || !turns
	})
	return 0, len(s.d.Fans.Fans) > 0 && !mute
}

// counterStuck reports whether the answer says that the busy counter is stuck, and not as a guess.
func (s *look) counterStuck() bool {
	return s.answer != nil && slices.ContainsFunc(s.answer.Causes, func(c explain.Cause) bool {
		return c.Kind == explain.StuckCounter && c.Confidence >= explain.Medium
	})
}

// fanFailure is the cause that a fan fails; nil where none does. One that turns though nobody asks for it does not fail.
func fanFailure(s *look) *explain.Cause {
	i := slices.IndexFunc(s.answer.Causes, func(c explain.Cause) bool { return c.Kind == explain.FanFailing && c.Case != explain.Unasked })
	if i < 0 {
		return nil
	}
	return &s.answer.Causes[i]
}

// fanFailedAt is when a fan began to fail, which is a cause only after a while.
func fanFailedAt(s *look) time.Time { return fanFailure(s).Since.Round(0) }

func reasons(of gpu.ClockEventReasons) func(*look) (float64, bool) {
	return func(s *look) (float64, bool) {
		r, ok := s.d.Clocks.EventReasons.Trusted()
		return is(r&of != 0), ok
	}
}

func inState(wanted gpu.State) func(*look) (float64, bool) {
	return func(s *look) (float64, bool) { return is(s.d.State == wanted), !s.driverGone }
}

func xids(s *look) (float64, bool) {
	list, ok := s.d.Health.XIDs.Trusted()
	var n uint64
	for _, x := range list {
		if s.counts(x.Code) {
			n += x.Count - x.Earlier // what was before gpuwhy began is no news
		}
	}
	return float64(n), ok
}

func faults(s *look) (float64, bool) {
	list, ok := s.d.Health.Faults.Trusted()
	var n uint64
	for _, f := range list {
		if !noEvent(f) {
			n += f.Count - f.Earlier
		}
	}
	return float64(n), ok
}

// ofProgram reports whether a program's own mistake causes such a fault: no rule counts it.
func ofProgram(f gpu.Fault) bool { return f.Kind == gpu.FaultPage }

// noEvent reports whether a fault is none that is counted: a program's own mistake, or what stands.
func noEvent(f gpu.Fault) bool { return ofProgram(f) || f.Kind.Stands() }

// driverSays is whether the driver says something that stands. It is known where the device answers and its faults are.
func driverSays(wanted func(gpu.FaultKind) bool) func(*look) (float64, bool) {
	return func(s *look) (float64, bool) {
		if s.d.State != gpu.StateOK {
			return 0, false
		}
		return is(len(standingOf(s.d, wanted)) > 0), s.d.Health.Faults.Present()
	}
}

func standingOf(d *gpu.Device, wanted func(gpu.FaultKind) bool) []gpu.Fault {
	return slices.DeleteFunc(d.Health.Standing(), func(f gpu.Fault) bool { return !wanted(f.Kind) })
}

// asked is what the driver asks for, and what to do.
func asked(s *look) (text, advice string) {
	for _, f := range standingOf(s.d, gpu.FaultKind.AsksForAction) {
		return f.Kind.Meaning()
	}
	return "", ""
}

func isUnreadableFan(k gpu.FaultKind) bool { return k == gpu.FaultFanUnreadable }

// newestFault names the newest of the faults that are counted.
func newestFault(s *look) (text, advice string) {
	counted := slices.DeleteFunc(slices.Clone(s.d.Health.Faults.Or(nil)), noEvent)
	if len(counted) == 0 {
		return "", ""
	}
	return explain.Fault(slices.MaxFunc(counted, func(a, b gpu.Fault) int { return a.Last.Compare(b.Last) }))
}

// remap is about remapped rows, and on older products about retired pages.
func remap(s *look) (float64, bool) {
	so, known := false, false
	for _, r := range []gpu.Reading[bool]{s.d.Health.RemapPending, s.d.Health.RemapFailed, s.d.Health.RetirementPending} {
		v, ok := r.Trusted()
		so, known = so || v && ok, known || ok
	}
	return is(so), known
}

// idleHeld counts what programs that compute hold, not what a display server holds.
func idleHeld(s *look) (float64, bool) {
	if works, ok := s.works(); !ok || works {
		return 0, ok
	}
	held, ok := s.held(computes)
	return held / mib, ok
}

// computes reports whether a process exists that is no mere display server.
func computes(p *gpu.Process) bool { return p.Type != gpu.TypeGraphics && p.Facts.Exists.Or(true) }

func (s *look) works() (so, known bool) {
	util, known := s.d.Utilization.GPU.Trusted()
	return known && util >= gpu.BusyFrom, known
}

// idleReserved is about a device that a scheduler keeps for somebody and nobody uses.
func idleReserved(s *look) (float64, bool) {
	works, ok := s.works()
	list, known := s.d.Reservations.Trusted()
	return is(len(list) > 0 && !works), ok && known
}

// orphans is what processes hold that do not exist any more. Where the memory of
// one is not known, the others' memory may show that it is too much; it never
// shows that it is little.
func orphans(s *look) (float64, bool) {
	if _, ok := s.d.Processes.Trusted(); !ok || s.foreign {
		return 0, false
	}
	left := gone(s)
	if len(left) == 0 {
		return 0, true
	}
	memory, ok := attribute.Of(s.d, s.foreign).Memory.Orphans.Trusted()
	held := float64(memory) / mib
	mute := slices.ContainsFunc(left, func(p gpu.Process) bool { return !p.Memory.Present() })
	return held, ok && (!mute || held > s.Threshold)
}

func workers(s *look) (out []gpu.Process) {
	culprits := explain.Culprits(s.d.Processes.Or(nil), s.Scope.has)
	out = slices.Grow(out, len(culprits))
	for _, p := range culprits {
		out = append(out, *p)
	}
	return out
}

// holders are the processes that compute, the one that holds most memory first.
func holders(s *look) []gpu.Process { return s.those(computes) }

func gone(s *look) []gpu.Process {
	return s.those(func(p *gpu.Process) bool { return !p.Facts.Exists.Or(true) })
}

// those are the wanted processes that the rule looks at, the largest first.
func (s *look) those(wanted func(*gpu.Process) bool) (out []gpu.Process) {
	list := s.d.Processes.Or(nil)
	for i := range list {
		if s.Scope.has(&list[i]) && wanted(&list[i]) {
			out = append(out, list[i])
		}
	}
	slices.SortStableFunc(out, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)), cmp.Compare(a.PID, b.PID))
	})
	return out
}

// newestXID names the newest of the errors that the rule counts.
func newestXID(s *look) (text, advice string) {
	counted := slices.DeleteFunc(slices.Clone(s.d.Health.XIDs.Or(nil)), func(x gpu.XID) bool { return !s.counts(x.Code) })
	if len(counted) == 0 {
		return "", ""
	}
	return explain.XID(slices.MaxFunc(counted, func(a, b gpu.XID) int { return a.Last.Compare(b.Last) }))
}
