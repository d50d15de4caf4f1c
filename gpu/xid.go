package gpu

import (
	_ "embed" // xid.json
	"fmt"
	"time"
)

// xid.json has the codes that people encounter, from NVIDIA's catalog of XID errors:
// what each means, grouped by what to do.
//
//go:embed xid.json
var xidText []byte

var xidGroups = parse[int](xidText)

// Meaning returns what an error code of NVIDIA's driver means ("the GPU has fallen off the
// bus"), and a sentence that says what to do. Both are empty for an unknown code.
func (x XID) Meaning() (what, try string) {
	what, group := find(xidGroups(), x.Code)
	return what, group.Try
}

// Severity returns how much the error matters; empty for an unknown code.
func (x XID) Severity() Severity {
	_, group := find(xidGroups(), x.Code)
	return group.Severity
}

const (
	// xidTells is how long before a device was lost an error may be why.
	xidTells = 10 * time.Minute
	// xidFollows is how long after that it may still be told.
	xidFollows = time.Minute
)

// Blame makes a driver error the reason for a lost device, if an error shortly before
// the loss can explain it. It does nothing for a device in another state.
func (d *Device) Blame() {
	if d.State != StateLost {
		return
	}
	const fallenOff = 79 // others follow it
	var last time.Time
	told := func(occurred time.Time) bool { // whether it can be why, and is newer
		before := d.Since.Sub(occurred)
		return before <= xidTells && before >= -xidFollows && occurred.After(last)
	}
	for _, x := range d.Health.XIDs.Or(nil) {
		what, group := find(xidGroups(), x.Code)
		if what != "" && !group.Program && told(x.Last) {
			d.Reason.What, d.Reason.Try = fmt.Sprintf("XID %d: %s", x.Code, what), group.Try
			if last = x.Last; x.Code == fallenOff {
				return
			}
		}
	}
	for _, f := range d.Health.Faults.Or(nil) {
		what, group := find(faultGroups(), f.Kind)
		if group.Severity == SeverityCritical && told(f.Last) {
			d.Reason.What, d.Reason.Try = what, group.Try
			if last = f.Last; f.Kind == FaultOffBus {
				return
			}
		}
	}
}
