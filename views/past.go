package views

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

// A PastInput is the input of the page of the past. If Trouble is set, the fields below it are empty.
type PastInput struct {
	Input
	Asked   url.Values // parameters of the address
	NotKept bool       // no history is kept: Trouble says how to change that
	Trouble *gpu.Advice
	Unclear bool // the trouble is with the request, not with the stored history
	// Unwritten says why history can't be written now, and what to do; empty if it can.
	Unwritten string

	From, To time.Time      // the span; all times are shown in the zone of From
	Devices  []store.Device // devices with data in the span, by node and index
	Drawn    []store.Device // devices in the picture
	Grid     history.Grid
	Series   []history.Series // series of Drawn, with the values of [PastColumns]
	// Sessions are the longest sessions of each device in the picture, and how many there were.
	Sessions map[store.Key]PastSessions
	Story    *history.Story
	Events   []store.Event   // the oldest first
	Usage    []history.Usage // by user
	Daily    [][]history.Usage
	Times    []time.Time // bounds of Daily: element i goes from Times[i] to Times[i+1]
	Price    float64     // price of a kWh; 0 if unknown

	At          time.Time       // the time at which the machine is shown; zero for none
	Then        *insight.Moment // the machine as it was then
	ThenTrouble *gpu.Advice     // why it can't be shown
	Beside      *PastBeside     // what the span is compared with; nil for nothing
}

// PastSessions are the longest sessions on a device, and how many there were.
type PastSessions struct {
	Longest []store.Session
	Count   int
}

// A PastBeside is a second span or another device, drawn as thin lines for comparison.
type PastBeside struct {
	Name   string // such as "the day before" or "GPU 3"
	Begin  time.Time
	Grid   history.Grid
	Series map[store.Key]history.Series // by the device whose lanes it is drawn in
	Story  *history.Story
	Usage  []history.Usage // by user
}

// PastColumns are the quantities of the picture, as indexes into [store.DeviceColumns].
var PastColumns = func() (out []int) {
	for _, l := range pastLanes {
		out = append(out, store.DeviceColumns.Find(l.kept))
	}
	return append(out, store.DeviceColumns.Find("power_enforced_limit"))
}()

// powerLimit is the index of the power limit in [PastColumns], after the lanes.
var powerLimit = len(pastLanes)

// A pastLane is one quantity of the picture, from floor to top. A top of 0 is the highest value of all its devices.
type pastLane struct {
	key, kept, label string
	floor, top       float64
	band             bool // minimum and maximum are drawn even with several devices
	unit             string
	format           func(float64) string
}

var pastLanes = []pastLane{
	{"power", "power_watts", "Power", 0, 0, true, "W", watts},
	{"temperature", "temperature_celsius", "Heat", 20, 100, false, "°C", celsius},
	{"fan", "fan_percent", "Fan", 0, 100, false, "%", percent},
	{"utilization", "utilization_percent", "Work", 0, 100, false, "%", percent},
}

// A PastLink links to the same page with another parameter.
type PastLink struct {
	Label, Path string
	Chosen      bool
}

// A PastLane is one quantity of one device over time.
type PastLane struct {
	Key, Label string
	Field      picture.Field
	Reading    string // the range of its values
	LimitText  string // its limit; empty if there is none
}

// A PastDevice is a device in the picture.
type PastDevice struct {
	Key, Title, Name string
	Node, Index      string // parts of the title; Node is empty if all devices are on one
	Path             string // link to this device alone; empty if it is alone
	Who              picture.Field
	More             string // how many processes have no band; may be empty
	Lanes            []PastLane
}

// A PastPicture has all devices over one axis of time.
type PastPicture struct {
	// Base is the time at x = 0, in seconds since 1970. A unit of x is Unit seconds; Page is a tenth of the width, in units.
	Base, Unit, Page string
	Clocks           string // the zone's UTC offsets and when they start, in milliseconds: "0:7200000 1792890000000:3600000"
	Shown            string // place of the shown time; empty if there is none, or if it is outside the picture
	Axis             picture.Field
	Devices          []PastDevice
}

