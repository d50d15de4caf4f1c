package alert

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A Severity says how much an alert matters.
type Severity string

// The severities.
const (
	Info     Severity = "info"     // worth knowing
	Warning  Severity = "warning"  // look at it today
	Critical Severity = "critical" // work is lost, or hardware is in danger
)

// Severities lists them, mildest first.
func Severities() []Severity { return []Severity{Info, Warning, Critical} }

// Rank is the place of s among the Severities.
func (s Severity) Rank() int { return slices.Index(Severities(), s) }

// A Rule says when an alert fires, when it is over, and how often people are told.
type Rule struct {
	Name  string `yaml:"name"` // its key, such as "too_hot": letters, digits, '_' and '-'
	Watch Watch  `yaml:"watch"`
	// Threshold is in the unit of the watch. An alert fires when the value has been beyond it for
	// Hold. Conditions, such as being lost, have none.
	Threshold float64 `yaml:"threshold" keys:"above,below"`
	// Margin and Clear end an alert: the value has been back from Threshold by at least Margin for
	// Clear. Between the two lines nothing changes. An alert about a count, such as XIDs, is over
	// when no more came for Clear.
	Margin   float64       `yaml:"margin"`
	Hold     time.Duration `yaml:"hold"`
	Clear    time.Duration `yaml:"clear"`
	Cooldown time.Duration `yaml:"cooldown"` // how long no alert fires on a device after one is over
	// Repeat is how often people are reminded of an alert that still fires and that nobody has
	// acknowledged; 0: never.
	Repeat   time.Duration `yaml:"repeat"`
	Severity Severity      `yaml:"severity"`
	Scope    Scope         `yaml:"scope"`
	// Codes are the XIDs that an XID rule counts; empty: all. It does not count IgnoreCodes.
	Codes       []int    `yaml:"codes"`
	IgnoreCodes []int    `yaml:"ignore_codes"`
	Enabled     bool     `yaml:"enabled"`
	Targets     []string `yaml:"notify"` // names of the targets that get messages; empty: all
}

// A Scope narrows a rule. At least one pattern of each list must match (as in path.Match, but * and
// ? also match slashes); an empty list matches everything.
type Scope struct {
	Nodes []string `yaml:"nodes"`
	// GPUs are UUIDs, names such as "*4090*", or indices, in any case. After a restart an index may belong to another device.
	GPUs []string `yaml:"gpus"`
	// Users and Processes (their names) narrow utilization, memory and idle_held to the usage of
	// such processes.
	Users     []string `yaml:"users"`
	Processes []string `yaml:"processes"`
}

var ruleName = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// An Invalid is what is wrong with one field of a rule.
type Invalid struct {
	Field string // its name in a rules file
	What  string // "must be …"
}

func (e *Invalid) Error() string { return e.Field + ": " + e.What }

// Refuse returns an [Invalid].
func Refuse(field, format string, args ...any) error {
	return &Invalid{Field: field, What: fmt.Sprintf(format, args...)}
}

// Problems collects all that is wrong with fields.
type Problems []error

// Unless adds an [Invalid] unless the field is good.
func (p *Problems) Unless(good bool, field, format string, args ...any) {
	if !good {
		*p = append(*p, Refuse(field, format, args...))
	}
}

// Check returns all that is wrong with a rule, as [Invalid] errors joined.
func (r *Rule) Check() error {
	w, known := watches[r.Watch]
	if !known {
		return Refuse("watch", "%q is not something gpuwhy can watch; use one of %v", string(r.Watch), Watches())
	}
	var p Problems
	p.Unless(ruleName().MatchString(r.Name), "name", "%q must be letters, digits, '_' and '-', at most 64 of them", r.Name)
	p.Unless(slices.Contains(Severities(), r.Severity), "severity", "%q must be one of %v", string(r.Severity), Severities())
	r.checkLevel(&p, w)
	r.checkTimes(&p, w.Counter)
	r.Scope.check(&p, r.Watch)
	checkCodes := func(field string, codes []int) {
		p.Unless(len(codes) == 0 || r.Watch == XID, field, "only rules that watch xid have codes")
		p.Unless(len(codes) == 0 || slices.Min(codes) >= 0, field, "codes must be 0 or more")
	}
	checkCodes("codes", r.Codes)
	checkCodes("ignore_codes", r.IgnoreCodes)
	p.Unless(len(r.Codes) == 0 || slices.ContainsFunc(r.Codes, r.counts), "ignore_codes", "excludes every code in codes")
	return errors.Join(p...)
}

// A NaN fails all of these comparisons, and is refused.
func (r *Rule) checkLevel(p *Problems, w *watch) {
	field := "above"
	if w.Below {
		field = "below"
	}
	if w.Condition {
		p.Unless(r.Threshold == 0 && r.Margin == 0, field, "%s is a condition: it has no threshold or margin", r.Watch)
		return
	}
	unit := strings.TrimSuffix(" "+w.Unit, " ")
	p.Unless(r.Threshold >= w.Least && r.Threshold <= w.Most, field, "must be from %g to %g%s", w.Least, w.Most, unit)
	p.Unless(w.Unit != "%" || r.Threshold != 100 || w.Most != 100, field, "must be below 100 %%, since nothing can be above that")
	p.Unless(!w.Counter || r.Margin == 0, "margin", "%s is a count and has no margin: its alert ends when no more come", r.Watch)
	p.Unless(r.Margin >= 0 && r.Margin <= w.Most-w.Least, "margin", "must be from 0 to %g%s", w.Most-w.Least, unit)
}

