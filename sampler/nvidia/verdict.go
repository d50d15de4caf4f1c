package nvidia

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// NeedsByNumber returns the recovery that a value of nvmlDeviceGpuRecoveryAction_t asks for; empty for 0, none.
func NeedsByNumber(action uint32) gpu.FaultKind {
	switch action {
	case 0:
		return ""
	case 1, 6: // of the GPU, of its PCIe bus
		return gpu.FaultNeedsReset
	case 2, 7: // of the node, of the system
		return gpu.FaultNeedsRestart
	case 3:
		return gpu.FaultNeedsDrain
	case 4:
		return gpu.FaultNeedsLaterReset
	default:
		return gpu.FaultNeedsAction
	}
}

// repairs are parts of recovery actions that gpuwhy has no kind for, such as "Recover IMEX Domain".
var repairs = []string{"recover", "repair", "replace", "reload", "power cycle"}

// NeedsByWords returns the recovery that nvidia-smi's "GPU Recovery Action" asks for; known is false if the text is no such action: "N/A",
// an error, or a word that asks for nothing.
func NeedsByWords(text string) (kind gpu.FaultKind, known bool) {
	w := strings.ToLower(strings.TrimSpace(text))
	contains := func(part string) bool { return strings.Contains(w, part) }
	first, _, _ := strings.Cut(w, " ")
	switch {
	case w == "none":
		return "", true
	case first == "no", first == "not":
		return "", false
	case RequiresReset(w):
		return gpu.FaultNeedsReset, true
	case w == "", strings.HasPrefix(w, "["), w == "n/a", contains("not supported"), contains("deprecated"), contains("permission"), contains("err"), contains("unknown"), contains("not found"), contains("lost"):
		return "", false
	case contains("drain") && contains("reset"):
		return gpu.FaultNeedsLaterReset, true
	case contains("drain"):
		return gpu.FaultNeedsDrain, true
	case contains("reboot"), contains("restart"):
		return gpu.FaultNeedsRestart, true
	case contains("reset"):
		return gpu.FaultNeedsReset, true
	case slices.ContainsFunc(repairs, contains):
		return gpu.FaultNeedsAction, true
	default:
		return "", false
	}
}

// RequiresReset reports whether the driver wrote "[GPU requires reset]" in place of a value.
func RequiresReset(value string) bool {
	w := strings.ToLower(value)
	return strings.Contains(w, "requires reset") || strings.Contains(w, "reset required")
}

// Verdicts are the driver's persistent complaints about one device: the recovery it asks for, and what it fails to read. They record since
// when. The zero value is ready to use.
type Verdicts struct {
	known bool // the driver can report which recovery it asks for
	all   map[gpu.FaultKind]verdict
}

type verdict struct {
	said   time.Time // since when each reading has it; zero: not in the last reading
	since  time.Time
	times  uint64 // how often it began
	stands bool
}

// lasts is how long the driver must fail to read a fan, since a single error can be chance. A request for recovery counts at once.
const lasts = 2 * time.Second

// Note records what the driver says in a reading taken at now; known is whether the driver can also say that it asks for nothing.
func (v *Verdicts) Note(now time.Time, known bool, says ...gpu.FaultKind) {
	v.known = v.known || known
	if v.all == nil && len(says) > 0 {
		v.all = map[gpu.FaultKind]verdict{}
	}
	for _, kind := range says {
		is := v.all[kind]
		if is.said.IsZero() {
			is.said = now
		}
		if !is.stands && (kind.AsksForAction() || now.Sub(is.said) >= lasts) {
			is.since, is.times, is.stands = is.said.UTC(), is.times+1, true
		}
		v.all[kind] = is
	}
	for kind, is := range v.all {
		if !slices.Contains(says, kind) {
			is.said, is.stands = time.Time{}, false
			v.all[kind] = is
		}
	}
}

// Describe writes the verdicts into a device that answers: into its faults, and into its reason.
func (v *Verdicts) Describe(d *gpu.Device) {
	var faults []gpu.Fault
	for kind, is := range v.all {
		if is.stands {
			faults = append(faults, gpu.Fault{Kind: kind, Count: is.times, Last: is.since})
		}
	}
	if !v.known && len(faults) == 0 {
		d.Health.Faults = gpu.Absent[[]gpu.Fault](gpu.NotSupported)
		return
	}
	slices.SortFunc(faults, func(a, b gpu.Fault) int { return cmp.Compare(a.Kind, b.Kind) })
	d.Health.Faults = gpu.Of(append([]gpu.Fault{}, faults...))
	if len(faults) == 0 {
		return
	}
	slices.SortStableFunc(faults, func(a, b gpu.Fault) int { return cmp.Compare(urgency(a.Kind), urgency(b.Kind)) })
	var whats []string
	for _, f := range faults {
		what, _ := f.Kind.Meaning()
		whats = append(whats, what)
	}
	_, try := faults[0].Kind.Meaning()
	d.Reason = gpu.Advice{What: strings.Join(whats, "; "), Try: strings.ToLower(try[:1]) + strings.TrimSuffix(try[1:], "."), Err: gpu.ErrNeedsAction}
}

// urgency orders verdicts; the most urgent comes first.
func urgency(k gpu.FaultKind) int {
	return slices.Index([]gpu.FaultKind{
		gpu.FaultNeedsRestart, gpu.FaultNeedsReset, gpu.FaultNeedsDrain, gpu.FaultNeedsAction, gpu.FaultNeedsLaterReset, gpu.FaultFanUnreadable,
	}, k)
}
