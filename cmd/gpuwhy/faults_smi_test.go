//go:build !race && linux

package main

import (
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

var (
	smiCommands = []string{"help", "query", "pmon", "xml"}
	smiFaults   = []string{"missing", "dies", "hangs", "cut", "garbage", "noise"}
)

// asked is an NVIDIA machine that is read through nvidia-smi, with an AMD card.
type asked struct {
	*stand
	m *fakesmi.Machine
	n int // GPUs
}

func newAsked(t *testing.T, begin starter, faults ...string) *asked {
	t.Helper()
	m := fakesmi.New(t, "blackwell-570")
	m.PlugIn()
	drmtest.In(t, m.SysfsRoot, m.ProcRoot).Card(2, amdAt, "amdgpu", drmtest.Navi31())
	for _, f := range faults {
		m.Fault(f)
	}
	s := newStand(t, begin, nil, "--source=nvidia-smi,amd", "--nvidia-smi="+m.Program(),
		"--sysfs-root="+m.SysfsRoot, "--proc-root="+m.ProcRoot)
	s.allowed["nvidia"] = 40 // nvidia-smi is a program that may stand still, too
	a := &asked{s, m, len(m.Addresses()) + 1}
	if len(faults) == 0 {
		a.well(a.n)
		a.keepAccount()
	}
	return a
}

// again makes every command except the first start again.
func (a *asked) again(do func()) {
	a.Helper()
	first := a.m.Addresses()[0]
	a.m.Sleep(first, true)
	a.until("one sleeps", is(hasAddress(first), func(g *contract.UpdateGPU) bool { return g.State == "asleep" }))
	do()
	a.m.Sleep(first, false)
}

func spoils(command, fault string) string { return "command " + command + " " + fault }

// strikeCommand breaks a command, unless it is already broken, and returns what that did.
func strikeCommand(a *asked, command, fault string) string {
	a.Helper()
	line := spoils(command, fault)
	struck := func(*contract.Update) bool { return a.m.Count("spoilt "+command+" "+fault) > 0 }
	whom := hasVendor("nvidia")
	a.fault(whom)
	if !strings.Contains(a.m.Read("faults"), line) {
		a.again(func() { a.m.Fault(line) })
	}
	a.until(command+" is begun", struck)
	a.until("the others are there", is(hasVendor("amd"), func(g *contract.UpdateGPU) bool { return g.State == "ok" }))
	a.heard(8)
	outcome := a.words(whom)
	if outcome == "" && len(a.u.Failures) == 1 {
		outcome = "failure"
	}
	a.said(whom)
	a.m.Heal()
	a.well(a.n)
	return outcome
}

// smiTroubles are nvidia-smi's faults about one device, or about the driver.
var smiTroubles = []struct {
	name  string
	fault string
	one   bool // it is of the first device, whose address is added
	more  bool // only where every fault is made
}{
	{"stops at a device", "hang", true, false},
	{`has "GPU is lost" in place of readings`, "lost", true, true},
	{"says that a device is lost, and ends", "lost-ends", true, false},
	{"says that a device is lost, and prints its line", "lost-goes-on", true, true},
	{"cuts the lines of a device", "cut", true, true},
	{`says "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"`, "fail 9 NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", false, false},
	{`says "Failed to initialize NVML: Driver/library version mismatch"`, "fail 255 Failed to initialize NVML: Driver/library version mismatch", false, true},
	{`says "Failed to initialize NVML: Unknown Error"`, "fail 255 Failed to initialize NVML: Unknown Error", false, true},
	{`says "Failed to initialize NVML: Insufficient Permissions"`, "fail 4 Failed to initialize NVML: Insufficient Permissions", false, true},
	{`says "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system"`, "fail 12 NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", false, true},
	{`says "No devices were found"`, "fail 6 No devices were found", false, true},
	{"prints nothing", "silent", false, true},
	{"ends after each line", "once", false, true},
	{"ends with an error after each line", "die", false, true},
	{"takes 1.1 s for each line", "slow 1100", false, true},
	{"takes 2.1 s for each line", "slow 2100", false, true},
	{"has no pmon", "no-pmon", false, true},
}

func strikeDevice(a *asked, fault string, one bool) (outcome, said string) {
	a.Helper()
	whom := hasVendor("nvidia")
	if one {
		first := a.m.Addresses()[0]
		whom = hasAddress(first)
		fault += " " + first
	}
	a.fault(hasVendor("nvidia")) // that all begin anew is of both
	a.again(func() { a.m.Fault(fault) })
	a.until("the first is awake", is(hasAddress(a.m.Addresses()[0]), func(g *contract.UpdateGPU) bool { return g.State != "asleep" }))
	other := func(g *contract.UpdateGPU) bool { return !whom(g) }
	a.until("the other is read", is(other, func(g *contract.UpdateGPU) bool { return g.State == "ok" }))
	a.fault(whom)
	a.heard(12)
	outcome = a.words(whom)
	said = a.said(whom)
	if strings.HasPrefix(fault, "slow ") { // it depends on when a line came
		if outcome != "ok" && outcome != "slow" {
			a.Errorf("%s: it is %s: %s", fault, outcome, said)
		}
		outcome, said = "ok or slow", "while it is slow, how long the reading took, and since when it is so"
	}
	a.m.Heal()
	a.well(a.n)
	return outcome, said
}
