package contract

import (
	"embed"
	"encoding/json"
	"fmt"
)

// Two of the golden files are in the program, as examples for its documents.
//
//go:embed testdata/workstation.golden.json testdata/alert.golden.json
var goldens embed.FS

// Example returns an answer about a made-up workstation, as its golden file has
// it: "summary", "gpu_metrics"; the names are those in the file. "alert" is an
// alert that fires.
func Example(name string) json.RawMessage {
	if name == "alert" {
		var alerts []json.RawMessage
		readGolden(name, &alerts)
		return alerts[0]
	}
	var answers map[string]json.RawMessage
	readGolden("workstation", &answers)
	example, ok := answers[name]
	if !ok {
		panic("contract: no example " + name)
	}
	return example
}

func readGolden(name string, into any) {
	text, err := goldens.ReadFile("testdata/" + name + ".golden.json")
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(fmt.Sprintf("contract: the golden file %s can't be read: %v", name, err))
	}
}
