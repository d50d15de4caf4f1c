package explain

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A cpuMemory is what is remembered about the processors of a machine without devices.
type cpuMemory struct {
	seen, first time.Time // the newest reading, and the first
	breaks      int
	streak      int       // consecutive readings with work
	last        time.Time // of the last reading with work
	since       time.Time // when the work began; zero: no work
	ended       time.Time // when work last ended; zero: its heat is gone, or there was none
	lasted      time.Duration
	who         gpu.HostProcess // who did most of the work; Count 0: not known
	cool, slow  float64         // °C and RPM, the lowest since work ended
	falling     time.Time       // when one of them last fell
	hot         time.Time       // of the last reading in which the processor slowed down because of heat
	still       time.Time       // since when the CPU's fan stands still; zero: it turns
}

const (
	cpuWorks, oneWorks = 20, 70 // percent of all cores, and of one core if one busy core can be heard
	fewCores           = 8      // up to this many cores, one busy core can be heard
	cpuPause           = 10 * time.Second
	longestGap         = 2 * time.Minute
	longestCPUCooling  = 5 * time.Minute
	warmCPU, veryHot   = 60, 90 // °C
	fastDisk, fastNet  = 200e6, 50e6
)

// A lone is a machine without devices, as read now.
type lone struct {
	s              *gpu.Snapshot
	h              *gpu.Host
	m              *machineMemory
	cpu, temp      float64 // percent of all cores, °C
	watts, cores   float64
	loud, fastest  *gpu.HostFan // nil: none
	fans, turning  int          // number that report a speed
	top            []gpu.HostProcess
	works, cooling bool
}

// alone explains why the fans of a machine without a device run. There is no cause if the machine was not read.
func alone(s *gpu.Snapshot, m *machineMemory) []machineFinding {
	if s.Host == nil {
		return nil
	}
	l := &lone{s: s, h: s.Host, m: m, cpu: believed(s.Host.CPU, 0, 100), temp: cpuTemperature(s.Host), watts: believed(s.Host.CPUPower, 0.5, mostWatts)}
	l.cores = believed(s.Host.Cores, 1, 1<<20)
	l.top = s.Host.Busiest.Or(nil)
	l.loud = m.loudest(s.Host)
	for i := range s.Host.Fans {
		f := &s.Host.Fans[i]
		rpm := believed(f.RPM, 0, mostRPM)
		if !present(rpm) || notLoud().MatchString(f.Name) {
			continue
		}
		l.fans++
		if rpm >= 1 {
			l.turning++
		}
		if l.fastest == nil || rpm > believed(l.fastest.RPM, 0, mostRPM) {
			l.fastest = f
		}
	}
	l.learn()
	m.learn(s.Host)
	var out []machineFinding
	for _, find := range []func(*lone) *machineFinding{stillFan, heatedCPU, cpuWork, cpuCooling, hotSensor, fanForNothing, noFanShown, atRest} {
		c := find(l)
		explained := len(out) > 0 && out[0].Kind != NoFanShown
		if c != nil && (c.Kind != MachineAtRest || !explained) {
			out = append(out, *c)
		}
	}
	return out
}

// cpuTemperature returns the highest temperature of all processors.
func cpuTemperature(h *gpu.Host) float64 {
	cpu := none
	for i := range h.Temperatures {
		if t := &h.Temperatures[i]; aCPU().MatchString(t.Name) {
			cpu = highest(cpu, believed(t.Celsius, coldest, hottest))
		}
	}
	return cpu
}

// busy reports whether the CPU works so much that a fan may follow it. If it already worked, less is enough.
func (l *lone) busy() bool {
	part := 1.0
	if !l.m.cpu.since.IsZero() {
		part = 0.6
	}
	one := len(l.top) > 0 && float64(l.top[0].CPU) >= part*oneWorks && (l.temp >= warmCPU || l.cores <= fewCores)
	return l.cpu >= part*cpuWorks || one
}

