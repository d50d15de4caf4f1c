package perdevice

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// step is an event of a slot, in seconds after the start.
type step struct {
	second int
	do     func(s *slot, now time.Time)
}

const testDeadline = 2 * time.Second

var begins = func(s *slot, now time.Time) { s.begin(now) }
var sleeps = func(s *slot, now time.Time) { s.sleep(now) }
var answers = func(s *slot, now time.Time) {
	var r gpu.Device
	r.Utilization.GPU = gpu.Of(gpu.Percent(now.Second()))
	s.finish(now, testDeadline, r, nil)
}
var looks = func(s *slot, now time.Time) { s.device(now, testDeadline) }

func fails(err error) func(*slot, time.Time) {
	return func(s *slot, now time.Time) { s.finish(now, testDeadline, gpu.Device{}, err) }
}

func TestSlot(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	lost := fmt.Errorf("nvml: %w", ErrLost)
	broken := errors.New("code 999")
	tests := map[string]struct {
		steps   []step
		second  int
		state   gpu.State
		since   int
		sampled int // -1: no readings
	}{
		"never heard of":                {[]step{{0, begins}}, 1, gpu.StateNotAnswering, 1, -1},
		"answers":                       {[]step{{0, begins}, {1, answers}}, 1, gpu.StateOK, 0, 0},
		"answers again":                 {[]step{{0, begins}, {1, answers}, {5, begins}, {6, answers}}, 6, gpu.StateOK, 0, 5},
		"slow keeps the last":           {[]step{{0, begins}, {1, answers}, {5, begins}}, 6, gpu.StateOK, 0, 0},
		"slow keeps the last, too":      {[]step{{0, begins}, {1, answers}, {5, begins}}, 8, gpu.StateOK, 0, 0},
		"hangs":                         {[]step{{0, begins}, {1, answers}, {5, begins}}, 9, gpu.StateNotAnswering, 5, -1},
		"hangs from the first":          {[]step{{0, begins}}, 9, gpu.StateNotAnswering, 0, -1},
		"late":                          {[]step{{0, begins}, {1, answers}, {5, begins}, {8, answers}}, 8, gpu.StateOK, 0, 5},
		"late after all patience":       {[]step{{0, begins}, {1, answers}, {5, begins}, {10, looks}, {11, answers}}, 11, gpu.StateNotAnswering, 5, -1},
		"and late again":                {[]step{{0, begins}, {1, answers}, {5, begins}, {10, looks}, {11, answers}, {12, begins}, {17, looks}, {18, answers}}, 18, gpu.StateOK, 12, 12},
		"and then in time":              {[]step{{0, begins}, {1, answers}, {5, begins}, {10, looks}, {11, answers}, {12, begins}, {13, answers}}, 13, gpu.StateOK, 12, 12},
		"late from the first":           {[]step{{0, begins}, {8, answers}}, 8, gpu.StateOK, 0, 0},
		"slow was slow before":          {[]step{{0, begins}, {8, answers}, {10, begins}}, 19, gpu.StateOK, 0, 0},
		"hangs and was slow before":     {[]step{{0, begins}, {8, answers}, {10, begins}}, 20, gpu.StateNotAnswering, 10, -1},
		"hangs and was slow long ago":   {[]step{{0, begins}, {8, answers}, {10, begins}, {11, answers}, {12, begins}}, 16, gpu.StateNotAnswering, 12, -1},
		"too late is dropped":           {[]step{{0, begins}, {1, answers}, {5, begins}, {25, answers}}, 25, gpu.StateNotAnswering, 5, -1},
		"too late though nobody looked": {[]step{{0, begins}, {30, answers}}, 30, gpu.StateNotAnswering, 0, -1},
		"slow after that shows none":    {[]step{{0, begins}, {1, answers}, {5, begins}, {28, answers}, {30, begins}}, 31, gpu.StateNotAnswering, 5, -1},
		"back after that":               {[]step{{0, begins}, {25, answers}, {30, begins}, {31, answers}}, 31, gpu.StateOK, 30, 30},
		"hangs twice, since the first":  {[]step{{0, begins}, {25, answers}, {30, begins}, {55, answers}}, 56, gpu.StateNotAnswering, 0, -1},
		"fails late":                    {[]step{{0, begins}, {1, answers}, {5, begins}, {8, fails(lost)}}, 8, gpu.StateLost, 5, -1},
		"fails":                         {[]step{{0, begins}, {1, answers}, {5, begins}, {6, fails(broken)}}, 6, gpu.StateNotAnswering, 5, -1},
		"fails still":                   {[]step{{0, begins}, {1, fails(broken)}, {5, begins}, {6, fails(broken)}}, 6, gpu.StateNotAnswering, 0, -1},
		"fails, then tried again":       {[]step{{0, begins}, {1, fails(broken)}, {5, begins}}, 6, gpu.StateNotAnswering, 0, -1},
		"lost":                          {[]step{{0, begins}, {1, answers}, {5, begins}, {6, fails(lost)}}, 6, gpu.StateLost, 5, -1},
		"lost, then hangs":              {[]step{{0, begins}, {1, fails(lost)}, {5, begins}}, 9, gpu.StateNotAnswering, 5, -1},
		"back from lost":                {[]step{{0, begins}, {1, fails(lost)}, {5, begins}, {6, answers}}, 6, gpu.StateOK, 5, 5},
		"asleep":                        {[]step{{0, sleeps}, {5, sleeps}}, 6, gpu.StateAsleep, 0, -1},
		"falls asleep":                  {[]step{{0, begins}, {1, answers}, {5, sleeps}}, 6, gpu.StateAsleep, 5, -1},
		"wakes":                         {[]step{{0, sleeps}, {5, begins}, {6, answers}}, 6, gpu.StateOK, 5, 5},
		"wakes slowly":                  {[]step{{0, sleeps}, {5, begins}}, 6, gpu.StateAsleep, 0, -1},
		"looking changes nothing":       {[]step{{0, begins}, {1, looks}, {1, answers}}, 1, gpu.StateOK, 0, 0},
		"looked at while it hangs":      {[]step{{0, begins}, {1, answers}, {5, begins}, {7, looks}, {9, looks}}, 20, gpu.StateNotAnswering, 5, -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			moment := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
			var s slot
			for _, step := range tt.steps {
				step.do(&s, moment(step.second))
			}
			d := s.device(moment(tt.second), testDeadline)
			if d.State != tt.state || !d.Since.Equal(moment(tt.since)) {
				t.Errorf("state %s since %v, want %s since %v", d.State, d.Since, tt.state, moment(tt.since))
			}
			_, read := d.Utilization.GPU.Get()
			if want := tt.sampled >= 0; read != want || d.SampledAt.IsZero() == want {
				t.Errorf("readings %v, sampled at %v; want any: %v", read, d.SampledAt, want)
			}
			if tt.sampled >= 0 && !d.SampledAt.Equal(moment(tt.sampled)) {
				t.Errorf("sampled at %v, want %v", d.SampledAt, moment(tt.sampled))
			}
			slow := strings.Contains(name, "slow was") || strings.Contains(name, "late") || strings.HasSuffix(name, ", too")
			ok := d.State == gpu.StateOK
			if ok && slow != errors.Is(&d.Reason, gpu.ErrSlow) || !ok && d.Reason.IsZero() {
				t.Errorf("state %s with reason %q", d.State, d.Reason.Text())
			}
		})
	}
}

