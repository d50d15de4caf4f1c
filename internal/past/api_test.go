package past_test

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

var gpu3 = store.Key{Node: "node", UUID: "GPU-3a"}

// remembering is a server with an hour of readings, and a process in it.
func remembering(t *testing.T, change ...func(*store.Batch)) http.Handler {
	t.Helper()
	b := &store.Batch{Devices: []store.Device{{Node: gpu3.Node, UUID: gpu3.UUID, Name: "RTX", Index: 3}, {Node: "node"}}}
	power := store.DeviceColumns.Find("power_draw")
	for at := time.Hour; at > 0; at -= 5 * time.Second {
		r := store.Row{Key: gpu3, Time: fixture.Time.Add(-at), Readings: 1, Values: make([]store.Value, len(store.DeviceColumns))}
		r.Values[power] = store.Value{Least: 200, Mean: 200, Most: 200, Count: 1}
		b.Rows = append(b.Rows, r)
		minute := store.Bucket{Key: gpu3, Tier: store.Minute, Time: r.Time.Truncate(time.Minute)}
		b.Unsettled = append(b.Unsettled, minute, store.Bucket{Key: gpu3, Tier: store.Quarter, Time: r.Time.Truncate(15 * time.Minute)})
	}
	s := store.Session{User: "mchen", Program: "=cmd()", From: fixture.Time.Add(-time.Hour), To: fixture.Time, Outcome: store.Open, Seen: time.Hour, Busy: time.Hour}
	s.Key, s.PID = gpu3, 7
	b.Sessions = []store.Session{s}
	b.Causes = []store.Cause{{Key: gpu3, ID: "work", Kind: "work", From: s.From, To: s.To}}
	b.Events = []store.Event{{ID: "1", Key: gpu3, Kind: "xid", Time: fixture.Time.Add(-time.Minute), Text: "XID 31"}, {ID: "2", Key: store.Key{Node: "node"}, Kind: "started", Time: s.From, Text: "started"}}
	for _, c := range change {
		c(b)
	}
	m := storetest.NewModel()
	if err := m.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	_, h := servetest.Serving(t, func(c *servetest.Rig) { c.Past.Store, c.Sizes.Past.Store, c.Price = m, m, 0.5 })
	return h
}

func decoded[T any](t *testing.T, w *httptest.ResponseRecorder) (out T) {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return out
}

