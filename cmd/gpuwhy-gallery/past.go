package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/forecast"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/static"
)

// pastNow is when somebody looks at the past of the gallery: in the night before, Europe's clocks were set forward.
var pastNow = time.Date(2026, time.March, 29, 10, 0, 0, 0, time.UTC)

const pastNode = "lab-01"

// pastScenes are machines whose past is shown, by name: how many GPUs each has. One without a store keeps no past.
var pastScenes = map[string]int{"past-day": 8, "past-one": 1, "past-off": 0}

// pastPrice is that of a kWh.
const pastPrice = 0.31

// newPast serves the pages of a machine with a made-up past.
func (g *gallery) newPast(name string, gpus int) (http.Handler, error) {
	if gpus == 0 {
		return g.servePast(name, gpus, nil)
	}
	kept := storetest.NewModel()
	if err := fillPast(kept, gpus, 5*time.Minute); err != nil { // no picture of it has shorter steps
		return nil, err
	}
	return g.servePast(name, gpus, kept)
}

// servePast serves the pages of a machine whose past a store has; nil: none is kept.
func (g *gallery) servePast(name string, gpus int, kept store.Store) (http.Handler, error) {
	m := insight.Of(pastSnapshot(gpus, pastNow))
	all := m.Alone()
	kit := serve.NewKit(serve.Settings{
		Monitor: contract.Monitor{Node: pastNode, Source: madeUp, Version: g.opt.Version, Interval: g.opt.Interval},
		Hub:     serve.Still{Fleet: all}, Address: serve.Address{BasePath: g.opt.BasePath + "state/" + name, Listen: g.opt.Listen}, Log: g.log,
	})
	shown := &now.Site{
		Kit: kit, Assets: static.New(), Hues: new(now.Hues), Monitor: func() contract.Monitor { return kit.Monitor }, Recent: recent.New(), Alerts: alert.New(nil),
		Parts: func() map[string]contract.Part { return map[string]contract.Part{} }, Metrics: http.NotFoundHandler(),
	}
	foreseen := &forecast.Site{Kit: kit, Kept: kept != nil}
	remembered := &past.Site{Kit: kit, Price: pastPrice, Shell: shown, Forecasts: foreseen, Then: func() (*insight.Stage, error) { return insight.NewStage(), nil }}
	shown.Past, shown.Forecasts = remembered, foreseen
	if gpus == 1 {
		o := pastOutlook()
		m.Answer.Devices[0].Next = []explain.Prospect{
			{Kind: "memory_full", Short: "memory full in about 26 min", Sentence: "The memory of GPU 0 is full in about 26 min (18 min to 41 min).", Left: gpu.Of(26 * time.Minute)},
			{Kind: "cost", Short: "costs about 92.4 this month", Sentence: "GPU 0 will have cost about 92.4 this month (88.1 to 97)."},
			{Kind: "usually_free", Short: "usually free now, until Mon 09:00", Sentence: "GPU 0 is usually free now, until Mon 09:00."},
		}
		foreseen.Forecaster = oneOutlook{o}
	}
	if kept != nil {
		remembered.Past = &history.Past{Store: kept, Keeps: store.Retention{store.Raw: 2 * 24 * time.Hour, store.Minute: 30 * 24 * time.Hour}, Now: func() time.Time { return pastNow }}
	}
	machines, alerted := &fleet.Site{Kit: kit, Shell: shown}, &alerts.Site{Kit: kit, Book: alert.New(nil), Shell: shown}
	s, err := serve.New(kit, serve.Config{Pages: shown}, slices.Concat(shown.Routes(), remembered.Routes(), foreseen.Routes(), machines.Routes(), alerted.Routes())...)
	if err != nil {
		return nil, err
	}
	return s.Handler(), nil
}

// oneOutlook is of all devices.
type oneOutlook struct{ *outlook.Outlook }

// Of implements [forecast.Forecaster].
func (o oneOutlook) Of(store.Key) *outlook.Outlook { return o.Outlook }

