//go:build !race

package views

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

var begun = time.Date(2026, 3, 4, 14, 0, 7, 0, time.UTC)

// A drawing is devices with their recent past.
type drawing struct {
	store *recent.Store
	input Input
}

func newDrawing() *drawing { return &drawing{store: recent.New()} }

// see takes in a snapshot of each node, and makes the input of a page of them.
func (dr *drawing) see(snaps ...*gpu.Snapshot) *Input {
	var moments []*insight.Moment
	for _, s := range snaps {
		m := insight.Of(s)
		dr.store.Observe(m)
		moments = append(moments, m)
	}
	f := insight.NewFleet(moments...)
	in := dr.input
	in.Nodes, in.BasePath, in.Now, in.HasPast = f.Nodes(), "/", snaps[0].Time, true
	in.Recent = func(node, uuid string, step time.Duration) *recent.Table {
		return dr.store.Table(recent.Question{Node: node, UUID: uuid, Step: step, Interval: time.Second})
	}
	in.Attribution = func(d *gpu.Device) *attribute.Attribution {
		p, _ := f.Device(d.Node, d.UUID)
		return p.Attribution
	}
	return &in
}

// card is a device at work.
func drawnCard(node string, i int, watts, degrees, fan float64, processes ...gpu.Process) gpu.Device {
	d := gpu.Device{State: gpu.StateOK, Identity: gpu.Identity{Node: node, UUID: fmt.Sprintf("GPU-%s-%d", node, i), Index: i, Name: "Card"}}
	d.Power.EnforcedLimit, d.Thermal.Slowdown, d.IdleFloor = gpu.Of[gpu.Watts](600), gpu.Of[gpu.Celsius](87), gpu.Of[gpu.Watts](20)
	d.Utilization.GPU = gpu.Of[gpu.Percent](100)
	if watts >= 0 {
		d.Power.Draw = gpu.Of(gpu.Watts(watts))
	}
	if degrees >= 0 {
		d.Thermal.GPU = gpu.Of(gpu.Celsius(degrees))
	}
	if fan >= 0 {
		d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(fan))}}
	}
	d.Processes = gpu.Of(processes)
	return d
}

func atWork(pid int, program, user string, share float64) gpu.Process {
	p := gpu.Process{PID: pid, SM: gpu.Of(gpu.Percent(share))}
	p.Facts.Program, p.Facts.User, p.Facts.Exists = gpu.Of(program), gpu.Of(user), gpu.Of(true)
	return p
}

// A walk is a machine on which readings come and go, and not more programs than a picture tells apart.
type walk struct {
	*rand.Rand
	node     string
	cards    []walking
	users    []string
	programs []string
}

type walking struct {
	watts, degrees, fan float64
	away                int
	who                 []gpu.Process
}

func newWalk(node string, cards int, seed uint64) *walk {
	w := &walk{rand.New(rand.NewPCG(seed, 7)), node, make([]walking, cards), []string{"anna", "ben", "svc-x"}, []string{"train.py", "eval.py"}}
	for i := range w.cards {
		w.cards[i] = walking{watts: 300, degrees: 60, fan: 40}
	}
	return w
}