func TestThePast(t *testing.T) {
	t.Parallel()
	h := remembering(t)
	history := decoded[contract.History](t, servetest.Get(h, "/api/gpu/history?from=-30m&metric=power_draw&gpu=3&step=60&tz=UTC"))
	if len(history.GPUs) != 1 || history.Points < 30 || history.TimeZone != "UTC" || history.GPUs[0].Metrics["power_draw"].Mean[5] != gpu.Of(200.0) || history.Tier != "1m" {
		t.Errorf("history: %+v", history)
	}
	repeated := "/api/gpu/history?from=-5h30m&step=1s" + strings.Repeat("&metric=power_draw&metric=utilization_gpu", 700)
	if once := servetest.Get(h, repeated); len(decoded[contract.History](t, once).GPUs[0].Metrics) != 2 {
		t.Errorf("of metrics that are repeated: %d", once.Body.Len())
	}
	if all := decoded[contract.History](t, servetest.Get(h, "/api/gpu/history")); len(all.GPUs[0].Metrics) < 7 {
		t.Errorf("of all metrics: %d", len(all.GPUs[0].Metrics))
	}
	for _, query := range []string{"from=-29m30s&step=10m", "from=-29m30s", "from=-1h&step=1h", "from=-10m&step=1h", "from=-1.5h&step=0.5h", "from=-10m&step=1d"} {
		h := decoded[contract.History](t, servetest.Get(h, "/api/gpu/history?metric=power_draw&tz=UTC&"+query))
		if h.Start < h.From || h.Points < 1 || len(h.GPUs) != 1 {
			t.Errorf("%s: a history from %s begins at %s with %d points", query, h.From, h.Start, h.Points)
		}
	}
	if list := decoded[contract.PastSessions](t, servetest.Get(h, "/api/gpu/sessions?from=-2h&user=mchen")); len(list.Sessions) != 1 || list.Sessions[0].GPUID != 3 {
		t.Errorf("sessions: %+v", list)
	}
	if list := decoded[contract.PastSessions](t, servetest.Get(h, "/api/gpu/sessions?from=-2h&user=nobody")); list.Sessions == nil || len(list.Sessions) != 0 {
		t.Errorf("sessions of nobody: %+v", list)
	}
	usage := decoded[contract.PastUsage](t, servetest.Get(h, "/api/gpu/usage?from=-1h&by=gpu"))
	if len(usage.Rows) != 1 || math.Round(usage.Rows[0].Held*1000) != 1000 || *usage.Rows[0].KWh != 0.2 || *usage.Rows[0].Cost != 0.1 || usage.Rows[0].GPU.GPUID != 3 {
		t.Errorf("usage: %+v", usage)
	}
	for by, want := range map[string]string{"node": "node", "cluster": "local", "container": "", "unit": ""} {
		if usage := decoded[contract.PastUsage](t, servetest.Get(h, "/api/gpu/usage?from=-1h&by="+by)); len(usage.Rows) != 1 || usage.Rows[0].Name != want || usage.Rows[0].Devices != 1 {
			t.Errorf("usage by %s: %+v", by, usage)
		}
	}
	if events := decoded[contract.PastEvents](t, servetest.Get(h, "/api/events?from=-2h&kind=xid")); len(events.Events) != 1 || events.Events[0].Text != "XID 31" {
		t.Errorf("events: %+v", events)
	}
	readings := decoded[contract.PastReadings](t, servetest.Get(h, "/api/gpu/readings?from=-2h&metric=power_draw"))
	if len(readings.Readings) != 720 || readings.Tier != "raw" || readings.Readings[0].Mean["power_draw"] != gpu.Of(200.0) || readings.Readings[0].GPUID != 3 {
		t.Errorf("readings: %d of %s", len(readings.Readings), readings.Tier)
	}
	if minutes := decoded[contract.PastReadings](t, servetest.Get(h, "/api/gpu/readings?from=-2h&tier=1m&gpu=3")); minutes.Tier != "1m" || len(minutes.Readings) != 720 {
		t.Errorf("of minutes that are not made yet: %d of %s", len(minutes.Readings), minutes.Tier)
	}
	if hours := decoded[contract.PastReadings](t, servetest.Get(h, "/api/gpu/readings?from=-2h&tier=6h&gpu=3")); hours.Tier != "6h" {
		t.Errorf("of six hours: %d of %s", len(hours.Readings), hours.Tier)
	}
	if machine := decoded[contract.PastReadings](t, servetest.Get(h, "/api/gpu/readings?metric=cpu_percent")); len(machine.Readings) != 0 {
		t.Errorf("of a machine that was never read: %+v", machine)
	}
	if causes := decoded[contract.PastCauses](t, servetest.Get(h, "/api/gpu/causes?from=-2h")); len(causes.Causes) != 1 || causes.Causes[0].Kind != "work" {
		t.Errorf("causes: %+v", causes)
	}
	size := decoded[contract.PastSize](t, servetest.Get(h, "/api/gpu/history/size"))
	if len(size.Kinds) != 8 || size.Kinds[0].Rows != 720 || size.Bytes != 724 || size.Full != 724 || size.Kinds[0].For != nil || size.How == "" {
		t.Errorf("size: %+v", size)
	}
	if why := decoded[contract.PastWhy](t, servetest.Get(h, "/api/gpu/why?from=-1h")); why.Sentence != "The whole time, =cmd() of mchen ran on GPU 3." {
		t.Errorf("why: %+v", why)
	}
	if why := servetest.Get(h, "/api/gpu/why"); why.Code != http.StatusOK || !strings.Contains(why.Body.String(), `"headline"`) {
		t.Errorf("why now: %d %s", why.Code, why.Body)
	}
}

// GPUs come in the order of their places, whatever their keys are.
func TestReadingsInTheOrderOfPlaces(t *testing.T) {
	t.Parallel()
	h := remembering(t, func(b *store.Batch) {
		for index, uuid := range []string{"GPU-9", "GPU-5", "GPU-1"} {
			b.Devices = append(b.Devices, store.Device{Node: "node", UUID: uuid, Index: index})
			r := b.Rows[len(b.Rows)-1]
			r.UUID = uuid
			b.Rows = append(b.Rows, r)
		}
	})
	var got []string
	for _, g := range decoded[contract.History](t, servetest.Get(h, "/api/gpu/history?from=-1h&metric=power_draw&step=5")).GPUs {
		got = append(got, g.GPUUUID)
	}
	if want := []string{"GPU-9", "GPU-5", "GPU-1", "GPU-3a"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// As tables, and compressed, the answers say the same. A text is never a formula.
func TestThePastAsTables(t *testing.T) {
	t.Parallel()
	h := remembering(t)
	for path, rows := range map[string]int{
		"/api/gpu/history?from=-30m&metric=power_draw&step=60": 31, "/api/gpu/sessions": 1, "/api/gpu/usage": 1, "/api/events": 2, "/api/gpu/readings": 720,
		"/api/gpu/readings?tier=1m&metric=power_draw": 720, "/api/gpu/causes": 1, "/api/gpu/why?from=-1h": 1,
		"/api/events?kind=clock_set": 0,
	} {
		w := servetest.Get(h, path, "Accept: text/csv")
		table, err := csv.NewReader(w.Body).ReadAll()
		if err != nil || len(table) < rows || len(table) > rows+1 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
			t.Errorf("%s: %v, %d lines, %v", path, err, len(table), w.Header())
		}
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		values := u.Query()
		values.Set("format", "csv")
		u.RawQuery = values.Encode()
		zipped := servetest.Get(h, u.String(), "Accept-Encoding: gzip")
		zr, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := csv.NewReader(zr).ReadAll(); err != nil || len(again) != len(table) {
			t.Errorf("%s, compressed: %v, %d lines", path, err, len(again))
		}
		if strings.Contains(path, "sessions") && !strings.Contains(strings.Join(table[1], "|"), "|'=cmd()|") {
			t.Errorf("a name is a formula: %q", table[1])
		}
	}
}

// hostile is a store with a session of a process that has a name for a terminal.
type hostile struct{ store.Store }

func (hostile) Sessions(context.Context, store.Query) iter.Seq2[store.Session, error] {
	return func(yield func(store.Session, error) bool) {
		yield(store.Session{Outcome: store.Ended, User: "\t=cmd()", Name: "\x1b]0;owned\x07\ntrain.py", Program: "zuñe \u202etrain", Command: "two\r\nlines\u009b2J"}, nil)
	}
}

// In a table no text moves the cursor, or begins a line of its own.
func TestTextsInTables(t *testing.T) {
	t.Parallel()
	_, h := servetest.Serving(t, func(c *servetest.Rig) { c.Past = &history.Past{Store: hostile{storetest.NewModel()}, Now: c.Past.Now} })
	for _, path := range []string{"/api/gpu/sessions?from=-1h&format=csv", "/api/gpu/usage?from=-1h&by=process&format=csv"} {
		text := servetest.Get(h, path).Body.String()
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) || strings.Count(text, "\n") != 2 {
			t.Errorf("%s: %q", path, text)
		}
		if strings.Contains(path, "sessions") && !strings.Contains(text, "\ufffd=cmd(),\ufffd]0;owned\ufffd\ufffdtrain.py,zuñe \ufffdtrain") {
			t.Errorf("%s: %q", path, text)
		}
	}
}

