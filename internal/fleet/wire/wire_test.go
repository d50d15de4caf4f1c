package wire_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet/wire"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

var start = time.Date(2026, 3, 14, 15, 9, 26, 535897000, time.UTC)

func stateOf(m *insight.Moment) *wire.State {
	return &wire.State{
		Hello:  wire.Hello{Version: "v1.2.3", Started: start, Sent: start.Add(time.Hour), Interval: 5 * time.Second},
		Moment: m,
		Extra:  map[string]json.RawMessage{"alerts": json.RawMessage(`[{"id":"a","n":1e30}]`), "of tomorrow": json.RawMessage(`"<&>\u2028"`)},
	}
}

// played returns Moments of simulated machines, each with its past.
func played(t testing.TB, profile string, moments int, step time.Duration) (nodes [][]*insight.Moment) {
	t.Helper()
	now := start
	sources, err := sim.Nodes(profile, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	nodes = make([][]*insight.Moment, len(sources))
	stages := make([]*insight.Stage, len(sources))
	for i := range stages {
		stages[i] = insight.NewStage()
	}
	for range moments {
		for i, source := range sources {
			s, err := source.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.Node = source.Node()
			for j := range s.Devices {
				s.Devices[j].Node = s.Node // as package sampler does
			}
			place := insight.Place{Name: s.Node, Cluster: "c", Labels: map[string]string{"rack": "r1", "zone": "<z>"}}
			nodes[i] = append(nodes[i], stages[i].Next(s).At(place, insight.Link{}))
		}
		now = now.Add(step)
	}
	return nodes
}

// said returns everything that clients learn about Moments.
func said(t *testing.T, moments ...*insight.Moment) []byte {
	t.Helper()
	var out bytes.Buffer
	add := func(v any) {
		t.Helper()
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	f := insight.NewFleet(moments...)
	m := contract.Monitor{Node: "hub", Several: len(moments) > 1, Started: start, Interval: time.Second, AlertThreshold: 80}
	add(contract.NewFleetUpdate(m, f))
	add(contract.NewWhy(m, f))
	add(contract.NewGPUInfo(m, f))
	add(contract.NewGPUMetrics(m, f))
	add(contract.NewClusterNodes(f))
	add(contract.NewClusterProcesses(contract.NewClusterNodes(f)))
	add(contract.NewFleet(m, f))
	add(contract.NewDevices(m, f))
	add(contract.NewDriverInfo(m, f))
	add(contract.NewProbe(m, f))
	causes := func(list []explain.Cause) {
		for _, c := range list {
			if c.Device != nil {
				add(c.Device.UUID)
			}
			c.Device = nil // it has errors, whose types are the business of nobody
			add(c)
		}
	}
	causes(f.Answer().Causes())
	for _, one := range moments {
		add(contract.NewUpdate(one, nil))
		add(one.Place)
		add(one.Attribution)
		causes(one.Answer.Main())
		record, err := gpu.MarshalRecord(one.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(record)
		for i := range one.Answer.Devices {
			works, known := one.Answer.Devices[i].Works()
			add([]bool{works, known})
			add(one.Answer.Devices[i].Next)
		}
	}
	for p := range f.Parts() {
		add(contract.NewOneGPU(p))
		add(contract.NewOneWhy(p))
		if p.Why.Device != p.Device {
			t.Errorf("the answer about %s points to another device", p.Device.UUID)
		}
	}
	return out.Bytes()
}

// there sends a state and returns what arrives.
func there(t *testing.T, e *wire.Encoder, d *wire.Decoder, s *wire.State) (*wire.State, bool) {
	t.Helper()
	message, isWhole, err := e.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Decode(message)
	if err != nil {
		t.Fatal(err)
	}
	clear(message) // nothing of it is kept
	return got, isWhole
}

func same(t *testing.T, want, got *wire.State) {
	t.Helper()
	if diff := cmp.Diff(string(said(t, want.Moment)), string(said(t, got.Moment))); diff != "" {
		t.Fatalf("%s is told otherwise:\n%s", want.Moment.Snapshot.Node, diff)
	}
	hello := got.Hello
	if hello.Protocol != wire.Spoken || hello.Instance == "" {
		t.Errorf("the hello is %+v", hello)
	}
	hello.Protocol, hello.Instance = want.Protocol, want.Instance
	if hello != want.Hello {
		t.Errorf("the hello is %+v, not %+v", got.Hello, want.Hello)
	}
}

// A hub says the same about each machine, and about all together, as the machines themselves.
func TestAHubTellsTheSame(t *testing.T) {
	t.Parallel()
	shared := new(gpu.Shared)
	for profile, tt := range map[string]struct {
		moments int
		step    time.Duration
	}{"rtx-4090": {24, 50 * time.Second}, "dgx-h100": {16, 2 * time.Minute}, "fleet:24": {4, time.Minute}} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			var here, hub []*insight.Moment
			for _, node := range played(t, profile, tt.moments, tt.step) {
				e, d := wire.NewEncoder(nil), wire.NewDecoder(node[0].Snapshot.Node, nil, shared)
				deltas := 0
				for _, m := range node {
					want := stateOf(m)
					got, isWhole := there(t, e, d, want)
					same(t, want, got)
					if diff := cmp.Diff(want.Moment.Place, got.Moment.Place); diff != "" {
						t.Fatal(diff)
					}
					if !isWhole {
						deltas++
					}
					if m == node[len(node)-1] {
						here, hub = append(here, m), append(hub, got.Moment)
					}
				}
				if deltas < tt.moments*3/4 {
					t.Errorf("%d of %d states are deltas", deltas, tt.moments)
				}
			}
			if diff := cmp.Diff(string(said(t, here...)), string(said(t, hub...))); diff != "" {
				t.Errorf("the fleet is told otherwise:\n%s", diff)
			}
		})
	}
}

