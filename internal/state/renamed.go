package state

import (
	"bytes"
	"encoding/json"
	"time"
)

// Names are the possible names of a document on a shelf: for the machine, for a simulation and for a
// recording.
func Names(document string) []string {
	names := []string{document + ".json"}
	for _, prefix := range unreal {
		names = append(names, prefix+document+".json")
	}
	return names
}

// Written returns when a document was written, and the name of its machine; zero and empty if it does not say.
func Written(text []byte) (written time.Time, node string) {
	var h header
	if json.Unmarshal(text, &h) != nil {
		return time.Time{}, ""
	}
	return h.Written, h.Node
}

// About returns a document with the name of its machine added. Earlier versions left that out.
func About(text []byte, node string) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil || all == nil || all["node"] != nil {
		return text
	}
	name, err := json.Marshal(node)
	if err != nil {
		return text
	}
	all["node"] = name
	if extended, err := json.Marshal(all); err == nil {
		return extended
	}
	return text
}

// renamed returns state of a machine under its new name: every field "node" with the former name gets the new one.
func renamed(state []byte, oldName, newName string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(state))
	decoder.UseNumber()
	var all any
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	rename(all, oldName, newName)
	return json.Marshal(all)
}

func rename(value any, oldName, newName string) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			rename(item, oldName, newName)
		}
	case map[string]any:
		for name, member := range value {
			if name == "node" && member == oldName {
				value[name] = newName
				continue
			}
			rename(member, oldName, newName)
		}
	}
}