// A table that is saved says what it has: tables of several questions lie beside each other.
func TestNamesOfTables(t *testing.T) {
	t.Parallel()
	h := remembering(t)
	seen := map[string]string{}
	for _, path := range []string{
		"/api/gpu/sessions?from=-1h&format=csv", "/api/gpu/sessions?from=-2h&format=csv", "/api/gpu/usage?from=-1h&format=csv", "/api/gpu/usage?by=gpu&from=-1h&format=csv",
		"/api/gpu/readings?metric=power_draw&from=-1h&format=csv", "/api/gpu/history?from=-1h&format=csv", "/api/gpu/why?from=-1h&format=csv",
	} {
		w := servetest.Get(h, path)
		_, params, err := mime.ParseMediaType(w.Header().Get("Content-Disposition"))
		name := params["filename"]
		what, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/gpu/"), "?")
		if w.Code != http.StatusOK || err != nil || strings.Contains(path, "by=gpu") != strings.Contains(name, "-by-gpu-") || !strings.HasPrefix(name, "gpuwhy-"+what+"-") || !strings.HasSuffix(name, ".csv") || seen[name] != "" {
			t.Errorf("%s: %d, %q, %v, as %s", path, w.Code, name, err, seen[name])
		}
		seen[name] = path
	}
	odd := map[store.Key]store.Device{{Node: "a\"b/c\r\n é"}: {}}
	long := map[store.Key]store.Device{{Node: strings.Repeat("n", 300)}: {}}
	if got := past.File(long, "history", ""); len(got) > 200 {
		t.Errorf("%d bytes: no file system takes that", len(got))
	}
	if got := past.File(odd, "usage", ""); strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-_.T") != "" {
		t.Errorf("%q", got)
	}
}

