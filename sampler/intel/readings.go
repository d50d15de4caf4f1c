package intel

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// readLimits lists the card's files, and reads what hardly changes.
func (c *card) readLimits() {
	r := &c.readings
	c.parts = gts(&c.Card, c.integrated)
	h, err := c.Hwmon(c.Driver)
	if err != nil {
		h = nil // an integrated GPU has none, nor does a card on an old kernel
	}
	c.sensors = newSensors(h)
	c.domain = drm.Folder{}
	if c.integrated {
		c.domain = graphicsDomain(c.cfg.SysfsRoot)
	}
	r.Clocks = clocks(c.parts)
	r.Shared.Unified = gpu.Of(c.integrated)
	if !c.integrated {
		r.Memory.Total = c.memoryTotal()
		r.Memory.BAR1Total = c.window()
		r.Clocks.MaxMemory = c.memoryClock()
	}
	r.Power.DefaultLimit = c.sensors.ratedLimit()
	r.Thermal.Shutdown = c.sensors.temperatureLimit(c.sensors.chip, "emergency")
	r.Thermal.Slowdown = c.sensors.temperatureLimit(c.sensors.chip, "crit")
	r.Thermal.MemoryMax = c.sensors.temperatureLimit(c.sensors.memory, "crit")
}

// readState reads what changes now and then.
func (c *card) readState() {
	r := &c.readings
	if !c.integrated {
		r.PCIe = c.Link()
	}
	r.Power.EnforcedLimit = c.sensors.limit()
	r.Modes.DisplayActive = c.displayActive()
}

func (c *card) readLive(now time.Time) {
	r := &c.readings
	live := clocks(c.parts)
	r.Clocks.Graphics = fast(live.Graphics, r.Clocks.MaxGraphics)
	r.Clocks.SM, r.Clocks.Video = r.Clocks.Graphics, fast(live.Video, r.Clocks.MaxVideo)
	r.Clocks.EventReasons = throttled(c.parts)

	r.Thermal.GPU = c.sensors.temperature(c.sensors.chip)
	r.Thermal.Memory = c.sensors.temperature(c.sensors.memory)
	r.Fans = c.fans()
	if c.integrated {
		energy, wrap := domainJoules(c.domain)
		c.hidesPower.Store(energy.Quality() == gpu.NotPermitted)
		r.Power.Draw = plausible(c.draw.measure(energy, wrap, now), gpu.Of(integratedPower))
	} else {
		r.Power.Energy = c.sensors.joules()
		limit := r.Power.EnforcedLimit
		if !limit.Present() {
			limit = gpu.Of(cardPower)
		}
		r.Power.Draw = plausible(c.draw.measure(r.Power.Energy, 0, now), limit)
		if c.sensors.lessThanChip(r.Power.Energy, &c.growth, now) {
			r.Power.Energy = gpu.DoubtfulOf(r.Power.Energy.Or(0))
			if w, ok := r.Power.Draw.Get(); ok {
				r.Power.Draw = gpu.DoubtfulOf(w)
			}
		}
	}
	c.readUse(now)
}

// fans returns the speeds that the card's tachometers count. The drivers don't report a fan's commanded speed. A card without such files
// may have a fan that an older kernel does not show, or be cooled by the chassis: its number of fans is not known.
func (c *card) fans() gpu.Fans {
	if c.integrated {
		return gpu.Fans{Count: gpu.Of(0), Combined: gpu.Of(false)}
	}
	if len(c.sensors.fans) == 0 {
		return gpu.Fans{Count: gpu.Absent[int](gpu.NotSupported), Combined: gpu.Absent[bool](gpu.NotSupported)}
	}
	f := gpu.Fans{Count: gpu.Of(len(c.sensors.fans)), Combined: gpu.Of(false)}
	for _, name := range c.sensors.fans {
		fan := gpu.Fan{RPM: c.sensors.RPM(name)}
		if c.last.IsZero() && fan.RPM.Present() {
			fan.RPM = gpu.Reading[gpu.RPM]{} // an average since anybody last read it
		}
		fan.Commanded, fan.Target = gpu.Absent[gpu.Percent](gpu.NotSupported), gpu.Absent[gpu.Percent](gpu.NotSupported)
		fan.Policy = gpu.Absent[string](gpu.NotSupported)
		f.Fans = append(f.Fans, fan)
	}
	return f
}

