package term

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// An Answer is what [Brief] and [Evidence] print: about a machine, or about one GPU.
type Answer struct {
	Source string // of the readings
	contract.Layers
	Causes []contract.Cause  // first the machine's, then each GPU's, loudest first
	GPUs   []contract.GPUWhy // of a machine; nil if it is about one GPU
}

// longest is how many lines [Brief] prints, on a screen of 80 columns or more.
const longest = 10

// Brief prints an answer in ten lines: for each GPU that matters its headline, three facts and what to do, loudest first, and once
// what is true of several.
func Brief(s Screen, a *Answer) error {
	var out []string
	if banner := Banner(gpu.KindOf(a.Source)); banner != "" {
		out = append(out, s.Styled(Warn, banner))
	}
	if len(a.GPUs) < 2 || !slices.ContainsFunc(a.Causes, func(c contract.Cause) bool { return c.GPUUUID != nil }) {
		alone := a.Layers
		if alone.Action.Text == "" && len(a.Causes) > 0 {
			alone.Action.Text = a.Causes[0].Advice
		}
		out = append(out, block(s, &alone, a.Rest)...)
		return a.end(s, out)
	}
	matter, quiet := a.matter()
	common, told := a.common()
	var end []string
	for _, line := range common {
		end = append(end, wrap(line, s.Width, "  ")...)
	}
	if line := others(quiet); line != "" && len(matter) > 0 {
		end = append(end, wrap(line, s.Width, "  ")...)
	}
	room := longest - len(out) - len(end)
	if s.Terminal {
		room-- // for the last line
	}
	if len(matter) == 0 || !a.aboutOne() { // it is about the machine, for example about another fan
		whole := a.Layers
		if len(matter) > 0 && slices.Equal(whole.Facts, matter[0].Facts) && whole.Action == matter[0].Action {
			whole.Facts, whole.Action = nil, contract.Action{} // its GPU says them below
		}
		about := block(s, &whole, "")
		out, room = append(out, about...), room-len(about)
	}
	for i, g := range matter {
		lines, left := block(s, &g.Layers, without(g.Rest, told)), len(matter)-i-1
		place := g.place(a.GPUs)
		lines[0] = place + lines[0]
		if i > 0 && len(lines)+left > room { // the others get a line each
			lines = []string{inLine(s, place, &g.Layers)}
		}
		if i > 0 && left > 0 && len(lines)+1 > room {
			end = append(wrap(count(left+1, "other GPU is at work or needs somebody.", "other GPUs are at work or need somebody."), s.Width, "  "), end...)
			break
		}
		out, room = append(out, lines...), room-len(lines)
	}
	return a.end(s, append(out, end...))
}

// inLine is a headline with the first facts, as far as they fit.
func inLine(s Screen, place string, l *contract.Layers) string {
	text, style := place+strings.TrimSuffix(l.Headline, "."), Plain
	if l.Broken {
		style = Bad
	}
	if s.Width > 0 {
		text = shortened(text, s.Width)
	}
	line, used := s.Styled(style, text), len([]rune(text))
	for _, f := range l.Facts[:min(len(l.Facts), mostFacts)] {
		more := " · " + f.Text
		if used += len([]rune(more)); s.Width > 0 && used > s.Width {
			break
		}
		line += s.Styled(Faint, more)
	}
	return line
}

// end prints the lines and, to a person, how to see more.
func (a *Answer) end(s Screen, lines []string) error {
	if s.Terminal && len(a.Causes) > 0 {
		lines = append(lines, s.Styled(Faint, "'gpuwhy why -v' shows the evidence."))
	}
	_, err := io.WriteString(s, strings.Join(lines, "\n")+"\n")
	return err
}

// block is a headline, with three facts, the rest and what to do.
func block(s Screen, l *contract.Layers, rest string) []string {
	style := Strong
	if l.Broken {
		style = Bad
	}
	out := styledLines(s, style, l.Headline)
	if facts := factsOf(s, l.Facts, rest); facts != "" {
		out = append(out, facts)
	}
	switch {
	case l.Action.Command != "": // it can be copied: it is not broken into lines
		out = append(out, purpose(l)+s.Styled(Strong, l.Action.Command))
	case l.Action.Text != "":
		out = append(out, wrap("  what helps: "+Printable(firstSentence(l.Action.Text)), s.Width, "    ")...)
	}
	return out
}

