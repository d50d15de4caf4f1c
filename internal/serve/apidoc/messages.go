package apidoc

// Types of the socket's messages that are in no contract. The hub writes and reads
// these messages; a test compares the types with what it sends.

// Filter is what a viewer gets: GPUs pass both gpus and nodes. It answers
// subscribe and unsubscribe.
type Filter struct {
	Events []string `json:"events" null:"yes"` // Names of the events that come. Null: all; empty: none but replies.
	// GPUs by index, a number, or UUID, a string; snapshots have only these in
	// gpus and in the totals. Null: all.
	GPUs  []any    `json:"gpus" null:"yes" unit:"any"`
	Nodes []string `json:"nodes" null:"yes"` // Machines by name. Null: all.
	// gpu_status_patch comes in place of gpu_status_update; left out where not.
	Delta bool `json:"delta,omitempty"`
}

// Subscription replaces the filter. A list that is left out or null restricts
// nothing; one has at most 256 entries of 128 bytes.
type Subscription struct {
	Events []string `json:"events,omitempty" null:"yes"`          // Names of the events that are to come. Null: all.
	GPUs   []any    `json:"gpus,omitempty" null:"yes" unit:"any"` // GPUs by index, a number, or UUID, a string. Null: all.
	Nodes  []string `json:"nodes,omitempty" null:"yes"`           // Machines by name. Null: all.
	// True: gpu_status_patch comes in place of gpu_status_update, at first of the whole.
	Delta bool `json:"delta,omitempty"`
}

// Patch makes the update that a client has the next one.
type Patch struct {
	Node  string     `json:"node"`            // Name of the machine.
	Base  *int       `json:"base" unit:"any"` // The seq of the update that the patch is for. Null: it is the whole, for an empty object.
	Seq   int        `json:"seq" unit:"any"`  // The seq of the update that it makes.
	Patch mergePatch `json:"patch"`           // A JSON merge patch (RFC 7386).
}

// Refusal says why a message could not be served. It changed nothing, and the
// connection stays open.
type Refusal struct {
	Code    string `json:"code" enum:"bad_json,bad_request,unknown_event,rate_limited,unavailable"` // For programs.
	Message string `json:"message"`                                                                 // For people; it may change.
	// The id of the message; missing where it had none, or could not be read.
	ID messageID `json:"id,omitempty" unit:"any"`
}

// A messageID identifies a message of a client: any number or text.
type messageID any

// A mergePatch is an object with any members, each of them null where it is removed.
type mergePatch map[string]any