// pastOutlook is of a GPU that leaks, and that is usually free at night and at the end of the week.
func pastOutlook() *outlook.Outlook {
	o := &outlook.Outlook{
		At: pastNow,
		MemoryFull: method.Forecast{
			Kind: method.KindMemoryFull, Value: 1560, Low: 1080, High: 2460, Shown: true, Error: method.Error{MAE: 130, Trials: 14},
			AsNow: method.Naive{MAE: 2600, Method: 130, Trials: 14},
		},
		LimitReached: method.Forecast{Kind: method.KindLimitReached, Why: method.NoGrowth},
		Quiet:        method.Forecast{Kind: method.KindQuiet, Why: outlook.NotCooling},
		Energy:       method.Forecast{Kind: method.KindEnergy, Why: method.NotBetterYesterday},
		Cost: method.Forecast{
			Kind: method.KindCost, Value: 92.4, Low: 88.1, High: 97, Shown: true, Error: method.Error{MAE: 2.1, Trials: 30},
			AsNow: method.Naive{MAE: 20, Method: 2.1, Trials: 30}, Yesterday: method.Naive{MAE: 6, Method: 2.1, Trials: 30},
		},
		Free: method.Usual{Forecast: method.Forecast{
			Kind: method.KindUsuallyFree, Value: 0.9, Low: 0.8, High: 1, Shown: true, Error: method.Error{MAE: 0.11, Trials: 600},
			AsNow: method.Naive{MAE: 0.4, Method: 0.11, Trials: 600}, Yesterday: method.Naive{MAE: 0.2, Method: 0.11, Trials: 600},
		}},
	}
	for i := range o.Free.Hours {
		h := method.Hour{Weeks: 9, P: 0.1, High: 0.2, EnoughPast: true}
		if day, hour := i/24, i%24; day%6 == 0 || hour < 9 || hour >= 20 {
			h.P, h.Low, h.High = 0.9, 0.8, 1
		}
		o.Free.Hours[i] = h
	}
	return o
}

// A shift is work on a GPU, in hours before pastNow.
type shift struct {
	gpu           int
	user, program string
	from, to      float64
	util          float64
}

// shifts are two days of work.
var shifts = []shift{
	{0, "agarcia", "finetune.py", 24, 15.6, 92}, {1, "agarcia", "finetune.py", 24, 15.6, 90}, {2, "agarcia", "finetune.py", 24, 15.4, 91},
	{3, "agarcia", "finetune.py", 24, 15.5, 88}, {4, "svc-llm", "vllm", 60, 0, 34}, {5, "svc-llm", "tritonserver", 60, 0, 12},
	{6, "jokafor", "notebook", 23, 19.8, 25}, {6, "mchen", "eval.py", 18, 16.8, 55}, {6, "jokafor", "train_sdxl.py", 14.9, 3.8, 99},
	{7, "mchen", "eval.py", 18, 13.5, 61}, {7, "mchen", "eval.py", 8.4, 6.8, 58}, {0, "alex", "render.py", 6.1, 4.6, 97}, {1, "alex", "render.py", 6.1, 4.7, 96},
	{3, "mchen", "eval.py", 1.6, 0, 64}, {2, "ann", "<b>probe</b>", 3, 2.9, 10}, {2, "", "Xorg", 24, 0, 1},
	{6, "jokafor", "train_sdxl.py", 40, 30, 97}, {0, "agarcia", "finetune.py", 47, 38, 90},
}