// purpose says what the command of an answer is for.
func purpose(l *contract.Layers) string {
	if l.Broken {
		return "  to mend it: "
	}
	return "  to stop it: "
}

// mostFacts is how many facts [Brief] prints for one GPU.
const mostFacts = 3

// factsOf is a line with facts, first those near a limit, and as much of the rest as fits.
func factsOf(s Screen, facts []contract.Fact, rest string) string {
	chosen := slices.Clone(facts)
	if len(chosen) > mostFacts {
		slices.SortStableFunc(chosen, func(a, b contract.Fact) int { return weight(b.Warning) - weight(a.Warning) })
		chosen = chosen[:mostFacts]
	}
	const between = " · "
	line, used := " ", 1
	put := func(text string, style Style) bool {
		mark := between
		if used == 1 {
			mark = " "
		}
		n := len([]rune(mark + text))
		if s.Width > 0 && used+n > s.Width && used > 1 {
			return false
		}
		line, used = line+mark+s.Styled(style, text), used+n
		return true
	}
	for _, f := range chosen {
		style := Plain
		if f.Warning {
			style = Warn
		}
		put(f.Text, style)
	}
	for part := range strings.SplitSeq(rest, between) {
		if part != "" && !put(part, Plain) {
			break
		}
	}
	if used == 1 {
		return ""
	}
	return line
}

func weight(heavy bool) int {
	if heavy {
		return 1
	}
	return 0
}

// firstSentence is the first of several; what helps most comes first.
func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}

// without returns parts of a rest, except those that are told of several GPUs at once.
func without(rest string, told []string) string {
	parts := slices.DeleteFunc(strings.Split(rest, " · "), func(part string) bool { return slices.Contains(told, part) })
	return strings.Join(parts, " · ")
}

// restful are the kinds of first causes that explain no noise.
var restful = map[explain.Kind]string{explain.Idle: "idle", explain.Asleep: "asleep", explain.ChassisFans: "idle", explain.NotKnowable: "not known"}

// A ranked is a GPU's answer with the kind of its first cause.
type ranked struct {
	*contract.GPUWhy
	kind explain.Kind
}

// place says on which machine a GPU is, where there are several.
func (r *ranked) place(all []contract.GPUWhy) string {
	if slices.ContainsFunc(all, func(g contract.GPUWhy) bool { return g.Node != all[0].Node }) {
		return Printable(r.Node) + ": "
	}
	return ""
}

// matter returns the GPUs that may be heard or need somebody, loudest first, and the others.
func (a *Answer) matter() (matter, quiet []ranked) {
	for _, r := range a.rank() {
		if restful[r.kind] == "" {
			matter = append(matter, r)
		} else {
			quiet = append(quiet, r)
		}
	}
	return matter, quiet
}

// rank returns the GPUs in the order of the causes.
func (a *Answer) rank() (out []ranked) {
	type key struct{ node, uuid string }
	known, byKey := map[key]bool{}, map[key]*contract.GPUWhy{}
	for i := range a.GPUs {
		byKey[key{a.GPUs[i].Node, a.GPUs[i].GPUUUID}] = &a.GPUs[i]
	}
	for i := range a.Causes {
		c := &a.Causes[i]
		if c.GPUUUID == nil {
			continue
		}
		k := key{c.Node, *c.GPUUUID}
		if g := byKey[k]; g != nil && !known[k] {
			known[k] = true
			out = append(out, ranked{g, explain.Kind(c.Kind)})
		}
	}
	return out
}

// aboutOne reports whether the machine's headline is about one of its GPUs, which has it too.
func (a *Answer) aboutOne() bool {
	return slices.ContainsFunc(a.GPUs, func(g contract.GPUWhy) bool { return g.Headline == a.Headline })
}

