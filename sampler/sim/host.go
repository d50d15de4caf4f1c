package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// nodeHost returns a node of a fleet: built like all others, and used in its own way.
func nodeHost(h host, number int) host {
	h.Hostname = fmt.Sprintf("%s-%03d", h.Hostname, number)
	seed := seedOf(h.Hostname)
	part := func(which uint64) float64 { return 0.55 + 0.4*signed(mix(seed, which)) }
	h.Disks, h.Networks = slices.Clone(h.Disks), slices.Clone(h.Networks)
	h.Busy *= part(1)
	system, scratch := &h.Disks[0], &h.Disks[1]
	system.Used, system.Write = scaled(system.Used, part(2)), scaled(system.Write, part(3))
	scratch.Used, scratch.Read = scaled(scratch.Used, part(4)), scaled(scratch.Read, part(5))
	scratch.Write = scaled(scratch.Write, part(6))
	for i := range h.Networks {
		n, which := &h.Networks[i], uint64(2*i)
		n.Received, n.Sent = scaled(n.Received, part(7+which)), scaled(n.Sent, part(8+which))
	}
	return h
}

func scaled[T ~float64 | ~uint64](r gpu.Reading[T], factor float64) gpu.Reading[T] {
	return gpu.Map(r, func(v T) T { return T(float64(v) * factor) })
}

// readHost reads the machine; moments and devices are those of the same reading.
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
	busy := s.busyCores(now, moments)
	h.CPU = percent(tenth(100 * busy[0] / float64(h.Cores.Or(0))))
	h.Load1 = average(busy[:5]...)
	h.Load5 = average(busy[0], busy[5], busy[6], busy[7], busy[8])
	h.Load15 = average(busy[0], busy[7], busy[9], busy[10], busy[11])
	h.Self = gpu.Self{CPU: percent(tenth(0.4 + 0.002*float64(cards))), RSS: gpu.Of(gpu.Bytes(24*mib + cards*16<<10))}
	part, seconds := flow(up)
	h.Disks, h.Networks = slices.Clone(h.Disks), slices.Clone(h.Networks)
	for i := range h.Disks {
		d := &h.Disks[i]
		d.Read, d.Write = rate(d.Read, part), rate(d.Write, part)
	}
	for i := range h.Networks {
		n := &h.Networks[i]
		n.ReceivedTotal, n.SentTotal = total(n.Received, seconds), total(n.Sent, seconds)
		n.Received, n.Sent = rate(n.Received, part), rate(n.Sent, part)
	}
	return &h
}

// looks are the seconds before a reading from which the load averages are computed.
var looks = [...]int{0, 12, 24, 36, 48, 60, 120, 180, 240, 360, 540, 720}

// busyCores returns the number of busy cores at each of the looks.
func (s *Source) busyCores(now time.Time, moments []moment) (busy [len(looks)]float64) {
	for k, ago := range looks {
		_, second := floorDiv(now.Unix()-int64(ago), cycleSeconds)
		busy[k] = s.host.Busy * (1 + 0.4*wobble(s.seed, int(second)))
	}
	for i, d := range s.devices {
		m := moments[i]
		end := int(m.second)
		for k, ago := range looks {
			if end < ago { // in the previous cycle
				m = d.moment(m.begin.Add(-1))
				end += cycleSeconds
			}
			busy[k] += float64(m.tape.cores[end-ago])
		}
	}
	for k := range busy {
		busy[k] = min(busy[k], float64(s.host.Cores.Or(0)))
	}
	return busy
}

func average(looks ...float64) gpu.Reading[float64] {
	var sum float64
	for _, busy := range looks {
		sum += busy
	}
	return gpu.Of(math.Round(sum/float64(len(looks))*100) / 100)
}

// Traffic varies around its average; the total is the integral of the rate.
const (
	swing  = 0.35
	period = 340 // seconds
)

// flow returns the current rate of any traffic as a part of its average, and in how many seconds the average rate would have given the
// total.
func flow(up time.Duration) (part, seconds float64) {
	t := up.Seconds()
	angle := 2 * math.Pi * t / period
	return 1 + swing*math.Sin(angle), t + swing*period/(2*math.Pi)*(1-math.Cos(angle))
}

func rate(mean gpu.Reading[gpu.BytesPerSecond], part float64) gpu.Reading[gpu.BytesPerSecond] {
	return gpu.Of(gpu.BytesPerSecond(math.Round(float64(mean.Or(0)) * part)))
}

func total(mean gpu.Reading[gpu.BytesPerSecond], seconds float64) gpu.Reading[gpu.Bytes] {
	return gpu.Of(gpu.Bytes(float64(mean.Or(0)) * seconds))
}

func tenth(v float64) float64 { return math.Round(v*10) / 10 }