func TestReasons(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	own := &gpu.Advice{What: "the card asks for more power", Try: "plug its cable in"}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"advice":         {fmt.Errorf("read: %w", own), own.Text()},
		"advice of lost": {errors.Join(ErrLost, own), own.Text()},
		"no advice":      {errors.New("code 999"), "internal error: see gpuwhy's log"},
	} {
		t.Run(name, func(t *testing.T) {
			var s slot
			s.begin(now)
			s.finish(now, testDeadline, gpu.Device{}, tt.err)
			if got := s.device(now, testDeadline).Reason; got.Text() != tt.want {
				t.Errorf("reason %q, want %q", got.Text(), tt.want)
			}
		})
	}
	var s slot
	s.begin(now)
	reason := s.device(now.Add(time.Minute), testDeadline).Reason
	if !errors.Is(&reason, gpu.ErrNotAnswering) {
		t.Errorf("a hanging call's reason %q is not gpu.ErrNotAnswering", reason.Text())
	}
}

// TestAdviceNamesTheVendorsDriver checks that the advice names the kernel log lines of the device's own driver.
func TestAdviceNamesTheVendorsDriver(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for vendor, lines := range map[gpu.Vendor]string{gpu.NVIDIA: "NVRM and Xid lines", gpu.AMD: "lines of amdgpu", gpu.Intel: "lines of i915 and xe", "": "lines of its driver"} {
		hangs, slow, late := slot{}, slot{}, slot{}
		for _, s := range []*slot{&hangs, &slow, &late} {
			s.Vendor = vendor
			s.begin(now)
		}
		answer := gpu.Device{Identity: gpu.Identity{Vendor: vendor}}
		slow.finish(now.Add(2*testDeadline), testDeadline, answer, nil)
		late.finish(now.Add(20*testDeadline), testDeadline, answer, nil)
		for _, s := range []*slot{&hangs, &slow, &late} {
			if d := s.device(now.Add(time.Minute), testDeadline); !strings.HasPrefix(d.Reason.Try, "look for hung tasks and "+lines+" in the kernel log") {
				t.Errorf("of %q: %q", vendor, d.Reason.Text())
			}
		}
	}
}