func TestEveryMachineGoesThere(t *testing.T) {
	t.Parallel()
	machines := append(fixture.Fleet(), fixture.Workstation(), fixture.Server(), fixture.BrokenServer(), fixture.Orphaned(), fixture.Partitioned(),
		fixture.Mixed(), fixture.Empty(), fixture.Zeros(), fixture.A100s(8), fixture.B200s(16), fixture.H100s(200), &gpu.Snapshot{Time: start, Node: "bare"})
	for _, e := range fixture.Examples(start) {
		if e.Snapshot != nil && len(e.Snapshot.Devices) < 100 {
			machines = append(machines, e.Snapshot)
		}
	}
	for _, s := range machines {
		want := stateOf(insight.Of(s))
		e, d := wire.NewEncoder(nil), wire.NewDecoder(s.Node, nil, nil)
		for i := range 2 {
			got, isWhole := there(t, e, d, want)
			const seen = 64 // devices whose records a packer looks back over
			if isWhole != (i == 0) && len(s.Devices) <= seen {
				t.Errorf("%s: message %d is whole: %t", s.Node, i, isWhole)
			}
			same(t, want, got)
			if string(got.Extra["alerts"]) != `[{"id":"a","n":1e30}]` || len(got.Extra) != 2 {
				t.Errorf("the other sections are %s", got.Extra)
			}
		}
	}
}

