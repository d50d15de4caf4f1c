package explain

import (
	_ "embed" // xid.json
	"encoding/json"
	"strconv"
	"sync"
)

// xid.json has the codes that people meet, from NVIDIA's catalog of XID errors:
// what each means, by what to do.
//
//go:embed xid.json
var xidText []byte

var xidGroups = sync.OnceValue(func() []xidGroup { return read[[]xidGroup](xidText) })

type xidGroup struct {
	Try   string
	Codes map[int]string
}

// read reads a file that is part of the program; a test reads each.
func read[T any](text []byte) (out T) {
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// XID says what an error code of the driver means, such as "XID 79 (the GPU has
// fallen off the bus)", and what to do about it, a sentence. Of a code that is
// not known it gives the number alone.
func XID(code int) (what, try string) {
	what = "XID " + strconv.Itoa(code)
	for _, group := range xidGroups() {
		if meaning, known := group.Codes[code]; known {
			return what + " (" + meaning + ")", group.Try
		}
	}
	return what, "Look the code up in NVIDIA's list of XID errors."
}
