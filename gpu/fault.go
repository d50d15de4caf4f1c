package gpu

import (
	_ "embed" // fault.json
	"encoding/json"
	"sync"
	"time"
)

// A FaultKind is what went wrong, where the driver has no code for it.
type FaultKind string

// The kinds of fault. Their names are promises to clients.
const (
	FaultEngineHang  FaultKind = "engine_hang"  // work did not come to an end in time
	FaultEngineReset FaultKind = "engine_reset" // the driver reset one engine, and the others went on
	FaultDeviceReset FaultKind = "device_reset" // the driver began to reset the device, or a whole part of it
	FaultResetFailed FaultKind = "reset_failed" // that did not help
	FaultWedged      FaultKind = "wedged"       // the driver accepts no work any more
	FaultPage        FaultKind = "page_fault"   // a program used an address that it may not use
	FaultMemory      FaultKind = "memory_error" // that could not be corrected
	FaultOffBus      FaultKind = "off_bus"      // gone from the bus
	FaultInitFailed  FaultKind = "init_failed"  // the driver could not start the device
)

// The kinds that stand: such a fault is in the list for as long as the driver says so, and no longer.
const (
	FaultNeedsReset      FaultKind = "needs_reset"           // the driver asks for a reset of the device
	FaultNeedsRestart    FaultKind = "needs_restart"         // the driver asks for a restart of the machine
	FaultNeedsDrain      FaultKind = "needs_drain"           // the driver asks to end the work that reaches the device from others
	FaultNeedsLaterReset FaultKind = "needs_drain_and_reset" // the driver asks for a reset once the work on it has ended
	FaultNeedsAction     FaultKind = "needs_action"          // the driver asks for something that gpuwhy does not know
	FaultFanUnreadable   FaultKind = "fan_unreadable"        // the driver fails to read a fan that the device has
)

// Stands reports whether a fault of this kind is a state, and not an event: it is listed while the driver says so.
func (k FaultKind) Stands() bool { return k.AsksForAction() || k == FaultFanUnreadable }

// AsksForAction reports whether a fault of this kind is the driver's own verdict that somebody must act.
func (k FaultKind) AsksForAction() bool {
	switch k {
	case FaultNeedsReset, FaultNeedsRestart, FaultNeedsDrain, FaultNeedsLaterReset, FaultNeedsAction:
		return true
	default:
		return false
	}
}

// Standing are the faults that stand now, by kind; none where it is not known.
func (h *Health) Standing() (out []Fault) {
	for _, f := range h.Faults.Or(nil) {
		if f.Kind.Stands() {
			out = append(out, f)
		}
	}
	return out
}

// A Suspect is a place on the bus whose device a driver's messages in the kernel's log call broken.
type Suspect struct {
	PCI  string    // as in [Identity]
	Kind FaultKind // [FaultOffBus] or [FaultInitFailed]
	Last time.Time // when the newest message was
}

// A Fault counts what went wrong on a device, of one kind.
type Fault struct {
	Kind    FaultKind
	Count   uint64
	Earlier uint64    // of Count, how many were before gpuwhy began
	Last    time.Time // of the newest; of a kind that stands, since when it does
	Engine  string    // of the newest, as the driver calls it: "gfx_0.0.0", "rcs0"; empty where it says none
	Culprit Culprit   // of the newest
}

// A Culprit is the program at whose work something went wrong, as the kernel says. It need
// not be to blame.
type Culprit struct {
	PID  int    // in the machine's own pid namespace; 0: the kernel says none
	Name string // at most 15 bytes, as in /proc/PID/comm; empty: the kernel says none
}

// A Severity says how much an event of a driver matters.
type Severity string

// The severities. Their names are promises to clients.
const (
	SeverityInformation Severity = "information" // nothing was lost
	SeverityWarning     Severity = "warning"     // one program lost its work, or something is to be done one day
	SeverityError       Severity = "error"       // work was lost, and not by a program's own mistake alone
	SeverityCritical    Severity = "critical"    // the device is of no use until somebody acts, or results can be wrong
)

// known are codes of a driver that have what to do in common.
type known[K comparable] struct {
	Try      string
	Severity Severity
	Program  bool // programs are at fault: no device is lost by that
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

// Meaning says what a kind of fault means, and in a sentence what to do.
func (k FaultKind) Meaning() (what, try string) {
	what, group := find(faultGroups(), k)
	return what, group.Try
}

// Severity says how much a kind of fault matters.
func (k FaultKind) Severity() Severity {
	_, group := find(faultGroups(), k)
	return group.Severity
}