// Deltas may be lost. Each is applied to the one whole state that it is based on, and to no other.
func TestADeltaIsBesideItsOwnWholeState(t *testing.T) {
	t.Parallel()
	node := played(t, "dgx-h100", 6, 5*time.Second)[0]
	name := node[0].Snapshot.Node
	encode := func(e *wire.Encoder, i int, want bool) []byte {
		t.Helper()
		message, isWhole, err := e.Encode(stateOf(node[i]))
		if err != nil || isWhole != want {
			t.Fatalf("message %d is whole: %t, %v", i, isWhole, err)
		}
		return message
	}
	again := func(e *wire.Encoder, i int) []byte {
		t.Helper()
		message, err := e.EncodeWhole(stateOf(node[i]))
		if err != nil {
			t.Fatal(err)
		}
		return message
	}
	e, d := wire.NewEncoder(nil), wire.NewDecoder(name, nil, nil)
	first, late := encode(e, 0, true), encode(e, 1, false)
	beside := encode(e, 2, false)
	second := again(e, 3)
	newer := encode(e, 4, false)
	other := wire.NewEncoder(nil) // of another run, with the same numbers
	otherFirst, otherDelta := encode(other, 0, true), encode(other, 1, false)
	for i, tt := range []struct {
		message []byte
		is      error
		state   int
	}{
		{beside, wire.ErrNoBase, 0}, {first, nil, 0}, {beside, nil, 2}, {late, nil, 1}, {newer, wire.ErrNoBase, 0}, {beside, nil, 2}, {otherDelta, wire.ErrNoBase, 0},
		{second, nil, 3}, {newer, nil, 4}, {beside, wire.ErrLate, 0}, {first, wire.ErrLate, 0}, {newer, nil, 4}, {second, nil, 3},
		{otherFirst, nil, 0}, {otherDelta, nil, 1}, {newer, wire.ErrNoBase, 0},
	} {
		got, err := d.Decode(tt.message)
		if !errors.Is(err, tt.is) || err != nil && tt.is == nil {
			t.Fatalf("message %d: %v, want %v", i, err, tt.is)
		}
		if err == nil {
			same(t, stateOf(node[tt.state]), got)
		}
	}
}

// A delta that would save little is not made.
func TestWhatIsAllNewIsWhole(t *testing.T) {
	t.Parallel()
	e := wire.NewEncoder(nil)
	other := fixture.Server()
	for i := range other.Devices { // nothing that the first machine has
		other.Devices[i].Processes = gpu.Of([]gpu.Process{{PID: 100 + i, Facts: gpu.ProcessFacts{Command: gpu.Of(fmt.Sprintf("%x", sha512.Sum512([]byte{byte(i)})))}}})
	}
	a, b := insight.Of(fixture.Workstation()), insight.Of(other)
	for i, tt := range []struct {
		m     *insight.Moment
		whole bool
	}{{a, true}, {a, false}, {b, true}, {b, false}} {
		if _, isWhole, err := e.Encode(stateOf(tt.m)); err != nil || isWhole != tt.whole {
			t.Errorf("message %d is whole: %t, %v", i, isWhole, err)
		}
	}
}