func (r *Rule) checkTimes(p *Problems, counted bool) {
	check := func(field string, d time.Duration) {
		p.Unless(d >= 0 && d <= 720*time.Hour, field, "must be from 0s to 720h")
	}
	check("hold", r.Hold)
	check("clear", r.Clear)
	check("cooldown", r.Cooldown)
	check("repeat", r.Repeat)
	p.Unless(r.Repeat <= 0 || r.Repeat >= time.Minute, "repeat", "must be 0s, for never, or at least 1m")
	p.Unless(!counted || r.Hold <= 0, "hold", "%s is a count, so it has no hold time", r.Watch)
	p.Unless(!counted || r.Cooldown <= 0, "cooldown",
		"%s is a count, and a cooldown would lose events: use a longer clear instead", r.Watch)
}

func (s *Scope) check(p *Problems, w Watch) {
	check := func(field string, patterns []string, allowed bool) {
		p.Unless(allowed || len(patterns) == 0, field, "does not apply to %s", w)
		for _, pattern := range patterns {
			p.Unless(pattern != "" && validPattern(pattern), field, "%q is not a valid pattern", pattern)
		}
	}
	check("scope.nodes", s.Nodes, true)
	check("scope.gpus", s.GPUs, w.watch().About == aDevice)
	check("scope.users", s.Users, w.watch().Shares)
	check("scope.processes", s.Processes, w.watch().Shares)
}

// cleared reports whether a value is back far enough.
func (r *Rule) cleared(w *watch, value float64) bool {
	if w.Below {
		return value >= r.line(w)
	}
	return value <= r.line(w)
}

// line is the value that is back far enough. If the margin reaches beyond the possible values,
// halfway from the threshold to the last possible value is enough.
func (r *Rule) line(w *watch) float64 {
	if w.Below {
		return min(r.Threshold+r.Margin, (r.Threshold+w.Most)/2)
	}
	return max(r.Threshold-r.Margin, (r.Threshold+w.Least)/2)
}

func (r *Rule) beyond(w *watch, value float64) bool {
	if w.Below {
		return value < r.Threshold
	}
	return value > r.Threshold
}

func (s *Scope) covers(d *gpu.Identity) bool {
	if !matches(s.Nodes, d.Node) || len(s.GPUs) == 0 {
		return matches(s.Nodes, d.Node)
	}
	return slices.ContainsFunc([]string{d.UUID, d.Name, strconv.Itoa(d.Index)}, func(text string) bool {
		return text != "" && slices.ContainsFunc(s.GPUs, func(p string) bool { return matches([]string{strings.ToLower(p)}, strings.ToLower(text)) })
	})
}

func (s *Scope) narrows() bool { return len(s.Users) > 0 || len(s.Processes) > 0 }

// whose says which processes the rule looks at: " of alice or bob named python".
func (s *Scope) whose() string {
	text := ""
	if len(s.Users) > 0 {
		text = " of " + anyOf(s.Users, "the rule's users")
	}
	if len(s.Processes) > 0 {
		text += " named " + anyOf(s.Processes, "as in the rule")
	}
	return text
}

// anyOf lists patterns, or returns many if there are too many to list.
func anyOf(patterns []string, many string) string {
	last := len(patterns) - 1
	if last > 2 {
		return many
	}
	return strings.TrimPrefix(strings.Join(patterns[:last], ", ")+" or "+patterns[last], " or ")
}

// includes reports whether the rule covers a process. A rule that asks for a user or name does not cover
// a process whose user or name is unknown.
func (s *Scope) includes(p *gpu.Process) bool {
	fits := func(patterns []string, r gpu.Reading[string]) bool {
		return len(patterns) == 0 || r.Present() && matches(patterns, r.Or(""))
	}
	return fits(s.Users, p.Facts.User) && fits(s.Processes, p.Facts.Name)
}

func validPattern(p string) bool {
	_, err := path.Match(p, "")
	return err == nil
}

// matches reports whether one of the patterns matches, or there are none. A pattern also matches itself, because device
// names have brackets and slashes, such as "AMD Radeon RX 6800/6800 XT".
func matches(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(withoutSlash.Replace(p), withoutSlash.Replace(text))
		return ok && err == nil || p == text
	})
}

// withoutSlash replaces slashes, which have no special meaning here.
var withoutSlash = strings.NewReplacer("/", "\x1f")

func (r *Rule) counts(code int) bool {
	return (len(r.Codes) == 0 || slices.Contains(r.Codes, code)) && !slices.Contains(r.IgnoreCodes, code)
}

// compareAlerts sorts the worst alert first.
func compareAlerts(a, b *Alert) int {
	return cmp.Or(
		cmp.Compare(b.Severity.Rank(), a.Severity.Rank()),
		cmp.Compare(a.Device.Node, b.Device.Node),
		cmp.Compare(a.Device.Index, b.Device.Index),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.ID, b.ID),
	)
}
