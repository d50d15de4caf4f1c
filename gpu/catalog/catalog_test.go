package catalog_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// whole returns a device with one part of each kind.
func whole() *gpu.Device {
	d := new(gpu.Device)
	d.Fans.Fans = make([]gpu.Fan, 1)
	d.Instances = make([]gpu.Instance, 1)
	d.NVLink.Links = make([]gpu.Link, 1)
	d.Health.XIDs, d.Health.Faults = gpu.Of(make([]gpu.XID, 1)), gpu.Of(make([]gpu.Fault, 1))
	return d
}

// Every reading of a device has one row.
func TestEveryReadingIsDeclaredOnce(t *testing.T) {
	d := whole()
	times := map[any]int{}
	for r := range catalog.All() {
		r.Visit(d, func(_ string, ref catalog.Ref) { times[ref]++ })
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if ref, ok := reflect.TypeAssert[catalog.Ref](v.Addr()); ok {
			if n := times[ref]; n != 1 && path != ".Reservations" && path != ".Accounted" { // for people: ReservedBy; the past has sessions
				t.Errorf("%s has %d rows", path, n)
			}
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					walk(path+"."+f.Name, v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(path+"[]", v.Index(i))
			}
		}
	}
	walk("", reflect.ValueOf(d).Elem())
}

// Every reading that a device reports becomes stale with the others.
func TestEveryReadingBecomesStale(t *testing.T) {
	d := whole()
	present := map[*catalog.Row]bool{}
	visit := func(each func(r *catalog.Row, part string, ref catalog.Ref)) {
		for r := range catalog.All() {
			if !strings.HasPrefix(r.ID, "identity.") && r.ID != "power.idle_floor" && !strings.HasPrefix(r.ID, "xid.") && !strings.HasPrefix(r.ID, "fault.") {
				r.Visit(d, func(part string, ref catalog.Ref) { each(r, part, ref) })
			}
		}
	}
	visit(func(_ *catalog.Row, _ string, ref catalog.Ref) {
		for _, value := range []string{"1", "true", `"a"`, `"2026-03-14T15:09:26Z"`, "[]"} {
			if ref.(json.Unmarshaler).UnmarshalJSON([]byte(value)) == nil {
				break
			}
		}
	})
	visit(func(r *catalog.Row, _ string, ref catalog.Ref) { present[r] = ref.Present() })
	d.Readings = d.Stale()
	visit(func(r *catalog.Row, _ string, ref catalog.Ref) {
		calculated := r.ID == "memory.share"
		constant := r.ID == "instance.name" || r.ID == "instance.uuid" || r.ID == "link.index"
		if !present[r] || !constant && ref.Quality() != gpu.Stale && !calculated || calculated && ref.Present() {
			t.Errorf("%s: present before %v, then %v", r.ID, present[r], ref.Quality())
		}
	})
	if len(present) < 80 {
		t.Errorf("only %d readings", len(present))
	}
}

func TestRowsAreWhole(t *testing.T) {
	ids, metrics := map[string]bool{}, map[string]bool{}
	for r := range catalog.All() {
		if ids[r.ID] || r.Metric != "" && metrics[r.Metric] {
			t.Errorf("%s is there twice", r.ID)
		}
		ids[r.ID], metrics[r.Metric] = true, true
		if (r.Metric == "") != (r.Help == "") || r.Path == "" && r.Label != "" {
			t.Errorf("%s is not whole", r.ID)
		}
	}
	for i := range catalog.Groups {
		g := &catalog.Groups[i]
		for _, list := range []bool{false, true} {
			for _, r := range g.Page(list) {
				if !ids[r.ID] {
					t.Errorf("%s is on the page twice", r.ID)
				}
				delete(ids, r.ID)
			}
		}
	}
}

// Every path exists in the JSON of a device.
func TestPathsAreOnTheWire(t *testing.T) {
	text, err := json.Marshal(contract.NewUpdate(insight.Of(fixture.Server()), nil).GPUs[0])
	if err != nil {
		t.Fatal(err)
	}
	var device map[string]any
	if err := json.Unmarshal(text, &device); err != nil {
		t.Fatal(err)
	}
	for r := range catalog.All() {
		value := any(device)
		if r.Path == "" || r.List != "" {
			continue
		}
		for name := range strings.SplitSeq(r.Path, ".") {
			fields, _ := value.(map[string]any)
			var ok bool
			if value, ok = fields[name]; !ok {
				t.Errorf("%s: there is no %s in the JSON of a device", r.ID, r.Path)
				break
			}
		}
	}
}

func TestOrigins(t *testing.T) {
	both := catalog.Origins{gpu.SourceNVML: "call", gpu.SourceAMD: "file"}
	kubelet := catalog.Origins{"": "List"}
	for _, tt := range []struct {
		origins      catalog.Origins
		source, want string
	}{
		{both, gpu.SourceNVML, "call"}, {both, gpu.SourceSimulated, "call"}, {both, gpu.SourceAMD, "file"}, {both, gpu.SourceIntel, ""}, {both, gpu.SourceNvidiaSMI, ""},
		{kubelet, gpu.SourceNVML, "List"}, {kubelet, gpu.SourceAMD, "List"}, {nil, gpu.SourceNVML, ""},
	} {
		if got := tt.origins.Of(tt.source); got != tt.want {
			t.Errorf("%v of %s is %q, want %q", tt.origins, tt.source, got, tt.want)
		}
	}
}

// The tables of files only name existing readings.
func TestFilesAreOfRows(t *testing.T) {
	ids := map[string]bool{}
	for r := range catalog.All() {
		ids[r.ID] = true
	}
	for source, ofSource := range catalog.Files() {
		for id, file := range ofSource {
			if !ids[id] || file == "" {
				t.Errorf("%s has %q for %s", source, file, id)
			}
		}
	}
}
