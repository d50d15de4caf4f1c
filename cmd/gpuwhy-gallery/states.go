package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/views"
)

// statesFile lists pages in every state that people may see. A URL starts with a scene's name.
//
//go:embed states.json
var statesFile []byte

// states returns all states, with URLs below base. Tests open each of them.
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

// scenes returns the machines that show the states, by name.
func scenes() map[string]*scene {
	const quarter = 15 * time.Minute
	played := func(profile string, hour, minute, second int) *scene {
		return &scene{plays: profile, begins: time.Date(2026, time.March, 3, hour, minute, second, 0, time.UTC), past: quarter}
	}
	fleet := func(gpus string, past time.Duration) *scene {
		s := played("fleet:"+gpus, 13, 37, 15)
		s.past = past
		return s
	}
	cooling := played("rtx-4090", 2, 15, 12)
	cooling.past = 35 * time.Minute // it was seen to cool down before
	return map[string]*scene{
		// Answers.
		"heat":      played("dgx-h100", 1, 52, 0),
		"video":     played("rtx-4090", 3, 36, 0),
		"one":       {example: "one", past: quarter},
		"quiet":     played("rtx-4090", 1, 50, 0),
		"cooling":   cooling,
		"lost":      played("dgx-h100", 1, 17, 20),
		"hangs":     played("dgx-h100", 1, 7, 15),
		"only-lost": {example: "one", past: quarter, change: lose},
		"awake":     {example: "idle", past: quarter, steady: true, change: stir},
		"by-hand":   {example: "idle", past: quarter, steady: true, change: setByHand},
		"power-cap": {example: "one", past: quarter, steady: true, change: capPower},
		"weak-fan":  {example: "one", past: quarter, steady: true, change: slowFan},
		"warm-room": {example: "eight at work", past: quarter, steady: true, change: warm},
		"no-driver": {example: "none"},
		"no-card":   {example: "no card", past: quarter, change: build},
		"at-rest":   {example: "no card, at rest", past: quarter},
		"no-fan":    {example: "no fan", past: time.Minute},

		// How fresh it is.
		"starting":   {example: "starting"},
		"connecting": {example: "one", past: quarter, behave: mute},
		"polling":    {example: "one", past: quarter, behave: refusing(true, false)},
		"away":       {example: "one", past: quarter, behave: refusing(true, true)},
		"stale":      {example: "eight", still: time.Minute},
		"no-script":  {example: "eight", past: quarter, behave: scriptless},
		"recorded":   {example: "one", past: time.Minute, recorded: true, change: record},

		// How many GPUs.
		"new":      {example: "one"},
		"idle":     {example: "idle", past: quarter},
		"odd":      {example: "odd"},
		"silent":   {example: "silent", past: time.Minute},
		"eight":    {example: "eight", past: quarter, away: true, change: work},
		"many":     {example: "many", past: time.Minute},
		"fleet":    fleet("96", 5*time.Minute),
		"thousand": fleet("1000", time.Minute),
		"well":     {nodes: 40, past: 30 * time.Second},
		"partly":   {nodes: 40, wrong: true, past: 30 * time.Second},
		"nodes":    {nodes: 1000, wrong: true, still: 2 * time.Second},

		"gone":    {example: "eight", past: time.Minute, change: takeOut},
		"alerts":  {example: "eight", past: quarter, change: work, begun: answer},
		"over":    {example: "one", past: time.Minute, change: flare, rules: sudden},
		"refused": {example: "eight", past: quarter, change: work, behave: forgetful},
	}
}

// lose loses the GPU three minutes before the scene is born.
func lose(s *gpu.Snapshot, m moment) {
	const since = 3 * time.Minute
	if m.ago() < since {
		d := &s.Devices[0]
		d.State, d.Since, d.SampledAt, d.Readings = gpu.StateLost, m.born.Add(-since), time.Time{}, gpu.Readings{}
	}
}

// rise is how far something has come that began some time before the scene was born, of 1, where it takes a minute.
func rise(m moment, before time.Duration) float64 {
	return 1 - math.Exp(-max(0, (before-m.ago()).Minutes()))
}

// tremble is noise of a reading, about 1.
func tremble(m moment) float64 {
	return 1 + 0.008*math.Sin(float64(m.now.Unix())/7) + 0.006*math.Sin(float64(m.now.Unix())*1.7)
}

