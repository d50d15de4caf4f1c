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

// A Watch is what a rule watches.
type Watch string

// What can be watched.
const (
	Utilization       Watch = "utilization"        // of the GPU, in percent
	Temperature       Watch = "temperature"        // of the die
	TemperatureMargin Watch = "temperature_margin" // degrees left to the device's own slowdown limit; fires below the threshold
	MemoryTemperature Watch = "memory_temperature" // of the memory
	Memory            Watch = "memory"             // used, in percent
	MemoryFullIn      Watch = "memory_full_in"     // minutes until the memory is full, if there is a forecast; fires below the threshold
	Power             Watch = "power"              // draw in watts
	PowerShare        Watch = "power_share"        // draw in percent of the limit in force
	Fan               Watch = "fan"                // the highest commanded speed, in percent
	FanFailing        Watch = "fan_failing"        // a fan does not turn as commanded
	ThrottledByHeat   Watch = "throttled_by_heat"
	ThrottledByPower  Watch = "throttled_by_power"
	XID               Watch = "xid"            // errors that the driver reported
	Fault             Watch = "fault"          // hangs, resets and errors without a code
	NeedsAction       Watch = "needs_action"   // the driver asks for a reset or a similar action
	FanUnreadable     Watch = "fan_unreadable" // the driver fails to read a fan
	ECC               Watch = "ecc"            // uncorrected memory errors
	RowRemap          Watch = "row_remap"      // faulty memory that waits to be replaced, or can't be
	Lost              Watch = "lost"           // gone from the bus
	NotAnswering      Watch = "not_answering"
	DriverGone        Watch = "driver_gone"   // a source that worked fails; about the machine
	NodeSilent        Watch = "node_silent"   // the gpuwhy that reads a node of the fleet sends nothing; about the machine
	IdleHeld          Watch = "idle_held"     // MiB that processes hold while the GPU has no work
	IdleReserved      Watch = "idle_reserved" // the scheduler reserves the GPU for somebody, and it has no work
	OrphanMemory      Watch = "orphan_memory" // MiB held by ended processes
)

// Watches lists what can be watched, by name.
func Watches() []Watch { return slices.Sorted(maps.Keys(watches)) }

// Unit is the unit of the threshold and the value; empty for counters and conditions.
func (w Watch) Unit() string { return w.watch().Unit }

// Below reports whether the watch fires below its threshold.
func (w Watch) Below() bool { return w.watch().Below }

// Condition reports whether the watch is true or false and has no threshold.
func (w Watch) Condition() bool { return w.watch().Condition }

func (w Watch) watch() *watch { return cmp.Or(watches[w], &watch{}) }

// A subject is a kind of thing that rules look at.
type subject string

const (
	aDevice subject = ""
	aSource subject = "source" // of a machine
	aNode   subject = "node"   // that another program reads
)

// A watch says how something is measured: a row of watches.yaml.
type watch struct {
	Condition   bool   // its value is true (1) or false (0); it has no threshold
	Counter     bool   // its value is how many more came since the last look
	Reading     string // of [catalog.Readings], which has the unit and the value; may be empty
	Unit        string
	Below       bool
	Least, Most float64 // of thresholds
	About       subject // what it is about
	Shares      bool    // a scope can narrow it to users and processes
	Holds       bool    // culprits cause it by the memory they hold, not by their work
	SinceStart  bool    `yaml:"since_start"` // the counter started at 0 with gpuwhy: everything in the first look is new
	Rule        Rule    // defaults of a rule about it
	words       words   `yaml:"-"`
	means       `yaml:"-"`
}

