package contract

import (
	"slices"
	"testing"
)

// The columns of a table stay where they are: what comes later to an answer is a column after them.
func TestCSVColumns(t *testing.T) {
	type answer struct {
		PastGPU
		Name  string  `json:"name"`
		Held  float64 `json:"held"`
		Later *string `json:"later"`
		Left  string  `json:"left"`
	}
	table := newCSVTable[answer]("held", "name", "gpu_id", "gpu_uuid", "gpu_name", "node", "gpu_kind", "-left")
	if want := []string{"held", "name", "gpu_id", "gpu_uuid", "gpu_name", "node", "gpu_kind", "later"}; !slices.Equal(table.names, want) {
		t.Errorf("columns %q, want %q", table.names, want)
	}
	a := answer{PastGPU: PastGPU{GPUID: 3, Node: "a"}, Name: `"x"`, Held: 1e-9}
	if got, want := table.line(&a), []string{"1e-9", `"x"`, "3", "", "", "a", "", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if table.line(&answer{Later: new("now")})[7] != "now" {
		t.Error("a text that may be null is not in its column")
	}
}