// learn takes the reading into the memory.
func (l *lone) learn() {
	now := l.s.Time
	if m := &l.m.cpu; m.seen.IsZero() || m.breaks != l.s.Breaks || now.Sub(m.seen).Abs() > longestGap {
		*m = cpuMemory{first: now, breaks: l.s.Breaks, cool: none, slow: none}
	}
	m := &l.m.cpu
	begins := m.seen.IsZero()
	m.seen = now
	if l.h.CPUThrottled.Or(false) {
		m.hot = now
	}
	l.learnWork(now, begins)
	l.works = !m.since.IsZero()
	rpm := none
	if l.fastest != nil {
		rpm = believed(l.fastest.RPM, 0, mostRPM)
	}
	switch {
	case l.works:
		m.ended, m.cool, m.slow, m.falling = time.Time{}, none, none, now
	case !m.ended.IsZero():
		if l.temp < m.cool-0.5 || rpm < 0.98*m.slow {
			m.falling = now
		}
		m.cool, m.slow = lowest(m.cool, l.temp), lowest(m.slow, rpm)
		warm := l.temp >= 45 || l.fastest != nil && rpm >= 1.15*leastOf(l.m.least, l.fastest.Name)
		l.cooling = m.lasted >= cpuPause && warm && now.Sub(m.falling) <= 45*time.Second && now.Sub(m.ended) <= longestCPUCooling
		if !l.cooling {
			m.ended = time.Time{}
		}
	}
	stands := slices.ContainsFunc(l.h.Fans, func(f gpu.HostFan) bool {
		_, turned := l.m.least[f.Name]
		return turned && strings.HasPrefix(f.Name, "CPU") && believed(f.RPM, 0, 0) == 0
	})
	if !stands || !(l.temp >= 80) {
		m.still = time.Time{}
	} else if m.still.IsZero() {
		m.still = now
	}
}

func (l *lone) learnWork(now time.Time, begins bool) {
	m := &l.m.cpu
	if !l.busy() {
		m.streak = 0
		if !m.since.IsZero() && now.Sub(m.last) >= cpuPause {
			m.ended, m.lasted, m.since = m.last, m.last.Sub(m.since), time.Time{}
		}
		return
	}
	m.streak++
	if m.since.IsZero() && (m.streak > 1 || begins || l.cpu >= 60) {
		m.since = now
		if m.streak > 1 && now.Sub(m.last) <= cpuPause {
			m.since = m.last
		}
		m.who = gpu.HostProcess{}
	}
	m.last = now
	if p := l.most(); p != nil {
		m.who = *p
	}
}

// most returns who does most of the work. Whoever did stays until another process clearly does more.
func (l *lone) most() *gpu.HostProcess {
	if len(l.top) == 0 || !present(l.cpu) || !present(l.cores) {
		return nil
	}
	first := &l.top[0]
	for i := range l.top {
		if p := &l.top[i]; p.PID == l.m.cpu.who.PID && p.CPU >= 0.6*first.CPU {
			first = p
		}
	}
	if float64(first.CPU) < 0.2*l.cpu*l.cores {
		return nil
	}
	return first
}

// asProcess converts a process of the machine, so that it can be named like a device's.
func asProcess(p *gpu.HostProcess) *gpu.Process { return &gpu.Process{PID: p.PID, Facts: p.Facts} }

// hostProcess names a process in a sentence: "cc1 (16 processes, ann)".
func hostProcess(p *gpu.HostProcess) string {
	name := ProcessName(asProcess(p))
	if p.Count < 2 {
		return name
	}
	called, rest, found := strings.Cut(name, " (pid ")
	if _, after, more := strings.Cut(rest, ", "); found && more {
		return called + " (" + Plural(p.Count, "process", "processes") + ", " + after
	}
	return called + " (" + Plural(p.Count, "process", "processes") + ")"
}

// figures are the evidence for the causes of such a machine.
func (l *lone) figures() *finding {
	f := &finding{}
	f.readAt = l.s.Time
	f.figure("CPU", l.cpu, "%").figure("CPU temperature", l.temp, "°C")
	if fan := cmp.Or(l.loud, l.fastest); fan != nil {
		f.figure(textOf(fan.Name), believed(fan.RPM, 0, mostRPM), "RPM")
	}
	return f.figure("CPU power", l.watts, "W")
}

