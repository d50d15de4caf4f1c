package alert

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Severity says how much an alert matters.
type Severity string

// The severities.
const (
	Info     Severity = "info"     // worth knowing
	Warning  Severity = "warning"  // look at it today
	Critical Severity = "critical" // work is lost, or hardware is in danger
)

// Severities lists them, the mildest first.
func Severities() []Severity { return []Severity{Info, Warning, Critical} }

// Least reports whether s matters as much as least, or more.
func (s Severity) Least(least Severity) bool {
	all := Severities()
	return slices.Index(all, s) >= slices.Index(all, least)
}

// A Rule is when an alert fires, when it is over, and how often people are told.
type Rule struct {
	Name  string `yaml:"name"` // its key, such as "too_hot": letters, digits, '_' and '-'
	Watch Watch  `yaml:"watch"`
	// Threshold is in the unit of what is watched. An alert fires when the value
	// was beyond it for Hold. Conditions, such as being lost, have none.
	Threshold float64 `yaml:"above,below"`
	// Margin and Clear end an alert: the value was back from Threshold by Margin
	// or more for Clear. Between the two lines nothing changes. An alert about
	// what is counted, such as XIDs, is over when nothing more came for Clear.
	Margin   float64       `yaml:"margin"`
	Hold     time.Duration `yaml:"hold"`
	Clear    time.Duration `yaml:"clear"`
	Cooldown time.Duration `yaml:"cooldown"` // how long no alert fires on a device after one was over
	// Repeat is after how long people are told again of an alert that still
	// fires and that nobody has acknowledged; 0: never.
	Repeat   time.Duration `yaml:"repeat"`
	Severity Severity      `yaml:"severity"`
	Scope    Scope         `yaml:"scope"`
	// Codes are the XIDs that an XID rule counts; all where there are none. It
	// does not count IgnoreCodes.
	Codes       []int    `yaml:"codes"`
	IgnoreCodes []int    `yaml:"ignore_codes"`
	Enabled     bool     `yaml:"enabled"`
	Targets     []string `yaml:"notify"` // the names of those who are told; all where there are none
}

// A Scope narrows a rule. Each list has patterns, of which one must match
// (path.Match: * is any text without a slash, ? one character); an empty list
// matches everything.
type Scope struct {
	Nodes []string `yaml:"nodes"`
	GPUs  []string `yaml:"gpus"` // UUIDs: after a restart an index may belong to another device
	// Users and Processes (their names) narrow utilization, memory and
	// idle_held to what such processes use.
	Users     []string `yaml:"users"`
	Processes []string `yaml:"processes"`
}

var ruleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// An Invalid is what is wrong with one field of a rule.
type Invalid struct {
	Field string // its name in a file of rules
	What  string // "must be …"
}

func (e *Invalid) Error() string { return e.Field + ": " + e.What }

func invalid(field, format string, args ...any) error {
	return &Invalid{Field: field, What: fmt.Sprintf(format, args...)}
}

// A problem is what may be wrong with a rule: it is if so.
type problem struct {
	so          bool
	field, what string
}

// Check returns all that is wrong with a rule, as [Invalid] errors joined: of
// each list of problems the first.
func (r *Rule) Check() error {
	w, known := watches[r.Watch]
	if !known {
		return invalid("watch", "%q is nothing that can be watched; it must be one of %v", string(r.Watch), Watches())
	}
	var errs []error
	for _, list := range [][]problem{r.checkName(), r.checkLevel(w), r.checkTimes(w), r.checkScope(w), r.checkCodes()} {
		if i := slices.IndexFunc(list, func(p problem) bool { return p.so }); i >= 0 {
			errs = append(errs, &Invalid{list[i].field, list[i].what})
		}
	}
	return errors.Join(errs...)
}

func (r *Rule) checkName() []problem {
	return []problem{
		{!ruleName.MatchString(r.Name), "name", fmt.Sprintf("%q must be letters, digits, '_' and '-', at most 64 of them", r.Name)},
		{!slices.Contains(Severities(), r.Severity), "severity", fmt.Sprintf("%q must be one of %v", string(r.Severity), Severities())},
	}
}

// A NaN fails all of these comparisons, and is refused.
func (r *Rule) checkLevel(w *watch) []problem {
	field := "above"
	if w.below {
		field = "below"
	}
	name, unit := string(r.Watch), strings.TrimSuffix(" "+w.unit, " ")
	if w.kind == condition {
		return []problem{{r.Threshold != 0 || r.Margin != 0, field, name + " either is so or not: it has no threshold and no margin"}}
	}
	return []problem{
		{!(r.Threshold >= w.least && r.Threshold <= w.most), field, fmt.Sprintf("must be from %g to %g%s", w.least, w.most, unit)},
		{w.unit == "%" && r.Threshold == 100 && w.most == 100, field, "must be less than 100 %: nothing is above that"},
		{w.kind == counter && r.Margin != 0, "margin", name + " is counted: it is over once nothing more comes"},
		{!(r.Margin >= 0 && r.Margin <= w.most-w.least), "margin", fmt.Sprintf("must be from 0 to %g%s", w.most-w.least, unit)},
	}
}

