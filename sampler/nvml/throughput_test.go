//go:build linux && cgo

package nvml

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

const throughputCall = "nvmlDeviceGetPcieThroughput"

// measured turns on measuring the PCIe traffic.
func measured(c *Config) { c.PCIeThroughput = true }

// due makes the next reading measure the traffic.
func due(s *Source) {
	for _, d := range s.session.devices {
		delete(d.due, "PCIe throughput")
	}
}

// TestThroughput checks that both directions are measured once, then not again until due; readings in between have the last values with
// their time.
func TestThroughput(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m, measured)
	first := readOne(t, s)
	measured, ok := first.Activity.PCIeMeasuredAt.Get()
	if !ok || !measured.Equal(clockOf(s).Now()) || measured.Location() != time.UTC {
		t.Errorf("measured at %v, want %v", first.Activity.PCIeMeasuredAt, clockOf(s).Now())
	}
	want := gpu.AbsentActivity(gpu.NotSupported)
	want.PCIeSent, want.PCIeReceived, want.PCIeMeasuredAt = gpu.Of(gpu.BytesPerSecond(350e3)), gpu.Of(gpu.BytesPerSecond(2e6)), gpu.Of(measured)
	if diff := cmp.Diff(want, first.Activity, everything); diff != "" {
		t.Errorf("activity (-want +got):\n%s", diff)
	}
	m.GPU(0).Set(keyPCIeThroughputTX, 0)
	m.GPU(0).Set(keyPCIeThroughputRX, 7)
	for range 3 {
		pass(s, (sometimes-time.Second)/3)
		d := readOne(t, s)
		if diff := cmp.Diff(want, d.Activity, everything); diff != "" {
			t.Errorf("before it is due (-want +got):\n%s", diff)
		}
		if !d.Activity.PCIeMeasuredAt.Or(d.SampledAt).Before(d.SampledAt) {
			t.Errorf("an old measurement at %v looks like one of the reading at %v", d.Activity.PCIeMeasuredAt, d.SampledAt)
		}
	}
	if n := m.Calls(throughputCall); n != 2 {
		t.Errorf("%d calls in four readings, want one each direction", n)
	}
	pass(s, time.Second)
	a := readOne(t, s).Activity
	if a.PCIeSent != gpu.Of(gpu.BytesPerSecond(0)) || a.PCIeReceived != gpu.Of(gpu.BytesPerSecond(7000)) || !a.PCIeMeasuredAt.Or(measured).Equal(measured.Add(sometimes)) {
		t.Errorf("when it is due: sent %v, received %v, at %v", a.PCIeSent, a.PCIeReceived, a.PCIeMeasuredAt)
	}
}

// TestThroughputIsAskedFor checks that traffic is not measured without the setting, nor if the hardware counts it, not even in a first
// reading, which has nothing to compare with.
func TestThroughputIsAskedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		gpu    fakenvml.GPU
		change func(*Config)
		want   gpu.Quality
	}{
		"not set":             {fakenvml.RTX4090(), func(*Config) {}, gpu.NotSupported},
		"it has the counters": {fakenvml.H100(), measured, gpu.Good},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, tt.gpu)
			s := source(t, m, tt.change)
			readOne(t, s)
			if a := later(t, s).Activity; a.PCIeSent.Quality() != tt.want || a.PCIeMeasured() {
				t.Errorf("sent %v, measured at %v", a.PCIeSent, a.PCIeMeasuredAt)
			}
			if n := m.Calls(throughputCall); n != 0 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// TestThroughputInMIGMode checks the mode in which the counters belong to the instances, and the link to the device.
func TestThroughputInMIGMode(t *testing.T) {
	m := machine(t, fakenvml.H100())
	setInstances(m.GPU(0), migInstance{UUID: "MIG-1", Name: "MIG", MemoryTotal: mib})
	s := source(t, m, measured)
	if a := readOne(t, s).Activity; a.PCIeSent != gpu.Of(gpu.BytesPerSecond(222.8e6)) || !a.PCIeMeasured() || a.Engine.Present() {
		t.Errorf("%+v", a)
	}
	setInstances(m.GPU(0))
	clear(s.session.devices[0].due)
	readOne(t, s)
	if a := later(t, s).Activity; a.PCIeMeasured() || a.PCIeSent != gpu.Of(gpu.BytesPerSecond(212.5*mib)) {
		t.Errorf("after it: sent %v, measured at %v; want what the counters say", a.PCIeSent, a.PCIeMeasuredAt)
	}
}

// TestThroughputValues checks that a missing value has a reason, and that one direction alone is reported.
func TestThroughputValues(t *testing.T) {
	for name, tt := range map[string]struct {
		set  any
		want string
	}{
		"some":          {1200, "1.2e+06"},
		"nothing":       {0, "0"},
		"not known":     {uint32(1<<32 - 1), "not_reported"},
		"more than can": {2_000_000_000, "2e+12 (doubtful)"},
		"not supported": {fakenvml.Error(int(notSupported)), "not_supported"},
		"forbidden":     {fakenvml.Error(int(noPermission)), "not_permitted"},
		"fails":         {fakenvml.Error(int(unknown)), "not_reported"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, fakenvml.RTX4090().With(keyPCIeThroughputTX, tt.set))
			s := source(t, m, measured)
			a := readOne(t, s).Activity
			if a.PCIeSent.String() != tt.want || a.PCIeReceived != gpu.Of(gpu.BytesPerSecond(2e6)) || !a.PCIeMeasured() {
				t.Errorf("sent %v (want %s), received %v, measured at %v", a.PCIeSent, tt.want, a.PCIeReceived, a.PCIeMeasuredAt)
			}
			m.GPU(0).Set(keyPCIeThroughputRX, tt.set)
			due(s)
			a = readOne(t, s).Activity
			if a.PCIeReceived.String() != tt.want || a.PCIeMeasured() != a.PCIeSent.Present() || a.PCIeMeasuredAt.Quality() != a.PCIeSent.Quality() && !a.PCIeSent.Present() {
				t.Errorf("received %v (want %s), measured at %v", a.PCIeReceived, tt.want, a.PCIeMeasuredAt)
			}
		})
	}
}

