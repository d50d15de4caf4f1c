package hub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// maxEntries is how many entries a list of a filter may have, and
// maxEntryBytes how long one may be.
const (
	maxEntries    = 256
	maxEntryBytes = 128
)

// A filter is what a viewer asked for. It does not change. A nil set lets
// everything pass, an empty one nothing.
type filter struct {
	events, uuids, nodes map[string]bool
	indexes              map[int]bool
	// key is the same for filters that keep the same devices; "" for those
	// that keep all.
	key string
	// terms is the filter as JSON, the data of subscribed.
	terms []byte
}

// everything is the filter that viewers begin with.
var everything = mustFilter(filterTerms{})

// filterTerms is a filter as clients write it and get it back. A nil list means
// no restriction.
type filterTerms struct {
	Events []string `json:"events"`
	GPUs   []any    `json:"gpus"` // int or string
	Nodes  []string `json:"nodes"`
}

// parseFilter reads the data of subscribe; members that it does not know are
// not looked at. Its errors are for the client.
func parseFilter(data map[string]json.RawMessage) (*filter, error) {
	events, err1 := parseList(data, "events", parseName)
	gpus, err2 := parseList(data, "gpus", parseGPU)
	nodes, err3 := parseList(data, "nodes", parseName)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	return newFilter(filterTerms{events, gpus, nodes})
}

// parseList reads one list, nil where it is absent or null, each entry once.
func parseList[T any](data map[string]json.RawMessage, name string, parse func(json.RawMessage) (T, error)) ([]T, error) {
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
		if !slices.ContainsFunc(list, func(e T) bool { return any(e) == any(entry) }) {
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

func newFilter(terms filterTerms) (*filter, error) {
	encoded, err := json.Marshal(terms)
	if err != nil {
		return nil, err
	}
	f := &filter{events: setOf(terms.Events), nodes: setOf(terms.Nodes), terms: encoded}
	if terms.GPUs != nil {
		f.indexes, f.uuids = map[int]bool{}, map[string]bool{}
		for _, entry := range terms.GPUs {
			switch entry := entry.(type) {
			case int:
				f.indexes[entry] = true
			case string:
				f.uuids[entry] = true
			}
		}
	}
	if f.indexes != nil || f.nodes != nil {
		f.key = fmt.Sprintf("%t%d%q%t%q",
			f.indexes != nil, slices.Sorted(maps.Keys(f.indexes)), slices.Sorted(maps.Keys(f.uuids)),
			f.nodes != nil, slices.Sorted(maps.Keys(f.nodes)))
	}
	return f, nil
}

func mustFilter(terms filterTerms) *filter {
	f, err := newFilter(terms)
	if err != nil {
		panic(err)
	}
	return f
}

func setOf(list []string) map[string]bool {
	if list == nil {
		return nil
	}
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

// hears reports whether the viewer wants events of this name.
func (f *filter) hears(event string) bool { return allows(f.events, event) }

// keeps reports whether the viewer wants to see the device.
func (f *filter) keeps(d *gpu.Device) bool { return f.about(d.Node, d.UUID, d.Index) }

// wants reports whether the viewer wants the event.
func (f *filter) wants(e *Event) bool { return f.hears(e.Name) && f.about(e.Node, e.UUID, e.Index) }

func (f *filter) about(node, uuid string, index int) bool {
	if node != "" && !allows(f.nodes, node) {
		return false
	}
	return f.indexes == nil || uuid == "" || f.indexes[index] || f.uuids[uuid]
}

func allows(set map[string]bool, s string) bool { return set == nil || set[s] }
