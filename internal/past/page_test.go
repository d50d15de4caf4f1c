package past_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/views"
)

var pastNow = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// drawn is a room that has a store, beside all others, and a question about all of its last hour.
func drawn(t *testing.T, b *store.Batch) (*servetest.Sites, *past.Question) {
	t.Helper()
	m := storetest.NewModel()
	if err := m.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	all := insight.Of(fixture.Named("one", pastNow).Snapshot).Alone()
	_, rig := servetest.New()
	rig.Monitor, rig.Newest = contract.Monitor{Node: "n", Interval: time.Second}, func() *insight.Fleet { return all }
	rig.Past, rig.Sizes = &history.Past{Store: m, Now: func() time.Time { return pastNow }}, nil
	_, sites, err := rig.Make()
	if err != nil {
		t.Fatal(err)
	}
	q := &past.Question{Asked: url.Values{}, From: pastNow.Add(-time.Hour), To: pastNow, Devices: map[store.Key]store.Device{}}
	devices, err := m.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		q.Devices[d.Key()] = d
	}
	return sites, q
}

func pastText(t *testing.T, sites *servetest.Sites, q *past.Question) string {
	t.Helper()
	page, err := sites.Past.Shown(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return rendered(t, page)
}

func rendered(t *testing.T, page templ.Component) string {
	t.Helper()
	var b strings.Builder
	if err := page.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// hour has twenty GPUs with readings each 5 s, of which the last ones worked most.
func hour(t *testing.T) *store.Batch {
	t.Helper()
	b := &store.Batch{}
	power := store.DeviceColumns.Find("power_draw")
	for i := range 20 {
		k := store.Key{Node: "n", UUID: fmt.Sprintf("GPU-%d", i)}
		b.Devices = append(b.Devices, store.Device{Node: "n", UUID: k.UUID, Index: i})
		for ago := time.Hour; ago > 0; ago -= 5 * time.Second {
			r := store.Row{Key: k, Time: pastNow.Add(-ago), Readings: 1, Values: make([]store.Value, len(store.DeviceColumns))}
			r.Values[power] = store.Value{Least: 100, Mean: 100, Most: 100, Count: 1}
			b.Rows = append(b.Rows, r)
		}
		s := store.Session{User: "mchen", Program: fmt.Sprintf("job-%d-", i), From: pastNow.Add(-30 * time.Minute), To: pastNow, Seen: 30 * time.Minute, Busy: time.Duration(i) * time.Minute}
		s.Key, s.PID = k, 100+i
		b.Sessions = append(b.Sessions, s)
	}
	snap := fixture.Named("one", pastNow.Add(-10*time.Minute)).Snapshot
	snap.Node = "n"
	record, err := gpu.MarshalRecord(snap)
	if err != nil {
		t.Fatal(err)
	}
	b.Frames = []store.Frame{{Node: "n", Time: snap.Time, Snapshot: record}}
	return b
}

// Of many GPUs those that worked most are drawn, in their order, and others can be chosen.
func TestThePictureHasTheBusiest(t *testing.T) {
	sites, q := drawn(t, hour(t))
	text := pastText(t, sites, q)
	for i := range 20 {
		drawn := strings.Contains(text, fmt.Sprintf(`data-gpu="GPU-%d"`, i))
		if drawn != (i >= 12) || !strings.Contains(text, fmt.Sprintf("/past?gpu=GPU-%d\"", i)) {
			t.Errorf("GPU %d: drawn %v", i, drawn)
		}
	}
	if strings.Index(text, `data-gpu="GPU-12"`) > strings.Index(text, `data-gpu="GPU-19"`) {
		t.Error("they are not in their order")
	}
	if !strings.Contains(text, `<input name="gpu" list="past-names" placeholder="GPU 0"`) || strings.Count(text, "<option value=\"GPU ") != 20 {
		t.Error("no GPU can be typed")
	}
	k := store.Key{Node: "n", UUID: "GPU-3"}
	q.Keys, q.Asked = []store.Key{k}, url.Values{"gpu": {k.UUID}}
	text = pastText(t, sites, q)
	if !strings.Contains(text, `data-gpu="GPU-3"`) || strings.Contains(text, `data-gpu="GPU-19"`) || !strings.Contains(text, "job-3-") || strings.Contains(text, "job-4-") {
		t.Error("it is not about the GPU that was asked for")
	}
	// A reading each 5 s has no gap, and what is compared is drawn, too.
	if n := strings.Count(text, `class="line" d="M`); n != 1 {
		t.Errorf("%d lines", n)
	}
	line := text[strings.Index(text, `class="line" d="`):]
	line, _, _ = strings.Cut(line[len(`class="line" d="`):], `"`)
	if strings.Count(line, "M") != 1 {
		t.Errorf("the line has gaps: %s", line)
	}
	other := store.Key{Node: "n", UUID: "GPU-5"}
	q.Compare = &past.Comparison{Key: &other}
	if text = pastText(t, sites, q); !strings.Contains(text, `class="beside" d="M`) || !strings.Contains(text, "<strong>GPU\u00a05</strong>") {
		t.Error("what it is compared with is not there")
	}
	if !strings.Contains(text, "Who used what: GPU\u00a03 and GPU\u00a05") || !strings.Contains(text, `data-label="Difference"`) {
		t.Error("who used what in both is not there")
	}
	q.Compare = &past.Comparison{Name: "the day before", Begin: q.From.AddDate(0, 0, -1)}
	if text = pastText(t, sites, q); strings.Contains(text, "Who used what") {
		t.Error("of a day of which nothing is known it is told who used what")
	}
}

// The machine as it was, or why it can't be shown.
func TestTheMachineAsItWas(t *testing.T) {
	sites, q := drawn(t, hour(t))
	q.At = pastNow.Add(-9 * time.Minute)
	text := pastText(t, sites, q)
	if !strings.Contains(text, "not as it is now, read at 11:50:00.") || !strings.Contains(text, "Saturday, 14 March 2026, 11:51:00") || !strings.Contains(text, `class="headline"`) {
		t.Error("it is not shown")
	}
	if !strings.Contains(text, "/past?at=2026-03-14T11%3A50%3A45Z") || !strings.Contains(text, "play=60") {
		t.Error("no other times are offered")
	}
	if bar, span := strings.Index(text, `class="past-bar"`), strings.Index(text, `class="why"`); bar < 0 || bar > span || bar > strings.Index(text, `class="past-form"`) {
		t.Error("the time that is shown does not lead")
	}
	q.At = pastNow.Add(-time.Hour)
	if text = pastText(t, sites, q); !strings.Contains(text, "Nothing is stored for n at that time.") || strings.Contains(text, `class="headline"`) {
		t.Error("it is not said that nothing is kept")
	}
}

func TestThePastThatIsNotWritten(t *testing.T) {
	sites, q := drawn(t, hour(t))
	const why = "the past is not written: the disk is full"
	if text := pastText(t, sites, q); strings.Contains(text, "not written") {
		t.Error("it is not written while it is")
	}
	failed := contract.NewPart("ok", time.Time{}).Failed(&gpu.Advice{What: why, Try: "free some space"}, pastNow)
	sites.Past.Writing = func() contract.Part { return failed }
	if text := pastText(t, sites, q); !strings.Contains(text, "The past is not written: the disk is full: free some space") {
		t.Error("it is not said beside what there is")
	}
}

func TestThePastWithoutADatabase(t *testing.T) {
	sites, q := drawn(t, &store.Batch{})
	if text := pastText(t, sites, q); !strings.Contains(text, `id="past-nothing"`) {
		t.Error("an empty store has something to show")
	}
	sites.Past.Past.Store = &failing{Store: sites.Past.Past.Store}
	page, err := sites.Past.Shown(t.Context(), q)
	if err == nil {
		t.Fatal("no error is returned")
	}
	if text := rendered(t, page); !strings.Contains(text, "The database can&#39;t be reached.") || !strings.Contains(text, "Start it.") {
		t.Errorf("the advice is missing: %s", text)
	}
}

// The pages say how much is kept once that was measured, and measure nothing themselves.
func TestHowMuchIsKept(t *testing.T) {
	t.Parallel()
	sites, q := drawn(t, &store.Batch{Events: []store.Event{{ID: "1", Key: store.Key{Node: "one"}, Time: pastNow}}})
	both := func() map[string]string {
		now := views.NewPage(sites.Now.Input(past.Owner(t.Context()), sites.Now.Kit.Hub.Newest(), ""))
		return map[string]string{"the past": pastText(t, sites, q), "now": rendered(t, now)}
	}
	sites.Past.Sizes = &history.Sizes{Past: sites.Past.Past, Interval: time.Second}
	for name, text := range both() {
		if strings.Contains(text, `id="footprint"`) {
			t.Errorf("%s says what was not measured", name)
		}
	}
	if _, err := sites.Past.Sizes.Now(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, text := range both() {
		if want := `Stored history</a> takes 1 B, about 1 B when full`; !strings.Contains(text, want) {
			t.Errorf("%s does not say how much is kept", name)
		}
	}
}
