package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A past is what one run of the program has learned.
type past struct {
	history *explain.History
	floors  *attribute.Floors
}

func newPast() past { return past{explain.NewHistory(), new(attribute.Floors)} }

// restore loads the content of a file.
func restore(h *explain.History, text string, now time.Time) error {
	return state.Of("baselines", "baselines", state.Regularly, h).Restore([]byte(text), now)
}

// restarted returns the next run's past, with what this one kept.
func (p past) restarted(t *testing.T, now time.Time) past {
	t.Helper()
	next := newPast()
	learned, err := json.Marshal(p.history.Kept())
	if err == nil {
		err = restore(next.history, string(learned), now)
	}
	if err == nil {
		err = next.floors.Restore(p.floors.Kept(), now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func (p past) play(t *testing.T, now time.Time, scenes ...scene) explain.Answer {
	t.Helper()
	return playOn(t, p.history, p.floors, now, scenes...)
}

func simulatedDevice(d *gpu.Device) { d.Source = gpu.SourceSimulated }

func recordedDevice(d *gpu.Device) { d.Source, d.RecordedFrom = gpu.SourceRecorded, gpu.SourceNVML }

// What only a past can show is still known after a restart, and no simulation's or recording's past says anything about a real device.
func TestWhatIsLearnedSurvivesARestart(t *testing.T) {
	const minute = time.Minute
	hotter := func(d *gpu.Device) { d.Thermal.GPU = gpu.Of(d.Thermal.GPU.Or(0) + 12) }
	holding := func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{process(4242, "python", 0)}) }
	warm := func(d *gpu.Device) {
		d.Thermal.GPU, d.Power.Draw = gpu.Of[gpu.Celsius](63), gpu.Of[gpu.Watts](30)
		fansAt(d, 48)
	}
	slow := func(d *gpu.Device) { d.Fans.Fans[0].RPM = gpu.Of[gpu.RPM](900) }
	learning := append([]scene{during(minute, made()), during(12*minute, made(working(98, python)))}, coolingDown()...)
	for _, tt := range []struct {
		name          string
		after         []scene
		known, afresh string // the ends of the sentence with and without a past
	}{
		{"hot for its power", []scene{during(2*minute, made(working(98, python), hotter))},
			"is hot for its power: 11 °C hotter than it used to be at 431 W; python (pid 4242, alice) keeps it busy at 98 %.", "fan at 66 %."},
		{"cooling down", []scene{during(minute, made(working(98, python))), during(25*time.Second, made(warm))},
			"and should be quiet in about 70 s.", "fan at 48 %)."},
		{"held awake", []scene{during(minute, made(held, holding))},
			", 46 W above its idle draw.", "fan off): its clocks are up."},
		{"a worn fan", []scene{during(30*time.Second, made(working(98, python), slow))},
			"but 2112 RPM is usual at 66 %; python (pid 4242, alice) keeps the GPU busy at 98 %.", "fan at 66 %."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			later := start.Add(8 * time.Hour)
			measured := newPast()
			measured.play(t, start, learning...)
			learned := func(change func(*gpu.Device)) past {
				var scenes []scene
				for _, sc := range learning {
					d := sc.devices[0]
					change(&d)
					scenes = append(scenes, during(sc.lasts, d))
				}
				p := newPast()
				p.play(t, start, scenes...)
				return p
			}
			ends := func(p past, want string) {
				t.Helper()
				if got := p.play(t, later, tt.after...).Sentence; !strings.HasSuffix(got, want) {
					t.Errorf("got  %q\nwant … %q", got, want)
				}
			}
			ends(measured.restarted(t, later), tt.known)
			ends(measured.restarted(t, later).restarted(t, later), tt.known) // in a run that never saw it
			ends(learned(simulatedDevice).restarted(t, later), tt.afresh)
			ends(learned(recordedDevice).restarted(t, later), tt.afresh)
			ends(newPast(), tt.afresh)
		})
	}
}

// A device that returns after hours is recognized.
func TestADeviceThatComesBackIsKnown(t *testing.T) {
	p := newPast()
	p.play(t, start, append([]scene{during(time.Minute, made()), during(12*time.Minute, made(working(98, python)))}, coolingDown()...)...)
	p.play(t, start.Add(time.Hour), during(3*time.Hour, made(indexed(1))))
	got := p.play(t, start.Add(5*time.Hour), during(time.Minute, made(working(98, python))),
		during(10*time.Second, made(func(d *gpu.Device) { d.Thermal.GPU = gpu.Of[gpu.Celsius](60) }))).Sentence
	if !strings.Contains(got, "should be quiet in about 90 s") {
		t.Errorf("got %q", got)
	}
}

