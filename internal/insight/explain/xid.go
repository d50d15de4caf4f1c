package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// XID says what an error of the driver is, such as "XID 79 (the GPU has fallen off the bus)", and what to do about it, a sentence. For an
// unknown code it only gives the number.
func XID(x gpu.XID) (what, try string) {
	meaning, try := x.Meaning()
	if meaning == "" {
		return fmt.Sprintf("XID %d", x.Code), "Look the code up in NVIDIA's list of XID errors."
	}
	return fmt.Sprintf("XID %d (%s)", x.Code, meaning), try
}

// Fault says what a fault is, such as "engine hang (work on the GPU did not
// finish)", and what to do about it, a sentence.
func Fault(f gpu.Fault) (what, try string) {
	meaning, try := f.Kind.Meaning()
	return fmt.Sprintf("%s (%s)", strings.ReplaceAll(string(f.Kind), "_", " "), meaning), try
}

// errorsCount is how long a driver error is worth a cause of its own.
const errorsCount = time.Hour

// A failure is an XID or a fault.
type failure struct {
	fact      string // its name as evidence
	what, try string
	count     uint64
	last      time.Time
	culprit   gpu.Culprit
}

// newestFailure returns the newest driver error within that time before the snapshot.
func (d *device) newestFailure() (newest failure, ok bool) {
	var all []failure
	for _, x := range d.Health.XIDs.Or(nil) {
		what, try := XID(x)
		all = append(all, failure{"xid", what, try, x.Count, x.Last, x.Culprit})
	}
	for _, f := range d.Health.Faults.Or(nil) {
		if f.Kind.Stands() {
			continue // it has a cause of its own
		}
		what, try := Fault(f)
		all = append(all, failure{"fault", what, try, f.Count, f.Last, f.Culprit})
	}
	if len(all) == 0 {
		return newest, false
	}
	slices.Reverse(all) // of several errors at one time, the last in the list
	newest = slices.MaxFunc(all, func(a, b failure) int { return a.last.Compare(b.last) })
	return newest, d.s.Time.Sub(newest.last) <= errorsCount
}

// brokenMemory describes faulty memory of a device that spare memory has not replaced yet, and what to do about it. Both are empty if there is none or it is not reported.
func brokenMemory(d *device) (what, try string) {
	is := func(r gpu.Reading[bool]) bool { so, ok := r.Trusted(); return so && ok }
	const restart = "Reset the GPU while nothing uses it, or restart the machine: spare memory then takes its place."
	h := &d.Health
	switch {
	case is(h.RemapFailed):
		return "faulty memory that no spare memory can replace", "Take the GPU out of use and have it replaced."
	case is(h.RemapPending):
		return "faulty memory rows waiting to be replaced", restart
	case is(h.RetirementPending):
		return "faulty memory pages waiting to be retired", restart
	default:
		return "", ""
	}
}

// driverError names the newest error that the driver reported for a device that answers.
func driverError(d *device, f *finding) {
	newest, ok := d.newestFailure()
	waits, try := brokenMemory(d)
	switch {
	case !ok && waits == "":
		return
	case !ok:
		f.say(High, brokenMemoryWords(waits, try))
		f.fact("memory", waits)
		return
	}
	f.minor = waits == "" // it does not explain heat
	f.say(High, driverErrorWords(newest.what, waits, newest.try))
	f.fact("memory", waits)
	f.Since = newest.last
	f.fact(newest.fact, newest.what)
	f.fact("count", fmt.Sprint(newest.count))
	if culprit := newest.culprit; culprit.PID != 0 {
		f.fact("process", textOf(cmp.Or(culprit.Name, fmt.Sprint(culprit.PID))))
	}
	f.happened("last", newest.last)
}
