//go:build linux && cgo

package nvml

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

func TestLinks(t *testing.T) {
	m := machine(t, fakenvml.H100().With(fakenvml.Link(3, "errors2"), 7).With(fakenvml.Link(3, "errors3"), 5).
		With(fakenvml.Link(3, "errors0"), 2).With(fakenvml.Link(3, "errors1"), 1).With(fakenvml.Link(4, "state"), 0).
		Without(fakenvml.Link(5, "state"), fakenvml.Link(6, "errors0"), fakenvml.Link(6, "speed")).
		With(fakenvml.Link(7, "peer"), 0).With(fakenvml.Link(8, "state"), fakenvml.Error(int(noPermission))))
	s := source(t, m)
	d := readOne(t, s)
	if d.NVLink.Count != gpu.Of(18) || len(d.NVLink.Links) != 18 {
		t.Fatalf("%v links, %d listed", d.NVLink.Count, len(d.NVLink.Links))
	}
	want := gpu.Link{
		Index: 3, Active: gpu.Of(true), Version: gpu.Of("4.0"), Speed: gpu.Of[gpu.BytesPerSecond](26_562e6),
		Peer: gpu.Of("switch"), PeerPCI: gpu.Of("0000:08:00.0"),
		CRCFlit: gpu.Of[uint64](7), CRCData: gpu.Of[uint64](5), Replays: gpu.Of[uint64](2), Recoveries: gpu.Of[uint64](1),
	}
	if diff := cmp.Diff(want, d.NVLink.Links[3], everything); diff != "" {
		t.Errorf("a link (-want +got):\n%s", diff)
	}
	links := d.NVLink.Links
	for what, ok := range map[string]bool{
		"one that is not active has nothing else": cmp.Equal(links[4], gpu.Link{Index: 4, Active: gpu.Of(false)}, everything),
		"one that is not offered has no error":    links[5].Active.Quality() == gpu.NotSupported && links[5].CRCData.Quality() == gpu.NotSupported,
		"a missing counter is one reading less":   links[6].Replays.Quality() == gpu.NotSupported && links[6].CRCData == gpu.Of[uint64](0),
		"and so is a missing speed":               links[6].Speed.Quality() == gpu.NotSupported,
		"a GPU at the other end":                  links[7].Peer == gpu.Of("GPU"),
		"one that may not be asked for says so":   links[8].Active.Quality() == gpu.NotPermitted && links[8].Speed.Quality() == gpu.NotPermitted,
		"the last one":                            links[17].Active == gpu.Of(true) && links[17].Index == 17,
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
}

// TestLinksAreAskedSeldom has its own table, since each link is one more call.
func TestLinksAreAskedSeldom(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	s := source(t, m)
	read(t, s)
	ours := []string{
		"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkErrorCounter", "nvmlDeviceGetNvLinkVersion",
		"nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetNvLinkRemotePciInfo_v2",
	}
	first := m.GPU(1).Calls(ours...)
	if most := 18 * (1 + 4 + 3); first != most {
		t.Errorf("%d calls for 18 links, want %d", first, most)
	}
	again := read(t, s)
	if n := m.GPU(1).Calls(ours...) - first; n != 0 || len(again.Devices[1].NVLink.Links) != 18 {
		t.Errorf("%d calls in the next reading, want none, and %d links", n, len(again.Devices[1].NVLink.Links))
	}
	delete(s.session.devices[1].due, "NVLink errors")
	m.GPU(1).Set(fakenvml.Link(2, "errors1"), 9)
	if got := read(t, s).Devices[1].NVLink.Links[2]; got.Recoveries != gpu.Of[uint64](9) || got.Version != gpu.Of("4.0") || !got.Speed.Present() {
		t.Errorf("ten seconds later: %+v", got)
	}
	if n := m.GPU(1).Calls(ours...) - first; n != 18*(1+4) {
		t.Errorf("%d calls for states and errors, want %d", n, 18*(1+4))
	}
	if n := m.GPU(0).Calls(ours...); n != 0 {
		t.Errorf("%d calls for links of a card without any", n)
	}
}

// A dawdling clock advances by a fifth of the test's deadline whenever somebody asks how long something has taken.
type dawdling struct{ fakeClock }

func (c dawdling) Since(t time.Time) time.Duration {
	c.Advance(testDeadline / 5)
	return c.fakeClock.Since(t)
}

// TestSlowLinks checks that 72 calls, of which the four for one link take a fifth of the deadline, end after one deadline.
func TestSlowLinks(t *testing.T) {
	const call = "nvmlDeviceGetNvLinkErrorCounter"
	m := machine(t, fakenvml.H100())
	s := source(t, m)
	readOne(t, s)
	d, before := s.session.devices[0], m.Calls(call)
	delete(d.due, "NVLink errors")
	d.cfg.Clock = dawdling{clockOf(s)}
	got, err := d.read()
	if err != nil {
		t.Fatal(err)
	}
	links := got.NVLink.Links
	if n := m.Calls(call) - before; n != 5*4 || len(links) != 18 {
		t.Errorf("%d calls, %d links; want those for 5 links within the deadline", n, len(links))
	}
	if a, z := links[4], links[5]; !a.CRCData.Present() || z.Index != 5 || z.Active != no[bool](gpu.NotReported) ||
		z.CRCData != no[uint64](gpu.NotReported) {
		t.Errorf("the last in time is %+v, the next %+v", a, z)
	}
	d.cfg.Clock = s.cfg.Clock
	delete(d.due, "NVLink errors")
	if got := readOne(t, s).NVLink.Links[17]; !got.CRCData.Present() || !got.Version.Present() {
		t.Errorf("then the last is %+v", got)
	}
}

// TestLinkTrainsLater checks that a link reports its properties as soon as it becomes active.
func TestLinkTrainsLater(t *testing.T) {
	m := machine(t, fakenvml.H100().With(fakenvml.Link(0, "state"), 0))
	s := source(t, m)
	readOne(t, s)
	m.GPU(0).Set(fakenvml.Link(0, "state"), 1)
	delete(s.session.devices[0].due, "NVLink errors")
	if got := readOne(t, s).NVLink.Links[0]; got.Active != gpu.Of(true) || got.Version != gpu.Of("4.0") || got.CRCData != gpu.Of[uint64](0) {
		t.Errorf("%+v", got)
	}
}

func TestNoLinks(t *testing.T) {
	for name, tt := range map[string]struct {
		count any
		want  gpu.Reading[int]
	}{
		"none":                   {0, gpu.Of(0)},
		"not offered":            {fakenvml.Error(int(notSupported)), no[int](gpu.NotSupported)},
		"not permitted":          {fakenvml.Error(int(noPermission)), no[int](gpu.NotPermitted)},
		"more than there can be": {4711, no[int](gpu.NotReported)},
	} {
		t.Run(name, func(t *testing.T) {
			d := readOne(t, source(t, machine(t, fakenvml.H100().With("field91", tt.count))))
			if d.NVLink.Count != tt.want || len(d.NVLink.Links) != 0 {
				t.Errorf("%v links, %d listed; want %v", d.NVLink.Count, len(d.NVLink.Links), tt.want)
			}
		})
	}
}

// TestSpeedsOfOlderDrivers checks drivers with a field for each of the first links.
func TestSpeedsOfOlderDrivers(t *testing.T) {
	g := fakenvml.RTX4090().WithNVLinks(2).Without(fakenvml.Link(0, "speed"), fakenvml.Link(1, "speed")).With("field84", 25781)
	links := readOne(t, source(t, machine(t, g))).NVLink.Links
	if links[0].Speed != gpu.Of[gpu.BytesPerSecond](25_781e6) || links[1].Speed.Quality() != gpu.NotSupported {
		t.Errorf("%v and %v", links[0].Speed, links[1].Speed)
	}
}
