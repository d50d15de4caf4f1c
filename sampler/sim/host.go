package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// nodeHost is a node of a fleet: built like all, and used in its own way.
func nodeHost(h host, number int) host {
	h.Hostname = fmt.Sprintf("%s-%03d", h.Hostname, number)
	seed := seedOf(h.Hostname)
	part := func(which uint64) float64 { return 0.55 + 0.4*signed(mix(seed, which)) }
	h.Disks, h.Networks = slices.Clone(h.Disks), slices.Clone(h.Networks)
	h.Busy *= part(1)
	system, scratch := &h.Disks[0], &h.Disks[1]
	system.Used, system.Write = scaled(system.Used, part(2)), scaled(system.Write, part(3))
	scratch.Used, scratch.Read, scratch.Write = scaled(scratch.Used, part(4)), scaled(scratch.Read, part(5)), scaled(scratch.Write, part(6))
	for i := range h.Networks {
		n, which := &h.Networks[i], uint64(2*i)
		n.Received, n.Sent = scaled(n.Received, part(7+which)), scaled(n.Sent, part(8+which))
	}
	return h
}

func scaled[T ~float64 | ~uint64](r gpu.Reading[T], by float64) gpu.Reading[T] {
	return gpu.Map(r, func(v T) T { return T(float64(v) * by) })
}

// readHost reads the machine with the devices that were read at those moments.
func (s *Source) readHost(now time.Time, moments []moment, devices []gpu.Device) *gpu.Host {
	h, cards := s.host.Host, len(s.devices)
	up := max(0, now.Sub(s.booted))
	used := h.MemoryUsed.Or(0)
	for i := range devices {
		for _, p := range devices[i].Processes.Or(nil) {
			used += p.Facts.RSS.Or(0)
		}
	}
	h.MemoryUsed, h.MemoryAvailable = gpu.Of(used), gpu.Of(h.MemoryTotal.Or(0)-used)
	h.SwapUsed = gpu.Map(h.SwapTotal, func(v gpu.Bytes) gpu.Bytes { return v / 64 })
	h.Uptime = gpu.Of(up.Truncate(time.Second))
	h.CPU = percent(tenth(100 * s.busyCores(now, moments, 0) / float64(h.Cores.Or(0))))
	h.Load1, h.Load5, h.Load15 = s.load(now, moments, 1), s.load(now, moments, 5), s.load(now, moments, 15)
	h.Self = gpu.Self{CPU: percent(tenth(0.4 + 0.002*float64(cards))), RSS: gpu.Of(gpu.Bytes(24*mib + cards*16<<10))}
	h.Disks, h.Networks = slices.Clone(h.Disks), slices.Clone(h.Networks)
	for i := range h.Disks {
		d := &h.Disks[i]
		d.Read, d.Write = flow(d.Read, up), flow(d.Write, up)
	}
	for i := range h.Networks {
		n := &h.Networks[i]
		n.ReceivedTotal, n.SentTotal = flowed(n.Received, up), flowed(n.Sent, up)
		n.Received, n.Sent = flow(n.Received, up), flow(n.Sent, up)
	}
	return &h
}

// busyCores is the number of cores with work, so many seconds before the moments of now.
func (s *Source) busyCores(now time.Time, moments []moment, ago int) float64 {
	_, second := floorDiv(now.Unix()-int64(ago), cycleSeconds)
	busy := s.host.Busy * (1 + 0.4*wobble(s.seed, int(second)))
	for i, d := range s.devices {
		job, second := moments[i].job, moments[i].second-float64(ago)
		if second < 0 {
			job, second = d.moment(moments[i].begin.Add(-1)).job, second+cycleSeconds
		}
		busy += float64(d.tapes[job].cores[int(second)])
	}
	return min(busy, float64(s.host.Cores.Or(0)))
}

// load is the average number of busy cores over so many minutes, from a few samples.
func (s *Source) load(now time.Time, moments []moment, minutes int) gpu.Reading[float64] {
	const looks = 5
	var sum float64
	for i := range looks {
		sum += s.busyCores(now, moments, minutes*60*i/looks)
	}
	return gpu.Of(math.Round(sum/looks*100) / 100)
}

// Traffic swings around its mean; the total is the integral of the rate.
const (
	swing  = 0.35
	period = 340 // seconds
)

func flow(mean gpu.Reading[gpu.BytesPerSecond], up time.Duration) gpu.Reading[gpu.BytesPerSecond] {
	return gpu.Of(gpu.BytesPerSecond(math.Round(float64(mean.Or(0)) * (1 + swing*math.Sin(2*math.Pi*up.Seconds()/period)))))
}

func flowed(mean gpu.Reading[gpu.BytesPerSecond], up time.Duration) gpu.Reading[gpu.Bytes] {
	t := up.Seconds()
	return gpu.Of(gpu.Bytes(float64(mean.Or(0)) * (t + swing*period/(2*math.Pi)*(1-math.Cos(2*math.Pi*t/period)))))
}

func tenth(v float64) float64 { return math.Round(v*10) / 10 }