// readings are the same figures in a sentence, without the load: " (84 °C, 120 W; the CPU fan turns at 2100 RPM)".
func (l *lone) readings() string {
	var parts []string
	if present(l.temp) {
		parts = append(parts, withUnit(l.temp, "°C"))
	}
	if present(l.watts) {
		parts = append(parts, withUnit(l.watts, "W"))
	}
	if fan := cmp.Or(l.loud, l.fastest); fan != nil && l.turning > 0 {
		parts = append(parts, "the "+textOf(fan.Name)+" at "+withUnit(believed(fan.RPM, 0, mostRPM), "RPM"))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// say makes a cause of such a machine.
func (l *lone) say(kind Kind, sure Confidence, w machineWording) *machineFinding {
	c := w.cause(kind, "")
	c.Confidence, c.Evidence = sure, l.figures().Evidence
	return &c
}

func stillFan(l *lone) *machineFinding {
	m := &l.m.cpu
	if m.still.IsZero() || l.s.Time.Sub(m.still) < 10*time.Second {
		return nil
	}
	c := l.say(MachineFan, High, cpuFanStillWords(withUnit(l.temp, "°C")))
	c.Since = m.still
	return c
}

// heatedCPU has priority over the work that heats the CPU.
func heatedCPU(l *lone) *machineFinding {
	if m := &l.m.cpu; m.hot.IsZero() || l.s.Time.Sub(m.hot) > 30*time.Second {
		return nil
	}
	who, command := "", ""
	if p := &l.m.cpu.who; l.works && p.Count > 0 {
		who, command = ShortName(asProcess(p)), endOf(p)
	}
	c := l.say(CPUHeat, High, cpuHeatWords(who, l.readings()))
	c.Who, c.command = who, command
	return c
}

func cpuWork(l *lone) *machineFinding {
	m := &l.m.cpu
	if !l.works {
		return nil
	}
	lasts := ""
	if d := l.s.Time.Sub(m.since); d >= 5*time.Second {
		lasts = "for " + Span(d)
	}
	share := ""
	if present(l.cpu) {
		share = " at " + withUnit(l.cpu, "%")
	}
	var c *machineFinding
	switch p, a, readings := &m.who, (manner{"busy" + share, lasts}), l.readings(); {
	case p.Count == 0 && len(l.top) > 1:
		c = l.say(CPUWork, Medium, manyWorkWords(a, readings, hostProcess(&l.top[0])))
	case p.Count == 0:
		c = l.say(CPUWork, Low, somethingWorksWords(a, readings))
	default:
		sure := High
		if !(float64(p.CPU) >= 0.4*l.cpu*l.cores) || l.turning > 0 && l.loud == nil && !(l.temp >= warmCPU) {
			sure = Medium
		}
		c = l.say(CPUWork, sure, processWorksWords(ShortName(asProcess(p)), hostProcess(p), a, readings, l.turning > 0, !staysUp(asProcess(p))))
		c.command, c.Who = endOf(p), ShortName(asProcess(p))
	}
	f := l.figures()
	for i := range firsts(l.top, 4) {
		p := &l.top[i]
		f.figure(hostProcess(p)+", of one core", math.Round(float64(p.CPU)), "%")
	}
	c.Evidence, c.Since = f.Evidence, m.since
	if m.since.Equal(m.first) {
		c.Since = time.Time{} // it was already so when gpuwhy began to watch
	}
	return c
}

// endOf returns the command that ends what uses the CPU; empty if it would end only a part of that.
func endOf(p *gpu.HostProcess) string {
	command := stopping([]*gpu.Process{asProcess(p)}, func(*gpu.Process) float64 { return float64(p.CPU) })
	if p.Count > 1 && strings.HasPrefix(command, "sudo kill ") {
		return ""
	}
	return command
}

func cpuCooling(l *lone) *machineFinding {
	m := &l.m.cpu
	if !l.cooling {
		return nil
	}
	who, process := someWork, someEndedWork
	if m.who.Count > 0 {
		who, process = ShortName(asProcess(&m.who)), hostProcess(&m.who)
	}
	c := l.say(CPUCooling, Medium, cpuCoolingWords(who, process, Span(l.s.Time.Sub(m.ended))+" ago"+l.readings()))
	if present(l.temp) && l.s.Time.Sub(m.falling) <= 15*time.Second {
		c.Confidence = High
	}
	c.Since = m.ended
	return c
}

// hotFrom is the temperature from which a sensor is hot enough for fans to follow it, by the sensor's name.
var hotFrom = []struct {
	name    func() *regexp.Regexp
	celsius float64
}{
	{lazy.Pattern(`(?i)chipset`), 80},
	{lazy.Pattern(`(?i)\bvrm\b|mosfet|voltage`), 95},
	{lazy.Pattern(`(?i)memory|dimm`), 75},
	{lazy.Pattern(`(?i)battery`), 48},
	{lazy.Pattern(`(?i)graphics|\bGPU\b`), 80},
	{lazy.Pattern(`(?i)ambient|inlet|intake`), 38},
	{lazy.Pattern(`(?i)asic|phy|network|\bnic\b`), 90},
}

// hotSensor finds something hot other than the CPU. It leaves out unidentified sensors, which often report impossible values.
func hotSensor(l *lone) *machineFinding {
	var worst *gpu.HostTemperature
	over := none
	for i := range l.h.Temperatures {
		t := &l.h.Temperatures[i]
		v := believed(t.Celsius, coldest, 125)
		for _, hot := range hotFrom {
			if hot.name().MatchString(t.Name) && v >= hot.celsius && !(v-hot.celsius <= over) {
				worst, over = t, v-hot.celsius
			}
		}
	}
	if worst == nil {
		return nil
	}
	name, v := textOf(worst.Name), withUnit(believed(worst.Celsius, coldest, hottest), "°C")
	c := l.say(HotSensor, Medium, hotSensorWords(name, v, l.loud != nil))
	f := &finding{}
	f.readAt = l.s.Time
	c.Evidence = append(f.figure(name, believed(worst.Celsius, coldest, hottest), "°C").Evidence, c.Evidence...)
	return c
}

// fanForNothing is about a loud fan that no reading explains.
func fanForNothing(l *lone) *machineFinding {
	if l.loud == nil || l.works || l.cooling {
		return nil
	}
	name, rpm := textOf(l.loud.Name), withUnit(believed(l.loud.RPM, 0, mostRPM), "RPM")
	switch {
	case l.temp >= 70:
		return l.say(MachineFan, Medium, fanForHotCPUWords(name, rpm, withUnit(l.temp, "°C")))
	case !present(l.cpu) && l.s.Time.Sub(l.m.cpu.first) < cpuPause:
		return nil // the first reading has no rate
	case !present(l.cpu) && !present(l.temp):
		return l.say(MachineFan, Low, fanUntoldWords(name, rpm))
	}
	return l.say(MachineFan, Medium, fanForNothingWords(name, rpm))
}

func noFanShown(l *lone) *machineFinding {
	if l.fans > 0 {
		return nil
	}
	switch {
	case l.h.NoFans.IsZero() && len(l.h.Fans) == 0:
		return nil // the sensors have not been listed yet
	case l.h.NoFans.IsZero():
		return l.say(NoFanShown, High, fanSensorsSilentWords())
	default:
		return l.say(NoFanShown, High, noFanShownWords(textOf(l.h.NoFans.What), l.h.NoFans.Try))
	}
}

// atRest is for a machine with nothing else to report.
func atRest(l *lone) *machineFinding {
	words, load := restSlowFansWords, ""
	switch {
	case l.fans == 0:
		words = restNoFanWords
	case l.turning == 0:
		words = restFansOffWords
	}
	if present(l.cpu) {
		load = withItsCPUAt(withUnit(l.cpu, "%"))
	}
	sure := High
	switch {
	case !present(l.cpu):
		return l.say(MachineAtRest, Low, restTooEarlyWords(l.readings()))
	case l.fans > 0 && l.s.Time.Sub(l.m.cpu.first) < cpuPause, !present(l.temp):
		sure = Medium
	}
	return l.say(MachineAtRest, sure, words(load+l.readings()))
}

// noCard reports whether there is no device because, as far as every source can tell, the machine has no card.
func noCard(failures []gpu.Failure) bool {
	return len(failures) > 0 && !slices.ContainsFunc(failures, func(f gpu.Failure) bool { return !errors.Is(f.Advice.Err, gpu.ErrNoCard) })
}

// traffic lists what else goes on in such a machine: heavy traffic on its disks or networks.
func traffic(h *gpu.Host) (out []string) {
	if h == nil {
		return nil
	}
	sum := func(what string, much float64, rates ...gpu.Reading[gpu.BytesPerSecond]) {
		total := 0.0
		for _, r := range rates {
			total += float64(r.Or(0))
		}
		if total >= much {
			out = append(out, what+" "+withUnit(total/1e6, "MB/s"))
		}
	}
	var disks, networks []gpu.Reading[gpu.BytesPerSecond]
	for i := range h.Disks {
		disks = append(disks, h.Disks[i].Read, h.Disks[i].Write)
	}
	for i := range h.Networks {
		networks = append(networks, h.Networks[i].Received, h.Networks[i].Sent)
	}
	sum("disks", fastDisk, disks...)
	sum("network", fastNet, networks...)
	return out
}