// means are the functions of a watch; each may be nil.
type means struct {
	measure  func(*look) (float64, bool)       // a device's value; not ok if it is absent or doubtful
	narrowed func(*look) (float64, bool)       // measure for a rule that covers only some processes
	pooled   func(*look) (float64, bool)       // measure for a device that uses the machine's memory
	culprits func(*look) []gpu.Process         // the processes that cause it
	more     func(*look) (text, advice string) // more about what is beyond the threshold
	began    func(*look) time.Time             // when it began, for conditions noticed only later; zero if it held from the first reading on
	instead  func(*look) string                // replaces words.over unless it returns an empty text
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

// Default returns a rule with times and margins that fit its watch.
func Default(name string, w Watch) Rule {
	r := w.watch().Rule
	r.Name = name
	return r
}

// Defaults are the rules without a rules file. Not all are enabled.
func Defaults() []Rule { return slices.Clone(defaults) }

// usedByThose sums the multiprocessor shares of the processes that the rule covers.
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

// usedOfPool is the used share of the machine's memory together with the part set apart for the
// GPU: that part alone is always nearly full, which is harmless.
func usedOfPool(s *look) (float64, bool) {
	share, ok := s.d.Pool().Utilization().Trusted()
	return float64(share), ok
}

// held is how many bytes the wanted processes that the rule covers hold.
func (s *look) held(wanted func(*gpu.Process) bool) (float64, bool) {
	return sum(s, wanted, func(p *gpu.Process) gpu.Reading[gpu.Bytes] { return p.Memory })
}

// sum adds up a value of the wanted processes that the rule covers. It is not ok if one does not
// report it, or if the driver does not list processes.
func sum[T gpu.Percent | gpu.Bytes](
	s *look, wanted func(*gpu.Process) bool, value func(*gpu.Process) gpu.Reading[T],
) (float64, bool) {
	list, ok := s.d.Processes.Trusted()
	var all T
	for i := range list {
		if p := &list[i]; s.Scope.includes(p) && wanted(p) {
			v, known := value(p).Trusted()
			all += v
			ok = ok && known
		}
	}
	return float64(all), ok
}

func anyone(*gpu.Process) bool { return true }

// margin is the device's own figure, or the distance to its slowdown limit.
func margin(s *look) (float64, bool) {
	if v, ok := s.d.Thermal.Margin.Trusted(); ok {
		return float64(v), true
	}
	temperature, ok := s.d.Thermal.GPU.Trusted()
	limit, known := s.d.Thermal.Slowdown.Trusted()
	return float64(limit - temperature), ok && known
}

// memoryFullIn is infinite if there is no forecast of when the memory is full: most memory does not grow.
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

// fanFailing says whether a failing fan is one of the device's causes. It is certainly not if all
// fans report their command and speed.
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

// counterStuck reports whether the answer says, not just as a guess, that the busy counter is
// stuck.
func (s *look) counterStuck() bool {
	return s.answer != nil && slices.ContainsFunc(s.answer.Causes, func(c explain.Cause) bool {
		return c.Kind == explain.StuckCounter && c.Confidence >= explain.Medium
	})
}

// fanFailure is the cause of a failing fan; nil if none fails. A fan that turns without being told to does not fail.
func fanFailure(s *look) *explain.Cause {
	i := slices.IndexFunc(s.answer.Causes, func(c explain.Cause) bool { return c.Kind == explain.FanFailing && c.Case != explain.Unasked })
	if i < 0 {
		return nil
	}
	return &s.answer.Causes[i]
}

// fanFailedAt is when a fan began to fail, which becomes a cause only after a while.
func fanFailedAt(s *look) time.Time { return fanFailure(s).Since.Round(0) }

func reasons(wanted gpu.ClockEventReasons) func(*look) (float64, bool) {
	return func(s *look) (float64, bool) {
		r, ok := s.d.Clocks.EventReasons.Trusted()
		return is(r&wanted != 0), ok
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
			n += x.Count - x.Earlier // what happened before gpuwhy started is not news
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

// ofProgram reports whether such a fault comes from a program's own mistake, which no rule counts.
func ofProgram(f gpu.Fault) bool { return f.Kind == gpu.FaultPage }

// noEvent reports whether a fault is not counted: a program's own mistake, or a lasting request of
// the driver.
func noEvent(f gpu.Fault) bool { return ofProgram(f) || f.Kind.Stands() }

// driverSays says whether the driver has a lasting request. It is known if the device answers and reports its faults.
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

// asked is what the driver asks for, and what to do about it.
func asked(s *look) (text, advice string) {
	for _, f := range standingOf(s.d, gpu.FaultKind.AsksForAction) {
		return f.Kind.Meaning()
	}
	return "", ""
}

func isUnreadableFan(k gpu.FaultKind) bool { return k == gpu.FaultFanUnreadable }

// newestFault names the newest counted fault.
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

// idleHeld counts memory held by compute programs, not by display servers.
func idleHeld(s *look) (float64, bool) {
	if works, ok := s.works(); !ok || works {
		return 0, ok
	}
	held, ok := s.held(computes)
	return held / mib, ok
}

// computes reports whether a process exists and is more than a display server.
func computes(p *gpu.Process) bool { return p.Type != gpu.TypeGraphics && p.Facts.Exists.Or(true) }

func (s *look) works() (so, known bool) {
	util, known := s.d.Utilization.GPU.Trusted()
	return known && util >= gpu.BusyFrom, known
}

// idleReserved is about a device that a scheduler has reserved but nobody uses.
func idleReserved(s *look) (float64, bool) {
	works, ok := s.works()
	list, known := s.d.Reservations.Trusted()
	return is(len(list) > 0 && !works), ok && known
}

// orphans is the memory held by ended processes. If the memory of one is unknown, the others'
// memory may show that it is too much, but never that it is little.
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
	culprits := explain.Culprits(s.d.Processes.Or(nil), s.Scope.includes)
	out = slices.Grow(out, len(culprits))
	for _, p := range culprits {
		out = append(out, *p)
	}
	return out
}

// holders are the compute processes, the one with the most memory first.
func holders(s *look) []gpu.Process { return s.those(computes) }

func gone(s *look) []gpu.Process {
	return s.those(func(p *gpu.Process) bool { return !p.Facts.Exists.Or(true) })
}

// those are the wanted processes that the rule covers, largest first.
func (s *look) those(wanted func(*gpu.Process) bool) (out []gpu.Process) {
	list := s.d.Processes.Or(nil)
	for i := range list {
		if s.Scope.includes(&list[i]) && wanted(&list[i]) {
			out = append(out, list[i])
		}
	}
	slices.SortStableFunc(out, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)), cmp.Compare(a.PID, b.PID))
	})
	return out
}

// newestXID names the newest error that the rule counts.
func newestXID(s *look) (text, advice string) {
	counted := slices.DeleteFunc(slices.Clone(s.d.Health.XIDs.Or(nil)), func(x gpu.XID) bool { return !s.counts(x.Code) })
	if len(counted) == 0 {
		return "", ""
	}
	return explain.XID(slices.MaxFunc(counted, func(a, b gpu.XID) int { return a.Last.Compare(b.Last) }))
}
