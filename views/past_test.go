//go:build !race

package views

import (
	"bytes"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

var runText = regexp.MustCompile(`M[^M]+`)

var lanesRead = func() []store.Value {
	out := make([]store.Value, 24)
	for i := range out {
		if i < 10 || i > 12 {
			out[i] = store.Value{Least: 10, Mean: 20, Most: 30, Count: 60}
		}
	}
	return out
}()

// examplePast is a day of two GPUs with names that are markup.
func examplePast() PastInput {
	in := PastInput{
		Input: Input{Now: noon, BasePath: "/", Asset: asset}, Asked: url.Values{"from": {"24h"}, "tz": {"UTC"}},
		From: noon.Add(-24 * time.Hour), To: noon, Price: 0.5, Story: &history.Story{Sentence: "The whole time, <i>train</i> ran on GPU 0."},
		Sessions: map[store.Key]PastSessions{},
	}
	in.Grid = history.Grid{From: in.From, To: in.To, Step: time.Hour}
	for i := range 2 {
		d := store.Device{Node: "n", UUID: fmt.Sprintf("GPU-%d", i), Index: i, Name: "<b>RTX</b>"}
		in.Devices = append(in.Devices, d)
		in.Series = append(in.Series, history.Series{Key: d.Key(), Values: [][]store.Value{lanesRead, lanesRead, make([]store.Value, 24), lanesRead, make([]store.Value, 24)}})
	}
	in.Drawn = in.Devices
	k := in.Devices[0].Key()
	s := store.Session{User: "<u>ann", Program: "\"><script>alert(1)</script>", From: noon.Add(-30 * time.Hour), To: noon.Add(-6 * time.Hour), Outcome: store.Ended}
	s.PID = 7
	other := s
	other.Program, other.From, other.To = "short.py", noon.Add(-time.Hour), noon.Add(-time.Hour)
	in.Sessions[k] = PastSessions{Longest: []store.Session{other, s}, Count: 5}
	in.Story.Tales = []history.Tale{{Keys: []store.Key{k}, From: in.From, To: s.To, Kind: "work", Times: 1, What: "<i>train</i> ran on GPU 0"}}
	in.Story.Causes = make([]store.Cause, 1)
	in.Events = []store.Event{{ID: "e", Key: k, Kind: "xid", Severity: "critical", Time: noon.Add(-2 * time.Hour), Text: "XID <31>"}}
	in.Usage = []history.Usage{{Name: "<u>ann", Sessions: 5, Held: 20 * time.Hour, Busy: 5 * time.Hour, Joules: gpu.Of(7.2e6)}, {}}
	in.Times = []time.Time{in.From, in.From.Add(12 * time.Hour), in.To}
	in.Daily = [][]history.Usage{{{Name: "<u>ann", Held: 12 * time.Hour}}, {{Name: "<u>ann", Held: 8 * time.Hour}}}
	return in
}

func TestPastPage(t *testing.T) {
	p := NewPastPage(examplePast())
	if p.Empty || p.Span == "" || p.Zone != "UTC" {
		t.Errorf("%q %q", p.Span, p.Zone)
	}
	if got := p.Ranges[4]; !got.Chosen || got.Path != "/past?from=24h&tz=UTC" || p.Ranges[0].Chosen {
		t.Errorf("%+v", p.Ranges)
	}
	d := p.Picture.Devices[0]
	if len(d.Lanes) != 3 || d.Lanes[0].Reading != "10–30\u00a0W" || !strings.Contains(d.Lanes[0].Field.Says, "Power of GPU 0: 10") {
		t.Errorf("a lane that nobody has is there, or %+v", d.Lanes[0])
	}
	if says := d.Lanes[0].Field.Says; !strings.Contains(says, "No readings for 3\u00a0h 0\u00a0min in total.") {
		t.Errorf("%q", says)
	}
	if b := d.Who.Bands; len(b) != 2 || d.More != "+3 more" || b[0].Left != "0.00%" || b[0].Room != "75.00%" || b[0].Began || b[1].Width == "0" || d.Who.Pixels != "18" {
		t.Errorf("%+v", d.Who)
	}
	if p.Picture.Devices[1].More != "" || p.Picture.Devices[1].Who.Says != "No process ran on GPU 1." {
		t.Errorf("%+v", p.Picture.Devices[1])
	}
	if u := p.Users[0]; u.Energy.Text != "2.0\u00a0kWh" || u.Cost.Text != "1.00" || u.Says != "Most: 12\u00a0h 0\u00a0min, "+noon.Add(-24*time.Hour).Format("Mon 15:04") || len(runText.FindAllString(u.Bars, -1)) != 2 {
		t.Errorf("%+v", u)
	}
	if u := p.Users[1]; u.Name.Mark != Missing || u.Energy.Mark != Missing {
		t.Errorf("%+v", u)
	}
	if len(p.Happened) != 2 || p.Happened[1].Severity != "critical" || p.Happened[0].Stamp != stamp(noon.Add(-24*time.Hour)) {
		t.Errorf("%+v", p.Happened)
	}
	text := render(t, p)
	for _, bad := range []string{"<script>alert", "<u>", "<i>train", "<b>RTX", "XID <31>", " style="} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
}

// A page that is about one machine leads to that machine's data alone, and its form stays with it.
func TestPastPageOfANodeLeadsToItsData(t *testing.T) {
	in := examplePast()
	in.Asked.Set("node", "desk & top")
	in.Asked.Set("gpu", "3")
	p := NewPastPage(in)
	for _, d := range p.Data() {
		u, err := url.Parse(d.Path)
		if err != nil || u.Query().Get("node") != "desk & top" || u.Query().Get("gpu") != "3" || u.Query().Has("compare") {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if text := render(t, p); !strings.Contains(text, `<input type="hidden" name="node" value="desk &amp; top">`) {
		t.Error("the form forgets the machine")
	}
}

// A browser gets the clocks of the zone, not its name, which it may not know.
func TestClocksOfAPicture(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 10, 25, 0, 0, 0, 0, berlin)
	for want, got := range map[string]string{
		"1792879200000:7200000 1792890000000:3600000": clocksOf(begin, begin.Add(24*time.Hour)),
		"1792879200000:7200000":                       clocksOf(begin, begin.Add(3*time.Hour)),
		"1792879200000:0":                             clocksOf(begin.UTC(), begin.AddDate(1, 0, 0)),
		"1792879200000:-34200000":                     clocksOf(begin.In(time.FixedZone("Local", -34200)), begin.AddDate(1, 0, 0)),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	in := examplePast()
	in.From = in.From.In(berlin)
	if p := NewPastPage(in); !strings.Contains(p.Picture.Clocks, ":3600000") || !strings.Contains(render(t, p), `data-clocks="`+p.Picture.Clocks+`"`) {
		t.Errorf("%q", p.Picture.Clocks)
	}
}

// What a device draws is painted by those who draw it, above what it draws at rest; its limits are lines.
func TestPowerIsPaintedByUser(t *testing.T) {
	in := examplePast()
	in.Drawn = in.Drawn[:1]
	in.Grid.Step = 6 * time.Hour
	k := in.Drawn[0].Key()
	values := func(watts ...float64) (out []store.Value) {
		for _, w := range watts {
			out = append(out, store.Value{Least: w, Mean: w, Most: w, Count: 60})
		}
		return out
	}
	in.Series = []history.Series{{Key: k, Values: [][]store.Value{values(100, 100, 40, 40), values(60, 60, 30, 30), nil, nil, values(110, 110, 110, 110)}}}
	s := store.Session{User: "ann", From: in.From.Add(-time.Hour), To: in.From.Add(12 * time.Hour), Joules: 60 * 100, JoulesKnown: 100 * time.Second}
	in.Sessions[k] = PastSessions{Longest: []store.Session{s}, Count: 1}
	in.Usage = []history.Usage{{Name: "ann"}}
	var d gpu.Device
	d.Node, d.UUID, d.Thermal.Slowdown = k.Node, k.UUID, gpu.Of(gpu.Celsius(87))
	in.Nodes = gpu.Nodes{{Node: k.Node, Devices: []gpu.Device{d}}}
	lanes := NewPastPage(in).Picture.Devices[0].Lanes
	hue := in.Hues.hueOf("ann")
	power, heat := lanes[0].Field.Lanes[0], lanes[1].Field.Lanes[0]
	want := []picture.Layer{{Key: hue, Hue: hue, Path: "M0 0l0 100 3 0 2-60 1 0 0-40"}, {Key: "rest", Hue: "rest", Path: "M0 0l0 40 8 0 0-40"}}
	if !reflect.DeepEqual(power.Layers, want) || power.Lines[0] != (picture.Path{Class: "limit", D: "M0 110l8 0"}) || lanes[0].LimitText != "of 110\u00a0W" {
		t.Errorf("%+v", power)
	}
	if heat.Limit.Y != lanes[1].Field.Part(heat.Scale.Y(87)) || lanes[1].LimitText != "slows at 87\u00a0°C" || len(heat.Layers) > 0 {
		t.Errorf("%+v", heat)
	}
	in.Sessions[k].Longest[0].JoulesKnown = 0
	if power := NewPastPage(in).Picture.Devices[0].Lanes[0].Field.Lanes[0]; len(power.Layers) > 0 {
		t.Errorf("what nobody measured is painted: %+v", power.Layers)
	}
}

// What came again is one thing that happened, and so is what a tale tells.
func TestWhatHappenedIsToldOnce(t *testing.T) {
	in := examplePast()
	k := in.Devices[0].Key()
	hour := func(n int) time.Time { return in.From.Add(time.Duration(n) * time.Hour) }
	event := func(kind string, minute int, text, data string) store.Event {
		return store.Event{Key: k, Kind: kind, Time: hour(minute), Text: text, Data: []byte(data)}
	}
	in.Events = []store.Event{
		event("throttling", 1, "GPU 0 (RTX) is held back by power.", `{"by":"power","phase":"begins"}`), event("throttling", 2, "It is over.", `{"by":"power","phase":"ends"}`),
		event("throttling", 3, "GPU 0 (RTX) is held back by power.", `{"by":"power","phase":"begins"}`), event("throttling", 4, "It is over.", `{"by":"power","phase":"ends"}`),
		event("state", 5, "The GPU is lost.", `{"state":"lost"}`), event("state", 8, "Another GPU is lost.", `{"state":"lost"}`),
		event("alert_fired", 9, "GPU 0 is at 88 °C.", ""), event("alert_fired", 10, "GPU 0 is at 89 °C.", ""), event("alert_data_back", 11, "GPU 0 is at 89 °C.", ""),
	}
	in.Story.Tales = []history.Tale{
		{Kind: "lost", Keys: []store.Key{k}, From: hour(5), To: hour(6), Times: 1, What: "GPU 0 was lost"},
		{Kind: "work", Keys: []store.Key{k}, From: in.From, To: in.To, Times: 3, Lasted: 2 * time.Hour, What: "a.py ran on GPU 0"},
	}
	var got []string
	for _, h := range NewPastPage(in).Happened {
		got = append(got, strings.ReplaceAll(h.Severity+"|"+h.Text+"|"+h.Device, "\u00a0", " "))
	}
	want := []string{
		"|a.py ran on GPU 0, 3 times, 2 h 0 min in total.|", "|GPU 0 (RTX) is held back by power. This happened twice, last at " + hour(3).Format("15:04") + ".|",
		"critical|GPU 0 was lost for 1 h 0 min.|", "|Another GPU is lost.|GPU 0",
		"|GPU 0 is at 88 °C. This happened twice, last at " + hour(10).Format("15:04") + ".|",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

// The same of several GPUs at about the same time is one thing that happened.
func TestTheSameOfSeveralGPUsIsOneThing(t *testing.T) {
	in := examplePast()
	in.Story.Tales, in.Devices, in.Events = nil, nil, nil
	for i := range 5 {
		in.Devices = append(in.Devices, store.Device{Node: "n", UUID: fmt.Sprintf("GPU-%d", i), Index: i})
	}
	for i, minutes := range []int{2, 3, 1, 0, 4} {
		when := in.From.Add(time.Hour + time.Duration(i)*time.Minute)
		if minutes == 4 {
			when = when.Add(time.Hour)
		}
		for _, name := range []string{"power", "heat"}[:1+minutes/3] {
			in.Events = append(in.Events, store.Event{Key: in.Devices[minutes].Key(), Kind: "throttling", Time: when, Text: fmt.Sprintf("GPU %d (RTX) is slowed down: %s holds its clocks down.", minutes, name), Data: []byte(`{"phase":"begins"}`)})
		}
	}
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, h := range NewPastPage(in).Happened {
			got = append(got, plain(h.Text)+"|"+plain(h.Device))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant\n%q", got, want)
		}
	}
	check("GPUs 0–3 (RTX) are slowed down: power holds their clocks down.|", "GPU 3 (RTX) is slowed down: heat holds its clocks down.|",
		"GPU 4 (RTX) is slowed down: power holds its clocks down.|", "GPU 4 (RTX) is slowed down: heat holds its clocks down.|")
	in.Devices = append(in.Devices, store.Device{Node: "m", UUID: "other"})
	in.Events = in.Events[:1]
	in.Events = append(in.Events, in.Events[0])
	in.Events[1].Key = in.Devices[1].Key()
	in.Events[1].Text = strings.Replace(in.Events[1].Text, "GPU 2", "GPU 1", 1)
	check("GPUs 1 and 2 of n (RTX) are slowed down: power holds their clocks down.|")
	for i := range in.Events {
		in.Events[i].Kind, in.Events[i].Text = "state", fmt.Sprintf("GPU %d answers again.", 2-i)
	}
	check("GPUs 1 and 2 of n answer again.|")
	in.Events = nil
	for i, node := range []string{"m", "n", "m", "n"} {
		in.Events = append(in.Events, store.Event{Key: store.Key{Node: node}, Kind: "started", Time: in.From.Add(time.Duration(i) * time.Minute), Text: "gpuwhy started."})
	}
	check("gpuwhy started. This happened twice, last at " + in.From.Add(3*time.Minute).Format("15:04") + ".|2 machines")
}

// A thousand things that happened, users and processes make no longer a page than fits.
func TestThePastIsBounded(t *testing.T) {
	in := examplePast()
	k := in.Devices[0].Key()
	var list []store.Session
	for i := range 1000 {
		s := store.Session{User: fmt.Sprint("u", i), Program: "p", From: noon.Add(-time.Duration(i) * time.Minute), To: noon.Add(time.Minute - time.Duration(i)*time.Minute)}
		list = append(list, s)
		in.Events = append(in.Events, store.Event{ID: fmt.Sprint(i), Key: k, Time: s.From, Text: fmt.Sprint("thing ", i)})
		in.Usage = append(in.Usage, history.Usage{Name: s.User})
	}
	in.Sessions[k] = PastSessions{Longest: list, Count: len(list)}
	p := NewPastPage(in)
	if len(p.Happened) != pastThings || p.MoreHappened == "" || len(p.Users) != pastUsers || p.UsersMore == "" {
		t.Errorf("%d things, %d users", len(p.Happened), len(p.Users))
	}
	text := render(t, p)
	if open, _, _ := strings.Cut(text, `id="past-later"`); strings.Count(open, "<li data-severity") != openThings || !strings.Contains(text, "68 later events") {
		t.Error("not the first of them are seen")
	}
	if want := "not listed: choose a shorter span, or read them all <a href=\"/api/events?from="; !strings.Contains(text, want) {
		t.Error("it is not said where all are")
	}
	if d := p.Picture.Devices[0]; len(d.Who.Bands) != pastBands || d.More != fmt.Sprintf("+%d more", 1000-pastBands) || d.Who.Height > 2*bandRow {
		t.Errorf("%d bands in %s pixels, %s", len(d.Who.Bands), d.Who.Pixels, d.More)
	}
	critical := false
	for _, h := range p.Happened {
		critical = critical || h.Severity == "critical"
	}
	if !critical {
		t.Error("the worst is not there")
	}
}

// GPUs of several nodes have names that tell them apart, and of many it is said which are drawn.
func TestWhichGPUsAreDrawn(t *testing.T) {
	in := examplePast()
	in.Devices = nil
	for i := range 24 {
		in.Devices = append(in.Devices, store.Device{Node: fmt.Sprintf("gpu-cluster-west-%03d", i/8), UUID: fmt.Sprintf("GPU-%d", i), Index: i % 8})
	}
	in.Drawn = in.Devices[8:16]
	p := NewPastPage(in)
	if d := p.Picture.Devices[1]; d.Node != "gpu-clu…st-001" || plain(d.Index) != "GPU 1" {
		t.Errorf("%q %q", d.Node, d.Index)
	}
	text := render(t, p)
	if want := `<summary>8 of 24 GPUs, the busiest; choose others</summary>`; !strings.Contains(text, want) {
		t.Error("it is not said that some are not drawn")
	}
	in.Drawn, in.Asked = in.Devices[8:9], url.Values{"gpu": {"GPU-8"}}
	if got := NewPastPage(in).Drawn; got != "1 of 24 GPUs; choose others" {
		t.Errorf("%q", got)
	}
	if p := NewPastPage(examplePast()); p.Drawn != "" || strings.Contains(render(t, p), "past-gpus") || p.Picture.Devices[0].Node != "" {
		t.Error("two GPUs of a node are folded")
	}
}

// A span of another year says so, and the form says when a span ended.
func TestTheSpanIsOfItsYear(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	start := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		from, to time.Time
		want     string
	}{
		{start(2020), start(2020).Add(24 * time.Hour), "Wed 1 Jan 2020 00:00 to Thu 2 Jan 2020 00:00"},
		{start(2026), start(2026).Add(time.Hour), "Thu 1 Jan 00:00 to 01:00"},
		{start(2026).Add(-time.Hour), start(2026), "Wed 31 Dec 2025 23:00 to Thu 1 Jan 2026 00:00"},
	} {
		if got := spanOf(c.from, c.to, now); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	long := examplePast()
	long.From = long.To.Add(-400 * 24 * time.Hour)
	long.Story.From = long.From
	if happened := NewPastPage(long).Happened; len(happened) == 0 || !strings.Contains(happened[0].Time, " 2026 ") {
		t.Errorf("within more than a year this happened: %+v", happened)
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	begins := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC).In(zone)
	ends := begins.Add(40 * time.Minute)
	if got := spanOf(begins, ends, now); got != "Sun 25 Oct 02:30 CEST to 02:10 CET" {
		t.Errorf("in an hour that comes twice: %q", got)
	}
	if got := endOf(ends, now); got != "2026-10-25T02:10:00+01:00" {
		t.Errorf("the form takes %q", got)
	}
	in := examplePast()
	if text := render(t, NewPastPage(in)); !strings.Contains(text, `placeholder="now"`) {
		t.Error("a span that goes on ends")
	}
	in.Now = in.To.AddDate(1, 0, 0)
	if text := render(t, NewPastPage(in)); !strings.Contains(text, `placeholder="`+in.To.Format("2006-01-02 15:04")+`"`) {
		t.Error("the form does not say when the span ended")
	}
}

// In the step in which gpuwhy began, nothing is drawn of the time before, and in the last one nothing of the time to come.
func TestNothingIsDrawnOfTheTimeBeforeTheFirstReading(t *testing.T) {
	in := examplePast()
	in.To = noon.Add(-30 * time.Minute)
	for i := range in.Series {
		for j, values := range in.Series[i].Values {
			in.Series[i].Values[j] = slices.Clone(values)
			clear(in.Series[i].Values[j][:1+i])
		}
	}
	cause := func(minute int) store.Cause {
		return store.Cause{From: in.From.Add(time.Duration(minute) * time.Minute)}
	}
	in.Story.Causes = []store.Cause{cause(130), cause(90)}
	begins := func() string { // of the first GPU's line, in units of which a step has two
		d := NewPastPage(in).Picture.Devices[0].Lanes[0].Field.Lanes[0].Lines[0].D
		return d[:strings.IndexAny(d, " l")]
	}
	if got := begins(); got != "M3" {
		t.Error(got)
	}
	line := NewPastPage(in).Picture.Devices[0].Lanes[0].Field.Lanes[0].Lines[0].D
	if !strings.HasSuffix(line, "l21 0") { // from 13:00 until 23:30, and not until 24:00
		t.Errorf("the line goes on: %s", line)
	}
	for _, began := range []int{-60, 130} { // before the span, and of what did not last no cause is kept
		in.Story.Causes = []store.Cause{cause(began)}
		if got := begins(); got != "M2" {
			t.Errorf("a reading is hidden: %s", got)
		}
	}
}

// What can't be answered is said beside the form, which has what was asked.
func TestPastTrouble(t *testing.T) {
	p := NewPastPage(PastInput{
		Input: Input{Now: noon, BasePath: "/x/", Asset: asset}, Asked: url.Values{"from": {"<soon>"}},
		Trouble: &gpu.Advice{What: `"<soon>" is not a span of time`, Try: "write it like last night"},
	})
	text := render(t, p)
	for _, want := range []string{"&lt;soon&gt;", "Write it like last night.", `action="/x/past"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for unclear, want := range map[bool]string{true: "\"<soon>\" is not a span of time.", false: "The past can’t be shown now."} {
		p := NewPastPage(PastInput{
			Input: Input{Now: noon, BasePath: "/x/", Asset: asset}, Unclear: unclear,
			Trouble: &gpu.Advice{What: `"<soon>" is not a span of time`, Try: "write it like last night"},
		})
		if p.Sentence != want || strings.Count(render(t, p), "is not a span of time") != 1 {
			t.Errorf("what is unclear (%t) is said to be %q", unclear, p.Sentence)
		}
	}
	in := examplePast()
	in.Unwritten = "the past is not written: the disk is full"
	if text := render(t, NewPastPage(in)); !strings.Contains(text, "The past is not written: the disk is full") || !strings.Contains(text, "past-picture") {
		t.Error("that nothing is written is not said beside what there is")
	}
	in.Series, in.Drawn, in.Devices, in.Events, in.Usage, in.Story = nil, nil, nil, nil, nil, &history.Story{Sentence: "Nothing is known of that time."}
	if p := NewPastPage(in); !p.Empty || !strings.Contains(render(t, p), "past-nothing") {
		t.Error("an empty span is not said to be")
	}
}

// BenchmarkPastPage renders a day of eight GPUs with readings that never stand still.
func BenchmarkPastPage(b *testing.B) {
	in := examplePast()
	in.Devices, in.Series = nil, nil
	in.Grid.Step = 5 * time.Minute
	for i := range 8 {
		d := store.Device{Node: "n", UUID: fmt.Sprintf("GPU-%d", i), Index: i}
		s := history.Series{Key: d.Key()}
		for lane := range PastColumns {
			values := make([]store.Value, in.Grid.Len())
			for j := range values {
				v := 50 + 40*math.Sin(float64(j*(i+3))/7+float64(lane)) + float64(j*7919%13)
				values[j] = store.Value{Least: v - 5, Mean: v, Most: v + 9, Count: 60}
			}
			s.Values = append(s.Values, values)
		}
		in.Devices, in.Series = append(in.Devices, d), append(in.Series, s)
		in.Sessions[d.Key()] = in.Sessions[in.Devices[0].Key()]
	}
	in.Drawn = in.Devices
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if err := NewPastPage(in).Render(b.Context(), &out); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, 8)
	if err == nil {
		_, err = w.Write(out.Bytes())
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(zipped.Len()), "zipped-B")
}

// The machine as it was says nothing of "ago": that would be now.
func TestNothingIsAgoInThePast(t *testing.T) {
	p := Page{
		Answer: Answer{Before: "It ended 30 s ago.", After: "work ended 4 min ago.", Rest: "cooling since 2 min ago"}, Why: "It began 2 h ago.",
		Causes: []CauseRow{{Sentence: "It stopped 30 s ago.", Evidence: []EvidenceRow{{Text: "12 min ago", Seen: agoText("30\u00a0s")}}}},
	}
	p.sayEarlier()
	if text := fmt.Sprint(p.Answer, p.Why, p.Causes); strings.Contains(text, " ago") || strings.Count(text, " earlier") != 7 {
		t.Error(text)
	}
}