func TestDamagedPast(t *testing.T) {
	device := func(uuid, seen, rest string) string {
		return fmt.Sprintf(`{"node":"desk","uuid":%q,"seen":%q%s}`, uuid, seen, rest)
	}
	all := func(devices ...string) string { return `{"devices":[` + strings.Join(devices, ",") + `]}` }
	const fresh = "2026-03-14T14:00:00Z"
	good := device("GPU-9", fresh, `,"cooldowns":[{"from_celsius":70,"seconds":60}]`)
	for name, tt := range map[string]struct{ text, says string }{
		"nothing":               {"", "can't be read"},
		"cut off":               {all(good)[:60], "can't be read"},
		"another form":          {`"hello"`, "can't be read"},
		"no device":             {all(device("", fresh, ""), good), "of 1 of 2"},
		"of the future":         {all(device("GPU-0", "2036-01-01T00:00:00Z", ""), good), "of 1 of 2"},
		"a rest that can't be":  {all(device("GPU-0", fresh, `,"rest":{"celsius":9000}`), good), "of 1 of 2"},
		"a curve of no steps":   {all(device("GPU-0", fresh, `,"curve":{"step_watts":0,"celsius":[],"seconds":[]}`), good), "of 1 of 2"},
		"a curve too short":     {all(device("GPU-0", fresh, `,"curve":{"step_watts":25,"celsius":[1],"seconds":[1]}`), good), "of 1 of 2"},
		"a cool-down of a year": {all(device("GPU-0", fresh, `,"cooldowns":[{"from_celsius":70,"seconds":3e7}]`), good), "of 1 of 2"},
		"too many cool-downs":   {all(device("GPU-0", fresh, `,"cooldowns":[`+strings.Repeat(`{"from_celsius":70,"seconds":60},`, 20)+`{"from_celsius":70,"seconds":60}]`), good), "of 1 of 2"},
		"too many fans":         {all(device("GPU-0", fresh, `,"fans":[`+strings.Repeat(`{},`, 20)+`{}]`), good), "of 1 of 2"},
		"a fan that flies":      {all(device("GPU-0", fresh, `,"fans":[{"rpm_per_percent":1e9,"seconds":100}]`), good), "of 1 of 2"},
		"of a year ago":         {all(device("GPU-0", "2025-03-14T14:00:00Z", ""), good), ""},
		"well":                  {all(good), ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := explain.NewHistory()
			err := restore(h, tt.text, start)
			if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error: %v, want one that says %q", err, tt.says)
			}
			text, err := json.Marshal(h.Kept())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "GPU-0") {
				t.Errorf("it was believed: %s", text)
			}
			if strings.Contains(tt.text, `"GPU-9"`) && tt.says != "can't be read" && !strings.Contains(string(text), "GPU-9") {
				t.Errorf("what is good beside it is lost: %s", text)
			}
			playOn(t, h, new(attribute.Floors), start, during(time.Minute, made(working(98, python)))) // continues
		})
	}
}

// Whatever a file contains: it is rejected, or the answers that follow are sound and the state is kept unchanged.
func FuzzRestore(f *testing.F) {
	p := newPast()
	p.history.Add(&gpu.Snapshot{Time: start, Devices: []gpu.Device{made()}})
	text, err := json.Marshal(p.history.Kept())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"devices":[{"node":"desk","uuid":"GPU-0","seen":"2026-03-14T14:00:00Z","rest":{"celsius":30},"cooldowns":[{"from_celsius":70,"seconds":60}],"fans":[{"rpm_per_percent":30,"seconds":100}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := explain.NewHistory()
		_ = restore(h, string(text), start) // even with an error the rest is good
		once, err := json.Marshal(h.Kept())
		if err != nil {
			t.Fatal(err)
		}
		again := explain.NewHistory()
		if err := restore(again, string(once), start); err != nil {
			t.Errorf("what was kept is refused: %v", err)
		}
		if twice, err := json.Marshal(again.Kept()); err != nil || string(twice) != string(once) {
			t.Errorf("kept %s, then %s: %v", once, twice, err)
		}
		playOn(t, h, new(attribute.Floors), start, during(15*time.Second, made()), during(15*time.Second, made(working(98, python))))
	})
}
