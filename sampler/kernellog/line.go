package kernellog

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// An event is what one line says about a device.
type event struct {
	driver string // "nvidia", "amdgpu", "i915" or "xe"
	pci    string // as in gpu.Identity; empty: the line does not say
	// One of these is set. If neither is, the line only names the process of the previous event.
	xid  int
	kind gpu.FaultKind

	engine  string
	culprit gpu.Culprit

	// names means that the line only says which device the next lines are about.
	names bool

	earlier bool // already in the log when gpuwhy began
}

const (
	address = `([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})`
	// These match the process: its name is the group, and its pid follows.
	ofAMD   = `(?:Process information: process|[Pp]rocess|in process|for process) (.*?) pid (\d+)`
	ofIntel = ` in (.+) \[(\d+)\]`
)

var (
	xidLine = lazy.Pattern(`^NVRM: Xid \((?:PCI:)?` + address + `(?:\.[0-7])?(?: [^()]*)?\): (\d{1,4})(?:,\s*(.*))?$`)
	xidWho  = lazy.Pattern(`^pid='?(\d+|<unknown>)'?(?:, name=(.*?))?(?:,|$)`)

	// What NVIDIA's driver writes without an XID. The address is in the same message, or in an earlier one.
	ofNVIDIA = lazy.Pattern(`^NVRM: `)
	anywhere = lazy.Pattern(`(?:^|[\s:(])` + address + `(\.[0-7])?(?:[\s:,)]|$)`)
	fallen   = lazy.Pattern(`(?i)fallen off the bus`)
	// nv_open_device, nvidia_open and nvidia_frontend_open are called when a program opens a card, which starts it.
	unstarted = lazy.Pattern(`(?i)\bRmInitAdapter\b[^:]* failed|\brm_init_adapter\b[^:]* failed|\b(?:nv|nvidia)_(?:\w+_)?open(?:_\w+)?\b.*\bfailed`)
	named     = lazy.Pattern(`^NVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?` + address)

	addressed = lazy.Pattern(`^(amdgpu|i915|xe) ` + address + `(\.[0-7]): (.*)$`)
	// Older kernels don't name the device: the function that wrote the line shows which driver.
	unaddressed = lazy.Pattern(`^(?:\[drm:\S+ \[(amdgpu|i915|xe)\]\] |(amdgpu): |\[(drm)\] (?:GPU HANG)|drm/(i915): )`)
	// prefixes that kernels have put before a message over the years
	before = lazy.Pattern(`^(?:amdgpu: +|\[drm(?::[^\]]*(?:\[\w+\])?)?\] +|\*ERROR\* |Tile\d+: |GT\d+: |GUC: |drm/i915: )+`)
)

// A rule says what a driver's messages mean. Its first group, if any, is the engine.
type rule struct {
	driver string // empty: any
	kind   gpu.FaultKind
	line   func() *regexp.Regexp
	who    func() *regexp.Regexp
}

func newRule(driver string, kind gpu.FaultKind, line, who string) rule {
	r := rule{driver: driver, kind: kind, line: lazy.Pattern(line)}
	if who != "" {
		r.who = lazy.Pattern(who)
	}
	return r
}

var rules = []rule{
	newRule("amdgpu", gpu.FaultEngineHang, `^ring (\S+) timeout, (?:signaled|but soft recovered)`, ofAMD),
	newRule("amdgpu", gpu.FaultEngineReset, `^Ring (\S+) reset succeeded`, ""),
	newRule("amdgpu", gpu.FaultDeviceReset, `^GPU reset begin!`, ""),
	newRule("amdgpu", gpu.FaultResetFailed, `^GPU (?:reset\(\d+\) failed|reset end with ret = -|Recovery Failed: )`, ""),
	newRule("amdgpu", gpu.FaultPage, `^\[(\w+)\] (?:retry |no-retry )?page fault \(`, ofAMD),
	newRule("amdgpu", gpu.FaultPage, `^GPU fault detected: `, ofAMD),
	newRule("amdgpu", gpu.FaultMemory,
		`^(?:\{\d+\} ?)?(?:socket: \d+,? ?)?(?:die: \d+,? ?)?0*[1-9]\d* (?:new )?uncorrectable hardware errors detected in (\S+) block`, ""),
	newRule("amdgpu", gpu.FaultOffBus, `^device lost from bus!`, ""),
	newRule("amdgpu", "", `^(?:Process information: process|Process|in process|for process) `, ofAMD),

	newRule("i915", gpu.FaultEngineHang, `^GPU HANG: ecode `, ofIntel),
	newRule("i915", gpu.FaultDeviceReset, `^Resetting chip (?:for|after) `, ""),
	newRule("i915", gpu.FaultEngineReset, `^Resetting (\S+) (?:for|after) `, ""),
	newRule("i915", gpu.FaultResetFailed, `^(?:Failed to reset chip|Failed to initiali[sz]e HW following reset|GPU recovery failed)`, ""),
	newRule("i915", gpu.FaultWedged, `timed out, cancell?ing all in-flight rendering`, ""),

	newRule("xe", gpu.FaultEngineReset, `^Engine reset: (?:engine_class=(\w+)|guc_id=)`, ""),
	newRule("xe", gpu.FaultEngineHang, `^Timedout job: `, ofIntel),
	newRule("xe", gpu.FaultDeviceReset, `^reset started`, ""),
	newRule("xe", gpu.FaultResetFailed, `^reset failed \(`, ""),
	newRule("xe", gpu.FaultWedged, `^CRITICAL: Xe has declared device \S+ as wedged`, ""),
	newRule("xe", gpu.FaultPage, `^(?:Fault response: Unsuccessful|Engine memory (?:CAT|cat) error)`, ""),

	newRule("", gpu.FaultWedged, `^device wedged, needs recovery`, ""),
}