// TestThroughputHangs checks that a hanging call holds up only its own device, within the deadline, and is not repeated meanwhile.
func TestThroughputHangs(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	s := source(t, m, measured)
	m.GPU(0).Hang(throughputCall)
	snap := until(t, s, "not answering", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && snap.Devices[0].State == gpu.StateNotAnswering
	})
	if d := snap.Devices[1]; d.State != gpu.StateOK || !d.Activity.PCIeMeasured() {
		t.Errorf("the other device is %s, and has sent %v", d.State, d.Activity.PCIeSent)
	}
	read(t, s)
	if n := m.GPU(0).Calls(throughputCall); n != 1 {
		t.Errorf("%d calls while one hangs", n)
	}
	m.GPU(0).Back()
	until(t, s, "both measured", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].Activity.PCIeMeasured()
	})
}

// TestNothingIsMeasuredAsleep checks that a sleeping card stays asleep.
func TestNothingIsMeasuredAsleep(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	s := source(t, m, measured)
	read(t, s)
	m.GPU(0).Sleep()
	due(s)
	before := m.GPU(0).Calls()
	snap := read(t, s)
	if d := snap.Devices[0]; d.State != gpu.StateAsleep || d.Activity.PCIeMeasured() || d.Encoding.Sessions.Present() {
		t.Errorf("%s, sent %v, sessions %v", d.State, d.Activity.PCIeSent, d.Encoding.Sessions)
	}
	if n := m.GPU(0).Calls() - before; n != 0 {
		t.Errorf("%d calls of the card that sleeps", n)
	}
	if n := m.GPU(1).Calls(throughputCall); n != 4 {
		t.Errorf("the other card was measured with %d calls, want 4", n)
	}
}

// TestThroughputLeftAlone checks that values measured before a device is left alone become stale, with their time.
func TestThroughputLeftAlone(t *testing.T) {
	d := readOne(t, source(t, machine(t, fakenvml.RTX4090()), measured))
	a := d.Stale().Activity
	if a.PCIeSent.Quality() != gpu.Stale || a.PCIeReceived.Quality() != gpu.Stale || a.PCIeMeasuredAt.Quality() != gpu.Stale {
		t.Errorf("sent %v, received %v, at %v", a.PCIeSent, a.PCIeReceived, a.PCIeMeasuredAt)
	}
}

func TestEncoding(t *testing.T) {
	const blank = uint32(1<<32 - 1)
	for name, tt := range map[string]struct {
		sessions, fps, latency any
		want                   string
	}{
		"two sessions":  {2, 119, 4210, "2, 119, 4210"},
		"none":          {0, 0, 0, "0, 0, 0"},
		"not known":     {1, blank, blank, "1, not_reported, not_reported"},
		"nothing known": {blank, blank, blank, "not_reported, not_reported, not_reported"},
		"beyond all":    {20_000, 2_000_000, 70_000_000, "20000 (doubtful), 2e+06 (doubtful), 7e+07 (doubtful)"},
		"not supported": {fakenvml.Error(int(notSupported)), 0, 0, "not_supported, not_supported, not_supported"},
		"forbidden":     {fakenvml.Error(int(noPermission)), 0, 0, "not_permitted, not_permitted, not_permitted"},
		"fails":         {fakenvml.Error(int(unknown)), 0, 0, "not_reported, not_reported, not_reported"},
	} {
		t.Run(name, func(t *testing.T) {
			d := readOne(t, source(t, machine(t, fakenvml.RTX4090().
				With(keyEncoderSessions, tt.sessions).With(keyEncoderFPS, tt.fps).With(keyEncoderLatency, tt.latency))))
			e := d.Encoding
			if got := e.Sessions.String() + ", " + e.FrameRate.String() + ", " + e.Latency.String(); got != tt.want || d.State != gpu.StateOK {
				t.Errorf("%s, %s; want %s", d.State, got, tt.want)
			}
		})
	}
}

// TestEncodingAtEachReading checks that the encoder is read each time: the call is cheap, and the value is current.
func TestEncodingAtEachReading(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	for sessions := range 3 {
		m.GPU(0).Set(keyEncoderSessions, sessions)
		if got := readOne(t, s).Encoding.Sessions; got != gpu.Of(sessions) {
			t.Errorf("%v sessions, want %d", got, sessions)
		}
	}
}

func TestEncodingHangs(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	s := source(t, m)
	m.GPU(0).Hang("nvmlDeviceGetEncoderStats")
	snap := until(t, s, "not answering", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && snap.Devices[0].State == gpu.StateNotAnswering
	})
	if d := snap.Devices[1]; d.State != gpu.StateOK || d.Encoding.Sessions != gpu.Of(0) {
		t.Errorf("the other device is %s, with %v sessions", d.State, d.Encoding.Sessions)
	}
	m.GPU(0).Back()
	until(t, s, "both well", allOK)
}