func (w *walk) next(when time.Time) *gpu.Snapshot {
	s := &gpu.Snapshot{Node: w.node, Time: when, Source: gpu.SourceSimulated}
	for i := range w.cards {
		c := &w.cards[i]
		c.watts = min(max(c.watts+40*w.NormFloat64(), 15), 595)
		c.degrees = min(max(c.degrees+w.NormFloat64(), 25), 89)
		c.fan = min(max(c.fan+5*w.NormFloat64(), 0), 100)
		if w.IntN(40) == 0 {
			c.who = append(c.who, atWork(w.IntN(1e6)+2, w.programs[w.IntN(2)], w.users[w.IntN(3)], float64(w.IntN(50))))
		}
		if len(c.who) > 0 && w.IntN(40) == 0 {
			c.who = slices.Delete(c.who, 0, 1)
		}
		if c.away--; c.away < 0 && w.IntN(100) == 0 {
			c.away = w.IntN(15)
		}
		d := drawnCard(w.node, i, c.watts, c.degrees, c.fan, slices.Clone(c.who)...)
		if w.IntN(20) == 0 {
			d.Thermal.GPU = gpu.Absent[gpu.Celsius](gpu.NotReported)
		}
		if c.away >= 0 {
			d = gpu.Device{State: gpu.StateLost, Identity: d.Identity}
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

// pathsOf are all paths of a page by where they stand.
func pathsOf(in *Input) map[string]string {
	out := map[string]string{}
	p := newPicture(in)
	fields := map[string]picture.Field{"picture " + p.Key: p.Field}
	for _, c := range newCharts(in) {
		fields["chart "+c.Key] = c.Field
	}
	for _, d := range in.devices() {
		fields["spark "+d.UUID] = newSpark(in, d)
	}
	for name, f := range fields {
		for _, l := range f.Lanes {
			where := fmt.Sprint(name, " ", l.Key, l.Scale, " ")
			for _, layer := range l.Layers {
				out[where+"of "+layer.Key] = layer.Path
			}
			for _, path := range slices.Concat(l.Areas, l.Lines) {
				out[where+path.Class+path.Key] = path.D
			}
		}
	}
	return out
}

// From one second to the next a path changes at its end alone; once a minute it loses what it began with.
func TestPathsAreAppendedTo(t *testing.T) {
	const atEnd, atBegin = 90, 500
	for _, cards := range []int{1, 3, 14} {
		dr, w := newDrawing(), newWalk("n", cards, uint64(cards))
		var before map[string]string
		compared, longest := 0, 0
		for i := range 20 * 60 {
			in := dr.see(w.next(begun.Add(time.Duration(i) * time.Second)))
			now := pathsOf(in)
			minute := in.Nodes[0].Time.Second() < 4 || in.Nodes[0].Time.Second() > 56
			for where, d := range now {
				if strings.Contains(d, "NaN") || strings.Contains(d, "Inf") {
					t.Fatalf("%s: %s", where, d)
				}
				old, had := before[where]
				if !had || len(old) < atEnd+atBegin+100 {
					continue
				}
				compared++
				longest = max(longest, len(d))
				switch middle := old[atBegin : len(old)-atEnd]; {
				case !minute && !strings.HasPrefix(d, old[:len(old)-atEnd]):
					t.Fatalf("%d cards, second %d: %s changed before its end\n%s\n%s", cards, i, where, old, d)
				case minute && !strings.Contains(d, middle):
					t.Fatalf("%d cards, second %d: %s changed in its middle\n%s\n%s", cards, i, where, old, d)
				}
			}
			before = now
		}
		if compared < 1000 {
			t.Errorf("%d cards: %d paths were compared", cards, compared)
		}
		t.Logf("%d cards: %d paths were compared, the longest had %d bytes", cards, compared, longest)
	}
}

// What was not read is a gap: no line leads over it.
func TestAbsentIsAGap(t *testing.T) {
	dr := newDrawing()
	var in *Input
	for i := range 120 {
		degrees := 50.
		if i >= 40 && i < 70 {
			degrees = -1
		}
		in = dr.see(&gpu.Snapshot{Node: "n", Time: begun.Add(time.Duration(i) * time.Second), Devices: []gpu.Device{drawnCard("n", 0, 100, degrees, 0)}})
	}
	p := newPicture(in)
	heat := p.Field.Lanes[1].Lines[0].D
	if runs := strings.Count(heat, "M"); runs != 2 {
		t.Errorf("the temperature has %d runs: %s", runs, heat)
	}
	if power := p.Field.Lanes[0].Lines[0].D; strings.Count(power, "M") != 1 {
		t.Errorf("the power has a gap: %s", power)
	}
	if p.Readings[3].Value != "off" {
		t.Errorf("the fan is %q", p.Readings[3].Value)
	}
}

// heightOf is the height of an area's upper edge at a place.
func heightOf(t *testing.T, path string, place int) float64 {
	t.Helper()
	for _, part := range strings.Split(path, "M")[1:] {
		var n []int
		for _, text := range regexp.MustCompile(`-?\d+`).FindAllString(part, -1) {
			v, _ := strconv.Atoi(text)
			n = append(n, v)
		}
		x, y := n[0], n[1]
		for i := 2; i < len(n); i += 2 {
			if n[i] > 0 && place > x && place <= x+n[i] {
				return float64(y) + float64(n[i+1])*float64(place-x)/float64(n[i])
			}
			x, y = x+n[i], y+n[i+1]
		}
	}
	return math.NaN()
}

// The power is painted by who draws it, above what nobody does; what is not known whose it is, is nobody's.
func TestPowerIsOfWhoDrawsIt(t *testing.T) {
	dr := newDrawing()
	var in *Input
	for i := range 90 {
		var who []gpu.Process
		if i >= 30 {
			who = append(who, atWork(10, "train.py", "anna", 60))
		}
		if i >= 60 {
			who = append(who, atWork(11, "eval.py", "ben", 20))
		}
		in = dr.see(&gpu.Snapshot{Node: "n", Time: begun.Add(time.Duration(i) * time.Second), Devices: []gpu.Device{drawnCard("n", 0, 420, 50, 30, who...)}})
	}
	p := newPicture(in)
	layers := p.Field.Lanes[0].Layers
	var names []string
	for _, l := range layers {
		names = append(names, l.Key)
	}
	if got, want := strings.Join(names, " "), "eval.py/ben train.py/anna rest"; got != want {
		t.Fatalf("the layers are %q, want %q", got, want)
	}
	x := func(second int) int {
		return int(begun.Add(time.Duration(second)*time.Second).Sub(begun.Truncate(24*time.Hour)).Seconds()) / 3 * 3
	}
	for _, tt := range []struct {
		second, layer int
		want          float64
	}{
		{20, 2, 420},        // nobody is there
		{45, 2, 20 + 160},   // 40 of 100 % are nobody's
		{45, 1, 420},        // and the rest anna's
		{80, 2, 20 + 80},    // 20 of 100 %
		{80, 1, 100 + 240},  // 60 of 100 %
		{80, 0, 340 + 80.0}, // 20 of 100 %
	} {
		if got := heightOf(t, layers[tt.layer].Path, x(tt.second)); math.Abs(got-tt.want) > 1.5 {
			t.Errorf("at %d s the layer of %s is up to %v W, want %v", tt.second, layers[tt.layer].Key, got, tt.want)
		}
	}
	var bands []string
	for _, b := range p.Field.Bands {
		bands = append(bands, b.Name+" "+b.Owner)
	}
	if got, want := strings.Join(bands, ", "), "train.py anna, eval.py ben"; got != want {
		t.Errorf("the bands are %q, want %q", got, want)
	}
	if got := p.Readings[0]; got.Value != "train.py" || got.Limit != "1 more process" {
		t.Errorf("at work is %q with %q", got.Value, got.Limit)
	}
}

// A picture of few readings is drawn from the left; of one there is nothing yet.
func TestAYoungPicture(t *testing.T) {
	dr, w := newDrawing(), newWalk("n", 1, 1)
	for i := range 40 {
		in := dr.see(w.next(begun.Add(time.Duration(i) * time.Second)))
		p := newPicture(in)
		if i == 0 && (!p.Empty || newCharts(in) != nil || len(newSpark(in, &in.Nodes[0].Devices[0]).Lanes) > 0) {
			t.Error("there is something in a picture without a step")
		}
		if i > 3 && (p.Field.X(p.Field.From) != 50406 || p.Field.Width() != 60) {
			t.Fatalf("after %d s the picture is of %v", i, p.Field.Axis)
		}
	}
}

func TestWhichGPUThePictureIsAbout(t *testing.T) {
	dr := newDrawing()
	few := []*gpu.Snapshot{newWalk("n", 3, 1).next(begun)}
	few[0].Devices[1].Power.Draw = gpu.Of[gpu.Watts](599)
	many := []*gpu.Snapshot{newWalk("gx-1", 8, 1).next(begun), newWalk("gx-2", 8, 2).next(begun)}
	for _, tt := range []struct {
		snapshots []*gpu.Snapshot
		asked     string
		want      string
	}{
		{few, "", "n/GPU-n-0"}, // none leads: the same each time
		{few, "GPU-n-2", "n/GPU-n-2"},
		{few, "0", "n/GPU-n-0"},
		{few, "no such", "n/GPU-n-0"},
		{many, "", "all"},
		{many, "0", "gx-1/GPU-gx-1-0"},
		{many, "gx-2 GPU 5", "gx-2/GPU-gx-2-5"},
		{many, "gpu-gx-2-5", "gx-2/GPU-gx-2-5"},
		{many, "gx-2 5", "gx-2/GPU-gx-2-5"},
	} {
		in := dr.see(tt.snapshots...)
		in.Asked = map[string][]string{"gpu": {tt.asked}}
		if got := newPicture(in).Key; got != tt.want {
			t.Errorf("%d nodes, %q: it is about %s, want %s", len(tt.snapshots), tt.asked, got, tt.want)
		}
	}
}

// Above twelve GPUs there are the least, the median and the most, with the hottest by name: the same in every chart.
func TestManyGPUs(t *testing.T) {
	dr, a, b := newDrawing(), newWalk("gx-1", 8, 1), newWalk("gx-2", 8, 2)
	var in *Input
	for i := range 60 {
		when := begun.Add(time.Duration(i) * time.Second)
		in = dr.see(a.next(when), b.next(when))
	}
	names := func(ends []picture.End) (out []string) {
		for _, e := range ends {
			if strings.Contains(e.Key, "/") {
				out = append(out, e.Name)
			}
		}
		slices.Sort(out)
		return out
	}
	p := newPicture(in)
	want := names(p.Field.Ends)
	if len(want) != 5 || len(p.Field.Lanes) != 2 {
		t.Fatalf("%d lanes, named are %q", len(p.Field.Lanes), want)
	}
	for _, c := range newCharts(in) {
		if got := names(c.Field.Ends); !slices.Equal(got, want) && c.Key != "sm_clock_mhz" {
			t.Errorf("%s names %q, want %q", c.Key, got, want)
		}
	}
	for _, e := range [][]picture.End{p.Field.Ends, newCharts(in)[0].Field.Ends} {
		for i := 1; i < len(e); i++ {
			if e[i].At-e[i-1].At < 12.9 {
				t.Errorf("%s stands on %s", e[i].Name, e[i-1].Name)
			}
		}
	}
}

func TestFlags(t *testing.T) {
	dr, w := newDrawing(), newWalk("n", 2, 1)
	var in *Input
	for i := range 300 {
		in = dr.see(w.next(begun.Add(time.Duration(i) * time.Second)))
	}
	alarm := func(id string, severity alert.Severity, device int, after time.Duration) alert.Alert {
		return alert.Alert{ID: id, Rule: "throttled_by_heat", Severity: severity, State: alert.Firing, Device: in.Nodes[0].Devices[device].Identity, Since: begun.Add(after)}
	}
	in.Asked = map[string][]string{"gpu": {"1"}}
	in.Alerts = []alert.Alert{alarm("a", alert.Warning, 1, time.Minute), alarm("other", alert.Critical, 0, time.Minute), alarm("info", alert.Info, 1, time.Minute)}
	in.PastAlerts = []alert.Alert{alarm("b", alert.Critical, 1, 2*time.Minute), alarm("old", alert.Critical, 1, -time.Hour)}
	var got []string
	for _, f := range newPicture(in).Field.Flags {
		got = append(got, f.Key+" "+f.Level+" "+f.Text)
	}
	if want := []string{"b bad slowed by heat", "a warn slowed by heat"}; !slices.Equal(got, want) {
		t.Errorf("the flags are %q, want %q", got, want)
	}
}

// The name of a limit is covered neither by flags nor, on a phone, by the marks that stand for them, and it is not cut off.
func TestTheNameOfALimitHasRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		flags, marks []reach
		x, anchor    string
	}{
		"nothing":           {nil, nil, "6", ""},
		"early":             {[]reach{{.02, .3}}, []reach{{0, .05}}, "99%", "end"},
		"a mark on a phone": {[]reach{{.2, .5}}, []reach{{.17, .23}}, "99%", "end"},
		"late":              {[]reach{{.6, .95}}, []reach{{.92, .98}}, "6", ""},
		"both ends":         {[]reach{{.02, .3}, {.7, .98}}, []reach{{0, .05}, {.95, 1}}, "50%", "middle"},
		"everywhere":        {[]reach{{0, .5}, {.5, 1}}, nil, "6", ""},
	} {
		p := Picture{Field: picture.Field{Lanes: []picture.Lane{{Key: "power", Limit: picture.Limit{Y: "1%", X: limitPlaces[0].x}}}}}
		p.giveRoom(tt.flags, tt.marks)
		if l := p.Field.Lanes[0].Limit; l.X != tt.x || l.Anchor != tt.anchor {
			t.Errorf("%s: it stands at %s %s, want %s %s", name, l.X, l.Anchor, tt.x, tt.anchor)
		}
	}
}

func TestSharedIsWhole(t *testing.T) {
	dr, a, b := newDrawing(), newWalk("gx-1", 8, 1), newWalk("<gx-2>", 8, 2)
	for _, several := range []bool{false, true} {
		var in *Input
		for i := range 60 {
			when := begun.Add(time.Duration(i) * time.Second)
			snaps := []*gpu.Snapshot{a.next(when)}
			if several {
				snaps = append(snaps, b.next(when))
			}
			in = dr.see(snaps...)
		}
		in.Layers.Headline = "train.py <b> is heating GPU 0."
		for _, theme := range []picture.Theme{picture.Light, picture.Dark} {
			var out bytes.Buffer
			if err := NewShared(*in, theme).Render(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			if err := wellFormed(out.Bytes()); err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
			for _, want := range []string{"Simulated", "gpuwhy", `width="1200" height="630"`, "train.py &lt;b&gt;"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("it lacks %q", want)
				}
			}
			if strings.Contains(out.String(), "class=") || strings.Contains(out.String(), "style=") || strings.Contains(out.String(), "NaN") {
				t.Error("it needs a style sheet, or has a NaN")
			}
		}
	}
}

// wellFormed reads XML to its end; an attribute that comes twice is an error.
func wellFormed(text []byte) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if element, is := token.(xml.StartElement); is {
			seen := map[xml.Name]bool{}
			for _, a := range element.Attr {
				if seen[a.Name] {
					return fmt.Errorf("<%s> has %s twice", element.Name.Local, a.Name.Local)
				}
				seen[a.Name] = true
			}
		}
	}
}

