//go:build !race

package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// pastAnswers is every answer about the past.
type pastAnswers struct {
	History  contract.History      `json:"history"`
	Sessions contract.PastSessions `json:"sessions"`
	Usage    contract.PastUsage    `json:"usage"`
	ByGPU    contract.PastUsage    `json:"usage_by_gpu"`
	Why      contract.PastWhy      `json:"past_why"`
	Events   contract.PastEvents   `json:"events"`
	At       contract.PastMoment   `json:"at"`
	Readings contract.PastReadings `json:"readings"`
	Causes   contract.PastCauses   `json:"causes"`
	Size     contract.PastSize     `json:"size"`
	Forecast contract.Forecasts    `json:"forecasts"`
}

// forecasts are of a device that leaks, whose energy can't be told, and that is usually free on Sundays; and of one of which
// nothing is forecast yet.
func forecasts() contract.Forecasts {
	m := insight.Of(fixture.Workstation())
	now := m.Snapshot.Time
	o := &outlook.Outlook{
		At: now.Add(-20 * time.Second),
		MemoryFull: method.Forecast{
			Kind: method.KindMemoryFull, Method: "robust trend", At: now.Add(-30 * time.Second), Value: 1590, Low: 1110, High: 2490, Shown: true,
			Error: method.Error{MAE: 130, Scaled: 0.05, Trials: 14}, AsNow: method.Naive{MAE: 2600, Method: 130, Trials: 14},
		},
		LimitReached: method.Forecast{Kind: method.KindLimitReached, At: now, Why: method.NoGrowth},
		Quiet:        method.Forecast{Kind: method.KindQuiet, At: now, Value: 5, High: 9, Shown: true},
		Energy: method.Forecast{
			Kind: method.KindEnergy, Method: "mean by hour", At: now, Why: method.NotBetterYesterday, Error: method.Error{MAE: 2, Scaled: 0.9, Trials: 20},
			AsNow: method.Naive{MAE: 3, Method: 2, Trials: 20}, Yesterday: method.Naive{MAE: 1, Method: 2, Trials: 20},
		},
		Cost: method.Forecast{Kind: method.KindCost, Why: outlook.NoPrice}, // nothing was tried
		Free: method.Usual{Forecast: method.Forecast{Kind: method.KindUsuallyFree, Method: "by hour of the week", At: now, Value: 0.95, Low: 0.8, High: 1, Shown: true}},
	}
	for i := range 24 {
		o.Free.Hours[i] = method.Hour{Weeks: 9, P: 0.95, Low: 0.8, High: 1, EnoughPast: true}
	}
	m.Answer.Devices[0].Next = []explain.Prospect{
		{Kind: "memory_full", Short: "memory full in about 26 min", Sentence: "The memory of GPU 0 is full in about 26 min (18 min to 41 min).", Left: gpu.Of(1560 * time.Second)},
		{Kind: "usually_free", Short: "usually free now, until Mon 00:00", Sentence: "GPU 0 is usually free now, until Mon 00:00."},
	}
	f := m.Alone()
	parts := slices.Collect(f.Parts())
	outlookOf := func(p insight.Part) *outlook.Outlook {
		if p.Device.Index == 0 {
			return o
		}
		return nil
	}
	out := contract.NewForecasts(contract.Monitor{}, f, append(parts, insight.Part{Moment: m, Device: &gpu.Device{Identity: gpu.Identity{Index: 1}}}), outlookOf, now)
	out.GPUs[0].Hours = out.GPUs[0].Hours[:2] // of 168
	return out
}

