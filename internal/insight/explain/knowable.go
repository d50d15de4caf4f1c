package explain

import (
	"fmt"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of what can't be told here: each with the permission or the
// product that is missing.

func notKnowable(c *card) *finding {
	if !c.reportsAnything() {
		return nil
	}
	p := &proofs{at: c.at}
	var missing, advice []string
	miss := func(what, try string) {
		missing = append(missing, what)
		if try != "" {
			advice = append(advice, sentence(capital(try)))
		}
	}
	absent(p, miss, "which processes use it", c.d.Processes.Quality(), "run gpuwhy as root, or with the rights that the driver asks for")
	if pids := c.strangers(); len(pids) > 0 {
		p.fact("processes without a name", strings.Join(pids, ", "))
		try := ""
		if len(c.s.Notes) == 0 {
			try = "start gpuwhy with a view of the host's processes (in a container: --pid=host)"
		}
		miss("who runs "+plural(len(pids), "process", "processes")+" without a name", try)
	}
	whole := c.d.Utilization.GPU.Quality()
	if whole == gpu.NotSupported && c.d.Modes.MIG.Or(false) {
		p.fact("utilization", "not offered while the GPU is cut into instances (MIG)")
		miss("how busy it is, which the driver does not say of a GPU that is cut into instances (MIG)", "")
	} else {
		absent(p, miss, "how busy it is", whole, "")
	}
	absent(p, miss, "how hot it is", c.d.Thermal.GPU.Quality(), "")
	absent(p, miss, "what it draws", c.d.Power.Draw.Quality(), "")
	if len(missing) == 0 {
		return nil
	}
	return &finding{
		clause: func(it string) string {
			return "what can't be told of " + it + " here: " + strings.Join(missing, "; ")
		},
		confidence: High,
		evidence:   p,
		advice:     strings.Join(advice, " "),
		aside:      true,
	}
}

// absent notes a reading that is missing for good.
func absent(p *proofs, miss func(what, try string), what string, q gpu.Quality, try string) {
	switch q {
	case gpu.NotPermitted:
		p.fact(what, "not permitted")
		miss(what+" (not permitted)", try)
	case gpu.NotSupported:
		p.fact(what, "not offered by this product or driver")
		miss(what+" (not offered by this product or driver)", "")
	}
}

// strangers are the pids of processes of which the host knows no name.
func (c *card) strangers() []string {
	const most = 8
	var pids []string
	more := 0
	list := c.d.Processes.Or(nil)
	for i := range list {
		switch {
		case list[i].Facts.Name.Present(), gone(&list[i]):
		case len(pids) < most:
			pids = append(pids, fmt.Sprintf("pid %d", list[i].PID))
		default:
			more++
		}
	}
	if more > 0 {
		pids = append(pids, fmt.Sprintf("and %d more", more))
	}
	return pids
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// capital begins a text with a capital.
func capital(s string) string {
	s = textOf(s)
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