// A state that can't be sent is an error, and no part of it is sent.
func TestWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	foreign := fixture.Server()
	foreign.Devices[3].Node = "another"
	long := stateOf(insight.Of(fixture.Workstation()))
	long.Extra["long"] = json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`)
	torn := stateOf(insight.Of(fixture.Workstation()))
	torn.Extra["torn"] = json.RawMessage(`{"a":`)
	many := stateOf(insight.Of(fixture.Workstation()).At(insight.Place{Labels: map[string]string{}}, insight.Link{}))
	for i := range 2000 {
		many.Moment.Place.Labels[fmt.Sprint(i)] = ""
	}
	for _, tt := range []struct {
		state *wire.State
		is    error
		says  string
	}{
		{stateOf(insight.Of(foreign)), wire.ErrOfAnother, `device 3 is of "another"`},
		{long, wire.ErrTooLarge, "the limit is 4194304"},
		{torn, nil, "Text"},
		{many, wire.ErrTooLarge, "2000 labels"},
	} {
		e := wire.NewEncoder(nil)
		if _, _, err := e.Encode(tt.state); err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v, want one that says %q", err, tt.says)
		}
		if _, isWhole, err := e.Encode(stateOf(insight.Of(fixture.Workstation()))); err != nil || !isWhole {
			t.Errorf("what follows is whole: %t, %v", isWhole, err)
		}
	}
}

// sealed returns a message of a changed record from a file in testdata.
func sealed(t *testing.T, minor int, file string, change func(string) string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		before := string(text)
		if text = []byte(change(before)); string(text) == before {
			t.Fatal("nothing was changed")
		}
	}
	return wire.Seal(t, wire.Protocol{Major: 1, Minor: minor}, text)
}

// Programs two minor versions apart work together.
func TestOfAnOlderMinorVersion(t *testing.T) {
	t.Parallel()
	s, err := wire.NewDecoder("c:desk", nil, nil).Decode(sealed(t, 0, "older.json", nil))
	if err != nil {
		t.Fatal(err)
	}
	m := s.Moment
	if s.Protocol.String() != "1.0" || s.Version != "v0.9.0" || m.Name() != "desk" || len(m.Answer.Causes()) != 1 || m.Answer.Headline != "train.py heats GPU 0." {
		t.Errorf("%+v %+v", s.Hello, m.Answer)
	}
	if d := &m.Snapshot.Devices[0]; d.Thermal.GPU != gpu.Of[gpu.Celsius](71) || d.Power.Draw.Present() || m.Answer.Devices[0].Device != d {
		t.Errorf("%+v", d)
	}
	said(t, m)
}

func TestOfANewerMinorVersion(t *testing.T) {
	t.Parallel()
	s, err := wire.NewDecoder("c:desk", nil, nil).Decode(sealed(t, 7, "newer.json", nil))
	if err != nil {
		t.Fatal(err)
	}
	m := s.Moment
	d := &m.Snapshot.Devices[0]
	if s.Protocol.String() != "1.7" || d.State != "molten" || d.Vendor != "acme" || m.Answer.Devices[0].Causes[0].Kind != "haunted" || string(s.Extra["moods"]) != `{"calm":[1,2]}` {
		t.Errorf("%+v %+v", s.Hello, d)
	}
	if d.Thermal.GPU.Quality() != gpu.NotReported || d.Thermal.Memory.Quality() != gpu.NotReported || d.Power.Draw != gpu.Of[gpu.Watts](412.5) {
		t.Errorf("%+v", d.Readings)
	}
	if x, _ := d.Health.Faults.Get(); len(x) != 1 || x[0].Kind != "gremlin" {
		t.Errorf("%+v", x)
	}
	if p := d.Processes.Or(nil); len(p) != 1 || p[0].Type != "quantum" || p[0].Memory != gpu.Of[gpu.Bytes](5) {
		t.Errorf("%+v", p)
	}
	said(t, m)
}

// A refused message changes nothing.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	m := insight.Of(fixture.Server())
	e, d := wire.NewEncoder(nil), wire.NewDecoder(m.Snapshot.Node, nil, nil)
	first, _, err := e.Encode(stateOf(m))
	if err != nil {
		t.Fatal(err)
	}
	good, _, err := e.Encode(stateOf(m))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(first); err != nil {
		t.Fatal(err)
	}
	of := func(b []byte, i int, c byte) []byte {
		b = bytes.Clone(b)
		b[i] = c
		return b
	}
	swap := func(old, with string) []byte {
		return sealed(t, 0, "newer.json", func(s string) string {
			return strings.Replace(strings.ReplaceAll(s, "c:desk", m.Snapshot.Node), old, with, 1)
		})
	}
	for name, tt := range map[string]struct {
		message []byte
		is      error
		says    string
	}{
		"nothing":               {nil, wire.ErrUnreadable, "not a gpuwhy message"},
		"something else":        {[]byte(`{"hello":"world"}`), wire.ErrUnreadable, "not a gpuwhy message"},
		"a newer major version": {of(good, 4, 2), wire.ErrVersion, "update gpuwhy here"},
		"an older one":          {of(good, 4, 0), wire.ErrVersion, "update gpuwhy on the node"},
		"a header without end":  {of(good, 6, 255), wire.ErrUnreadable, "cut off"},
		"an empty header":       {of(good, 6, 0), wire.ErrUnreadable, "damaged"},
		"an unknown kind":       {of(good, 7, 9), wire.ErrUnreadable, "kind 9"},
		"cut off":               {good[:len(good)-9], wire.ErrUnreadable, ""},
		"a whole one, cut off":  {first[:len(first)/2], wire.ErrUnreadable, ""},
		"a flipped bit":         {of(good, len(good)-20, good[len(good)-20]^4), wire.ErrUnreadable, ""},
		"too long":              {append(bytes.Clone(good), make([]byte, wire.MaxPacked)...), wire.ErrTooLarge, "the limit is 1048576"},
		"a bomb":                {wire.Bomb(t), wire.ErrTooLarge, ""},
		"a bomb that lies":      {wire.Liar(t), wire.ErrTooLarge, ""},
		"many empty devices":    {swap(`"Devices":[`, `"Devices":[{}`+strings.Repeat(",{}", 1e5)+","), wire.ErrTooLarge, "memory"},
		"another node":          {sealed(t, 0, "newer.json", nil), wire.ErrOfAnother, `"c:desk"`},
		"a device of another":   {swap(`{"UUID":"GPU-1","Node":"`+m.Snapshot.Node, `{"UUID":"GPU-1","Node":"x`), wire.ErrOfAnother, "device 0"},
		"no snapshot":           {swap(`"Snapshot":`, `"Snapshots":`), wire.ErrUnreadable, "no Snapshot"},
		"no answer":             {swap(`"Answer":`, `"Answers":`), wire.ErrUnreadable, "no Answer"},
		"answers of two":        {swap(`"Ranked":[0]`, `"Ranked":[0,1]`), wire.ErrUnreadable, "Answer.Ranked: 1"},
		"a negative count":      {swap(`"Seq":7`, `"Seq":-7`), wire.ErrUnreadable, "Snapshot.Seq"},
		"a number out of range": {swap(`412.5`, `1e999`), wire.ErrUnreadable, "Snapshot.Devices[0].Readings.Power.Draw"},
		"a text as a number":    {swap(`412.5`, `"hot"`), wire.ErrUnreadable, "Snapshot.Devices[0].Readings.Power.Draw"},
		"a list as a text":      {swap(`"State":"molten"`, `"State":["molten"]`), wire.ErrUnreadable, "Snapshot.Devices[0].State"},
		"no good value":         {swap(`"calm":[1,2]`, `"calm":[1,2`), wire.ErrUnreadable, "Extra[0]"},
		"no good unknown value": {swap(`"Glow":{"a":[]}`, `"Glow":{"a":[}`), wire.ErrUnreadable, "Glow"},
		"more behind it":        {swap(`"newest":true}`, `"newest":true}{}`), wire.ErrUnreadable, "unexpected"},
	} {
		if _, err := d.Decode(tt.message); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 500 {
			t.Errorf("%s: %v, want %v that says %q", name, err, tt.is, tt.says)
		}
		got, err := d.Decode(good)
		if err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
		if got.Moment.Answer.Sentence != m.Answer.Sentence || got.Moment.Snapshot.Devices[7].UUID != m.Snapshot.Devices[7].UUID {
			t.Errorf("after %s it says %q", name, got.Moment.Answer.Sentence)
		}
	}
	if _, err := d.Decode(of(good, 4, 2)); err == nil {
		t.Error("another version is read")
	} else if advice, is := errors.AsType[*gpu.Advice](err); !is || advice.Try == "" {
		t.Errorf("%v is no advice", err)
	}
}

// Any bytes are either refused or read, and the next good delta is read correctly.
func FuzzDecode(f *testing.F) {
	node := played(f, "dgx-h100", 2, 5*time.Second)[0]
	e := wire.NewEncoder(nil)
	first, _, err := e.Encode(stateOf(node[0]))
	if err != nil {
		f.Fatal(err)
	}
	good, _, err := e.Encode(stateOf(node[1]))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(first, false)
	f.Add(good, false)
	f.Add([]byte{}, false)
	for _, file := range []string{"older.json", "newer.json"} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.ReplaceAll(text, []byte("c:desk"), []byte(node[0].Snapshot.Node)), true)
	}
	shared := new(gpu.Shared)
	f.Fuzz(func(t *testing.T, message []byte, record bool) {
		d := wire.NewDecoder(node[0].Snapshot.Node, nil, shared)
		if _, err := d.Decode(first); err != nil {
			t.Fatal(err)
		}
		if record {
			message = wire.Seal(t, wire.Spoken, message)
		}
		if s, err := d.Decode(message); err == nil {
			said(t, s.Moment) // whoever shows it can
			return
		}
		if _, err := d.Decode(good); err != nil {
			t.Errorf("a bad message changed what is known: %v", err)
		}
	})
}
