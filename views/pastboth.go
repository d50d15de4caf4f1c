package views

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
)

// A PastBoth compares usage in the span of the page with usage in the other span or on the other device.
type PastBoth struct {
	This, Other string // names of the two
	Labels      []string
	Users       []PastBothUser
	Notes       []string // what was not read in either, and how many users are not listed
}

// A PastBothUser is one user, with a figure for each label.
type PastBothUser struct {
	Name    Value
	Hue     string // empty for all users together
	Figures []PastBothFigure
}

// A PastBothFigure is a user's figure in both, and the difference.
type PastBothFigure struct{ This, Other, More Value }

// both compares usage. It returns nil if there is no data to compare with.
func (p *PastPage) both() *PastBoth {
	in, b := p.in, p.in.Beside
	if len(b.Story.Causes) == 0 && len(b.Usage) == 0 {
		return nil
	}
	out := &PastBoth{This: "this span", Other: sentence(b.Name), Labels: []string{"At work", "Held idle", "Energy"}}
	if b.Begin.Equal(in.From) && len(in.Drawn) == 1 { // with another device
		out.This = sentence(p.name(&in.Drawn[0]))
	}
	if in.Price > 0 {
		out.Labels = append(out.Labels, "Cost")
	}
	byUser := map[string]*[2]history.Usage{}
	all := [2]history.Usage{{Joules: gpu.Of(0.0)}, {Joules: gpu.Of(0.0)}}
	for side, list := range [][]history.Usage{in.Usage, b.Usage} {
		for _, u := range list {
			if byUser[u.Name] == nil { // without a process there, a user drew nothing
				byUser[u.Name] = &[2]history.Usage{{Name: u.Name, Joules: gpu.Of(0.0)}, {Name: u.Name, Joules: gpu.Of(0.0)}}
			}
			byUser[u.Name][side] = u
			sum := &all[side]
			sum.Held, sum.Busy, sum.Joules = sum.Held+u.Held, sum.Busy+u.Busy, added(sum.Joules, u.Joules)
		}
	}
	users := slices.SortedFunc(maps.Values(byUser), func(a, b *[2]history.Usage) int {
		return cmp.Or(cmp.Compare(b[0].Held+b[1].Held, a[0].Held+a[1].Held), cmp.Compare(a[0].Name+a[1].Name, b[0].Name+b[1].Name))
	})
	if len(users) > 1 {
		out.Users = append(out.Users, PastBothUser{Value{Text: "all users"}, "", p.figures(&all)})
	}
	for _, u := range users[:min(len(users), pastUsers)] {
		out.Users = append(out.Users, PastBothUser{userName(u[0].Name), in.Hues.hueOf(u[0].Name), p.figures(u)})
	}
	if n := len(users) - pastUsers; n > 0 {
		out.Notes = append(out.Notes, "and "+explain.Plural(n, "more user", "more users")+".")
	}
	theirs := slices.Collect(maps.Values(b.Series))
	for _, side := range []struct {
		name   string
		unread time.Duration
	}{{out.This, unread(in.Series, in.Grid, in.Now)}, {out.Other, unread(theirs, b.Grid, in.Now)}} {
		if side.unread > 0 {
			out.Notes = append(out.Notes, sentence(capital(side.name)+": no readings for "+span(side.unread.Seconds())+", so who used what then is unknown."))
		}
	}
	return out
}

// added sums up known values.
func added(a, b gpu.Reading[float64]) gpu.Reading[float64] {
	if !b.Present() {
		return a
	}
	return gpu.Of(a.Or(0) + b.Or(0))
}

// unread returns for how long no device was read in the past part of a grid. It ignores a step or two, which may be only partly
// within the span.
func unread(series []history.Series, g history.Grid, now time.Time) time.Duration {
	missing, past := 0, 0
	for i := range g.Len() {
		if g.Time(i).Add(g.Step).After(now) {
			break
		}
		past++
		read := false
		for _, s := range series {
			for _, values := range s.Values {
				read = read || values[i].Count > 0
			}
		}
		if !read {
			missing++
		}
	}
	if missing <= max(2, past/100) {
		return 0
	}
	return time.Duration(missing) * g.Step
}

// figures returns a user's figures in both.
func (p *PastPage) figures(u *[2]history.Usage) (out []PastBothFigure) {
	length := func(figure func(*history.Usage) time.Duration) {
		a, b := figure(&u[0]), figure(&u[1])
		out = append(out, PastBothFigure{hours(a), hours(b), Value{Text: moreBy((a - b).Seconds(), span)}})
	}
	length(func(u *history.Usage) time.Duration { return u.Busy })
	length(func(u *history.Usage) time.Duration { return u.Held - u.Busy })
	amount := func(figure func(*history.Usage) gpu.Reading[float64], format func(float64) string) {
		a, b := figure(&u[0]), figure(&u[1])
		f := PastBothFigure{This: show(num(a), format), Other: show(num(b), format), More: Value{Text: "–"}}
		if a.Present() && b.Present() {
			f.More.Text = moreBy(a.Or(0)-b.Or(0), format)
		}
		out = append(out, f)
	}
	amount(func(u *history.Usage) gpu.Reading[float64] { return u.Joules }, energy)
	if p.in.Price > 0 {
		amount(func(u *history.Usage) gpu.Reading[float64] {
			return gpu.Map(u.KWh(), func(kwh float64) float64 { return kwh * p.in.Price })
		}, hundredth)
	}
	return out
}

// moreBy writes a difference with its sign; "same" if it rounds to zero.
func moreBy(v float64, format func(float64) string) string {
	switch text := format(max(v, -v)); {
	case text == format(0):
		return "same"
	case v < 0:
		return "−" + text
	default:
		return "+" + text
	}
}