// fillPast writes two days of a machine: rows of minutes, of several GPUs so often until 7 hours ago; snapshots of each five minutes
// of the last hours; and what record would have written of the shifts.
func fillPast(target store.Store, gpus int, often time.Duration) error {
	b := &store.Batch{Devices: []store.Device{{Node: pastNode, Kind: gpu.Live}}}
	begin := pastNow.Add(-48 * time.Hour)
	keys := make([]store.Key, gpus)
	for i := range keys {
		keys[i] = store.Key{Node: pastNode, UUID: fmt.Sprintf("GPU-00000000-0000-4000-8000-%012d", i)}
		b.Devices = append(b.Devices, store.Device{Node: pastNode, UUID: keys[i].UUID, Name: "NVIDIA H100 80GB HBM3", Vendor: "nvidia", Index: i, Kind: gpu.Live})
	}
	place := func(s *shift) int { // a machine of one GPU has what the seventh of eight does
		if gpus == 1 {
			return s.gpu - 6
		}
		return s.gpu
	}
	for i, k := range keys {
		heat := 36.0
		for minute := begin; minute.Before(pastNow); minute = minute.Add(time.Minute) {
			n := int(minute.Sub(begin) / (5 * time.Minute))
			if gpus > 1 && !minute.Truncate(often).Equal(minute) && pastNow.Sub(minute) > 7*time.Hour {
				continue
			}
			if ago := pastNow.Sub(minute).Hours(); ago < 11.5 && ago > 10.9 { // gpuwhy was away
				continue
			}
			var util float64
			for j := range shifts {
				if s := &shifts[j]; place(s) == i && minute.Before(hoursAgo(s.to)) && !minute.Before(hoursAgo(s.from)) {
					util = max(util, s.util)
				}
			}
			wave := math.Sin(float64(n)/3+float64(i)) + math.Sin(float64(n)/7.3)
			if util > 0 {
				util = min(max(util+2*wave, 0), 100)
				if n%31 < 2 && util > 80 { // a checkpoint
					util /= 4
				}
			}
			power := 70 + 6.1*util + wave
			heat += (36 + 0.5*util - heat) * 0.2
			r := store.Row{Key: k, Tier: store.Minute, Time: minute, Readings: 12, Values: make([]store.Value, len(store.DeviceColumns)), State: gpu.StateOK}
			set := func(name string, v, spread float64) {
				r.Values[store.DeviceColumns.Find(name)] = store.Value{Least: math.Max(0, v-spread), Mean: v, Most: v + spread, Count: 12}
			}
			set("power_watts", power, 8+util/4)
			set("temperature_celsius", heat, 1)
			set("utilization_percent", util, min(3, 100-util))
			if gpus == 1 {
				set("fan_percent", max(0, (heat-45)*1.7), 1)
			}
			b.Rows = append(b.Rows, r)
		}
	}
	for j := range shifts {
		s := &shifts[j]
		if i := place(s); i >= 0 && i < gpus {
			b.Sessions, b.Causes = append(b.Sessions, s.session(keys[i], 4000+j)), s.cause(b.Causes, keys[i], j)
		}
	}
	b.Events = []store.Event{
		{ID: "1", Key: store.Key{Node: pastNode}, Kind: "stopped", Time: hoursAgo(11.5), Text: "gpuwhy stopped."},
		{ID: "2", Key: store.Key{Node: pastNode}, Kind: "started", Time: hoursAgo(10.9), Text: "gpuwhy started."},
		{ID: "3", Key: keys[gpus-1], Kind: "alert_firing", Severity: "warning", Time: hoursAgo(7.4), Text: "The GPU is at 86 °C, and slows itself at 87 °C."},
		{ID: "4", Key: keys[gpus-1], Kind: "alert_resolved", Time: hoursAgo(6.7), Text: "The GPU is below 80 °C again."},
		{ID: "5", Key: keys[0], Kind: "xid", Severity: "critical", Time: hoursAgo(5), Text: "XID 79: the GPU has fallen off the bus."},
	}
	for ago := 4 * time.Hour; ago > 0; ago -= 5 * time.Minute {
		snap := pastSnapshot(gpus, pastNow.Add(-ago))
		record, err := gpu.MarshalRecord(snap)
		if err != nil {
			return err
		}
		b.Frames = append(b.Frames, store.Frame{Node: pastNode, Time: snap.Time, Snapshot: record})
	}
	return target.Write(context.Background(), b)
}

// pastSnapshot is the machine at a time.
func pastSnapshot(gpus int, now time.Time) *gpu.Snapshot {
	example := "one"
	if gpus > 1 {
		example = "eight"
	}
	snap := fixture.Named(example, now).Snapshot
	snap.Node, snap.Source = pastNode, madeUp
	for i := range snap.Devices {
		snap.Devices[i].Node = pastNode
	}
	return snap
}

func hoursAgo(hours float64) time.Time {
	return pastNow.Add(-time.Duration(hours * float64(time.Hour))).Truncate(time.Minute)
}

func (s *shift) session(key store.Key, pid int) store.Session {
	out := store.Session{
		User: s.user, Name: s.program, Program: s.program, From: hoursAgo(s.from), To: hoursAgo(s.to), Outcome: store.Ended, JoulesMethod: "utilization",
	}
	if s.to == 0 {
		out.Outcome = store.Open
	}
	out.Key, out.PID, out.Started, out.Begin = key, pid, out.From, out.From
	out.Seen = out.To.Sub(out.From)
	out.Busy = time.Duration(s.util / 100 * float64(out.Seen))
	out.PeakMemory = gpu.Of(gpu.Bytes(20 << 30))
	out.Joules, out.JoulesKnown = 6.1*s.util*out.Seen.Seconds(), out.Seen
	return out
}

func (s *shift) cause(causes []store.Cause, key store.Key, n int) []store.Cause {
	if s.util < 20 {
		return causes
	}
	work := store.Cause{Key: key, ID: fmt.Sprintf("work-%d", n), Kind: "work", From: hoursAgo(s.from), To: hoursAgo(s.to), Open: s.to == 0, Who: s.program}
	causes = append(causes, work)
	if s.util > 98 {
		hot := work
		hot.ID, hot.Kind, hot.From, hot.To = work.ID+"-hot", "limited_by_heat", hoursAgo(7.4), hoursAgo(6.7)
		causes = append(causes, hot)
	}
	return causes
}
