package intel

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// A gt is a part of a GPU with its own clocks and idle state: all of a small GPU, a tile of a large one, or the media engines of a newer
// one.
type gt struct {
	media    bool
	clock    file // now, in MHz; 0 while the gt is idle
	maxClock file
	idle     file // time in the idle state, in ms
	throttle throttle
}

// A file is a file in a folder.
type file struct {
	drm.Folder
	name string
}

func (f file) megahertz() gpu.Reading[gpu.Megahertz] { return f.Megahertz(f.name) }

var (
	tileFolder = regexp.MustCompile(`^tile[0-9]{1,2}$`)
	gtFolder   = regexp.MustCompile(`^gt[0-9]{1,2}$`)
)

// gts lists the parts of a card.
func gts(c *drm.Card, integrated bool) []gt {
	if c.Driver == driverXe {
		return xeGTs(c)
	}
	return i915GTs(c, integrated)
}

// xeGTs returns the device's folders tile0/gt0 and so on.
func xeGTs(c *drm.Card) (all []gt) {
	for _, tile := range folders(c.Device, tileFolder) {
		for _, f := range folders(tile, gtFolder) {
			name, _ := f.Text("gtidle/name") // "gt1-mc"; without a name it is not a media gt
			freq := f.In("freq0")
			all = append(all, gt{
				media:    strings.HasSuffix(name, "-mc"),
				clock:    file{freq, "act_freq"},
				maxClock: file{freq, "rp0_freq"},
				idle:     file{f, "gtidle/idle_residency_ms"},
				throttle: throttle{freq.In("throttle"), "status", "reason_"},
			})
		}
	}
	return all
}

// i915GTs returns the folders gt/gt0 and so on of the card's node. Kernels before 5.19 have the files of the only gt in the node's folder.
func i915GTs(c *drm.Card, integrated bool) (all []gt) {
	for i, f := range folders(c.DRM().In("gt"), gtFolder) {
		all = append(all, gt{
			media:    integrated && i > 0, // as in Meteor Lake; in a card it is a tile
			clock:    file{f, "rps_act_freq_mhz"},
			maxClock: file{f, "rps_RP0_freq_mhz"},
			idle:     file{f, "rc6_residency_ms"},
			throttle: throttle{f, "throttle_reason_status", "throttle_reason_"},
		})
	}
	if len(all) == 0 {
		f := c.DRM()
		all = []gt{{
			clock:    file{f, "gt_act_freq_mhz"},
			maxClock: file{f, "gt_RP0_freq_mhz"},
			idle:     file{f, "power/rc6_residency_ms"},
		}}
	}
	return all
}

// folders returns the subfolders whose names match, by their numbers.
func folders(in drm.Folder, name *regexp.Regexp) (all []drm.Folder) {
	entries, _ := os.ReadDir(in.Path) // on an error there are none
	for _, e := range entries {
		if name.MatchString(e.Name()) {
			all = append(all, in.In(e.Name()))
		}
	}
	slices.SortFunc(all, func(a, b drm.Folder) int {
		return cmp.Or(cmp.Compare(len(a.Path), len(b.Path)), cmp.Compare(a.Path, b.Path))
	})
	return all
}

// clocks returns the highest clocks of the parts. All engines of a gt except media run at its clock.
func clocks(all []gt) gpu.Clocks {
	highest := func(media bool, clock func(*gt) file) gpu.Reading[gpu.Megahertz] {
		r := gpu.Absent[gpu.Megahertz](gpu.NotSupported)
		for i := range all {
			if all[i].media != media {
				continue
			}
			v := clock(&all[i]).megahertz()
			if !r.Present() || v.Present() && v.Or(0) > r.Or(0) {
				r = v
			}
		}
		return r
	}
	now := func(g *gt) file { return g.clock }
	most := func(g *gt) file { return g.maxClock }
	var c gpu.Clocks
	gpu.Withdraw(&c, gpu.NotSupported)
	c.Graphics, c.Video = highest(false, now), highest(true, now)
	c.MaxGraphics, c.MaxVideo = highest(false, most), highest(true, most)
	c.SM, c.MaxSM = c.Graphics, c.MaxGraphics
	return c
}

// fast marks a clock far above the highest as doubtful.
func fast(clock, most gpu.Reading[gpu.Megahertz]) gpu.Reading[gpu.Megahertz] {
	const far = 2
	if v, ok := clock.Trusted(); ok && most.Or(0) > 0 && v > far*most.Or(0) {
		return gpu.DoubtfulOf(v)
	}
	return clock
}

// A throttle has the files that say what holds the clocks of a gt down: each contains 0 or 1.
type throttle struct {
	folder drm.Folder // without a path there are none
	status string     // the file that says whether anything does
	reason string     // prefix of the other files' names
}