func TestQuestionsThatCantBeRead(t *testing.T) {
	t.Parallel()
	h := remembering(t)
	for path, want := range map[string]string{
		"/api/gpu/history?from=soon":                                      `"soon" is not a span of time`,
		"/api/gpu/history?to=now":                                         "to is given without from",
		"/api/gpu/history?from=-1h&to=-2h":                                "ends before it begins: give the earlier time first",
		"/api/gpu/history?from=2026-03-14T00:00:00+01:00":                 "write the + as %2B in an address",
		"/api/gpu/history?from=2999-01-01T00:00:00Z":                      `"2999-01-01T00:00:00Z" is in the future: give a time in the past`,
		"/api/gpu/history?from=0001-01-01&to=9999-12-31T00:00:00Z":        "longer than 100 years",
		"/api/gpu/history?from=0001-01-01&to=9999-12-31T00:00:00Z&step=1": "longer than 100 years",
		"/api/gpu/why?to=now":                                             "to is given without from",
		"/api/events?kind=foo":                                            `there is no event kind "foo": use alert_fired,`,
		"/api/gpu/at?time=soon":                                           `is not a time: write it like`,
		"/api/gpu/history?metric=moon":                                    "there is no metric",
		"/api/gpu/history?metric=cpu_percent&metric=power_draw":           "can't ask for metrics of both GPUs and machines",
		"/api/gpu/history?step=soon":                                      "is not a valid step",
		"/api/gpu/history?from=-1d&step=1":                                "more than 20,000 points",
		"/api/gpu/history?gpu=first":                                      "is neither a GPU's index nor its UUID",
		"/api/gpu/sessions?tz=Moon":                                       "unknown time zone",
		"/api/gpu/usage?by=moon":                                          "is not a way to sum usage",
		"/api/events?format=xml":                                          "there is no format",
		"/api/gpu/readings?tier=5m":                                       `there is no tier "5m" (did you mean "15m"?): use raw, 1m, 15m or 6h`,
		"/api/gpu/readings?metric=moon":                                   "there is no metric",
		"/api/gpu/history?from=1700-01-01T00:00:00Z&to=2262-12-31T00:00:00Z&step=2562047h": "longer than 100 years",
	} {
		if detail := servetest.IsProblem(t, servetest.Get(h, path), http.StatusUnprocessableEntity); !strings.Contains(detail, want) {
			t.Errorf("%s: %s", path, detail)
		}
	}
	servetest.IsProblem(t, servetest.Get(h, "/api/gpu/history?gpu=4"), http.StatusNotFound)
	if berlin := decoded[contract.History](t, servetest.Get(h, "/api/gpu/history?tz=europe/berlin")); berlin.TimeZone != "Europe/Berlin" {
		t.Errorf("the zone is %s", berlin.TimeZone)
	}
	if hours := decoded[contract.History](t, servetest.Get(h, "/api/gpu/history?from=9:00..9:30&tz=-09:30")); hours.TimeZone != "-09:30" || !strings.HasSuffix(hours.From, "T18:30:00.000000Z") {
		t.Errorf("the zone is %s, from %s", hours.TimeZone, hours.From)
	}
	_, off := servetest.Serving(t, func(c *servetest.Rig) { c.Past, c.Sizes = nil, nil })
	servetest.IsProblem(t, servetest.Get(off, "/api/gpu/history/size"), http.StatusNotFound)
	servetest.IsProblem(t, servetest.Get(off, "/api/gpu/history"), http.StatusNotFound)
}

// Who narrows an answer never gets all of it: what an address does not take is refused, below the address of a node too.
func TestParametersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	of := fixture.Workstation()
	m := storetest.NewModel()
	known := &store.Batch{Devices: []store.Device{{Node: of.Node, UUID: "GPU-3a", Index: 3}, {Node: "node", UUID: "GPU-4", Index: 4}}}
	if err := m.Write(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	st, h := servetest.Serving(t, func(c *servetest.Rig) { c.Past.Store, c.Sizes.Past.Store = m, m })
	st.Show(t, of)
	here := "/node/" + of.Node
	const unknown = ` is not supported by /api/gpu/`
	for path, want := range map[string]string{
		"/api/gpu/why?gpu=99":                          "gpu applies only to the past here",
		"/api/gpu/why?tz=../../etc":                    "tz applies only to the past here",
		"/api/gpu/why?node=node":                       "node applies only to the past here",
		"/api/gpu/why?user=nobody":                     `"user"` + unknown,
		"/api/gpu/why?form=yesterday":                  `"form"` + unknown,
		"/api/gpu/why?from=-1h&user=nobody":            `"user"` + unknown,
		"/api/gpu/causes?user=nobody":                  `"user"` + unknown,
		"/api/gpu/history?user=nobody":                 `"user" is not supported by /api/gpu/history: leave it out, or use one of metric, step, from, to, tz, gpu, node, format`,
		"/api/gpu/readings?user=nobody":                `"user"` + unknown,
		"/api/events?user=nobody":                      `"user" is not supported by /api/events`,
		"/api/gpu/history/size?node=desktop":           `"node"` + unknown + "history/size: leave it out",
		"/api/gpu/forecast?user=x&from=-1h":            `"from"` + unknown,
		"/api/gpu/usage?usr=alice":                     `"usr"` + unknown,
		"/api/gpu/usage?USER=alice":                    `"USER"` + unknown,
		"/api/gpu/usage?user=":                         `"user" has no value`,
		"/api/gpu/sessions?gpu=3&gpu=":                 `"gpu" has no value`,
		"/api/gpu/sessions?user=a&user=b":              `"user" is given twice`,
		"/api/gpu/sessions?from=-1h&from=-2h":          `"from" is given twice`,
		"/api/gpu/at?gpu=3":                            `"gpu"` + unknown,
		here + "/api/gpu/sessions?node=other":          `for the node "` + of.Node + `", but the parameter "node" is "other"`,
		here + "/api/gpu/at?node=other":                `for the node "` + of.Node + `", but the parameter "node" is "other"`,
		here + "/api/gpu/usage?usr=alice":              `"usr"` + unknown,
		"/api/gpu/history?metric=power_draw&metrics=a": `"metrics"` + unknown,
		"/api/gpu/sessions?format=csv&format=json":     `"format" is given twice`,
		"/api/gpu/sessions?%00=1":                      `"\x00"` + unknown,
	} {
		if detail := servetest.IsProblem(t, servetest.Get(h, path), http.StatusBadRequest); !strings.Contains(detail, want) {
			t.Errorf("%s: %s", path, detail)
		}
	}
	for _, path := range []string{ // of older contracts, and what is taken several times
		"/api/gpu/metrics?anything=1", "/api/gpu/summary?a=1&a=2", "/gpu/metrics?user=x", "/api/v1/gpu/nodes?x=", "/api/gpu/why/0?user=x",
		"/api/gpu/sessions?gpu=3&gpu=3&user=mchen", here + "/api/gpu/sessions?node=" + of.Node, "/api/gpu/history?metric=power_draw&metric=temperature_celsius",
	} {
		if w := servetest.Get(h, path); w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
}

// noDevices is a store that can't be read.
type noDevices struct{ store.Store }

func (noDevices) Devices(context.Context) ([]store.Device, error) {
	return nil, &gpu.Advice{What: "the database can't be reached", Try: "start it", Err: store.ErrGone}
}

// failing is a store that fails after some elements.
type failing struct {
	store.Store
	after int
	as    error // nil: it can't be reached
}

func (f *failing) Sessions(_ context.Context, _ store.Query) iter.Seq2[store.Session, error] {
	return func(yield func(store.Session, error) bool) {
		for range f.after {
			if !yield(store.Session{}, nil) {
				return
			}
		}
		yield(store.Session{}, &gpu.Advice{What: "the database can't be reached", Try: "start it", Err: cmp.Or(f.as, store.ErrGone)})
	}
}

// A database that fails is an answer with advice; in the middle of an answer the connection is cut.
func TestADatabaseThatFails(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 2} {
		_, h := servetest.Serving(t, func(c *servetest.Rig) {
			c.Past = &history.Past{Store: &failing{Store: storetest.NewModel(), after: after}, Now: c.Past.Now}
		})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Host = "localhost:8003"
			h.ServeHTTP(w, r)
		}))
		defer server.Close()
		answer, err := http.Get(server.URL + "/api/gpu/sessions")
		if after > 0 && errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		switch {
		case after == 0 && (answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "start it")):
			t.Errorf("status %d: %s", answer.StatusCode, text)
		case after > 0 && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("a part of an answer: %v, %s", err, text)
		}
	}
}