func (r *Rule) checkTimes(w *watch) []problem {
	const limits = "must be from 0s to 720h"
	wrong := func(d time.Duration) bool { return d < 0 || d > 720*time.Hour }
	counted, name := w.kind == counter, string(r.Watch)
	return []problem{
		{wrong(r.Hold), "hold", limits},
		{wrong(r.Clear), "clear", limits},
		{wrong(r.Cooldown), "cooldown", limits},
		{wrong(r.Repeat), "repeat", limits},
		{r.Repeat > 0 && r.Repeat < time.Minute, "repeat", "must be 0s, for never, or at least 1m"},
		{counted && r.Hold > 0, "hold", name + " is counted, and does not stay: it can't be held"},
		{counted && r.Cooldown > 0, "cooldown",
			name + " is counted: what came during a cool-down would be lost; give a longer clear instead"},
	}
}

func (r *Rule) checkScope(w *watch) (list []problem) {
	check := func(field string, patterns []string, allowed bool) {
		list = append(list, problem{len(patterns) > 0 && !allowed, field, string(r.Watch) + " can't be narrowed so"})
		for _, p := range patterns {
			list = append(list, problem{p == "" || !validPattern(p), field, fmt.Sprintf("%q is no pattern", p)})
		}
	}
	check("scope.nodes", r.Scope.Nodes, true)
	check("scope.gpus", r.Scope.GPUs, !w.machine)
	check("scope.users", r.Scope.Users, w.shares)
	check("scope.processes", r.Scope.Processes, w.shares)
	return list
}

func (r *Rule) checkCodes() []problem {
	const xidOnly, code = "only rules that watch xid have codes", "a code is 0 or more"
	negative := func(c int) bool { return c < 0 }
	return []problem{
		{len(r.Codes) > 0 && r.Watch != XID, "codes", xidOnly},
		{slices.ContainsFunc(r.Codes, negative), "codes", code},
		{len(r.IgnoreCodes) > 0 && r.Watch != XID, "ignore_codes", xidOnly},
		{slices.ContainsFunc(r.IgnoreCodes, negative), "ignore_codes", code},
		{len(r.Codes) > 0 && !slices.ContainsFunc(r.Codes, r.counts), "ignore_codes", "leaves none of the codes that are counted"},
	}
}

// cleared reports whether a value is back far enough.
func (r *Rule) cleared(w *watch, value float64) bool {
	if w.below {
		return value >= r.line(w)
	}
	return value <= r.line(w)
}

// line is the value at which it is back far enough. Where the margin reaches
// beyond what can be, halfway from the threshold to that is enough.
func (r *Rule) line(w *watch) float64 {
	if w.below {
		return min(r.Threshold+r.Margin, (r.Threshold+w.most)/2)
	}
	return max(r.Threshold-r.Margin, (r.Threshold+w.least)/2)
}

// beyond reports whether a value is on the wrong side of the threshold.
func (r *Rule) beyond(w *watch, value float64) bool {
	if w.below {
		return value < r.Threshold
	}
	return value > r.Threshold
}

// covers reports whether the rule looks at a device.
func (s *Scope) covers(node, uuid string) bool {
	return matches(s.Nodes, node) && matches(s.GPUs, uuid)
}

// narrows reports whether the rule looks at a part of the processes only.
func (s *Scope) narrows() bool { return len(s.Users) > 0 || len(s.Processes) > 0 }

// whose says which processes the rule looks at, after the word itself: " of
// alice or bob named python". Empty for all.
func (s *Scope) whose() string {
	text := ""
	if len(s.Users) > 0 {
		text = " of " + anyOf(s.Users, "users that the rule names")
	}
	if len(s.Processes) > 0 {
		text += " named " + anyOf(s.Processes, "as the rule says")
	}
	return text
}

// anyOf lists patterns, or says in other words what they are where they are many.
func anyOf(patterns []string, many string) string {
	last := len(patterns) - 1
	if last > 2 {
		return many
	}
	return strings.TrimPrefix(strings.Join(patterns[:last], ", ")+" or "+patterns[last], " or ")
}

// has reports whether the rule looks at a process. A rule that asks for a user
// or a name does not look at a process of which it is not known.
func (s *Scope) has(p *gpu.Process) bool {
	fits := func(patterns []string, r gpu.Reading[string]) bool {
		return len(patterns) == 0 || r.Present() && matches(patterns, r.Or(""))
	}
	return fits(s.Users, p.Facts.User) && fits(s.Processes, p.Facts.Name)
}

func validPattern(p string) bool {
	_, err := path.Match(p, "")
	return err == nil
}

// matches reports whether one of the patterns matches, or there is none.
func matches(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, text)
		return ok && err == nil
	})
}

// counts reports whether an XID rule counts a code.
func (r *Rule) counts(code int) bool {
	return (len(r.Codes) == 0 || slices.Contains(r.Codes, code)) && !slices.Contains(r.IgnoreCodes, code)
}

// compareAlerts orders alerts: by severity, the worst first, then by node,
// device and rule.
func compareAlerts(a, b *Alert) int {
	all := Severities()
	return cmp.Or(
		cmp.Compare(slices.Index(all, b.Severity), slices.Index(all, a.Severity)),
		cmp.Compare(a.Device.Node, b.Device.Node),
		cmp.Compare(a.Device.Index, b.Device.Index),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.ID, b.ID),
	)
}
