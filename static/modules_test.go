package static_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// Modules of which each is tested alone share one page that has nothing else.
func TestModules(t *testing.T) {
	tab := browsertest.Open(t, 800, 600)
	tab.Visit(newSite(t, nil, "").URL + base + "modules")
	for name, test := range map[string]func(*testing.T, *browsertest.Tab){
		"format": testFormatAgreesWithGo, "report": testReportHasOnlyWhatIsListed, "rows": testRowsAreMovedLittle,
		"past": testPastIsMerged, "trend": testTrend, "heights": testHeights, "clocks": testClocks,
	} {
		t.Run(name, func(t *testing.T) { test(t, tab) })
	}
	tab.Quiet()
}

// fill makes every text in v one that says where it stands.
func fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("«" + path + "»")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path)
	case reflect.Map:
		text := reflect.New(v.Type().Elem()).Elem()
		fill(text, path)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(path), text)
	case reflect.Struct:
		if r, ok := reflect.TypeAssert[json.Unmarshaler](v.Addr()); ok { // a reading, of a text or of something else
			if r.UnmarshalJSON(encode("«"+path+"»")) != nil {
				v.SetZero()
			}
			return
		}
		for i := range v.NumField() {
			at := path
			if f := v.Type().Field(i); !f.Anonymous {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				at = strings.TrimPrefix(path+"."+name, ".")
			}
			fill(v.Field(i), at)
		}
	default: // numbers name nobody
	}
}

// The same table of values goes through both languages; package views has it.
func testFormatAgreesWithGo(t *testing.T, tab *browsertest.Tab) {
	table, err := os.ReadFile("../views/testdata/format.json")
	if err != nil {
		t.Fatal(err)
	}
	got := browsertest.Ask[string](tab, fmt.Sprintf(`(async () => {
	  const format = await import(%q);
	  return %s.map((c) => ({ ...c, got: format[c.Function](c.Text === undefined ? c.Value : c.Text, c.Limit) }))
	    .filter((c) => c.got !== c.Want).map((c) => JSON.stringify(c)).join("\n");
	})()`, base+"source/format.js", table))
	if got != "" {
		t.Errorf("these differ:\n%s", got)
	}
}