// TestSlow checks that a slow device says how slow it is, and since when, until it no longer is.
func TestSlow(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s slot
	for i, tt := range []struct {
		took time.Duration
		what string
	}{
		{time.Second, ""},
		{2100 * time.Millisecond, "slow since 03:05:05 UTC: its last reading took 2.1s"},
		{5 * time.Second, "slow since 03:05:05 UTC: its last reading took 5s"},
		{time.Second, ""},
		{2 * time.Second, "slow since 03:08:05 UTC: its last reading took 2s"},
	} {
		began := now.Add(time.Duration(i) * time.Minute)
		s.begin(began)
		s.finish(began.Add(tt.took), testDeadline, gpu.Device{}, nil)
		got := s.device(began.Add(tt.took), testDeadline)
		if got.Reason.What != tt.what || got.State != gpu.StateOK || !got.Since.Equal(now) {
			t.Errorf("call %d: %s since %v, %q; want %q", i, got.State, got.Since, got.Reason.What, tt.what)
		}
	}
	s.begin(now.Add(time.Hour))
	got := s.device(now.Add(time.Hour+2*time.Second), testDeadline)
	if want := "slow since 03:08:05 UTC: it has not answered for 2s"; got.Reason.What != want {
		t.Errorf("while it waits: %q", got.Reason.What)
	}
}

// TestOlderReadings checks calls that return readings from before the call.
func TestOlderReadings(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s slot
	s.begin(now)
	s.finish(now, testDeadline, gpu.Device{SampledAt: now.Add(-time.Second)}, nil)
	if got := s.device(now, testDeadline); !got.SampledAt.Equal(now.Add(-time.Second)) || !got.Since.Equal(now) {
		t.Errorf("sampled at %v, ok since %v; want a second before the call, and the call", got.SampledAt, got.Since)
	}
}

// TestReadingsAreTheCallers checks that returned readings don't change when the same readings are returned again and changed by their
// receiver.
func TestReadingsAreTheCallers(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s slot
	s.begin(now)
	s.finish(now, testDeadline, gpu.Device{Readings: gpu.Readings{
		Processes: gpu.Of([]gpu.Process{{PID: 7}}),
		Health:    gpu.Health{XIDs: gpu.Of([]gpu.XID{{Code: 13}})},
		Fans:      gpu.Fans{Fans: make([]gpu.Fan, 1)},
		Instances: []gpu.Instance{{UUID: "MIG-1"}},
		NVLink:    gpu.NVLink{Links: make([]gpu.Link, 1)},
	}}, nil)
	first := s.device(now, testDeadline)
	first.Processes.Or(nil)[0].PID = 8
	first.Fans.Fans[0].Target = gpu.Of(gpu.Percent(1))
	first.Instances[0].UUID = "MIG-2"
	first.NVLink.Links[0].Index = 1
	first.Health.XIDs.Or(nil)[0].Code = 31
	second := s.device(now, testDeadline)
	if second.Processes.Or(nil)[0].PID != 7 || second.Fans.Fans[0].Target.Present() || second.Instances[0].UUID != "MIG-1" || second.Health.XIDs.Or(nil)[0].Code != 13 ||
		second.NVLink.Links[0].Index != 0 {
		t.Error("two returned devices share their lists")
	}
}
