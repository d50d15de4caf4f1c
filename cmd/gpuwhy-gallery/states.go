package main

import (
	"errors"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/app"
)

// A stateGroup is states of one part of the page.
type stateGroup struct {
	title  string
	states []state
}

// A state is a page of the product in one of the states that people may see.
type state struct {
	id    string // of its <iframe>
	title string
	says  string // what people should see; may be empty
	scene string
	path  string // below the scene's path, with its query
	press string // CSS selector of an element that is pressed; empty for none
}

// The devices of examples that addresses name.
const (
	busyUUID   = "GPU-00000000-0000-4000-8000-000000000000"
	hotUUID    = "GPU-00000000-0000-4000-8000-000000000001"
	silentUUID = "GPU-00000000-0000-4000-8000-000000000005"
	lostUUID   = "GPU-00000000-0000-4000-8000-000000000006"
	asleepUUID = "GPU-00000000-0000-4000-8000-000000000007"
)

// galleryStates are all states. Tests open each of them.
func galleryStates() []stateGroup {
	return []stateGroup{
		{"The connection", []state{
			{"live", "Live", "Readings come by themselves.", "one", "", ""},
			{"connecting", "Connecting", "The socket is open, and nothing has come yet.", "connecting", "", ""},
			{"polling", "Polling", "Something cuts WebSockets: the page asks.", "polling", "", ""},
			{"waiting", "Connection lost", "Neither a socket nor an answer: the page tries again.", "away", "", ""},
			{"stale", "Stale", "Connected, and no new reading: what is shown is grey.", "stale", "", ""},
			{"paused", "Paused", "", "one", "?", "#pause"},
			{"menu", "The menu, open", "", "one", "?menu", ".menu summary"},
			{"no-script", "Without JavaScript", "Not live; what needs a script is not there.", "no-script", "", ""},
		}},
		{"Machines", []state{
			{"starting", "Before the first reading", "", "starting", "", ""},
			{"no-driver", "No driver", "", "no-driver", "", ""},
			{"eight", "Eight GPUs", "One does not answer, one is lost, one is asleep; alerts stand; what gpuwhy can't see is said.", "eight", "", ""},
			{"evidence", "The evidence, open", "", "eight", "?evidence", ".evidence > summary"},
			{"idle", "One GPU without work", "No process at all.", "idle", "", ""},
			{"odd", "Odd GPUs", "Nothing reported, all zero, all at the limit, left alone; texts that look like markup.", "odd", "", ""},
			{"many", "Sixty-four, simulated", "", "many", "", ""},
		}},
		{"Charts", []state{
			{"charts", "Eight GPUs", "With gaps, limits, alerts, and processes that come and go.", "eight", "#charts-title", ""},
			{"one-line", "One GPU of eight, alone", "", "eight", "?line=1#charts-title", ""},
			{"one-chart", "The only GPU", "", "one", "#charts-title", ""},
			{"no-reading", "No reading", "", "silent", "#charts-title", ""},
			{"large", "A large chart", "", "eight", "?chart=power_watts", ""},
			{"over", "A large chart with a second metric", "", "one", "?chart=temperature_celsius&over=fan_percent", ""},
		}},
		{"The wall", []state{
			{"wall", "By utilization", "", "wall", "?by=utilization", ""},
			{"wall-memory", "By memory", "", "wall", "?by=memory", ""},
			{"wall-temperature", "By temperature, the hottest first", "", "wall", "?by=temperature&order=value", ""},
			{"wall-power", "By power, the highest first", "", "wall", "?by=power&order=value", ""},
			{"wall-fan", "By fan", "None has one.", "wall", "?by=fan", ""},
			{"wall-list", "As a list", "", "wall", "?wall=list", ""},
		}},
		{"Processes", []state{
			{"details", "One in detail", "", "eight", "?process=dgx-07/" + busyUUID + "/9001", ""},
			{"contained", "One in a container", "", "eight", "?process=dgx-07/" + hotUUID + "/7204", ""},
			{"little-known", "One of which little is known", "", "odd", "?process=gallery/GPU-00000000-0000-4000-8000-000000000022/2", ""},
			{"ended", "One that has ended", "", "eight", "?process=dgx-07/" + busyUUID + "/4242", ""},
			{"grouped", "By user, the largest first", "", "eight", "?group=user&sort=-memory#processes-title", ""},
			{"narrowed", "Narrowed to a user", "", "eight", "?user=carol#processes-title", ""},
			{"nothing-left", "Narrowed to nothing", "", "eight", "?q=nothing+is+called+so#processes-title", ""},
		}},
		{"A GPU’s own page", []state{
			{"gpu", "One that is busy", "", "eight", "gpu/" + busyUUID, ""},
			{"gpu-fans", "One with fans", "", "one", "gpu/" + busyUUID, ""},
			{"gpu-hung", "One that does not answer", "", "eight", "gpu/" + silentUUID, ""},
			{"gpu-lost", "One that is lost", "", "eight", "gpu/" + lostUUID, ""},
			{"gpu-asleep", "One that is asleep", "", "eight", "gpu/" + asleepUUID, ""},
			{"gpu-gone", "One that is gone", "It was there when the page was opened.", "gone", "gpu/" + hotUUID, ""},
		}},
		{"Alerts", []state{
			{"standing", "All that stand", "One is acknowledged, one silenced.", "alerts", "", "#more-alerts"},
			{"over-now", "One that is over", "It fires and ends, again and again.", "over", "", "#more-alerts"},
			{"refused", "An answer that is an error", "Somebody pressed “Acknowledge”, and the alert is no longer known.", "refused", "", "#alerts > :first-child [data-do=acknowledge]"},
			{"alerts", "The page of alerts", "", "alerts", "alerts", ""},
			{"silencing", "The page of alerts, about to silence", "", "alerts", "alerts", "#new-silence summary"},
			{"alerts-refused", "The page of alerts, with an answer that is an error", "", "refused", "alerts", "#firing > :first-child :is(summary, [formaction$='/acknowledge'])"},
			{"no-alerts", "The page of alerts, without any", "Its tables are empty.", "idle", "alerts", ""},
		}},
		{"Other pages", []state{
			{"error", "An error", "", "one", "nowhere", ""},
			{"api", "The API", "", "one", "docs", ""},
			{"reference", "The API, to read", "", "one", "redoc", ""},
			{"events", "The events", "", "one", "docs/events", ""},
		}},
	}
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
		"eight":      {example: "eight", past: quarter, away: true, change: work},
		"idle":       {example: "idle", past: quarter},
		"odd":        {example: "odd"},
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
	for i, of := range a.Alerts.Standing() {
		var err error
		switch i {
		case 1:
			_, err = a.Alerts.Acknowledge(of.ID, &alert.Acknowledgment{By: "ann", Comment: "a new fan is on its way"})
		case 2:
			_, err = a.Alerts.Silence(alert.Silence{Rule: of.Rule, GPU: alert.Literally(of.Device.UUID), By: "ann", Comment: "known"}, 8*time.Hour)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
