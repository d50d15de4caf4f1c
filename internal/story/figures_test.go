//go:build !race

package story

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A tally is how many answers were judged, and how many of them were wrong.
type tally struct{ all, wrong int }

func (t *tally) add(right bool) {
	t.all++
	if !right {
		t.wrong++
	}
}

func (t tally) right() string {
	if t.all == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(t.all-t.wrong)/float64(t.all))
}

func (t tally) String() string {
	if t.wrong == 0 {
		return fmt.Sprint(t.all)
	}
	return fmt.Sprintf("%d, %d wrong", t.all, t.wrong)
}

// A row is the tallies of some answers: all of them, and by certainty.
type row struct {
	tally
	tallies map[string]tally
}

// figures are what came of all stories.
type figures struct {
	stories, inRealTime, restless int
	plays                         time.Duration
	total                         *row
	folders                       map[string]*row // by kind of story
	kinds                         map[string]*row // by kind of cause
	wrong                         []string        // the first two of each kind of mistake in each story
}

func newFigures() *figures {
	return &figures{total: &row{}, folders: map[string]*row{}, kinds: map[string]*row{}}
}

// add adds a story. How one in real time went depends on the machine a little: it is judged
// and not part of what is measured.
func (f *figures) add(folder, story string, inRealTime bool, r *result) {
	if inRealTime {
		f.inRealTime++
		for _, m := range r.Marks {
			rowOf(f.folders, folder).note(&m)
		}
		return
	}
	f.stories++
	f.plays += r.Plays
	if r.Restless {
		f.restless++
	}
	for _, wrong := range r.Wrong {
		what, _, _ := strings.Cut(wrong, ": [") // without the sentence
		f.wrong = append(f.wrong, fmt.Sprintf("- %s/%s: %s\n", folder, story, what))
	}
	for _, m := range r.Marks {
		f.total.note(&m)
		rowOf(f.folders, folder).note(&m)
		rowOf(f.kinds, m.Kind).note(&m)
	}
}

func rowOf(rows map[string]*row, key string) *row {
	if rows[key] == nil {
		rows[key] = &row{}
	}
	return rows[key]
}

func (r *row) note(m *mark) {
	r.add(m.Right)
	if r.tallies == nil {
		r.tallies = map[string]tally{}
	}
	t := r.tallies[m.Certainty]
	t.add(m.Right)
	r.tallies[m.Certainty] = t
}

var certainties = []explain.Confidence{explain.High, explain.Medium, explain.Low}

// text is the figures for a terminal.
func (f *figures) text() string {
	var b strings.Builder
	line := func(name string, r *row) {
		high := r.tallies[explain.High.String()]
		fmt.Fprintf(&b, "%-22s %5d judged  %5d right (%s)  %3d wrong  %3d of them with high certainty\n",
			name, r.all, r.all-r.wrong, r.right(), r.wrong, high.wrong)
	}
	for _, name := range slices.Sorted(maps.Keys(f.folders)) {
		line(name, f.folders[name])
	}
	line("all", f.total)
	fmt.Fprintf(&b, "%d stories of %.0f hours; %d whose first cause changes too often\n\n", f.stories, f.plays.Hours(), f.restless)
	for _, c := range certainties {
		t := f.total.tallies[c.String()]
		fmt.Fprintf(&b, "%-22s %5d said    %5d right (%s)\n", c, t.all, t.all-t.wrong, t.right())
	}
	b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(f.kinds)) {
		line(name, f.kinds[name])
	}
	return b.String()
}

// markdown is the figures for docs/why.md.
func (f *figures) markdown() string {
	var b strings.Builder
	all, high := f.total, f.total.tallies[explain.High.String()]
	fmt.Fprintf(&b, "In %d stories of %.0f hours in all, %d answers were judged. ", f.stories, f.plays.Hours(), all.all)
	fmt.Fprintf(&b, "%d were right (%s); ", all.all-all.wrong, all.right())
	fmt.Fprintf(&b, "of the %d wrong ones, %d were said with high\n", all.wrong, high.wrong)
	b.WriteString("certainty. ")
	fmt.Fprintf(&b, "In %d stories the first cause changed more often than a person would change their mind.\n\n", f.restless)
	b.WriteString("| certainty | answers | right | |\n| --- | ---: | ---: | ---: |\n")
	for _, c := range certainties {
		t := f.total.tallies[c.String()]
		fmt.Fprintf(&b, "| %v | %d | %d | %s |\n", c, t.all, t.all-t.wrong, t.right())
	}
	b.WriteString("\n| first cause | answers | wrong | high | medium | low |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, name := range slices.Sorted(maps.Keys(f.kinds)) {
		r := f.kinds[name]
		fmt.Fprintf(&b, "| %s | %d | %d |", name, r.all, r.wrong)
		for _, c := range certainties {
			fmt.Fprintf(&b, " %v |", r.tallies[c.String()])
		}
		b.WriteString("\n")
	}
	if len(f.wrong) > 0 {
		b.WriteString("\nWrong answers, by story:\n\n" + strings.Join(slices.Sorted(slices.Values(f.wrong)), ""))
	}
	return b.String()
}

const (
	why       = "../../docs/why.md"
	measured  = "<!-- measured: `make stories` writes what follows -->\n\n"
	untilHere = "\n<!-- until here -->"
)

// report prints the figures if that is asked for. If all stories were played, docs/why.md
// has these figures, or gets them.
func report(t *testing.T, f *figures, stories int) {
	t.Helper()
	if *table {
		fmt.Fprint(os.Stdout, f.text())
	}
	if f.stories+f.inRealTime != stories || *folder != ownFolder {
		return
	}
	text, err := os.ReadFile(why)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), measured)
	have, after, ends := strings.Cut(rest, untilHere)
	switch want := f.markdown(); {
	case !begins || !ends:
		t.Errorf("%s has no place for what was measured", why)
	case have == want:
	case *update:
		if err := os.WriteFile(why, []byte(before+measured+want+untilHere+after), 0o644); err != nil {
			t.Error(err)
		}
	default:
		t.Errorf("%s has other figures than those that were measured: make stories", why)
	}
}