// stir makes a GPU without work draw more than at rest.
func stir(s *gpu.Snapshot, m moment) {
	d := &s.Devices[0]
	d.IdleFloor = gpu.Of[gpu.Watts](18)
	if m.ago() > 9*time.Minute {
		return
	}
	d.Power.Draw, d.Thermal.GPU = gpu.Of(gpu.Watts(38*tremble(m))), gpu.Of(gpu.Celsius(34+int(6*rise(m, 9*time.Minute))))
	d.Clocks.SM, d.Clocks.PerformanceState = gpu.Of[gpu.Megahertz](1710), gpu.Of(2)
}

// setFans gives all fans of a GPU a speed.
func setFans(d *gpu.Device, percent gpu.Percent, rpm gpu.RPM, policy string) {
	d.Fans.Fans = slices.Clone(d.Fans.Fans)
	for i := range d.Fans.Fans {
		f := &d.Fans.Fans[i]
		f.Commanded, f.RPM, f.Policy = gpu.Of(percent), gpu.Of(rpm+gpu.RPM(8*i)), gpu.Of(policy)
	}
}

// setByHand sets the fan ten minutes before the scene is born.
func setByHand(s *gpu.Snapshot, m moment) {
	d := &s.Devices[0]
	d.Power.Draw = gpu.Map(d.Power.Draw, func(v gpu.Watts) gpu.Watts { return v * gpu.Watts(tremble(m)) })
	if m.ago() < 10*time.Minute {
		d.Thermal.GPU = gpu.Of(gpu.Celsius(34 - int(5*rise(m, 10*time.Minute))))
		setFans(d, 80, 2610, "manual")
	}
}

// capPower has the GPU at its power limit since it began to work.
func capPower(s *gpu.Snapshot, m moment) {
	d := &s.Devices[0]
	work := 0.55 + 0.45*rise(m, 11*time.Minute)
	d.Power.Draw = gpu.Of(gpu.Watts(min(452*work*tremble(m), 450)))
	d.Thermal.GPU = gpu.Of(gpu.Celsius(45 + int(31*work)))
	setFans(d, gpu.Percent(20+int(57*work)), gpu.RPM(600+int(1800*work)), "automatic")
	if m.ago() < 9*time.Minute {
		d.Clocks.EventReasons, d.Clocks.SM = gpu.Of(gpu.ReasonPowerCap), gpu.Of[gpu.Megahertz](2310)
	}
}

// slowFan has the fans turn slower than they did, and the GPU warmer.
func slowFan(s *gpu.Snapshot, m moment) {
	d := &s.Devices[0]
	d.Power.Draw = gpu.Of(gpu.Watts(300 * tremble(m)))
	d.Thermal.GPU = gpu.Of(gpu.Celsius(61 + int(9*rise(m, 6*time.Minute))))
	if setFans(d, 50, 1600, "automatic"); m.ago() < 6*time.Minute {
		setFans(d, 50, 900, "automatic")
	}
}

// warm has the air that reaches all GPUs warmer for some minutes.
func warm(s *gpu.Snapshot, m moment) {
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Power.Draw = gpu.Map(d.Power.Draw, func(v gpu.Watts) gpu.Watts { return v * gpu.Watts(tremble(m)) })
		d.Thermal.GPU = gpu.Map(d.Thermal.GPU, func(v gpu.Celsius) gpu.Celsius { return v + gpu.Celsius(int(7.5*rise(m, 6*time.Minute))) })
	}
}

// work puts processes on the machine of eight GPUs: one that began some minutes ago,
// and one that begins and ends again and again. One GPU has no readings for a while.
func work(s *gpu.Snapshot, m moment) {
	before := m.born.Sub(m.now)
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
	wave := 0.5 + 0.5*math.Sin(m.now.Sub(m.born).Seconds()/60)
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
	engine := app.Find[*alerts.Room](a).Book
	var errs []error
	now := time.Now().UTC()
	for i, fired := range engine.Standing() {
		var err error
		switch i {
		case 1:
			_, err = engine.Acknowledge(fired.ID, &alert.Acknowledgment{By: "ann", Comment: "a new fan is on its way"})
		case 2:
			known := alert.Silence{Rule: fired.Rule, GPU: alert.Literally(fired.Device.UUID), By: "ann", Comment: "known", Until: now.Add(8 * time.Hour)}
			_, _, err = engine.Silence(known, now)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