func BenchmarkPicture(b *testing.B) {
	for _, cards := range []int{1, 8, 64, 1000} {
		b.Run(strconv.Itoa(cards), func(b *testing.B) {
			dr := newDrawing()
			var walks []*walk
			for i := 0; i < cards; i += 8 {
				walks = append(walks, newWalk(fmt.Sprintf("node-%03d", i/8), min(8, cards-i), uint64(i)))
			}
			see := func(i int) *Input {
				var snaps []*gpu.Snapshot
				for _, w := range walks {
					snaps = append(snaps, w.next(begun.Add(time.Duration(i)*time.Second)))
				}
				return dr.see(snaps...)
			}
			const past = 400
			for i := range past {
				see(3 * i)
			}
			inputs := see(3 * past)
			draw := func(in *Input) {
				newPicture(in)
				newCharts(in)
				if cards <= fewLines {
					for _, d := range in.devices() {
						newSpark(in, d)
					}
				}
			}
			b.Run("same", func(b *testing.B) { // no step is over since the last
				for b.Loop() {
					draw(inputs)
				}
			})
			b.Run("next", func(b *testing.B) { // a step of all is over
				i := past
				for b.Loop() {
					b.StopTimer()
					i += 5
					in := see(3 * i)
					b.StartTimer()
					draw(in)
				}
			})
		})
	}
}