// others says how many GPUs are quiet, and how: "5 other GPUs are idle, 1 is asleep."
func others(quiet []ranked) string {
	var parts []string
	for _, how := range []string{"idle", "asleep", "not known"} {
		n := 0
		for _, r := range quiet {
			if restful[r.kind] == how {
				n++
			}
		}
		one, many := "is "+how, "are "+how
		if len(parts) == 0 {
			one, many = "other GPU "+one, "other GPUs "+many
		}
		if n > 0 {
			parts = append(parts, count(n, one, many))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + "."
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// A plural says of several GPUs at once what a cause says of each, without figures.
type plural struct{ clause, rest string }

// plurals are by the kind of a cause and the end of its sentence.
var plurals = map[explain.Kind]struct {
	end string
	plural
}{
	explain.ChassisFans: {"has no fan of its own: you hear the chassis fans.", plural{"have no fan of their own: you hear the chassis fans", "the chassis fans cool it"}},
	explain.Asleep:      {"is asleep: the system has powered it down.", plural{"are asleep: the system has powered them down", ""}},
}

// pluralOf is how several say what a cause says of one; false if each says something else.
func pluralOf(c *contract.Cause) (plural, bool) {
	p, is := plurals[explain.Kind(c.Kind)]
	return p.plural, is && c.GPUUUID != nil && strings.HasSuffix(c.Sentence, p.end)
}

// common are sentences about what is true of several GPUs. told are the same facts as the rest of one GPU has them.
func (a *Answer) common() (lines, told []string) {
	for _, g := range a.grouped() {
		if p, several := pluralOf(&a.Causes[g[0]]); several && len(g) > 1 && explain.Kind(a.Causes[g[0]].Kind) != explain.Asleep { // those are among the others
			lines, told = append(lines, a.who(g)+" "+p.clause+"."), append(told, p.rest)
		}
	}
	return lines, told
}

// grouped returns the causes by their places in the list: alone, or with those that say the same of other GPUs.
func (a *Answer) grouped() (out [][]int) {
	at := map[explain.Kind]int{}
	for i := range a.Causes {
		kind := explain.Kind(a.Causes[i].Kind)
		if _, several := pluralOf(&a.Causes[i]); several {
			if first, begun := at[kind]; begun {
				out[first] = append(out[first], i)
				continue
			}
			at[kind] = len(out)
		}
		out = append(out, []int{i})
	}
	return out
}

// who names the GPUs of a group of causes: "All 8 GPUs", "3 of 8 GPUs".
func (a *Answer) who(group []int) string {
	all := max(len(a.GPUs), len(group))
	switch {
	case len(group) == all && all == 2:
		return "Both GPUs"
	case len(group) == all:
		return fmt.Sprintf("All %d GPUs", all)
	}
	return fmt.Sprintf("%d of %d GPUs", len(group), all)
}

// Evidence prints an answer: its layers, what comes next, then each cause with its evidence and advice.
func Evidence(s Screen, a *Answer) error {
	var out []string
	say := func(text string) { out = append(out, wrap(Printable(text), s.Width, "    ")...) }
	if banner := Banner(gpu.KindOf(a.Source)); banner != "" {
		out = append(out, s.Styled(Warn, banner))
	}
	style := Strong
	if a.Broken {
		style = Bad
	}
	out = append(out, styledLines(s, style, a.Headline)...)
	var facts []string
	for _, f := range a.Facts {
		facts = append(facts, f.Text)
	}
	for _, line := range []string{strings.Join(facts, " · "), a.Rest} {
		if line != "" {
			say("  " + line)
		}
	}
	if a.Action.Command != "" {
		out = append(out, purpose(&a.Layers)+Printable(a.Action.Command))
	}
	for i, p := range a.Next {
		if i == 0 {
			out = append(out, "", "What comes next:")
		}
		say("  " + p.Sentence)
	}
	for _, g := range a.grouped() {
		c := a.Causes[g[0]]
		if p, _ := pluralOf(&c); len(g) > 1 {
			c.Sentence, c.Since = a.who(g)+" "+p.clause+".", nil
			c.Evidence = slices.DeleteFunc(slices.Clone(c.Evidence), func(e contract.Evidence) bool { return !a.shared(g, &e) })
		}
		out = append(out, "")
		out = append(out, styledLines(s, Strong, c.Sentence)...)
		say("  certainty: " + c.Certainty)
		if c.Since != nil {
			say("  since: " + Clock(*c.Since))
		}
		for _, e := range c.Evidence {
			if e.Moment && e.At != nil {
				e.Text = Clock(*e.At)
			}
			say("  " + e.Name + ": " + e.Text)
		}
		if c.Advice != "" {
			say("  what helps: " + c.Advice)
		}
	}
	_, err := io.WriteString(s, strings.Join(out, "\n")+"\n")
	return err
}

// shared reports whether all causes of a group have the same evidence.
func (a *Answer) shared(group []int, e *contract.Evidence) bool {
	return !slices.ContainsFunc(group, func(i int) bool {
		return !slices.ContainsFunc(a.Causes[i].Evidence, func(o contract.Evidence) bool { return o.Name == e.Name && o.Text == e.Text })
	})
}