// A database that has too much to answer says when to come again.
func TestADatabaseThatIsBusy(t *testing.T) {
	t.Parallel()
	for as, want := range map[error]string{store.ErrBusy: "5", store.ErrGone: ""} {
		_, h := servetest.Serving(t, func(c *servetest.Rig) {
			c.Past = &history.Past{Store: &failing{Store: storetest.NewModel(), as: as}, Now: c.Past.Now}
		})
		for _, path := range []string{"/api/gpu/sessions", "/past"} {
			w := servetest.Get(h, path)
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != want {
				t.Errorf("%s: %d, come again after %q, want %q", path, w.Code, w.Header().Get("Retry-After"), want)
			}
		}
	}
}

// holding is a store that says when snapshots are asked for, and has none until it may.
type holding struct {
	store.Store
	asked chan struct{}
	may   chan struct{}
}

func (s *holding) Frames(context.Context, store.Query) iter.Seq2[store.Frame, error] {
	return func(func(store.Frame, error) bool) {
		s.asked <- struct{}{}
		<-s.may
	}
}

// What a machine was like is much work: two at once are answered, and who comes in between is told when to come again.
func TestMuchAskedAtOnce(t *testing.T) {
	t.Parallel()
	s := &holding{storetest.NewModel(), make(chan struct{}), make(chan struct{})}
	_, h := servetest.Serving(t, func(c *servetest.Rig) {
		c.Past.Store = s
	})
	var first sync.WaitGroup
	for range 2 {
		first.Go(func() { servetest.IsProblem(t, servetest.Get(h, "/api/gpu/at"), http.StatusNotFound) })
		<-s.asked
	}
	var next sync.WaitGroup
	for _, path := range []string{"/api/gpu/at", "/past?at=now"} {
		next.Go(func() {
			if w := servetest.Get(h, path); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" {
				t.Errorf("%s: status %d, %v", path, w.Code, w.Header())
			}
		})
	}
	next.Wait()
	close(s.may)
	first.Wait()
}