// What little goes over a network has a unit that shows it, and the script writes the same.
func TestChartsHaveTheUnitOfTheirValues(t *testing.T) {
	for in, want := range map[float64]string{17: "17 B/s", 52_000: "52 kB/s", 4_800_000: "4.8 MB/s", 3_100_000_000: "3.1 GB/s"} {
		dr := newDrawing()
		var got *Input
		for i := range 60 {
			s := &gpu.Snapshot{Node: "desk", Seq: uint64(i), Time: begun.Add(time.Duration(i) * time.Second), Host: &gpu.Host{}}
			s.Host.Networks = []gpu.Interface{{Name: "eth0", Received: gpu.Of(gpu.BytesPerSecond(in)), Sent: gpu.Of[gpu.BytesPerSecond](0)}}
			got = dr.see(s)
		}
		charts := newCharts(got)
		i := slices.IndexFunc(charts, func(c Chart) bool { return c.Label == "Network" })
		if i < 0 {
			t.Fatalf("%v has no chart: %+v", in, charts)
		}
		c := charts[i]
		_, unit, _ := strings.Cut(want, " ")
		if strings.ReplaceAll(c.Most, nbsp, " ") != want || c.Unit != unit || c.Field.Lanes[0].Quantity.Unit != unit {
			t.Errorf("%v is %q at most, in %s, and the script says %s", in, c.Most, c.Unit, c.Field.Lanes[0].Quantity.Unit)
		}
	}
}
