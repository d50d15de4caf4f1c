package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/views"
)

// statesFile has pages in each state that people may see. A URL begins with a scene's name.
//
//go:embed states.json
var statesFile []byte

// states are all states, with their URLs below base. Tests open each of them.
func states(base string) []views.FrameGroup {
	var groups []views.FrameGroup
	if err := json.Unmarshal(statesFile, &groups); err != nil {
		panic("states.json: " + err.Error())
	}
	for _, group := range groups {
		for i := range group.Frames {
			group.Frames[i].URL = base + group.Frames[i].URL
		}
	}
	return groups
}

// scenes are the machines on which states are shown, by name.
func scenes() map[string]*scene {
	const quarter = 15 * time.Minute
	return map[string]*scene{
		"one":        {example: "one", past: quarter},
		"connecting": {example: "one", past: quarter, behave: mute},
		"polling":    {example: "one", past: quarter, behave: refusing("/ws")},
		"away":       {example: "one", past: quarter, behave: refusing("/ws", "/api/gpu/summary")},
		"stale":      {example: "eight", still: time.Minute},
		"no-script":  {example: "eight", behave: scriptless},
		"starting":   {example: "starting"},
		"no-driver":  {example: "none"},
		"no-card":    {example: "no card", past: quarter, change: build},
		"at-rest":    {example: "no card, at rest", past: quarter},
		"no-fan":     {example: "no fan", past: time.Minute},
		"eight":      {example: "eight", past: quarter, away: true, change: work},
		"idle":       {example: "idle", past: quarter},
		"odd":        {example: "odd"},
		"recorded":   {example: "one", past: time.Minute, change: record},
		"silent":     {example: "silent", past: time.Minute},
		"many":       {example: "many", past: time.Minute},
		"wall":       {example: "fleet", past: time.Minute, change: standOut},
		"gone":       {example: "eight", past: time.Minute, change: takeOut},
		"alerts":     {example: "eight", past: quarter, change: work, begun: answer},
		"over":       {example: "one", past: time.Minute, change: flare, rules: sudden},
		"refused":    {example: "eight", past: quarter, change: work, behave: forgetful},
	}
}

// work puts processes on the machine of eight GPUs: one that began some minutes ago,
// and one that begins and ends again and again. One GPU has no readings for a while.
func work(s *gpu.Snapshot, m moment) {
	before := m.born.Sub(m.at)
	if before > 5*time.Minute && before < 6*time.Minute {
		s.Devices[0].Readings = gpu.Readings{}
	}
	d := &s.Devices[1]
	newcomer := gpu.Process{
		PID: 7204, Type: gpu.TypeCompute, Memory: gpu.Of(gpu.Bytes(6 << 30)), SM: gpu.Of[gpu.Percent](11),
		Facts: gpu.ProcessFacts{
			Name: gpu.Of("evaluate"), User: gpu.Of("carol"), Command: gpu.Of("evaluate --model llama-7b"), Started: gpu.Of(m.born.Add(-7 * time.Minute)),
			Container: gpu.Of(gpu.Container{ID: "4f2a9c0d7b61e385", Runtime: gpu.RuntimeDocker, Name: gpu.Of("evaluation"), Image: gpu.Of("registry.example.org/eval:12")}),
			Unit:      gpu.Of(gpu.Unit{Name: "docker.service", Slice: "system.slice"}),
		},
	}
	if before < 7*time.Minute {
		d.Processes = gpu.Of(append(d.Processes.Or(nil)[:1:1], newcomer))
	}
	if phase := m.beat / 3; phase%2 == 0 {
		d = &s.Devices[3]
		d.Processes = gpu.Of(append(d.Processes.Or(nil)[:1:1], gpu.Process{
			PID: 8800 + phase, Type: gpu.TypeGraphics, Memory: gpu.Of(gpu.Bytes(300 << 20)), SM: gpu.Of[gpu.Percent](3),
			Facts: gpu.ProcessFacts{Name: gpu.Of("ffmpeg"), User: gpu.Of("frank")},
		}))
	}
}

// record makes a machine one that was recorded.
func record(s *gpu.Snapshot, _ moment) {
	s.Source = gpu.SourceRecorded
	for i := range s.Devices {
		d := &s.Devices[i]
		d.RecordedFrom, d.Source = d.Source, gpu.SourceRecorded
	}
}

// build makes a machine without a GPU busy in turns.
func build(s *gpu.Snapshot, m moment) {
	h := *s.Host
	wave := 0.5 + 0.5*math.Sin(m.at.Sub(m.born).Seconds()/60)
	if m.page {
		wave = 1
	}
	h.CPU = gpu.Map(h.CPU, func(v gpu.Percent) gpu.Percent { return v * gpu.Percent(0.4+0.6*wave) })
	h.CPUPower = gpu.Map(h.CPUPower, func(v gpu.Watts) gpu.Watts { return v * gpu.Watts(0.4+0.6*wave) })
	h.Temperatures, h.Fans = slices.Clone(h.Temperatures), slices.Clone(h.Fans)
	h.Temperatures[0].Celsius = gpu.Map(h.Temperatures[0].Celsius, func(v gpu.Celsius) gpu.Celsius { return v - 25 + gpu.Celsius(25*wave) })
	h.Fans[0].RPM = gpu.Map(h.Fans[0].RPM, func(v gpu.RPM) gpu.RPM { return v * gpu.RPM(0.4+0.6*wave) })
	s.Host = &h
}

// standOut changes some of very many GPUs, so that they stand out.
func standOut(s *gpu.Snapshot, _ moment) {
	s.Devices[7].Thermal.GPU = gpu.Of[gpu.Celsius](86)
	s.Devices[8].Thermal.GPU = gpu.Of[gpu.Celsius](91)
	for i, state := range map[int]gpu.State{33: gpu.StateAsleep, 77: gpu.StateNotAnswering} {
		d := &s.Devices[i]
		d.State, d.SampledAt, d.Readings = state, time.Time{}, gpu.Readings{}
	}
	for i := 400; i < 420; i++ {
		s.Devices[i].Memory.Used = s.Devices[i].Memory.Total
	}
}

// takeOut removes a GPU after its page was opened.
func takeOut(s *gpu.Snapshot, m moment) {
	if !m.page {
		s.Devices = append(s.Devices[:1], s.Devices[2:]...)
	}
}

// flare makes the GPU hot for one of every few readings.
func flare(s *gpu.Snapshot, m moment) {
	hot := gpu.Celsius(66)
	if m.page || m.beat%4 == 0 {
		hot = 86
	}
	s.Devices[0].Thermal.GPU = gpu.Of(hot)
}

// sudden is a rule without hold and clear times.
func sudden() []alert.Rule {
	r := alert.Default("hot", alert.Temperature)
	r.Hold, r.Clear, r.Cooldown = 0, 0, 0
	return []alert.Rule{r}
}

// answer acknowledges and silences alerts, as a person would.
func answer(a *app.App) error {
	var errs []error
	now := time.Now().UTC()
	for i, of := range a.Alerts.Standing() {
		var err error
		switch i {
		case 1:
			_, err = a.Alerts.Acknowledge(of.ID, &alert.Acknowledgment{By: "ann", Comment: "a new fan is on its way"})
		case 2:
			known := alert.Silence{Rule: of.Rule, GPU: alert.Literally(of.Device.UUID), By: "ann", Comment: "known", Until: now.Add(8 * time.Hour)}
			_, _, err = a.Alerts.Silence(known, now)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