// Of a machine that got another name there are two: an index is that of the one that is read now, and of the same GPU before.
func TestTheNodeOfAnIndex(t *testing.T) {
	t.Parallel()
	old := store.Key{Node: "before", UUID: gpu3.UUID}
	h := remembering(t, func(b *store.Batch) {
		b.Devices = append(b.Devices, store.Device{Node: "before", UUID: gpu3.UUID, Index: 3}, store.Device{Node: "before", UUID: "GPU-9", Index: 9},
			store.Device{Node: "x", UUID: "GPU-5", Index: 5}, store.Device{Node: "y", UUID: "GPU-6", Index: 5})
		s := b.Sessions[0]
		s.Key = old
		b.Sessions = append(b.Sessions, s)
	})
	for query, nodes := range map[string][]string{
		"gpu=3": {"before", "node"}, "gpu=3&node=node": {"node"}, "gpu=3&node=before": {"before"}, "node=before": {"before"}, "gpu=9": {}, "gpu=5&node=x": {},
		"gpu=" + gpu3.UUID: {"before", "node"}, "": {"before", "node"},
	} {
		list := decoded[contract.PastSessions](t, servetest.Get(h, "/api/gpu/sessions?from=-2h&"+query))
		got := []string{}
		for _, s := range list.Sessions {
			got = append(got, s.Node)
		}
		if slices.Sort(got); !slices.Equal(got, nodes) {
			t.Errorf("%s: of %q, want %q", query, got, nodes)
		}
	}
	if detail := servetest.IsProblem(t, servetest.Get(h, "/api/gpu/history?gpu=5"), http.StatusBadRequest); !strings.Contains(detail, "node=NAME") {
		t.Error(detail)
	}
	servetest.IsProblem(t, servetest.Get(h, "/api/gpu/history?node=nobody"), http.StatusNotFound)
	servetest.IsProblem(t, servetest.Get(h, "/api/gpu/history?gpu=9&node=node"), http.StatusNotFound)
}

