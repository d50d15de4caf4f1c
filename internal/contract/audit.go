package contract

import "encoding/json"

// AuditEntry is who did what, from where, on what, and what came of it.
type AuditEntry struct {
	Number int64  `json:"number" unit:"count" minimum:"1"` // counts all entries since the first
	Time   string `json:"time" format:"date-time"`         // when it happened
	Action string `json:"action"`                          // the operation's name in this document, or what sign-in did, such as "signIn"
	// What came of it: "begun" (another entry has the result), "done", "refused" or "failed".
	Result    string `json:"result" enum:"begun,done,refused,failed"`
	Principal string `json:"principal"`          // who did it, by name; empty if that is not known
	Identity  string `json:"identity,omitempty"` // tells apart two of the same name, such as "user:7f3a" or "uid:1000"
	Way       string `json:"way,omitempty"`      // how gpuwhy recognized who it is, such as "password", "token" or "local"
	Address   string `json:"address,omitempty"`  // where the request came from
	Target    string `json:"target,omitempty"`   // what it was done to
	Node      string `json:"node,omitempty"`     // the machine that the request was about
	Asked     string `json:"asked,omitempty"`    // the hub that asked on behalf of the principal; missing if none did
	// The arguments, without secrets. Missing if there are none.
	Args   json.RawMessage `json:"args,omitempty" unit:"any"`
	Before json.RawMessage `json:"before,omitempty" unit:"any"`           // What it changed, as it was. Missing if nothing was there, or nothing changed.
	After  json.RawMessage `json:"after,omitempty" unit:"any"`            // What it changed, as it is. Missing if nothing is there, or nothing changed.
	Detail string          `json:"detail,omitempty"`                      // why it was not done
	Of     int64           `json:"of,omitempty" unit:"count" minimum:"1"` // the number of the entry that says that this began
}

// Audit answers GET /api/audit.
type Audit struct {
	Entries []AuditEntry `json:"entries"` // newest first
	// The value of before for the next, older entries. Null if there are none.
	Next *int64 `json:"next" unit:"count" minimum:"1"`
}

// AuditCheck answers GET /api/audit/check.
type AuditCheck struct {
	Sound bool `json:"sound"` // whether the chain holds from its first entry to its last
	// The number of the first entry that was changed, or that is missing. Null if there is none.
	Broken *int64 `json:"broken" unit:"count" minimum:"1"`
	Detail string `json:"detail"`                         // what is wrong; empty if nothing is
	First  int64  `json:"first" unit:"count" minimum:"0"` // the number of the oldest entry; 0 if there is none
	Last   int64  `json:"last" unit:"count" minimum:"0"`  // the number of the newest entry that could be checked; 0 if there is none
	// The number of the newest entry that was removed because of its age. Its hash is where the chain begins. 0 if none was removed.
	Anchor int64  `json:"anchor" unit:"count" minimum:"0"`
	Head   string `json:"head"` // the hash of the last entry; write it down elsewhere to prove later that no entry up to it was changed
}

// AuditColumns are the columns of the audit as a table.
var AuditColumns = []string{
	"number", "time", "action", "result", "principal", "identity", "way", "address", "target", "node", "asked", "args", "before", "after", "detail", "of",
}