// Whatever an update has, and will have, only these texts of it are in a
// report: those that name no person, process or machine.
func testReportHasOnlyWhatIsListed(t *testing.T, tab *browsertest.Tab) {
	var u contract.Update
	fill(reflect.ValueOf(&u).Elem(), "")
	report := browsertest.Ask[string](tab, fmt.Sprintf(`(async () => {
	  let copied = "";
	  Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { copied = text; } } });
	  await (await import(%q)).copyReport(%s);
	  return copied;
	})()`, base+"source/export.js", encode(u)))
	var got []string
	for _, m := range regexp.MustCompile(`«([^»]*)»`).FindAllStringSubmatch(report, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	want := []string{
		"drivers.cuda_driver_version", "drivers.driver_version", "failures.source", "failures.what",
		"gpus.architecture", "gpus.clock_event_reasons", "gpus.driver_version", "gpus.fans.policy", "gpus.gpu_name",
		"gpus.health.faults.advice", "gpus.health.faults.engine", "gpus.health.faults.kind", "gpus.health.faults.last",
		"gpus.health.faults.meaning", "gpus.health.faults.severity", "gpus.health.xids.advice", "gpus.health.xids.last",
		"gpus.health.xids.meaning", "gpus.health.xids.severity", "gpus.modes.compute",
		"gpus.modes.compute_partition", "gpus.modes.memory_partition", "gpus.modes.virtualization", "gpus.performance_state", "gpus.quality", "gpus.sampled_at", "gpus.source", "gpus.state",
		"gpus.state_reason", "gpus.state_since", "gpus.vbios_version", "gpus.vendor", "host.kernel", "host.os", "notes", "source", "status", "timestamp",
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("it has %q,\nwant %q", got, want)
	}
}

// After any change the rows are as they should be, those that stayed are the
// same elements, the focus is where it was, and little was moved.
func testRowsAreMovedLittle(t *testing.T, tab *browsertest.Tab) {
	if problems := browsertest.Ask[string](tab, fmt.Sprintf(`(async () => {
	  const { sync } = await import(%q);
	  const list = document.body.appendChild(document.createElement("ul"));
	  const show = (keys) => sync(list, "t-note", keys, (k) => k, (row, k) => { row.textContent = k; row.tabIndex = 0; });
	  const seen = new MutationObserver(() => {});
	  seen.observe(list, { childList: true });
	  const problems = [];
	  const moves = (want, keys, focus) => {
	    if (focus) list.querySelector("[data-key=" + focus + "]").focus();
	    seen.takeRecords();
	    show(keys.split(""));
	    const added = seen.takeRecords().filter((r) => r.addedNodes.length).length;
	    if (added !== want || list.textContent !== keys) problems.push(keys + " shows " + list.textContent + " after " + added + " moves, want " + want);
	    if (focus && document.activeElement.textContent !== focus) problems.push("the focus has left " + focus + " for " + document.activeElement.tagName);
	    document.activeElement.blur();
	  };
	  moves(8, "abcdefgh");
	  moves(0, "abcdefgh");
	  moves(1, "bcdefgha");
	  moves(1, "abcdefgh");
	  moves(7, "bcdefgha", "a");
	  moves(0, "cdefgha", "d");
	  moves(6, "ahgfedc", "g");
	  moves(1, "ahxgfedc", "c");
	  let random = 1;
	  const below = (n) => (random = (random * 48271) %% 2147483647) %% n;
	  for (let round = 0; round < 500; round++) {
	    const keys = Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i)).filter(() => below(3)).sort(() => below(3) - 1);
	    const rows = new Map([...list.children].map((row) => [row.textContent, row]));
	    const held = list.children[below(list.children.length)];
	    held?.focus();
	    show(keys);
	    if (list.textContent !== keys.join("")) problems.push(list.textContent + " is not " + keys.join(""));
	    if (held?.isConnected && document.activeElement !== held) problems.push("the focus is gone");
	    if ([...list.children].some((row) => rows.has(row.textContent) && rows.get(row.textContent) !== row)) problems.push("a row was made anew");
	  }
	  return problems.slice(0, 10).join("\n");
	})()`, base+"source/rows.js")); problems != "" {
		t.Error(problems)
	}
}

// The server's readings where it has them, the page's own where not; what
// breaks a line is no reading, however often it is loaded.
func testPastIsMerged(t *testing.T, tab *browsertest.Tab) {
	got := browsertest.Ask[string](tab, fmt.Sprintf(`(async () => {
	  const { Past } = await import(%q);
	  const past = new Past(10);
	  const at = (t) => new Date(1e12 + 1000 * t).toISOString();
	  const load = (offsets, v) => past.replace({ start: at(0), offsets_seconds: offsets, gpus: [{ gpu_id: 0, gpu_uuid: "u", node: "n", values: { power_watts: offsets.map(() => v) } }] });
	  const add = (t, v) => past.add({ timestamp: at(t), gpus: [{ gpu_id: 0, gpu_uuid: "u", node: "n", utilization: {}, memory: {}, temperature: { slowdown_threshold_celsius: 90 }, power: { power_draw_watts: v, power_limit_watts: 300 }, clocks: {}, processes: [] }] });
	  const text = () => past.times.map((t, i) => t - 1e9 + ":" + (past.ordered()[0].values.power_watts[i] ?? "-")).join(" ");
	  for (const t of [3, 6, 9, 30, 33, 53, 56]) add(t, 1);
	  const out = [text()];
	  for (let n = 0; n < 3; n++) load([6, 8, 32, 34, 54], 2);
	  out.push(text(), past.ordered()[0].limits.power_watts);
	  load([], 2);
	  out.push(text());
	  return out.join("\n");
	})()`, base+"source/past.js"))
	const want = "3:1 6:1 9:1 19.5:- 30:1 33:1 43:- 53:1 56:1\n" +
		"3:1 6:2 8:2 9:1 19.5:- 30:1 32:2 34:2 43.5:- 53:1 54:2 56:1\n300\n" +
		"3:1 6:2 8:2 9:1 19.5:- 30:1 32:2 34:2 43.5:- 53:1 54:2 56:1"
	if got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}

// The course of a GPU's utilization: of each quarter of a minute the highest,
// broken where nothing was read.
func testTrend(t *testing.T, tab *browsertest.Tab) {
	got := browsertest.Ask[[]string](tab, fmt.Sprintf(`(async () => {
	  const { Past } = await import(%q);
	  const past = new Past(60);
	  const at = (t) => new Date(1e12 + 1000 * t).toISOString();
	  const add = (t, v) => past.add({ timestamp: at(t), gpus: [{ gpu_id: 0, gpu_uuid: "u", node: "n", utilization: { gpu_percent: v }, memory: {}, temperature: {}, power: {}, clocks: {}, processes: [] }] });
	  const out = [past.trend("n/u")];
	  for (const [t, v] of [[0, 10], [5, 30.4], [10, 20], [15, 0], [30, null], [45, 100], [60, 50], [400, 40]]) add(t, v);
	  out.push(past.trend("n/u"));
	  add(1000, 7);
	  out.push(past.trend("n/u"), past.trend("n/other"));
	  return out;
	})()`, base+"source/past.js"))
	// The newest is at 59; 60 s before it is four steps to the left.
	if want := []string{"", "M33 70L34 100M36 0L37 50M59 60", "M19 60M59 93", ""}; !slices.Equal(got, want) {
		t.Errorf("it is %q, want %q", got, want)
	}
}

// The cursor has the time of the clocks that the server names, also where they are set.
func testClocks(t *testing.T, tab *browsertest.Tab) {
	got := browsertest.Ask[string](tab, fmt.Sprintf(`(async () => {
	  const { clockAt } = await import(%q);
	  const at = (clocks, t) => new Date(clockAt(clocks, Date.parse(t))).toISOString().slice(11, 16);
	  const berlin = "1792879200000:7200000 1792890000000:3600000";
	  return [at(berlin, "2026-10-24T22:00Z"), at(berlin, "2026-10-25T00:59Z"), at(berlin, "2026-10-25T01:00Z"), at("0:-34200000", "2026-01-01T00:00Z")].join();
	})()`, base+"source/pastpage.js"))
	if want := "00:00,02:59,02:00,14:30"; got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
}

// The readings at the cursor are those of the path that the server has drawn.
func testHeights(t *testing.T, tab *browsertest.Tab) {
	got := browsertest.Ask[string](tab, fmt.Sprintf(`(async () => {
	  const { heightAt } = await import(%q);
	  return JSON.stringify([0, 1, 2, 3, 4, 7, 8, 9, 11].map((x) => heightAt("M0 10l1 0 2-4 1 0M8-3l2 0", x)));
	})()`, base+"source/pastpage.js"))
	if want := "[10,10,8,6,6,null,-3,-3,null]"; got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
}
