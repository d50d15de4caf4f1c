package explain

import (
	"fmt"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// notKnowable says what nobody can tell here, and which permission or product
// feature is missing.
func notKnowable(d *device) *finding {
	if !d.reportsAnything() {
		return nil
	}
	f := &finding{confidence: High, minor: true, evidence: evidence{at: d.at}}
	var missing, tries []string
	miss := func(what, try string) {
		missing = append(missing, what)
		if try != "" {
			tries = append(tries, Advice(try))
		}
	}
	// absent adds a reading that never comes.
	absent := func(what string, q gpu.Quality, try string) {
		why := "not permitted"
		switch q {
		case gpu.NotSupported:
			why, try = "not offered by this product or driver", ""
		case gpu.NotPermitted:
		default:
			return
		}
		f.fact(what, why)
		miss(what+" ("+why+")", try)
	}
	absent("which processes use it", d.Processes.Quality(), "run gpuwhy as root, or with the rights that the driver asks for")
	if pids := d.strangers(); len(pids) > 0 {
		f.fact("processes without a name", strings.Join(pids, ", "))
		try := ""
		if len(d.s.Notes) == 0 {
			try = "start gpuwhy with a view of the host's processes (in a container: --pid=host)"
		}
		miss("who runs "+plural(len(pids), "process", "processes")+" without a name", try)
	}
	whole := d.Utilization.GPU.Quality()
	if whole == gpu.NotSupported && d.Modes.MIG.Or(false) {
		f.fact("utilization", "not offered while the GPU is cut into instances (MIG)")
		miss("how busy it is, which the driver does not say of a GPU that is cut into instances (MIG)", "")
	} else {
		absent("how busy it is", whole, "")
	}
	absent("how hot it is", d.Thermal.GPU.Quality(), "")
	absent("what it draws", d.Power.Draw.Quality(), "")
	if len(missing) == 0 {
		return nil
	}
	f.clause = "what can't be told of " + it + " here: " + strings.Join(missing, "; ")
	f.advice = strings.Join(tries, " ")
	return f
}

// strangers are the pids of processes whose name the host does not know.
func (d *device) strangers() []string {
	const most = 8
	var pids []string
	for _, p := range those(d.Processes.Or(nil), func(p *gpu.Process) bool { return !p.Facts.Name.Present() && !gone(p) }) {
		pids = append(pids, fmt.Sprintf("pid %d", p.PID))
	}
	if more := len(pids) - most; more > 0 {
		pids = append(pids[:most], fmt.Sprintf("and %d more", more))
	}
	return pids
}
