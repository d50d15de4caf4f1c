package explain

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A machineMemory is what is remembered about the machine around the devices.
type machineMemory struct {
	least map[string]float64 // the slowest speed seen of each of its fans, in RPM
	loud  string             // the fan last named as loud; empty: none
	cpu   cpuMemory          // of a machine without a device
}

const (
	maxHostFans = 32
	loudRPM     = 3000 // a fan is loud at this speed, whatever its speed before
	fasterBy    = 1.4  // times its slowest speed seen
	hotCPU      = 70   // °C
)

var (
	// notLoud matches pumps, which always turn equally fast, and a GPU's fan that a laptop's board reports.
	notLoud = lazy.Pattern(`(?i)pump|gpu|graphics|video`)
	aCPU    = lazy.Pattern(`^CPU( \d+)?$`)
)

func (m *machineMemory) learn(h *gpu.Host) {
	if m.least == nil {
		m.least = map[string]float64{}
	}
	for i := range h.Fans {
		f := &h.Fans[i]
		rpm := believed(f.RPM, 1, mostRPM)
		if _, known := m.least[f.Name]; present(rpm) && (known || len(m.least) < maxHostFans) {
			m.least[f.Name] = lowest(rpm, leastOf(m.least, f.Name))
		}
	}
}

// copied returns a copy that can change independently.
func (m *machineMemory) copied() *machineMemory {
	if m == nil {
		return new(machineMemory)
	}
	return &machineMemory{maps.Clone(m.least), m.loud, m.cpu}
}

func leastOf(least map[string]float64, name string) float64 {
	if v, ok := least[name]; ok {
		return v
	}
	return none
}

// loudest returns the loudest fan of the machine, if one is loud.
func (m *machineMemory) loudest(h *gpu.Host) *gpu.HostFan {
	var loudest *gpu.HostFan
	for i := range h.Fans {
		f := &h.Fans[i]
		rpm := believed(f.RPM, 1, mostRPM)
		if notLoud().MatchString(f.Name) {
			continue
		}
		share := 1.0
		if m.loud == f.Name {
			share = 0.9 // it stays the loudest until it is clearly slower
		}
		loud := rpm >= share*loudRPM || rpm >= share*1000 && rpm >= share*fasterBy*leastOf(m.least, f.Name)
		if loud && (loudest == nil || rpm > believed(loudest.RPM, 1, mostRPM)) {
			loudest = f
		}
	}
	m.loud = ""
	if loudest != nil {
		m.loud = loudest.Name
	}
	return loudest
}

// otherFan finds a fan of the machine that is loud while the devices' fans are not: then people don't hear the GPU's fan.
func otherFan(s *gpu.Snapshot, m *machineMemory, devices []*device) []machineFinding {
	if s.Host == nil || len(devices) == 0 {
		return nil
	}
	m.learn(s.Host)
	both := false
	for _, d := range devices {
		if d.State != gpu.StateOK && d.State != gpu.StateAsleep || d.byHand() != "" || d.fanFails() || !d.m.offHot.IsZero() {
			return nil // that is the reason already
		}
		if d.unified() && d.doing != working && !d.cooling() {
			continue // its heat is the processor's
		}
		if d.doing == working && d.fan > 0 && d.fan < 45 {
			both = true // people may hear both
			continue
		}
		if d.doing == working && !(d.fan == 0) || d.fan >= 45 || d.cooling() && !(d.fan == 0) || !present(d.fan) && d.temp >= 45 {
			return nil // it may well be the device's, or follow its heat
		}
	}
	loudest := m.loudest(s.Host)
	if loudest == nil {
		return nil
	}
	rpm := believed(loudest.RPM, 1, mostRPM)
	if slices.ContainsFunc(devices, func(d *device) bool { return d.rpm >= rpm }) {
		m.loud = ""
		return nil // the GPU's own fan is faster
	}
	what, where, cpu := loudest.Name, "", cpuTemperature(s.Host)
	who := "top"
	if list := s.Host.Busiest.Or(nil); len(list) > 0 && list[0].CPU >= 50 {
		who = "first " + hostProcess(&list[0])
	}
	sure := Medium
	if present(cpu) {
		where = withCPUAt(withUnit(cpu, "°C"))
		if cpu >= hotCPU && strings.Contains(what, "CPU") {
			sure = High
		}
	}
	var f finding
	f.readAt = s.Time
	f.figure(what, rpm, "RPM").figure("CPU temperature", cpu, "°C").figure("slowest that "+what+" was seen", math.Round(leastOf(m.least, loudest.Name)), "RPM")
	if both && !(rpm >= fasterBy*leastOf(m.least, loudest.Name)) {
		return nil
	}
	words := otherFanWords
	if both {
		words = loudFanBesideWords
	}
	c := words(textOf(what), withUnit(rpm, "RPM")+where, who).cause(OtherFan, "")
	c.Case, c.Confidence, c.Evidence = what, sure, f.Evidence
	return []machineFinding{c}
}