// throttleReasons are the kernel's names. PL1, PL2 and PL4 are power limits: over seconds, over milliseconds, and instantaneous. PSYS is
// the power of the whole machine, RATL the limit of an average temperature. PROCHOT is a signal from outside, for heat or for power. VR is
// the voltage regulator, and TDC its current limit. P0 is the highest clock, which is not a reason for gpuwhy.
var throttleReasons = map[string]gpu.ClockEventReasons{
	"pl1": gpu.ReasonPowerCap, "pl2": gpu.ReasonPowerCap, "pl4": gpu.ReasonPowerCap,
	"psys_pl1": gpu.ReasonPowerCap, "psys_pl2": gpu.ReasonPowerCap,
	"thermal": gpu.ReasonHardwareThermal, "soc_thermal": gpu.ReasonHardwareThermal, "soc_avg_thermal": gpu.ReasonHardwareThermal,
	"mem_thermal": gpu.ReasonHardwareThermal, "ratl": gpu.ReasonHardwareThermal,
	"vr_thermalert": gpu.ReasonHardwareThermal, "vr_thermal": gpu.ReasonHardwareThermal,
	"prochot": gpu.ReasonHardwareSlowdown,
	"vr_tdc":  gpu.ReasonBoardLimit, "iccmax": gpu.ReasonBoardLimit, "fastvmode": gpu.ReasonBoardLimit,
	"psys_crit": gpu.ReasonHardwarePowerBrake,
	"p0_freq":   0,
}

// reasons is empty if nothing holds the clocks down, and NotReported if only unknown reasons do. All reasons at once are doubtful: a GPU
// that has fallen off the bus reads as ones.
func (t throttle) reasons() gpu.Reading[gpu.ClockEventReasons] {
	status, err := t.folder.Number(t.status)
	switch {
	case err != nil:
		return gpu.Absent[gpu.ClockEventReasons](drm.Quality(err))
	case status == 0:
		return gpu.Of(gpu.ClockEventReasons(0))
	}
	const many = 8
	var set gpu.ClockEventReasons
	files, active, unknown := 0, 0, false
	entries, _ := os.ReadDir(t.folder.Path) // on an error there is no reason
	for _, e := range entries {
		name, is := strings.CutPrefix(e.Name(), t.reason)
		if !is || e.Name() == t.status {
			continue
		}
		files++
		if set, err := t.folder.Number(e.Name()); err != nil || set != 1 {
			continue
		}
		active++
		reason, known := throttleReasons[name]
		set, unknown = set|reason, unknown || !known
	}
	switch {
	case active >= many && active == files:
		return gpu.DoubtfulOf(set)
	case set == 0 && unknown:
		return gpu.Reading[gpu.ClockEventReasons]{}
	default:
		return gpu.Of(set)
	}
}

// throttled returns the reasons of all parts. It is NotReported if no part has any and the reasons of one are not known.
func throttled(all []gt) gpu.Reading[gpu.ClockEventReasons] {
	r := gpu.Absent[gpu.ClockEventReasons](gpu.NotSupported)
	var unknown, doubtful bool
	for _, g := range all {
		if g.throttle.status == "" {
			continue
		}
		v := g.throttle.reasons()
		unknown = unknown || v.Quality() == gpu.NotReported
		doubtful = doubtful || v.Quality() == gpu.Doubtful
		switch {
		case !r.Present():
			r = v
		case v.Present():
			r = gpu.Of(r.Or(0) | v.Or(0))
		}
	}
	switch {
	case doubtful:
		return gpu.DoubtfulOf(r.Or(0))
	case unknown && r.Or(0) == 0:
		return gpu.Reading[gpu.ClockEventReasons]{}
	default:
		return r
	}
}

// idling tracks the idle states of a card's parts.
type idling struct {
	before []float64 // ms in the idle state, by part; nil: nothing to compare with
	read   time.Time
}

// busy returns the largest share of time since the previous reading in which a part was not idle. No engine can have worked longer, but a
// part stays awake for a while after each piece of work: this is an upper bound, not a utilization.
func (i *idling) busy(all []gt, now time.Time) (bound gpu.Percent, known bool) {
	idle := make([]float64, len(all))
	for n := range all {
		ms, err := all[n].idle.Number(all[n].idle.name)
		if err != nil {
			*i = idling{}
			return 0, false
		}
		idle[n] = ms
	}
	before, passed := i.before, float64(now.Sub(i.read))/float64(time.Millisecond)
	*i = idling{idle, now}
	if len(all) == 0 || len(before) != len(all) || passed < float64(soonest/time.Millisecond) {
		return 0, false
	}
	const grain = 0.05 // precision of the counter and the clock
	for n := range all {
		share := (idle[n] - before[n]) / passed
		if share < 0 || share > 1+grain { // it restarted, or counts in another unit
			return 0, false
		}
		bound = max(bound, gpu.Percent(100*(1-share)))
	}
	return max(bound, 0), true
}
