package hub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The most entries that a list of a filter may have, and the longest of them.
const (
	maxEntries    = 256
	maxEntryBytes = 128
)

// A filter decides what a viewer gets. A nil set passes everything, an empty one nothing.
type filter struct {
	events, nodes map[string]bool
	gpus          map[any]bool // indexes and UUIDs
	narrow        bool         // it may keep fewer than all devices
	terms         []byte       // the filter as JSON, the data of subscribed
	delta         bool         // the viewer gets patches in place of updates
}

// everything is the filter that viewers begin with.
var everything = newFilter(filterTerms{})

// filterTerms is the form of a filter in messages. A nil list restricts nothing.
type filterTerms struct {
	Events []string `json:"events"`
	GPUs   []any    `json:"gpus"` // int or string
	Nodes  []string `json:"nodes"`
	Delta  bool     `json:"delta,omitempty"`
}

// parseFilter reads the data of subscribe. Its errors are for the client.
func parseFilter(data map[string]json.RawMessage) (*filter, error) {
	events, err1 := parseList(data, "events", parseName)
	gpus, err2 := parseList(data, "gpus", parseGPU)
	nodes, err3 := parseList(data, "nodes", parseName)
	delta, err4 := parseBool(data, "delta")
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return newFilter(filterTerms{events, gpus, nodes, delta}), nil
}

// parseBool reads a member that is true or false; false where it is absent or null.
func parseBool(data map[string]json.RawMessage, name string) (is bool, err error) {
	if raw := data[name]; raw != nil && json.Unmarshal(raw, &is) != nil {
		return false, fmt.Errorf("%s is neither true nor false", name)
	}
	return is, nil
}

// parseList reads one list, nil where it is absent or null, each entry once.
func parseList[T comparable](data map[string]json.RawMessage, name string, parse func(json.RawMessage) (T, error)) ([]T, error) {
	raw := data[name]
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fmt.Errorf("%s is not a list", name)
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("%s has %d entries, at most %d are allowed", name, len(entries), maxEntries)
	}
	list := []T{}
	for _, raw := range entries {
		entry, err := parse(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !slices.Contains(list, entry) {
			list = append(list, entry)
		}
	}
	return list, nil
}

func parseName(raw json.RawMessage) (string, error) {
	s, ok := text(raw)
	if !ok || s == "" || len(s) > maxEntryBytes {
		return "", fmt.Errorf("an entry is not a string of 1 to %d bytes", maxEntryBytes)
	}
	return s, nil
}

func parseGPU(raw json.RawMessage) (any, error) {
	if raw[0] == '"' {
		return parseName(raw)
	}
	index, err := strconv.ParseUint(string(raw), 10, 31)
	if err != nil {
		return nil, errors.New("an entry is neither an index nor a UUID")
	}
	return int(index), nil
}

func newFilter(terms filterTerms) *filter {
	encoded, err := json.Marshal(terms)
	if err != nil {
		panic(err) // strings and numbers can always be marshaled
	}
	f := &filter{events: setOf(terms.Events), gpus: setOf(terms.GPUs), nodes: setOf(terms.Nodes), terms: encoded, delta: terms.Delta}
	f.narrow = f.gpus != nil || f.nodes != nil
	return f
}

func setOf[T comparable](list []T) map[T]bool {
	if list == nil {
		return nil
	}
	set := make(map[T]bool, len(list))
	for _, entry := range list {
		set[entry] = true
	}
	return set
}

func (f *filter) hears(event string) bool { return allows(f.events, event) }

func (f *filter) keeps(d *gpu.Device) bool { return f.about(d.Node, d.UUID, d.Index) }

func (f *filter) wants(e *Event) bool { return f.hears(e.Name) && f.about(e.Node, e.UUID, e.Index) }

func (f *filter) about(node, uuid string, index int) bool {
	return (node == "" || allows(f.nodes, node)) && (f.gpus == nil || uuid == "" || f.gpus[index] || f.gpus[uuid])
}

func allows(set map[string]bool, s string) bool { return set == nil || set[s] }

// ambiguous reports whether it has an index without saying on which node.
func (f *filter) ambiguous() bool {
	for entry := range f.gpus {
		if _, index := entry.(int); index && f.nodes == nil {
			return true
		}
	}
	return false
}
