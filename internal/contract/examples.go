package contract

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
)

// Three of the golden files are in the program, as examples for its documents.
//
//go:embed testdata/workstation.golden.json testdata/alert.golden.json testdata/alerts.golden.json
var goldens embed.FS

// Example returns an answer about a made-up workstation from its golden file, by the
// name in that file, such as "summary" or "gpu_metrics". "alert" is an alert that
// fires. Examples of requests and answers about alerts are in alerts.golden.json.
func Example(name string) json.RawMessage {
	example, ok := examples()[name]
	if !ok {
		panic("contract: no example " + name)
	}
	return example
}

// examples are read when the first is asked for.
var examples = sync.OnceValue(func() map[string]json.RawMessage {
	all := readGolden[map[string]json.RawMessage]("workstation")
	maps.Copy(all, readGolden[map[string]json.RawMessage]("alerts"))
	all["alert"] = readGolden[[]json.RawMessage]("alert")[0]
	return all
})

func readGolden[T any](name string) T {
	var into T
	text, err := goldens.ReadFile("testdata/" + name + ".golden.json")
	if err == nil {
		err = json.Unmarshal(text, &into)
	}
	if err != nil {
		panic(fmt.Sprintf("contract: the golden file %s can't be read: %v", name, err))
	}
	return into
}
