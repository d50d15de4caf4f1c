package gpu

import (
	_ "embed" // fault.json
	"encoding/json"
	"sync"
	"time"
)

// A FaultKind is a kind of error for which the driver has no code.
type FaultKind string

// The kinds of fault. Their names are promises to clients.
const (
	FaultEngineHang  FaultKind = "engine_hang"  // work did not finish in time
	FaultEngineReset FaultKind = "engine_reset" // the driver reset one engine; the others kept running
	FaultDeviceReset FaultKind = "device_reset" // the driver began to reset the device, or a whole part of it
	FaultResetFailed FaultKind = "reset_failed" // the reset failed
	FaultWedged      FaultKind = "wedged"       // the driver accepts no more work
	FaultPage        FaultKind = "page_fault"   // a program used an address that it may not use
	FaultMemory      FaultKind = "memory_error" // one that could not be corrected
	FaultOffBus      FaultKind = "off_bus"      // gone from the bus
	FaultInitFailed  FaultKind = "init_failed"  // the driver could not start the device
)

// The kinds that are states: such a fault is listed only as long as the driver reports it.
const (
	FaultNeedsReset      FaultKind = "needs_reset"           // the driver asks for a reset of the device
	FaultNeedsRestart    FaultKind = "needs_restart"         // the driver asks for a restart of the machine
	FaultNeedsDrain      FaultKind = "needs_drain"           // the driver asks to end the work that other devices send here
	FaultNeedsLaterReset FaultKind = "needs_drain_and_reset" // the driver asks for a reset once the work on it has ended
	FaultNeedsAction     FaultKind = "needs_action"          // the driver asks for an action that gpuwhy does not know
	FaultFanUnreadable   FaultKind = "fan_unreadable"        // the driver fails to read a fan that the device has
)

// Stands reports whether a fault of this kind is a state, not an event: it is listed while the driver reports it.
func (k FaultKind) Stands() bool { return k.AsksForAction() || k == FaultFanUnreadable }

// AsksForAction reports whether a fault of this kind means that the driver asks somebody to act.
func (k FaultKind) AsksForAction() bool {
	switch k {
	case FaultNeedsReset, FaultNeedsRestart, FaultNeedsDrain, FaultNeedsLaterReset, FaultNeedsAction:
		return true
	default:
		return false
	}
}

// Standing returns the faults that last now, by kind; none if they are not known.
func (h *Health) Standing() (out []Fault) {
	for _, f := range h.Faults.Or(nil) {
		if f.Kind.Stands() {
			out = append(out, f)
		}
	}
	return out
}

// A Suspect is a bus address whose device is broken according to a driver's messages in the kernel log.
type Suspect struct {
	PCI  string    // as in [Identity]
	Kind FaultKind // [FaultOffBus] or [FaultInitFailed]
	Last time.Time // when the newest message was
}

// A Fault counts a device's faults of one kind.
type Fault struct {
	Kind    FaultKind
	Count   uint64
	Earlier uint64    // how many of Count happened before gpuwhy started
	Last    time.Time // of the newest; for a lasting kind, since when it lasts
	Engine  string    // of the newest, as the driver calls it: "gfx_0.0.0", "rcs0"; empty if the driver names none
	Culprit Culprit   // of the newest
}

// A Culprit is the program whose work was running when something went wrong, as the kernel
// reports it. It is not necessarily to blame.
type Culprit struct {
	PID  int    // in the machine's own pid namespace; 0: the kernel names none
	Name string // at most 15 bytes, as in /proc/PID/comm; empty: the kernel names none
}

// A Severity says how much an event of a driver matters.
type Severity string

// The severities. Their names are promises to clients.
const (
	SeverityInformation Severity = "information" // nothing was lost
	SeverityWarning     Severity = "warning"     // one program lost its work, or somebody should act some day
	SeverityError       Severity = "error"       // work was lost, and not only through a program's own mistake
	SeverityCritical    Severity = "critical"    // the device can't be used until somebody acts, or results can be wrong
)

// known are codes of a driver that share the same advice.
type known[K comparable] struct {
	Try      string
	Severity Severity
	Program  bool // programs are at fault: no device is lost that way
	Codes    map[K]string
}

// find returns what a code means, and its group. Both are zero for an unknown code.
func find[K comparable](groups []known[K], code K) (what string, group known[K]) {
	for _, g := range groups {
		if what, ok := g.Codes[code]; ok {
			return what, g
		}
	}
	return "", group
}

func parse[K comparable](text []byte) func() []known[K] {
	return sync.OnceValue(func() (groups []known[K]) {
		if err := json.Unmarshal(text, &groups); err != nil {
			panic(err) // a test reads it
		}
		return groups
	})
}

//go:embed fault.json
var faultText []byte

var faultGroups = parse[FaultKind](faultText)

// Meaning returns what a kind of fault means, and a sentence that says what to do.
func (k FaultKind) Meaning() (what, try string) {
	what, group := find(faultGroups(), k)
	return what, group.Try
}

// Severity returns how much a kind of fault matters.
func (k FaultKind) Severity() Severity {
	_, group := find(faultGroups(), k)
	return group.Severity
}