// A PastThing is something that happened.
type PastThing struct {
	Time, Stamp, Path string
	Severity, Text    string
	Device            string // the device or machine
	time              time.Time
}

// A PastUser is the usage of one user.
type PastUser struct {
	Name                           Value
	Hue                            string
	Held, Busy, Idle, Energy, Cost Value
	Sessions                       string
	Bars, Says                     string // bars as an SVG path, one unit wide each and at most 20 high; the same in words
}

// A PastThen is the machine as it was.
type PastThen struct {
	Title, Found      string
	Stamp, Step       string // its time; the step of Back and Forward in milliseconds
	Page              *Page  // the start page as it was; nil if there is none, and Trouble says why
	Back, Forward     PastLink
	Replay, End       PastLink
	Playing           bool
	Trouble, TryAgain string
}

// A PastPage is the view model of the page of the past.
type PastPage struct {
	in                *PastInput
	kinds             []gpu.Kind // kinds of the data shown, each once
	Title, Sentence   string
	Span, Zone        string
	From, To, ZoneAsk string // values of the form
	End               string // end of the span as the form accepts it; "now" if it has not ended
	Kept              [][2]string
	Ranges            []PastLink
	GPUs              []PastLink
	Drawn             string // how many of them are in the picture; empty if all are
	Trouble, Try      string
	Picture           *PastPicture
	Empty             bool // nothing is known of the span
	Comparisons       []PastLink
	Beside            string // sentence about what the span is compared with
	BesideName        string
	Both              *PastBoth
	Happened          []PastThing
	MoreHappened      string
	Users             []PastUser
	UsersMore         string
	ByWhat            string // heading of the bars, such as "By hour"
	HasCost           bool
	Then              *PastThen
	Next              []Outlook
}

// NewPastPage makes the view model of the page of the past.
func NewPastPage(in PastInput) PastPage {
	p := PastPage{in: &in, Title: "Past · gpuwhy", From: in.Asked.Get("from"), To: in.Asked.Get("to"), ZoneAsk: in.Asked.Get("tz")}
	p.End = "now"
	for _, name := range []string{"node", "compare", "at"} {
		if v := in.Asked.Get(name); v != "" {
			p.Kept = append(p.Kept, [2]string{name, v})
		}
	}
	p.kinds = kindsOf(&in)
	p.Ranges = p.ranges()
	if in.Trouble != nil {
		p.Trouble, p.Try = asSentence(in.Trouble.What), asSentence(in.Trouble.Try)
		p.Sentence = either(in.NotKept, "No history is kept.", either(in.Unclear, p.Trouble, "The past can’t be shown now."))
		if p.Trouble == p.Sentence {
			p.Trouble = ""
		}
		return p
	}
	p.Zone = zoneOf(in.From, in.To)
	p.Span = spanOf(in.From, in.To, in.Now)
	p.End = endOf(in.To, in.Now)
	p.Title = p.Span + " · gpuwhy"
	p.Sentence = sentence(in.Story.Sentence)
	p.Empty = len(in.Series) == 0 && len(in.Story.Causes) == 0 && len(in.Events) == 0 && len(in.Usage) == 0
	p.GPUs = p.choices()
	if n := len(in.Drawn); n > 0 && n < len(in.Devices) && len(in.Devices) > fewChoices {
		p.Drawn = fmt.Sprintf("%d of %d GPUs%s; choose others", n, len(in.Devices), either(len(in.Asked["gpu"]) == 0, ", the busiest", ""))
	}
	if len(in.Drawn) > 0 {
		p.Picture = newPastPicture(&in, &p)
		p.Comparisons = p.comparisons()
	}
	if b := in.Beside; b != nil {
		p.BesideName, p.Beside = sentence(capital(b.Name)), sentence(b.Story.Sentence)
		p.Both = p.both()
	}
	p.Happened, p.MoreHappened = p.happened()
	p.users()
	p.Next = p.next()
	if !in.At.IsZero() {
		p.Then = p.then()
	}
	return p
}

