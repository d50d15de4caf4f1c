package apidoc

// Types of socket messages that belong to no contract. The hub writes and reads these messages; a
// test compares the types with what it sends.

// Filter is what a viewer gets: a GPU must pass both gpus and nodes. It answers subscribe and
// unsubscribe.
type Filter struct {
	Events []string `json:"events" null:"yes"` // Names of the events to send. Null: all; empty: only replies.
	// GPUs by index (a number) or UUID (a string); snapshots have only these in gpus and in the
	// totals. Null: all.
	GPUs  []any    `json:"gpus" null:"yes" unit:"any"`
	Nodes []string `json:"nodes" null:"yes"` // Machines by name. Null: all.
	// Whether gpu_status_patch replaces gpu_status_update; left out if false.
	Delta bool `json:"delta,omitempty"`
}

// Subscription replaces the filter. A list that is left out or null restricts nothing; a list has
// at most 256 entries of 128 bytes.
type Subscription struct {
	Events []string `json:"events,omitempty" null:"yes"`          // Names of the events to send. Null: all.
	GPUs   []any    `json:"gpus,omitempty" null:"yes" unit:"any"` // GPUs by index (a number) or UUID (a string). Null: all.
	Nodes  []string `json:"nodes,omitempty" null:"yes"`           // Machines by name. Null: all.
	// Whether gpu_status_patch replaces gpu_status_update, starting with a whole update.
	Delta bool `json:"delta,omitempty"`
}

// Patch turns a client's current update into the next one.
type Patch struct {
	Node  string     `json:"node"`            // Name of the machine.
	Base  *int       `json:"base" unit:"any"` // The seq of the update that the patch applies to. Null: it is a whole update, to apply to an empty object.
	Seq   int        `json:"seq" unit:"any"`  // The seq of the resulting update.
	Patch mergePatch `json:"patch"`           // A JSON merge patch (RFC 7386).
}

// Refusal says why a message could not be served. The message changed nothing, and the connection
// stays open.
type Refusal struct {
	Code    string `json:"code" enum:"bad_json,bad_request,unknown_event,rate_limited,unavailable,forbidden"` // For programs.
	Message string `json:"message"`                                                                           // For people; it may change.
	// The id of the message; missing if it had none or it could not be read.
	ID messageID `json:"id,omitempty" unit:"any"`
}

// A messageID identifies a client's message: any number or string.
type messageID any

// A mergePatch is an object with any members; null removes a member.
type mergePatch map[string]any
