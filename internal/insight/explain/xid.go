package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// XID says what an error of the driver is, such as "XID 79 (the GPU has fallen off the
// bus)", and what to do about it, a sentence. Of a code that is not known it gives the
// number alone.
func XID(x gpu.XID) (what, try string) {
	meaning, try := x.Meaning()
	if meaning == "" {
		return fmt.Sprintf("XID %d", x.Code), "Look the code up in NVIDIA's list of XID errors."
	}
	return fmt.Sprintf("XID %d (%s)", x.Code, meaning), try
}

// xidsCount is how long an error of the driver is worth a cause of its own.
const xidsCount = time.Hour

// newestXID is the newest error of the driver within that time before the snapshot.
func (d *device) newestXID() (newest gpu.XID, ok bool) {
	list := d.Health.XIDs.Or(nil)
	if len(list) == 0 {
		return newest, false
	}
	newest = slices.MaxFunc(list, func(a, b gpu.XID) int { return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.Code, b.Code)) })
	return newest, d.s.Time.Sub(newest.Last) <= xidsCount
}

// driverError names the newest error that the driver reported of a device that answers.
func driverError(d *device, f *finding) {
	newest, ok := d.newestXID()
	if !ok {
		return
	}
	what, try := XID(newest)
	f.minor = true // it is no reason for heat
	f.say(High, "now", what)
	f.Since, f.Advice = newest.Last, try
	f.fact("xid", what)
	f.fact("count", fmt.Sprint(newest.Count))
	f.happened("last", newest.Last)
}