func TestPast(t *testing.T) {
	t.Parallel()
	to := fixture.Time
	from := to.Add(-8 * time.Hour)
	d := store.Device{Node: "workstation", UUID: "GPU-3a", Name: "NVIDIA GeForce RTX 4090", Index: 0, Kind: gpu.Simulated}
	devices := map[store.Key]store.Device{d.Key(): d}
	power := store.DeviceColumns.Find("power_draw")
	value := store.Value{Least: 21.5, Mean: 240, Most: 431.25, Count: 60}
	s := store.Session{
		User: "mchen", Name: "python3", Program: "train.py", Container: "trainer", Image: "pytorch:2.9", Job: "slurm:1234", Type: gpu.TypeCompute,
		From: from.Add(time.Hour), To: from.Add(5 * time.Hour), Outcome: store.Ended, Seen: 4 * time.Hour, Busy: 3 * time.Hour,
		PeakMemory: gpu.Of[gpu.Bytes](20 << 30), MemorySeconds: 4 * 3600 * (16 << 30), MemoryKnown: 4 * time.Hour, SMSeconds: 10000, SMKnown: 4 * time.Hour,
		Joules: 4.3e6, JoulesKnown: 4 * time.Hour, JoulesMethod: "sm_share",
	}
	s.Key, s.PID, s.Started = d.Key(), 4242, s.From.Add(-3*time.Second)
	bare := store.Session{From: from, To: to, Outcome: store.Open}
	bare.Key, bare.PID = d.Key(), 7
	usage := []history.Usage{{
		Name: "mchen", Sessions: 3, Devices: 1, Held: 4 * time.Hour, Busy: 3 * time.Hour, SMSeconds: gpu.Of(10000.0), Joules: gpu.Of(4.32e6), JoulesKnown: 1,
		PeakMemory: gpu.Of[gpu.Bytes](20 << 30),
	}, {Sessions: 1, Devices: 1, Held: time.Minute}}
	gaps := make([]store.Value, 4)
	gaps[1], gaps[2] = value, value
	grid := history.Grid{From: from, To: to, Step: 2 * time.Hour, Tier: store.Quarter}
	story := history.Story{
		From: from, To: to, Sentence: "Between 02:10 and 05:40, train.py of mchen ran on GPU 0 at 96 %, then it cooled for 4 min.",
		Chapters: []history.Chapter{{
			Key: d.Key(), From: s.From, To: s.To, Kind: string(explain.Work), Who: "train.py of mchen", Utilization: gpu.Of[gpu.Percent](96),
			Cooled: 4 * time.Minute,
		}},
		Names: history.Names(devices),
		Causes: []store.Cause{
			{Key: d.Key(), ID: "work:GPU-3a", From: s.From, To: s.To, Kind: "work", Sentence: "GPU 0 works.", Confidence: 0.95},
			{Key: store.Key{Node: d.Node}, ID: "no_fans", From: from, To: to, Open: true, Kind: "no_fans", Sentence: "No fan can be read.", Confidence: 0.95},
		},
	}
	span := contract.NewPastSpan(from, to, history.Kinds(devices, store.Query{From: from, To: to}))
	row := store.Row{Key: d.Key(), Tier: store.Minute, Time: from, Readings: 12, State: gpu.StateOK, Values: make([]store.Value, len(store.DeviceColumns))}
	row.Values[power] = value
	single := row
	single.Tier, single.Readings, single.Values = store.Raw, 1, slices.Clone(row.Values)
	single.Values[power] = store.Value{Least: 9000, Mean: 9000, Most: 9000, Count: 1, Doubtful: true}
	columns := []int{power, power + 1}
	readings := []contract.PastReading{
		contract.NewPastReading(&row, &d, store.DeviceColumns, columns, true), contract.NewPastReading(&single, &d, store.DeviceColumns, columns, false),
	}
	footprint := history.Footprint{At: to, Bytes: 4 << 20, Full: 331 << 20, How: "Computed for 9 GPUs and machines with a reading each 5s.", Kinds: []history.Kept{
		{TableSize: store.TableSize{Name: "raw", Rows: 12345, Bytes: 1851750, Oldest: from, Newest: to}, For: 48 * time.Hour, FullRows: 311040, FullBytes: 46656000},
		{TableSize: store.TableSize{Name: "events"}},
	}}
	golden(t, "past", pastAnswers{
		History: contract.NewHistory(span, grid, store.DeviceColumns[power:power+1], devices, []history.Series{{Key: d.Key(), Values: [][]store.Value{gaps}}}),
		Sessions: contract.PastSessions{PastSpan: span, Sessions: []contract.PastSession{
			contract.NewPastSession(&s, &d), contract.NewPastSession(&bare, &d),
		}},
		Usage:    contract.NewPastUsage(span, history.ByUser, 0.3, devices, usage),
		ByGPU:    contract.NewPastUsage(span, history.ByGPU, 0, devices, []history.Usage{{Key: d.Key(), Name: "workstation/GPU-3a", Sessions: 3, Devices: 1}}),
		Why:      contract.NewPastWhy(span, &story, story.Causes, 0, devices),
		Readings: contract.PastReadings{PastSpan: span, Tier: "1m", Readings: readings},
		Causes:   contract.PastCauses{PastSpan: span, Causes: contract.NewPastWhy(span, &story, story.Causes, 0, devices).Causes},
		Size:     contract.NewPastSize(&footprint),
		At:       contract.NewPastMoment(from, insight.Of(fixture.Empty())),
		Forecast: forecasts(),
		Events: contract.PastEvents{PastSpan: span, Events: []contract.PastEvent{
			contract.NewPastEvent(&store.Event{
				ID: "xid-1", Key: d.Key(), Time: to.Add(-time.Hour), Kind: "xid", Severity: "warning", Text: "GPU 0 had XID 31: a program used a wrong memory address.",
			}, devices),
			contract.NewPastEvent(&store.Event{ID: "started-1", Key: store.Key{Node: d.Node}, Time: from, Kind: "started", Text: "gpuwhy started."}, devices),
		}},
	})
	for i, spans := range []bool{true, false} {
		got, names := readings[i].CSV(store.DeviceColumns, columns, spans), contract.ReadingColumns(store.DeviceColumns, columns, spans)
		if len(got) != len(names) || got[10] == "" || got[len(got)-1] != "" || (got[9] == "power_draw") == spans {
			t.Errorf("as CSV: %q of %q", got, names)
		}
	}
	if got := contract.NewPastCause(&story.Causes[1], devices).CSV(); len(got) != len(contract.CauseColumns) || got[5] != "" {
		t.Errorf("as CSV: %q", got)
	}
	if got := contract.NewPastSession(&bare, &d).CSV(); len(got) != len(contract.SessionColumns) || got[18] != "" {
		t.Errorf("as CSV: %q", got)
	}
	if got := contract.NewPastUsage(span, history.ByUser, 0, devices, usage).Rows[0].CSV([]gpu.Kind{gpu.Live, gpu.Simulated}); len(got) != len(contract.UsageColumns) || got[13] != "live simulated" {
		t.Errorf("as CSV: %q", got)
	}
}
