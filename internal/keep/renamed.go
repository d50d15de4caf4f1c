package keep

import (
	"bytes"
	"encoding/json"
)

// renamed returns a state that was kept of a machine by another name: wherever it names the machine, in the field "node", it has the new name.
func renamed(state []byte, from, to string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(state))
	decoder.UseNumber()
	var all any
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	rename(all, from, to)
	return json.Marshal(all)
}

func rename(value any, from, to string) {
	switch value := value.(type) {
	case []any:
		for _, of := range value {
			rename(of, from, to)
		}
	case map[string]any:
		for name, of := range value {
			if name == "node" && of == from {
				value[name] = to
				continue
			}
			rename(of, from, to)
		}
	}
}