// kindsOf returns the kinds of the GPUs on the page, including the live ones, which forecasts are about.
func kindsOf(in *PastInput) []gpu.Kind {
	devices := make(map[store.Key]store.Device, len(in.Devices))
	for _, d := range in.Devices {
		devices[d.Key()] = d
	}
	kinds := history.Kinds(devices, store.Query{})
	if now := in.Nodes.Kind(); now != gpu.Live && !slices.Contains(kinds, now) {
		kinds = append(kinds, now)
	}
	return kinds
}

// kind returns the kind of all data shown; empty if there are several.
func (p *PastPage) kind() gpu.Kind {
	if len(p.kinds) != 1 {
		return ""
	}
	return p.kinds[0]
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p PastPage) Render(ctx context.Context, w io.Writer) error {
	return document(head{
		Title: p.Title, asset: p.in.Asset, Manifest: p.in.manifest(), Styles: []string{"app.css", "pastpage.css"}, Script: p.in.Asset("page.js"),
	}, pastBody(p)).Render(ctx, w)
}

// zoneOf names the time zone of a span, and says if its clocks changed within it.
func zoneOf(from, to time.Time) string {
	zone := from.Location().String()
	if zone == "Local" {
		zone, _ = to.Zone()
	}
	_, before := from.Zone()
	_, after := to.Zone()
	if before != after {
		zone += ", where clocks went " + either(after > before, "forward", "back")
	}
	return zone
}

// Data returns the addresses of the data that the page shows.
func (p *PastPage) Data() (out []Link) {
	if p.in.Trouble != nil {
		return nil
	}
	values := url.Values{"from": {p.in.From.Format(time.RFC3339)}, "to": {p.in.To.Format(time.RFC3339)}}
	for _, name := range []string{"gpu", "node", "tz"} {
		if asked := p.in.Asked[name]; len(asked) > 0 {
			values[name] = asked
		}
	}
	add := func(label, path string) {
		out = append(out, Link{p.in.BasePath + "api/" + path + "?" + values.Encode(), label})
	}
	for _, answer := range [][2]string{{"readings", "gpu/history"}, {"processes", "gpu/sessions"}, {"use by user", "gpu/usage"}} {
		add(answer[0]+" as JSON", answer[1])
		values.Set("format", "csv")
		add("CSV", answer[1])
		values.Del("format")
	}
	add("causes as JSON", "gpu/why")
	add(eventsLabel, "events")
	return out
}

const eventsLabel = "events as JSON"

// EventsPath returns the address of all events of the span.
func (p *PastPage) EventsPath() string {
	data := p.Data()
	return data[slices.IndexFunc(data, func(d Link) bool { return d.Label == eventsLabel })].Path
}

