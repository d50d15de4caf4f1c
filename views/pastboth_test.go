//go:build !race

package views

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Who used what in two spans stands side by side. Who was not there used nothing; what is not known is no zero.
func TestPastBoth(t *testing.T) {
	use := func(name string, held, busy time.Duration, kwh float64) history.Usage {
		u := history.Usage{Name: name, Held: held, Busy: busy}
		if kwh > 0 {
			u.Joules = gpu.Of(kwh * 3.6e6)
		}
		return u
	}
	in := PastInput{
		From: noon.Add(-2 * time.Hour), To: noon, Price: 0.5,
		Usage:  []history.Usage{use("ann", 3*time.Hour, 2*time.Hour, 4), use("bob", time.Hour, time.Hour, 0)},
		Beside: &PastBeside{Name: "the day before", Begin: noon.Add(-26 * time.Hour), Story: &history.Story{}},
	}
	in.Now = noon
	in.Grid = history.Grid{From: in.From, To: in.To, Step: time.Minute}
	series := history.Series{Values: [][]store.Value{make([]store.Value, in.Grid.Len())}}
	for i := range 90 { // of the last half hour nothing was read
		series.Values[0][i].Count = 1
	}
	in.Series = []history.Series{series}
	in.Beside.Grid = in.Grid
	p := PastPage{in: &in}
	if p.both() != nil {
		t.Error("of a day of which nothing is known it is told who used what")
	}
	in.Beside.Usage = []history.Usage{use("ann", 3*time.Hour, 150*time.Minute, 1), use("<b>", 10*time.Minute, 0, 2)}
	b := p.both()
	var rows []string
	for _, u := range b.Users {
		var cells []string
		for _, f := range u.Figures {
			cells = append(cells, f.This.Text+" / "+f.Other.Text+" / "+f.More.Text)
		}
		rows = append(rows, strings.ReplaceAll(u.Name.Text+": "+strings.Join(cells, "; "), nbsp, " "))
	}
	want := []string{
		"all users: 3 h 0 min / 2 h 30 min / +30 min; 1 h 0 min / 40 min / +20 min; 4.0 kWh / 3.0 kWh / +1.0 kWh; 2.00 / 1.50 / +0.50",
		"ann: 2 h 0 min / 2 h 30 min / −30 min; 1 h 0 min / 30 min / +30 min; 4.0 kWh / 1.0 kWh / +3.0 kWh; 2.00 / 0.50 / +1.50",
		"bob: 1 h 0 min / 0 s / +1 h 0 min; 0 s / 0 s / same; not reported / 0 Wh / –; not reported / 0.00 / –",
		"<b>: 0 s / 0 s / same; 0 s / 10 min / −10 min; 0 Wh / 2.0 kWh / −2.0 kWh; 0.00 / 1.00 / −1.00",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	notes := []string{
		"This span: no readings for 30 min, so who used what then is unknown.", "The day before: no readings for 2 h 0 min, so who used what then is unknown.",
	}
	if got := strings.ReplaceAll(strings.Join(b.Notes, "|"), nbsp, " "); got != strings.Join(notes, "|") {
		t.Errorf("%q", got)
	}
	if html := render(t, pastBoth(b)); strings.Contains(html, "<b></bdi>") || strings.Count(html, "<tr>") != 6 {
		t.Error("what a user is called is markup, or rows are missing")
	}
}
