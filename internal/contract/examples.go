package contract

import (
	"cmp"
	"embed"
	"encoding/json"
	"sync"
)

// Some of the golden files are in the program, as examples for its documents.
//
//go:embed testdata/workstation.golden.json testdata/alert.golden.json testdata/alerts.golden.json testdata/past.golden.json testdata/audit.golden.json
var goldens embed.FS

// Example returns an answer about a made-up workstation from its golden file, by the name in that file, such as
// "summary" or "gpu_metrics". "alert" is a firing alert. Examples of requests and answers about alerts are in
// alerts.golden.json, those about the past in past.golden.json, those about the audit in audit.golden.json.
func Example(name string) json.RawMessage {
	example, ok := examples()[name]
	if !ok {
		panic("contract: no example " + name)
	}
	return example
}

// examples are read when the first one is requested.
var examples = sync.OnceValue(func() (all map[string]json.RawMessage) {
	var alerts []json.RawMessage
	for name, into := range map[string]any{"workstation": &all, "alerts": &all, "past": &all, "audit": &all, "alert": &alerts} {
		text, err := goldens.ReadFile("testdata/" + name + ".golden.json")
		if err = cmp.Or(err, json.Unmarshal(text, into)); err != nil {
			panic("contract: the golden file " + name + " can't be read: " + err.Error())
		}
	}
	all["alert"] = alerts[0]
	return all
})
