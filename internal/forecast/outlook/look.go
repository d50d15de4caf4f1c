package outlook

import (
	"context"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// How much of the past forecasts are made of.
const (
	memoryPast = 24 * time.Hour
	// The newest part of it is read in steps of a reading, or of memoryStep, where memory fills fast.
	memoryRecent = 30 * time.Minute
	memoryStep   = 2 * time.Second
	heatPast     = 4 * time.Hour
	heatPoints   = 3000 // at most
	// heatRecent is what tells whether a device gets hotter at all: most do not, and the rest need not be read.
	heatRecent  = 10 * time.Minute
	hoursPast   = 26 * 7 * 24 * time.Hour
	hoursAtOnce = 28 * 24 * time.Hour
	quarter     = 15 * time.Minute
)

const mib = 1 << 20

var (
	memoryUsed  = store.DeviceColumns.Find("memory_used")
	memoryShare = store.DeviceColumns.Find("memory_share")
	temperature = store.DeviceColumns.Find("thermal_gpu")
	powerDraw   = store.DeviceColumns.Find("power_draw")
	utilization = store.DeviceColumns.Find("utilization_gpu")
)

// notMade is a forecast that could not be tried.
func notMade(kind method.Kind, now time.Time, why method.Why) method.Forecast {
	return method.Forecast{Kind: kind, At: now, Why: why}
}

// look makes all forecasts of a device. What the store can't tell is not shown, and the error says why.
func (f *Forecaster) look(ctx context.Context, p insight.Part) (*Outlook, error) {
	now, d := p.Snapshot.Time, p.Device
	o := &Outlook{Key: store.Key{Node: p.Snapshot.Node, UUID: d.UUID}, At: now, Zone: f.cfg.Zone}
	o.Quiet, o.cooling = f.quiet(p)
	var failed error
	try := func(out *method.Forecast, kind method.Kind, how func() (method.Forecast, error)) {
		made, err := how()
		if err != nil {
			made, failed = notMade(kind, now, NotRead), err
		}
		*out = made
	}
	try(&o.MemoryFull, method.KindMemoryFull, func() (method.Forecast, error) { return f.memoryFull(ctx, o.Key, now, d) })
	try(&o.LimitReached, method.KindLimitReached, func() (method.Forecast, error) { return f.limitReached(ctx, o, d) })
	h := f.hourly[o.Key]
	if hour := hourOf(now, f.cfg.Zone); h == nil || !h.hour.Equal(hour) {
		made, err := f.byHour(ctx, o.Key, hour)
		if err != nil {
			failed = err
		} else {
			h, f.hourly[o.Key] = made, made
		}
	}
	if h == nil {
		h = &hourly{energy: notMade(method.KindEnergy, now, NotRead), free: method.Usual{Forecast: notMade(method.KindUsuallyFree, now, NotRead)}}
	}
	o.Energy, o.Free = h.energy, h.free
	o.Cost = notMade(method.KindCost, now, NoPrice)
	if f.cfg.Price > 0 {
		o.Cost = h.energy.Cost(f.cfg.Price)
	}
	return o, failed
}

// points are a column of a device over a time, as means of steps. A step is told of by its middle.
func (f *Forecaster) points(ctx context.Context, k store.Key, from, to time.Time, step time.Duration, column int) ([]method.Point, error) {
	g, err := f.cfg.Past.Grid(from, to, step)
	if err != nil {
		return nil, err
	}
	all, err := f.cfg.Past.History(ctx, g, []store.Key{k}, false, []int{column})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var out []method.Point
	for i, v := range all[0].Values[0] {
		if v.Count > 0 {
			out = append(out, method.Point{Time: earlier(g.Time(i).Add(g.Step/2), to), Value: v.Mean})
		}
	}
	return out, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (f *Forecaster) memoryFull(ctx context.Context, k store.Key, now time.Time, d *gpu.Device) (method.Forecast, error) {
	full, known := fullMemory(d)
	if !known {
		return notMade(method.KindMemoryFull, now, NoMemory), nil
	}
	points, err := f.memoryPoints(ctx, k, now)
	if err != nil {
		return method.Forecast{}, err
	}
	for i := range points {
		points[i].Value /= mib
	}
	return method.MemoryFull(method.Series{Points: points, Gap: 3 * time.Minute}, full/mib), nil
}

// memoryPoints are the minutes of a day. Where memory fills fast, the readings take the place of the last half hour's minutes.
func (f *Forecaster) memoryPoints(ctx context.Context, k store.Key, now time.Time) ([]method.Point, error) {
	points, err := f.points(ctx, k, now.Add(-memoryPast), now, time.Minute, memoryUsed)
	step := max(f.cfg.Interval.Truncate(time.Second), memoryStep)
	if err != nil || step >= time.Minute || !f.fillsFast(k, now) {
		return points, err
	}
	recent, err := f.points(ctx, k, now.Add(-memoryRecent).Truncate(time.Minute), now, step, memoryUsed)
	if err != nil || len(recent) == 0 {
		return points, err
	}
	begin := recent[0].Time
	points = slices.DeleteFunc(points, func(p method.Point) bool { return !p.Time.Before(begin) })
	return append(points, recent...), nil
}

// fullMemory returns how many bytes programs can use: used and free memory, without the driver's own.
func fullMemory(d *gpu.Device) (bytes float64, known bool) {
	if d.Shared.Unified.Or(false) {
		return 0, false // it ends where the machine's does
	}
	used, ok := d.Memory.Used.Trusted()
	total, known := d.Memory.Total.Trusted()
	if !ok || !known || total == 0 {
		return 0, false
	}
	if free, ok := d.Memory.Free.Trusted(); ok && used+free < total {
		return float64(used + free), true
	}
	return float64(total), true
}

// slowdown is the temperature at which a device slows itself down.
func slowdown(d *gpu.Device) gpu.Reading[gpu.Celsius] {
	if limit, ok := d.Thermal.Slowdown.Trusted(); ok {
		return gpu.Of(limit)
	}
	now, ok := d.Thermal.GPU.Trusted()
	margin, known := d.Thermal.Margin.Trusted()
	if !ok || !known {
		return gpu.Reading[gpu.Celsius]{}
	}
	return gpu.Of(now + margin)
}

func (f *Forecaster) limitReached(ctx context.Context, o *Outlook, d *gpu.Device) (method.Forecast, error) {
	o.Limit = slowdown(d)
	limit, known := o.Limit.Get()
	if !known {
		return notMade(method.KindLimitReached, o.At, NoLimit), nil
	}
	step := max(f.cfg.Interval.Truncate(time.Second), time.Second)
	var made method.Forecast
	for _, span := range []time.Duration{heatRecent, min(heatPast, heatPoints*step)} {
		points, err := f.points(ctx, o.Key, o.At.Add(-span), o.At, step, temperature)
		if err != nil {
			return made, err
		}
		made = method.LimitReached(method.Series{Points: points, Gap: max(3*step, 15*time.Second)}, float64(limit))
		if made.Why == method.NoGrowth || made.Why == method.Reached {
			break
		}
	}
	return made, nil
}

// hourly has the forecasts made from hours, which change once an hour.
type hourly struct {
	hour   time.Time
	energy method.Forecast
	free   method.Usual
}

// hourOf is when the hour began that a time is in, by the clock on the wall.
func hourOf(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	shift := time.Duration(offset) * time.Second
	return t.Add(shift).Truncate(time.Hour).Add(-shift)
}

// byHour makes the forecasts that need weeks of hours. Of an hour, three quarters must be known.
func (f *Forecaster) byHour(ctx context.Context, k store.Key, now time.Time) (*hourly, error) {
	var used, free method.Series
	for begin := now.Add(-hoursPast); begin.Before(now); begin = begin.Add(hoursAtOnce) {
		g, err := f.cfg.Past.Grid(begin, earlier(begin.Add(hoursAtOnce), now), quarter)
		if err != nil {
			return nil, err
		}
		all, err := f.cfg.Past.History(ctx, g, []store.Key{k}, false, []int{powerDraw, utilization, memoryShare})
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			continue
		}
		addHours(&used, &free, g, all[0].Values)
	}
	zone := f.cfg.Zone
	y, m, _ := now.In(zone).Date()
	month := func(m time.Month) time.Time { return time.Date(y, m, 1, 0, 0, 0, 0, zone) }
	return &hourly{now, method.Energy(used, month(m), month(m+1)), method.UsuallyFree(free, zone)}, nil
}

// most is the part of the memory of which less is used while a device is free.
const most = 50 // %

// addHours makes whole hours of the quarters of power, utilization and memory.
func addHours(used, free *method.Series, g history.Grid, columns [][]store.Value) {
	const inHour, least = 4, 3
	for i := 0; i+inHour <= g.Len(); i += inHour {
		var watts, idle float64
		var read, looked int
		for j := i; j < i+inHour; j++ {
			if v := columns[0][j]; v.Count > 0 {
				watts += v.Mean
				read++
			}
			work, held := columns[1][j], columns[2][j]
			if work.Count == 0 {
				continue
			}
			looked++
			if work.Mean < gpu.BusyFrom && (held.Count == 0 || held.Mean < most) {
				idle++
			}
		}
		if read >= least {
			used.Points = append(used.Points, method.Point{Time: g.Time(i), Value: watts / float64(read) / 1000})
		}
		if looked >= least {
			free.Points = append(free.Points, method.Point{Time: g.Time(i), Value: idle / float64(looked)})
		}
	}
}