// parse returns what a kernel message says about a device, if anything.
func parse(text string) (e event, ok bool) {
	whole := text
	text, _, _ = strings.Cut(text, "\n") // the rest only explains it
	text = strings.TrimSpace(text)
	if m := xidLine().FindStringSubmatch(text); m != nil {
		return parseXID(m[1], m[2], m[3])
	}
	if ofNVIDIA().MatchString(text) {
		return parseNVRM(whole)
	}
	if m := addressed().FindStringSubmatch(text); m != nil {
		e.driver, e.pci, text = m[1], strings.ToLower(m[2]+m[3]), m[4]
	} else if m := unaddressed().FindStringSubmatch(text); m != nil {
		e.driver = m[1] + m[2] + strings.Replace(m[3], "drm", "i915", 1) + m[4]
	} else {
		return e, false
	}
	text = strings.TrimSpace(before().ReplaceAllString(strings.TrimSpace(text), ""))
	for _, r := range rules {
		if r.driver != "" && r.driver != e.driver {
			continue
		}
		m := r.line().FindStringSubmatch(text)
		if m == nil {
			continue
		}
		e.kind = r.kind
		if r.line().NumSubexp() > 0 {
			e.engine = clean(m[1], mostEngine)
		}
		if r.who != nil {
			if m := r.who().FindStringSubmatch(text); m != nil {
				e.culprit = culprit(m[1], m[2])
			}
		}
		return e, e.kind != "" || e.culprit != gpu.Culprit{}
	}
	return e, false
}

func parseXID(pci, code, rest string) (e event, ok bool) {
	e = event{driver: "nvidia", pci: strings.ToLower(pci) + ".0"} // a GPU is function 0 of its card
	e.xid, _ = strconv.Atoi(code)                                 // at most four digits
	if m := xidWho().FindStringSubmatch(rest); m != nil {
		e.culprit = culprit(m[2], m[1])
	}
	return e, e.xid > 0
}

// parseNVRM parses a message of NVIDIA's driver without an XID, which can have several lines.
func parseNVRM(text string) (e event, ok bool) {
	e.driver = "nvidia"
	if m := anywhere().FindStringSubmatch(text); m != nil {
		e.pci = strings.ToLower(m[1]) + ".0" // a GPU is function 0 of its card
	}
	switch {
	case fallen().MatchString(text):
		e.kind = gpu.FaultOffBus
	case unstarted().MatchString(text):
		e.kind = gpu.FaultInitFailed
	case e.pci != "" && named().MatchString(text):
		e.names = true
	default:
		return event{}, false
	}
	return e, true
}

const (
	mostName   = 15 // as the kernel's own
	mostEngine = 32
)

// culprit returns the named process; zero if the kernel does not know it.
func culprit(name, pid string) gpu.Culprit {
	n, err := strconv.ParseInt(pid, 10, 32)
	if err != nil || n <= 0 {
		return gpu.Culprit{}
	}
	switch name = strings.Trim(name, "'"); name {
	case "<unknown>":
		name = ""
	default:
		if i := strings.LastIndexByte(name, '/'); strings.HasPrefix(name, "/") && i < len(name)-1 {
			name = path.Base(name)
		}
	}
	return gpu.Culprit{PID: int(n), Name: clean(name, mostName)}
}

// clean makes foreign text short and safe to show.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) > most {
		cut := most
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return strings.TrimSpace(text)
}