// path returns the address of this page with other parameters, as pairs of name and value. An empty value drops the name.
func (p *PastPage) path(pairs ...string) string {
	values := maps.Clone(p.in.Asked)
	if values == nil {
		values = url.Values{}
	}
	values.Del("play")
	for i := 0; i < len(pairs); i += 2 {
		values.Del(pairs[i])
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if query := values.Encode(); query != "" {
		return p.in.BasePath + "past?" + query
	}
	return p.in.BasePath + "past"
}

// pastRanges are the spans offered as links, with their values in the address.
var pastRanges = [][2]string{
	{"15" + nbsp + "min", "15m"}, {"1" + nbsp + "h", "1h"}, {"6" + nbsp + "h", "6h"}, {"last night", "last night"}, {"24" + nbsp + "h", "24h"},
	{"7" + nbsp + "d", "7d"}, {"30" + nbsp + "d", "30d"}, {"1" + nbsp + "y", "365d"},
}

func (p *PastPage) ranges() (out []PastLink) {
	chosen := cmp.Or(p.From, either(p.To == "", "24h", ""))
	for _, r := range pastRanges {
		out = append(out, PastLink{r[0], p.path("from", r[1], "to", "", "at", ""), p.To == "" && chosen == r[1]})
	}
	return out
}

const (
	// mostChoices limits the devices with a link, and fewChoices the links that are not collapsed. Others can be typed, with
	// mostNames suggestions.
	mostChoices = 128
	fewChoices  = 8
	mostNames   = 2000
)

// choices returns links to each device alone, and to all.
func (p *PastPage) choices() (out []PastLink) {
	if len(p.in.Devices) < 2 {
		return nil
	}
	chosen := p.in.Asked["gpu"]
	out = append(out, PastLink{"All", p.path("gpu", ""), len(chosen) == 0})
	for i := range p.in.Devices[:min(len(p.in.Devices), mostChoices)] {
		d := &p.in.Devices[i]
		drawn := slices.ContainsFunc(p.in.Drawn, func(o store.Device) bool { return o.Key() == d.Key() })
		out = append(out, PastLink{p.name(d), p.path("gpu", d.UUID), len(chosen) > 0 && drawn})
	}
	return out
}

// names returns the device names that the form suggests.
func (p *PastPage) names() (out []string) {
	for i := range p.in.Devices[:min(len(p.in.Devices), mostNames)] {
		out = append(out, plain(p.name(&p.in.Devices[i])))
	}
	return out
}

// comparisons returns what the span can be compared with.
func (p *PastPage) comparisons() (out []PastLink) {
	asked := p.in.Asked.Get("compare")
	add := func(label, value string, also ...string) {
		chosen := asked == value || slices.ContainsFunc(also, func(v string) bool { return strings.EqualFold(asked, v) })
		out = append(out, PastLink{label, p.path("compare", value), chosen})
	}
	add("nothing", "")
	if p.in.To.Sub(p.in.From) <= 25*time.Hour {
		add("the day before", "yesterday", "day before")
	}
	add("the week before", "last week", "week before")
	if len(p.in.Drawn) == 1 {
		for i := range p.in.Devices[:min(len(p.in.Devices), 16)] {
			if d := &p.in.Devices[i]; d.Key() != p.in.Drawn[0].Key() {
				add(p.name(d), "gpu "+d.UUID, "gpu "+strconv.Itoa(d.Index))
			}
		}
	}
	if !slices.ContainsFunc(out, func(l PastLink) bool { return l.Chosen }) { // another span
		add(clean(asked, longestName), asked)
	}
	return out
}

// name returns the name of a device on the page. With several nodes it includes the node.
func (p *PastPage) name(d *store.Device) string { return p.nameOf(d.Key()) }

func (p *PastPage) nameOf(k store.Key) string {
	several := false
	title := ""
	for i := range p.in.Devices {
		d := &p.in.Devices[i]
		several = several || d.Node != p.in.Devices[0].Node
		if d.Key() == k {
			if title = gpuName(d.Index); p.kind() == "" && d.Kind != gpu.Live && d.Kind != "" { // otherwise the banner says it about all
				title += " (" + string(d.Kind) + ")"
			}
		}
	}
	if title == "" {
		title = either(k.UUID == "", "the machine", "a GPU")
	}
	if several {
		title = clean(k.Node, longestName) + " " + title
	}
	return title
}

// capital begins a text as a sentence does. Names such as gpuwhy and nvidia-smi keep their small letter.
func capital(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if text == "" || text[0] < 'a' || text[0] > 'z' || word == "gpuwhy" || strings.ContainsAny(word, "-_./0123456789") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// asSentence writes a text of an error or a note, which begins small and has no full stop, as a sentence; an empty one stays empty.
func asSentence(text string) string {
	if text == "" {
		return ""
	}
	return sentence(strings.TrimRight(capital(text), ".") + ".")
}

// endOf returns the end of a span as the form accepts it.
func endOf(end, now time.Time) string {
	if now.Sub(end) < time.Minute {
		return "now"
	}
	const layout = "2006-01-02 15:04"
	if text := end.Format(layout); text == explain.Clock(end, layout) {
		return text
	}
	return end.Format(time.RFC3339) // the clock shows this time twice, so the form needs the offset
}

// spanOf writes a span in its zone, with years unless all of it is in this year.
func spanOf(from, to, now time.Time) string {
	layout := "Mon 2 Jan 15:04"
	if year := now.In(from.Location()).Year(); from.Year() != year || to.Year() != year {
		layout = "Mon 2 Jan 2006 15:04"
	}
	end := explain.Clock(to, layout)
	if from.Format(time.DateOnly) == to.Format(time.DateOnly) {
		end = explain.Clock(to, "15:04")
	}
	return explain.Clock(from, layout) + " to " + end
}

const (
	// pastThings limits the events listed, and openThings those that are not collapsed.
	pastThings = 80
	openThings = 12
	// aboutNow is how far apart the same event on several devices may be to count as one.
	aboutNow = 5 * time.Minute
)

// happened returns tales and events by time. If there are too many, the worst and then the newest are kept.
func (p *PastPage) happened() ([]PastThing, string) {
	var out []PastThing
	layout := "15:04"
	if p.in.To.Sub(p.in.From) > 24*time.Hour {
		layout = "2 Jan 15:04"
		if p.in.From.Year() != p.in.To.In(p.in.From.Location()).Year() {
			layout = "2 Jan 2006 15:04"
		}
	}
	thing := func(t time.Time, key store.Key, severity, text string) {
		t = latest(t, p.in.From).In(p.in.From.Location())
		row := PastThing{Time: explain.Clock(t, layout), Stamp: stamp(t), Path: p.path("at", rfc3339(t)), Severity: severity, Text: sentence(text), time: t}
		if name := p.nameOf(key); key != (store.Key{}) && !strings.Contains(plain(row.Text), plain(name)) { // tales name their device
			row.Device = name
		}
		out = append(out, row)
	}
	for i := range p.in.Story.Tales {
		t := &p.in.Story.Tales[i]
		severity := either(t.Kind == string(explain.Work), "", "warning")
		if t.Kind == string(explain.Lost) {
			severity = "critical"
		}
		thing(t.From, store.Key{}, severity, t.Statement()+p.until(t, layout)+".")
	}
	for _, e := range p.told() {
		text := history.Earlier(e.Text) // in the form that earlier versions stored
		switch {
		case e.times > 1 && e.ends():
			continue
		case e.times > 1:
			text += fmt.Sprintf(" This happened %s, last at %s.", timesOver(e.times), explain.Clock(e.last.In(p.in.From.Location()), layout))
		}
		thing(e.Time, e.Key, e.Severity, text)
		switch {
		case len(e.also) == 0:
		case e.UUID == "":
			out[len(out)-1].Device = strconv.Itoa(1+len(e.also)) + " machines"
		default:
			out[len(out)-1].Device = "" // the text names all
		}
	}
	more := ""
	if n := len(out) - pastThings; n > 0 {
		rank := map[string]int{"critical": 2, "warning": 1}
		slices.SortStableFunc(out, func(a, b PastThing) int {
			return cmp.Or(cmp.Compare(rank[b.Severity], rank[a.Severity]), b.time.Compare(a.time))
		})
		out = out[:pastThings]
		more = explain.Plural(n, "more event is", "more events are") + " not listed: choose a shorter span, or read them all "
	}
	slices.SortStableFunc(out, func(a, b PastThing) int { return a.time.Compare(b.time) })
	return out, more
}

func plain(text string) string { return strings.ReplaceAll(text, nbsp, " ") }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// until says how long a tale lasted; its start is shown before it.
func (p *PastPage) until(t *history.Tale, layout string) string {
	end := explain.Clock(t.To.In(p.in.From.Location()), layout)
	first, last := t.From.Sub(p.in.From) < time.Second, p.in.To.Sub(t.To) < time.Second
	text := ""
	switch length := t.To.Sub(t.From); {
	case t.Times > 1:
		text = fmt.Sprintf(", %s%s, %s in total", timesOver(t.Times), either(last, "", " until "+end), span(t.Lasted.Seconds()))
	case first && last:
		text = " the whole time"
	case last:
		text = ", and continues"
	case first:
		text = " until " + end
	case length >= time.Second:
		text = " for " + span(length.Seconds())
	}
	return text + t.Besides
}

// timesOver writes how often something happened, for n > 1.
func timesOver(n int) string { return either(n == 2, "twice", strconv.Itoa(n)+" times") }

// A pastTold is an event, and how often it happened.
type pastTold struct {
	store.Event
	times int
	last  time.Time
	also  []store.Key // others that it happened to at about the same time
}

// ends reports whether the event is only the end of another one.
func (e *pastTold) ends() bool {
	return bytes.Contains(e.Data, []byte(`"phase":"ends"`)) || bytes.Contains(e.Data, []byte(`"state":"ok"`))
}

// toldBy maps kinds of events to the kinds of tales that already cover them.
var toldBy = map[string][]explain.Kind{
	"state": {explain.Lost, explain.NotAnswering}, "throttling": {explain.LimitedByHeat}, "xid": {explain.DriverError}, "fault": {explain.DriverError},
}

// figures matches what differs between two alerts about the same thing.
var figures = regexp.MustCompile(`[0-9]+`)

// told returns the events that no tale covers, each once.
func (p *PastPage) told() (out []pastTold) {
	type same struct {
		key  store.Key
		text string
	}
	known := map[same]int{}
	for i := range p.in.Events {
		e := &p.in.Events[i]
		tells := func(t history.Tale) bool {
			return slices.Contains(toldBy[e.Kind], explain.Kind(t.Kind)) && slices.Contains(t.Keys, e.Key) &&
				!e.Time.Before(t.From.Add(-time.Minute)) && !e.Time.After(t.To.Add(time.Minute))
		}
		if slices.ContainsFunc(p.in.Story.Tales, tells) && (e.Kind != "throttling" || strings.Contains(e.Text, "heat")) {
			continue
		}
		text := e.Text
		if news, isAlert := strings.CutPrefix(e.Kind, "alert_"); isAlert {
			// Tales cover work, and missing data of an alert is about gpuwhy.
			if e.Severity == "info" || strings.HasPrefix(news, "data_") {
				continue
			}
			text = news + figures.ReplaceAllString(text, "#")
		}
		if place, again := known[same{e.Key, text}]; again {
			out[place].times++
			out[place].last = e.Time
			continue
		}
		known[same{e.Key, text}] = len(out)
		out = append(out, pastTold{Event: *e, times: 1, last: e.Time})
	}
	return p.joined(out)
}

// joined merges events that happened to several devices of a node, or to several machines, at about the same time.
func (p *PastPage) joined(told []pastTold) (out []pastTold) {
	type same struct{ node, kind, text string }
	index := map[store.Key]string{}
	for i := range p.in.Devices {
		index[p.in.Devices[i].Key()] = "GPU " + strconv.Itoa(p.in.Devices[i].Index)
	}
	known := map[same]int{}
	for i := range told {
		e := &told[i]
		// Only the texts of a few kinds also work for several devices.
		text, isOf := strings.CutPrefix(plain(e.Text), index[e.Key]+" ")
		isOf = isOf && index[e.Key] != "" && (e.Kind == "state" || e.Kind == "throttling" && !e.ends())
		key := same{e.Node, e.Kind, text}
		if e.UUID == "" {
			key.node, isOf = "", true
		}
		if !isOf {
			out = append(out, *e)
			continue
		}
		place, again := known[key]
		if again && out[place].Key != e.Key && !slices.Contains(out[place].also, e.Key) && e.Time.Sub(out[place].Time) <= aboutNow {
			out[place].also = append(out[place].also, e.Key)
			out[place].times, out[place].last = max(out[place].times, e.times), latest(out[place].last, e.last)
			continue
		}
		known[key] = len(out)
		out = append(out, *e)
	}
	deviceName := history.Names(p.devices())
	for i := range out {
		e := &out[i]
		if len(e.also) == 0 || e.UUID == "" {
			continue
		}
		names := []string{deviceName(e.Key)}
		for _, k := range e.also {
			names = append(names, deviceName(k))
		}
		_, text, _ := strings.Cut(plain(e.Text), index[e.Key]+" ")
		text = " " + text
		for _, verb := range [][2]string{{" is ", " are "}, {" answers ", " answer "}, {" its clocks", " their clocks"}} {
			text = strings.Replace(text, verb[0], verb[1], 1)
		}
		e.Text = history.Together(names) + text
	}
	return out
}

// devices returns the devices of the page by key.
func (p *PastPage) devices() map[store.Key]store.Device {
	out := map[store.Key]store.Device{}
	for i := range p.in.Devices {
		out[p.in.Devices[i].Key()] = p.in.Devices[i]
	}
	return out
}

// rfc3339 writes a time for an address.
func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// pastUsers limits the rows of the table of users.
const pastUsers = 40

// users fills in the usage by user.
func (p *PastPage) users() {
	in := p.in
	p.HasCost = in.Price > 0
	if n := len(in.Times) - 1; n > 0 {
		p.ByWhat = "By " + unitOf(in.Times)
	}
	var most time.Duration
	held := map[string][]time.Duration{}
	for i, list := range in.Daily {
		for j := range list {
			u := &list[j]
			if held[u.Name] == nil {
				held[u.Name] = make([]time.Duration, len(in.Daily))
			}
			held[u.Name][i] += u.Held
			most = max(most, u.Held)
		}
	}
	for i := range in.Usage[:min(len(in.Usage), pastUsers)] {
		u := &in.Usage[i]
		row := PastUser{
			Name: userName(u.Name), Hue: in.Hues.hueOf(u.Name), Held: hours(u.Held), Busy: hours(u.Busy), Idle: hours(u.Held - u.Busy),
			Sessions: strconv.Itoa(u.Sessions), Energy: show(num(u.Joules), energy),
		}
		if u.JoulesEstimated > 0 {
			row.Energy.Text = "about " + row.Energy.Text
		}
		row.Cost = show(num(gpu.Map(u.KWh(), func(kwh float64) float64 { return kwh * in.Price })), hundredth)
		if list := held[u.Name]; most > 0 && list != nil {
			row.Bars, row.Says = bars(list, most), p.mostAt(list)
		}
		p.Users = append(p.Users, row)
	}
	if n := len(in.Usage) - len(p.Users); n > 0 {
		p.UsersMore = "and " + explain.Plural(n, "more user", "more users")
	}
}

func userName(name string) Value {
	if name == "" {
		return Value{Text: "unknown", Mark: Missing}
	}
	return Value{Text: clean(name, longestName)}
}

// unitOf names the unit between two times: hour, day or month.
func unitOf(times []time.Time) string {
	switch length := times[len(times)/2].Sub(times[len(times)/2-1]); {
	case length < 20*time.Hour:
		return "hour"
	case length < 20*24*time.Hour:
		return "day"
	default:
		return "month"
	}
}

func hours(d time.Duration) Value { return Value{Text: span(d.Seconds())} }

// bars draws durations as bars.
func bars(list []time.Duration, most time.Duration) string {
	var out strings.Builder
	for i, d := range list {
		if d > 0 {
			fmt.Fprintf(&out, "M%d 20V%sh.86V20z", i, tenth(20-math.Max(1, 19*float64(d)/float64(most))))
		}
	}
	return out.String()
}

// mostAt says when usage was highest.
func (p *PastPage) mostAt(list []time.Duration) string {
	i := slices.Index(list, slices.Max(list))
	layout := map[string]string{"hour": "Mon 15:04", "day": "Mon 2 Jan", "month": "January 2006"}[unitOf(p.in.Times)]
	return "Most: " + span(list[i].Seconds()) + ", " + explain.Clock(p.in.Times[i], layout)
}

// then makes the machine as it was.
func (p *PastPage) then() *PastThen {
	in := p.in
	shown := in.At.In(in.From.Location())
	step := max(in.Grid.Step, 10*time.Second)
	// A replay advances by a minute per second.
	const minute = time.Minute
	t := &PastThen{
		Title: explain.Clock(shown, "Monday, 2 January 2006, 15:04:05"), Stamp: rfc3339(shown), Step: exact(float64(step.Milliseconds())),
		Back:    PastLink{Label: span(step.Seconds()) + " back", Path: p.path("at", rfc3339(shown.Add(-step)))},
		Forward: PastLink{Label: span(step.Seconds()) + " forward", Path: p.path("at", rfc3339(shown.Add(step)))},
		Replay:  PastLink{Label: "Replay at 60 ×", Path: p.path("at", rfc3339(shown.Add(minute)), "play", "60")},
		End:     PastLink{Label: "Close", Path: p.path("at", "")},
		Playing: in.Asked.Get("play") == "60",
	}
	if t.Playing {
		t.Replay = PastLink{Label: "Stop", Path: p.path("at", rfc3339(shown))}
	}
	if in.Then == nil {
		if in.ThenTrouble != nil {
			t.Trouble, t.TryAgain = asSentence(in.ThenTrouble.What), asSentence(in.ThenTrouble.Try)
		}
		return t
	}
	t.Page = p.pageOf(in.Then)
	t.Found = explain.Clock(in.Then.Snapshot.Time.In(in.From.Location()), "15:04:05")
	return t
}

// sayEarlier rewrites relative times of a past moment: readers would take "30 s ago" as before now.
func (p *Page) sayEarlier() {
	texts := []*string{&p.Answer.Before, &p.Answer.After, &p.Answer.Then, &p.Answer.Rest, &p.Why}
	for i := range p.Causes {
		c := &p.Causes[i]
		texts = append(texts, &c.Sentence)
		for j := range c.Evidence {
			texts = append(texts, &c.Evidence[j].Text, &c.Evidence[j].Seen)
		}
	}
	for _, text := range texts {
		*text = history.Earlier(*text)
	}
}

// pageOf makes the start page as it was at a Moment, without what only helps now. Its links stay in the past.
func (p *PastPage) pageOf(m *insight.Moment) *Page {
	fleet := m.Alone()
	a := fleet.Answer()
	in := p.in.Input
	in.Node, in.Several = m.Snapshot.Node, false
	in.Nodes, in.Now, in.Alerts, in.PastAlerts = fleet.Nodes(), m.Snapshot.Time, nil, nil
	in.Recent = nil // it is about the present
	in.Layers, in.Why, in.Causes = contract.NewLayers(a), a.Sentence, a.Main()
	in.Layers.Action.Text, in.Layers.Action.Command = "", ""
	in.Attribution = func(d *gpu.Device) *attribute.Attribution {
		part, _ := fleet.Device("", d.UUID)
		return part.Attribution
	}
	in.Said = func(d *gpu.Device) *explain.DeviceAnswer {
		part, _ := fleet.Device("", d.UUID)
		return part.Why
	}
	in.Choices, in.pageOf = Choices{}, func(d *gpu.Device) string { return p.path("gpu", d.UUID) }
	page := NewPage(in)
	page.sayEarlier()
	for i := range page.Causes {
		page.Causes[i].Advice = ""
	}
	page.Processes.ProcessTable = newProcessTable(&in, in.devices(), newProcesses(&in, in.devices()))
	page.Processes.still()
	return &page
}
