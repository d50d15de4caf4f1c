package attribute_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// atRest lets floors see a device with a given draw, for half a minute after noon.
func atRest(f *attribute.Floors, source string, watts gpu.Watts) {
	for second := range 30 {
		d := reading(float64(second), 0, watts)
		d.UUID, d.Node, d.Source = "GPU-1", "desk", source
		f.Note(&gpu.Snapshot{Devices: []gpu.Device{*d}})
	}
}

// floorOf returns what is known about a device before it is read.
func floorOf(f *attribute.Floors, source string) gpu.Reading[gpu.Watts] {
	d := gpu.Device{Identity: gpu.Identity{UUID: "GPU-1", Node: "desk", Source: source}}
	return f.Note(&gpu.Snapshot{Devices: []gpu.Device{d}}).Devices[0].IdleFloor
}

// restore loads the content of a file.
func restore(f *attribute.Floors, text []byte, now time.Time) error {
	return state.Of("floors", "floors", state.Regularly, f).Restore(text, now)
}

func kept(t *testing.T, f *attribute.Floors) []byte {
	t.Helper()
	text, err := json.Marshal(f.Kept())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestFloorsSurviveARestart(t *testing.T) {
	var before, after, later attribute.Floors
	atRest(&before, gpu.SourceNVML, 21)
	if err := restore(&after, kept(t, &before), noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := floorOf(&after, gpu.SourceNVML); got != gpu.Of[gpu.Watts](21) {
		t.Errorf("floor = %v", got)
	}
	// A run in which the device was not seen passes on what it was given.
	if err := restore(&later, kept(t, &after), noon.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	atRest(&later, gpu.SourceNVML, 19)
	if got := floorOf(&later, gpu.SourceNVML); got != gpu.Of[gpu.Watts](19) {
		t.Errorf("a floor that was restored does not fall: %v", got)
	}
	atRest(&before, gpu.SourceNVML, 20)
	if err := restore(&before, []byte(`{"floors":[{"node":"desk","uuid":"GPU-1","watts":99,"seen":"2026-05-04T12:00:00Z"}]}`), noon); err != nil {
		t.Fatal(err)
	}
	if got := floorOf(&before, gpu.SourceNVML); got == gpu.Of[gpu.Watts](99) {
		t.Error("what was kept took the place of what was seen")
	}
}

func TestASimulationsFloorServesNoRealDevice(t *testing.T) {
	var before, after attribute.Floors
	atRest(&before, gpu.SourceSimulated, 14)
	if got := floorOf(&before, gpu.SourceNVML); got.Present() {
		t.Errorf("in the same run: %v", got)
	}
	if err := restore(&after, kept(t, &before), noon); err != nil {
		t.Fatal(err)
	}
	if card, simulated := floorOf(&after, gpu.SourceNVML), floorOf(&after, gpu.SourceSimulated); card.Present() || simulated != gpu.Of[gpu.Watts](14) {
		t.Errorf("real %v, simulated %v", card, simulated)
	}
}

func TestDamagedFloors(t *testing.T) {
	one := func(uuid, watts, seen string) string {
		return fmt.Sprintf(`{"floors":[{"node":"desk","uuid":%q,"watts":%s,"seen":%q},
			{"node":"desk","uuid":"GPU-2","watts":20,"seen":"2026-05-04T11:00:00Z"}]}`, uuid, watts, seen)
	}
	const fresh = "2026-05-04T11:00:00Z"
	for name, tt := range map[string]struct {
		text string
		says string // in the error; empty: no error
	}{
		"nothing":           {"", "can't be read"},
		"cut off":           {`{"floors":[{"node":"de`, "can't be read"},
		"another form":      {`[]`, "can't be read"},
		"below zero":        {one("GPU-1", "-3", fresh), "1 of 2"},
		"more than can be":  {one("GPU-1", "1e300", fresh), "1 of 2"},
		"no device":         {one("", "20", fresh), "1 of 2"},
		"from the future":   {one("GPU-1", "20", "2027-05-04T11:00:00Z"), "1 of 2"},
		"of a year ago":     {one("GPU-1", "20", "2025-05-04T11:00:00Z"), ""},
		"more than is kept": {`{"floors":[` + strings.Repeat(`{"node":"n","uuid":"g","watts":20,"seen":"2026-05-04T11:00:00Z"},`, 5000) + `{}]}`, "of 5001"},
	} {
		t.Run(name, func(t *testing.T) {
			var f attribute.Floors
			err := restore(&f, []byte(tt.text), noon)
			if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error: %v, want one that says %q", err, tt.says)
			}
			if got := floorOf(&f, ""); got.Present() {
				t.Errorf("floor = %v", got)
			}
			if strings.Contains(tt.text, "GPU-2") && !strings.Contains(string(kept(t, &f)), "GPU-2") {
				t.Error("what is good beside it is lost")
			}
		})
	}
}
