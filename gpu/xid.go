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
	Try     string
	Program bool // programs are at fault: no device is lost by that
	Codes   map[int]string
}

var xidGroups = sync.OnceValue(func() (groups []xidGroup) {
	if err := json.Unmarshal(xidText, &groups); err != nil {
		panic(err) // a test reads it
	}
	return groups
})

// Meaning says what an error code of NVIDIA's driver means ("the GPU has fallen off the
// bus"), and in a sentence what to do. Both are empty for an unknown code.
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

// reasonOf is why a device is lost since then: the newest error of the driver shortly
// before that can be why, 79 above all, or else what the source says.
func reasonOf(xids []XID, since time.Time, reason Advice) Advice {
	const fallenOff = 79 // others follow it
	var why XID
	for _, x := range xids {
		fits := since.Sub(x.Last) <= xidTells && slices.ContainsFunc(xidGroups(), func(g xidGroup) bool { return !g.Program && g.Codes[x.Code] != "" })
		if fits && why.Code != fallenOff && (x.Code == fallenOff || x.Last.After(why.Last)) {
			why = x
		}
	}
	if what, try := why.Meaning(); what != "" {
		reason.What, reason.Try = fmt.Sprintf("XID %d: %s", why.Code, what), try
	}
	return reason
}