// A GPU is chosen as people call it.
func TestAGPUAsItIsCalled(t *testing.T) {
	t.Parallel()
	devices := map[store.Key]store.Device{{Node: "rtx"}: {Node: "rtx"}}
	for node, product := range map[string]string{"node-001": "NVIDIA A100-SXM4-80GB", "node-002": "NVIDIA H100 80GB HBM3", "rtx": "NVIDIA GeForce RTX 4090"} {
		for i := range 3 {
			d := store.Device{Node: node, UUID: fmt.Sprintf("GPU-%s-%d", node, i), Index: i, Name: product}
			devices[d.Key()] = d
		}
	}
	for text, want := range map[string]string{
		"node-001 GPU 2": "node-001/2", "  NODE-001  gpu 2 ": "node-001/2", "GPU 2 of node-001": "node-001/2", "node-001/2": "node-001/2", "node-001 2": "node-001/2",
		"node-002": "node-002/0 node-002/1 node-002/2", "a100": "node-001/0 node-001/1 node-001/2", "RTX 4090": "rtx/0 rtx/1 rtx/2", "rtx 1": "rtx/1",
		"3": "", "100": "", "GPU-1": "", "node-001 GPU 7": "", "x": "", "": "",
	} {
		name, keys := past.Called(devices, text)
		var got []string
		for _, k := range keys {
			got = append(got, fmt.Sprintf("%s/%d", k.Node, devices[k].Index))
		}
		if strings.Join(got, " ") != want || name != text {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if name, keys := past.Called(devices, "gpu 2"); name != "2" || keys != nil {
		t.Errorf("an index is %q, %v", name, keys)
	}
}

// What has the same UUID under another name is the same GPU, unless that may be another one.
func TestTheSameGPUUnderAnotherName(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return time.Date(2026, 3, 1, 12, minutes, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		uuid      string
		kind, was gpu.Kind
		last      time.Time // of the other
		read      bool      // that one is read now, too
		want      bool
	}{
		"a new name":                           {"GPU-1", gpu.Live, gpu.Live, at(10), false, true},
		"a name that came back":                {"GPU-1", gpu.Live, gpu.Live, at(30), false, true},
		"a place":                              {"PCI-0000:03:00.0", gpu.Live, gpu.Live, at(10), false, false},
		"another machine of a fleet":           {"GPU-1", gpu.Live, gpu.Live, at(10), true, false},
		"a simulation with a new name":         {"GPU-1", gpu.Simulated, gpu.Simulated, at(10), false, true},
		"the same simulation at the same time": {"GPU-1", gpu.Simulated, gpu.Simulated, at(30), false, false},
		"it was simulated before":              {"GPU-1", gpu.Live, gpu.Simulated, at(10), false, false},
	} {
		now, other := store.Device{Node: "now", UUID: c.uuid, Kind: c.kind, First: at(20), Last: at(40)}, store.Device{Node: "was", UUID: c.uuid, Kind: c.was, First: at(0), Last: c.last}
		devices := map[store.Key]store.Device{now.Key(): now, other.Key(): other, {Node: "was", UUID: "GPU-2"}: {Node: "was", UUID: "GPU-2", Kind: c.kind}}
		got := past.Before(devices, []store.Key{now.Key()}, map[string]bool{"now": true, "was": c.read})
		if found := slices.Equal(got, []store.Key{other.Key()}); found != c.want || !found && got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The page is asked what its address says; what can't be read is said on it.
func TestThePastPage(t *testing.T) {
	t.Parallel()
	base := &store.Batch{Devices: []store.Device{{Node: gpu3.Node, UUID: gpu3.UUID, Index: 3}, {Node: gpu3.Node, UUID: "GPU-4", Index: 4}}}
	m := storetest.NewModel()
	if err := m.Write(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	// look is the answer at an address, and what the page is asked.
	look := func(kept *history.Past, path string) (*httptest.ResponseRecorder, *past.Question) {
		_, rig := servetest.New()
		rig.Past = kept
		s, sites, err := rig.Make()
		if err != nil {
			t.Fatal(err)
		}
		asked, _ := sites.Past.Asked(httptest.NewRequest(http.MethodGet, path, nil))
		return servetest.Get(s.Handler(), path), asked
	}
	at := func(path string) (*httptest.ResponseRecorder, *past.Question) {
		return look(&history.Past{Store: m, Now: func() time.Time { return fixture.Time }}, path)
	}
	const form = `class="past-form"`

	w, asked := at("/past?from=&to=&gpu=&tz=Europe/Berlin&format=csv")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(w.Body.String(), form) {
		t.Fatalf("status %d, %v", w.Code, w.Header())
	}
	if asked.To.Sub(asked.From) != 24*time.Hour || asked.From.Location().String() != "Europe/Berlin" || asked.Keys != nil || asked.Trouble != nil || len(asked.Asked) != 1 || len(asked.Devices) != 2 {
		t.Errorf("%+v", asked)
	}
	_, asked = at("/past?from=last+night&gpu=3&at=yesterday+22:00&compare=gpu+4&tz=UTC")
	if len(asked.Keys) != 1 || asked.Keys[0] != gpu3 || asked.At.Hour() != 22 || asked.Compare == nil || asked.Compare.Key == nil || asked.Compare.Key.UUID != "GPU-4" {
		t.Errorf("%+v", asked)
	}
	for text, days := range map[string]int{"yesterday": 1, "last week": 7, "-3d": 3} {
		_, asked = at("/past?from=today&tz=UTC&compare=" + url.QueryEscape(text))
		if asked.Compare == nil || asked.Compare.From.IsZero() || text != "-3d" && !asked.Compare.From.Equal(asked.From.AddDate(0, 0, -days)) {
			t.Errorf("%s: %+v", text, asked.Compare)
		}
	}
	for path, want := range map[string]string{
		"/past?from=soon": "is not a span of time", "/past?at=soon": "is not a time", "/past?tz=Moon": "unknown time zone",
		"/past?compare=soon": "is not a span", "/past?compare=gpu+x": "is neither", "/past?gpu=first": "is neither",
	} {
		w, asked := at(path)
		if w.Code != http.StatusUnprocessableEntity || asked.Trouble == nil || !asked.Unclear || !strings.Contains(asked.Trouble.What, want) || !strings.Contains(w.Body.String(), form) {
			t.Errorf("%s: status %d, %+v", path, w.Code, asked.Trouble)
		}
	}
	for path, want := range map[string]string{
		"/past?user=mchen": `"user" is not supported by /past: leave it out, or use one of from,`, "/past?from=6h&from=7d": `"from" is given twice`,
		"/past?gpus=3": `"gpus" is not supported`,
	} {
		if w, asked := at(path); w.Code != http.StatusBadRequest || asked.Trouble == nil || !strings.Contains(asked.Trouble.Text(), want) {
			t.Errorf("%s: status %d, %+v", path, w.Code, asked.Trouble)
		}
	}
	for _, path := range []string{"/past?gpu=9", "/past?compare=gpu+9"} {
		if w, _ := at(path); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	gone := &history.Past{Store: &failing{Store: m}, Now: func() time.Time { return fixture.Time }}
	if w, _ := look(gone, "/past"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "The database can&#39;t be reached.") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
	broken := &history.Past{Store: noDevices{m}, Now: func() time.Time { return fixture.Time }}
	if w, asked := look(broken, "/past"); w.Code != http.StatusServiceUnavailable || asked.Trouble == nil || asked.Unclear {
		t.Errorf("status %d, %+v", w.Code, asked)
	}
	if w, asked := look(nil, "/past"); w.Code != http.StatusOK || !asked.NotKept || asked.Trouble == nil {
		t.Errorf("status %d, %+v", w.Code, asked)
	}
}

// A slow client takes an answer in pieces, each of which takes a while. Where one takes longer than its deadline, the client is gone.
type slow struct {
	*httptest.ResponseRecorder
	takes    time.Duration
	deadline time.Time
}

func (s *slow) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *slow) Write(b []byte) (int, error) {
	if time.Sleep(s.takes); time.Now().After(s.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return s.ResponseRecorder.Write(b)
}

// Who reads slowly gets all of it, however long that takes; who does not read is dropped.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	h := remembering(t)
	for takes, whole := range map[time.Duration]bool{20 * time.Second: true, 31 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			w := &slow{httptest.NewRecorder(), takes, time.Now().Add(30 * time.Second)}
			defer func() {
				if cut := recover(); whole && cut != nil || !whole && cut != any(http.ErrAbortHandler) {
					t.Errorf("pieces of %v: %v", takes, cut)
				}
			}()
			r := httptest.NewRequest(http.MethodGet, "/api/gpu/readings?metric=power_draw&format=csv", nil)
			r.Host = "localhost:8003"
			h.ServeHTTP(w, r)
			if lines := strings.Count(w.Body.String(), "\n"); lines != 721 {
				t.Errorf("%d lines", lines)
			}
		})
	}
}

// held is a store whose sessions come when they are let go.
type held struct {
	store.Store
	asked, free chan struct{}
}

func (s *held) Sessions(context.Context, store.Query) iter.Seq2[store.Session, error] {
	return func(func(store.Session, error) bool) {
		s.asked <- struct{}{}
		<-s.free
	}
}

// Lists that are read slowly leave room for all other questions.
func TestFewListsAtOnce(t *testing.T) {
	t.Parallel()
	st := &held{storetest.NewModel(), make(chan struct{}), make(chan struct{})}
	_, h := servetest.Serving(t, func(c *servetest.Rig) { c.Past = &history.Past{Store: st, Now: c.Past.Now} })
	var all sync.WaitGroup
	for range past.MostLong {
		all.Go(func() {
			if w := servetest.Get(h, "/api/gpu/sessions"); w.Code != http.StatusOK {
				t.Errorf("status %d", w.Code)
			}
		})
		<-st.asked
	}
	for _, path := range []string{"/api/gpu/sessions", "/api/gpu/readings", "/api/gpu/causes", "/api/events"} {
		w := servetest.Get(h, path)
		if detail := servetest.IsProblem(t, w, http.StatusServiceUnavailable); w.Header().Get("Retry-After") == "" || !strings.Contains(detail, "try again") {
			t.Errorf("%s: %s, %v", path, detail, w.Header())
		}
	}
	if w := servetest.Get(h, "/api/gpu/history"); w.Code != http.StatusOK {
		t.Errorf("a chart: status %d", w.Code)
	}
	close(st.free)
	all.Wait()
	if w := servetest.Get(h, "/api/events"); w.Code != http.StatusOK {
		t.Errorf("afterwards: status %d", w.Code)
	}
}

// Where there are several nodes, one must be named for a machine as it was.
func TestWhichNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		nodes  []string
		path   string
		status int
		want   string
	}{
		{[]string{"a", "b"}, "/api/gpu/at?time=-10s", http.StatusBadRequest, "there are several nodes"},
		{[]string{"a", "b"}, "/api/gpu/at?time=-10s&node=b", http.StatusNotFound, `there is no snapshot of "b"`},
		{[]string{"a"}, "/api/gpu/at?time=-10s", http.StatusNotFound, `there is no snapshot of "a"`},
	} {
		m, b := storetest.NewModel(), &store.Batch{}
		for _, node := range tt.nodes {
			b.Devices = append(b.Devices, store.Device{Node: node, UUID: "GPU-1"}, store.Device{Node: node})
		}
		if err := m.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		_, h := servetest.Serving(t, func(c *servetest.Rig) { c.Past.Store = m })
		if detail := servetest.IsProblem(t, servetest.Get(h, tt.path), tt.status); !strings.Contains(detail, tt.want) {
			t.Errorf("%s of %v: %s", tt.path, tt.nodes, detail)
		}
	}
}

// Who asks for the next causes until there are no more has each once, also where many begin at one moment, and many ended shortly before.
func TestNextCauses(t *testing.T) {
	t.Parallel()
	begin := fixture.Time.Add(-30 * time.Minute)
	const inside, before = 2*contract.MostCauses + 300, 1500
	h := remembering(t, func(b *store.Batch) {
		b.Causes = nil
		for i := range before {
			b.Causes = append(b.Causes, store.Cause{
				Key: gpu3, ID: fmt.Sprint("before ", i), Kind: "idle", From: begin.Add(-10 * time.Minute), To: begin.Add(-time.Second),
			})
		}
		for i := range inside {
			from := begin.Add(time.Duration(i/7) * time.Second)
			b.Causes = append(b.Causes, store.Cause{Key: gpu3, ID: fmt.Sprintf("%05d", i), Kind: "idle", From: from, To: from.Add(time.Second)})
		}
	})
	form := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	seen, start := map[string]int{}, 0
	for pages := 1; ; pages++ {
		page := decoded[contract.PastWhy](t, servetest.Get(h, fmt.Sprintf("/api/gpu/why?from=%s&to=%s&start=%d", form(begin), form(fixture.Time), start)))
		for _, c := range page.Causes {
			seen[c.ID]++
		}
		if page.Next == nil {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
		start = *page.Next
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if len(seen) != inside {
		t.Errorf("%d causes, want %d", len(seen), inside)
	}
	if page := decoded[contract.PastWhy](t, servetest.Get(h, "/api/gpu/why?from=1h&start=9223372036854775807")); page.Next != nil || len(page.Causes) > 0 {
		t.Errorf("after all there are %d causes", len(page.Causes))
	}
}

// Whoever writes a metric that there is not reads which there are, and which one is like it.
func TestUnknownMetrics(t *testing.T) {
	t.Parallel()
	_, _, err := past.ColumnsOf([]string{"power"})
	advice := gpu.AsAdvice(err)
	if got := advice.Text(); !strings.HasPrefix(got, `there is no metric "power" (did you mean "power_draw"?): use `) || !strings.Contains(got, "utilization") {
		t.Error(got)
	}
}
