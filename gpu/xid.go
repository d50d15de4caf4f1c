package gpu

import (
	_ "embed" // xid.json
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// xid.json has the codes that people meet, from NVIDIA's catalog of XID errors:
// what each means, by what to do.
//
//go:embed xid.json
var xidText []byte

type xidGroup struct {
	Try   string
	Codes map[int]string
}

var xidGroups = sync.OnceValue(func() (groups []xidGroup) {
	if err := json.Unmarshal(xidText, &groups); err != nil {
		panic(err) // a test reads it
	}
	return groups
})

// Meaning says what an error code of NVIDIA's driver means, such as "the GPU has fallen
// off the bus", and what to do about it, a sentence. Both are empty for a code that
// gpuwhy does not know.
func (x XID) Meaning() (what, try string) {
	for _, group := range xidGroups() {
		if meaning, known := group.Codes[x.Code]; known {
			return meaning, group.Try
		}
	}
	return "", ""
}

// xidTells is how long before a device was lost an error may be why.
const xidTells = 10 * time.Minute

// reasonOf is why a device is lost since then: the newest error of the driver, if it is
// known and was shortly before, or else what the source says.
func reasonOf(xids []XID, since time.Time, reason Advice) Advice {
	if len(xids) == 0 {
		return reason
	}
	newest := slices.MaxFunc(xids, func(a, b XID) int { return a.Last.Compare(b.Last) })
	if what, try := newest.Meaning(); what != "" && since.Sub(newest.Last) <= xidTells {
		reason.What, reason.Try = fmt.Sprintf("XID %d: %s", newest.Code, what), try
	}
	return reason
}