// memoryTotal returns the size of the card's own memory, from a file or else from the driver's answer.
func (c *card) memoryTotal() gpu.Reading[gpu.Bytes] {
	total := c.memoryFile()
	if total.Quality() == gpu.NotSupported && c.cfg.DevicesRoot != "" {
		if !c.memory.Present() {
			c.memory = askMemory(c.cfg.DevicesRoot, c.Driver, c.Nodes)
		}
		total = c.memory
	}
	return total
}

// memoryFile returns the size of the card's own memory if the driver has a file for it: xe for each tile, and Intel's own builds of i915.
func (c *card) memoryFile() gpu.Reading[gpu.Bytes] {
	if total := c.DRM().Size("lmem_total_bytes"); total.Quality() != gpu.NotSupported {
		return total
	}
	sum := gpu.Absent[gpu.Bytes](gpu.NotSupported)
	for _, tile := range folders(c.Device, tileFolder) {
		v := tile.Size("physical_vram_size_bytes")
		if v.Quality() == gpu.NotSupported {
			v = tile.Size("memory/physical_vram_size_bytes")
		}
		if !v.Present() {
			return gpu.Absent[gpu.Bytes](v.Quality())
		}
		sum = drm.Of(float64(sum.Or(0)+v.Or(0)), nil, 1, 0, drm.MostMemory)
	}
	return sum
}

// memoryClock returns the highest memory clock, which xe reports for Ponte Vecchio.
func (c *card) memoryClock() gpu.Reading[gpu.Megahertz] {
	highest := gpu.Absent[gpu.Megahertz](gpu.NotSupported)
	for _, tile := range folders(c.Device, tileFolder) {
		if v := tile.Megahertz("memory/freq0/max_freq"); !highest.Present() || v.Or(0) > highest.Or(0) {
			highest = v
		}
	}
	return highest
}

// window returns the size of BAR 2, through which the processor accesses the card's memory: 256 MiB if the machine does not allow more.
func (c *card) window() gpu.Reading[gpu.Bytes] {
	const bar = 2
	text, err := c.Device.Bytes("resource")
	if err != nil {
		return gpu.Absent[gpu.Bytes](drm.Quality(err))
	}
	return windowSize(string(text), bar)
}

// windowSize parses one line of a PCI device's resources: its first address, its last and flags, all hexadecimal.
func windowSize(resources string, bar int) gpu.Reading[gpu.Bytes] {
	lines := strings.Split(resources, "\n")
	if bar >= len(lines) {
		return gpu.Reading[gpu.Bytes]{}
	}
	fields := strings.Fields(lines[bar])
	if len(fields) != 3 {
		return gpu.Reading[gpu.Bytes]{}
	}
	first, err := strconv.ParseUint(fields[0], 0, 64)
	last, err2 := strconv.ParseUint(fields[1], 0, 64)
	switch {
	case err != nil || err2 != nil || last < first:
		return gpu.Reading[gpu.Bytes]{}
	case last == 0:
		return gpu.Absent[gpu.Bytes](gpu.NotSupported)
	}
	return drm.Of(float64(last-first)+1, nil, 1, 0, drm.MostMemory)
}

var output = regexp.MustCompile(`^card[0-9]{1,6}-`)

// displayActive reports whether one of the card's outputs shows a picture. The kernel has the content of these files in memory: reading
// them asks no display.
func (c *card) displayActive() gpu.Reading[bool] {
	entries, err := os.ReadDir(c.DRM().Path)
	if err != nil {
		return gpu.Absent[bool](drm.Quality(err))
	}
	for _, e := range entries {
		if !output.MatchString(e.Name()) {
			continue
		}
		f := c.DRM().In(e.Name())
		enabled, err := f.Text("enabled")
		power, err2 := f.Text("dpms")
		if err == nil && err2 == nil && enabled == "enabled" && power == "On" {
			return gpu.Of(true)
		}
	}
	return gpu.Of(false)
}
