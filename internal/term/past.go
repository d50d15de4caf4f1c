package term

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

func newTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Past prints what happened over a span: the story in a sentence, and its chapters.
func Past(w io.Writer, p *contract.PastWhy) error {
	t := newTable(w)
	in := t.span(p.PastSpan)
	t.row(p.Sentence)
	if len(p.Chapters) > 0 {
		t.row("")
		t.row("FROM", "TO", "GPU", "WHAT")
	}
	for i := range p.Chapters {
		c := &p.Chapters[i]
		t.row(momentIn(in, c.From), momentIn(in, c.To), gpuOf(&c.PastGPU), c.Sentence)
	}
	if p.Next != nil {
		t.row("This list is not complete: ask about a shorter time, or use --csv to get everything.")
	}
	return t.Flush()
}

// Sessions prints processes that were on GPUs.
func Sessions(w io.Writer, p *contract.PastSessions) error {
	t := newTable(w)
	in := t.span(p.PastSpan)
	if len(p.Sessions) == 0 {
		t.row("No process was seen on a GPU.")
		return t.Flush()
	}
	var rows [][]string
	for i := range p.Sessions {
		s := &p.Sessions[i]
		end, ended := momentIn(in, s.To), map[string]string{"open": "", "ended": "ended", "unseen": "not seen", "gpu_lost": "GPU lost"}[s.Outcome]
		if s.Outcome == "open" {
			end = "now"
		}
		program := s.Program
		if program == "" {
			program = s.Name
		}
		rows = append(rows, []string{
			momentIn(in, s.From), end, gpuOf(&s.PastGPU), fmt.Sprint(s.PID), s.User, program,
			explain.Span(time.Duration(s.Busy * float64(time.Second))), text(s.PeakMemory, mebibytes),
			text(s.Joules, func(j gpu.Joules) string { return about(s.Estimated) + fmt.Sprintf("%.3f kWh", float64(j)/3.6e6) }), ended,
		})
	}
	return cmp.Or(t.Flush(), Rows(ScreenOf(w), []Column{
		{Title: "FROM"}, {Title: "TO", Rank: 2}, {Title: "GPU"}, {Title: "PID", Rank: 4}, {Title: "USER", Least: 6}, {Title: "PROGRAM", Least: 10}, {Title: "BUSY"},
		{Title: "PEAK MEMORY", Rank: 3}, {Title: "ENERGY", Rank: 1}, {Title: "ENDED", Rank: 5},
	}, rows))
}

// Usage prints who used GPUs.
func Usage(w io.Writer, p *contract.PastUsage) error {
	t := newTable(w)
	t.span(p.PastSpan)
	if len(p.Rows) == 0 {
		t.row("No process was seen on a GPU.")
		return t.Flush()
	}
	header := []string{map[string]string{"user": "USER", "process": "PROGRAM", "job": "JOB", "pod": "POD", "container": "CONTAINER", "unit": "UNIT", "gpu": "GPU", "node": "NODE", "cluster": "CLUSTER"}[p.By], "GPU-HOURS", "BUSY", "IDLE", "ENERGY"}
	if p.Price.Present() {
		header = append(header, "COST")
	}
	t.row(append(header, "SESSIONS")...)
	for i := range p.Rows {
		r := &p.Rows[i]
		name := r.Name
		switch {
		case r.GPU != nil:
			name = gpuOf(r.GPU) + " " + r.Name
		case r.User != "":
			name += " (" + r.User + ")"
		case name == "":
			name = "none or unknown"
		}
		cells := []string{name, hours(r.Held), hours(r.Busy), hours(r.Idle), known(r.KWh, about(r.Estimated)+"%.3f kWh")}
		if p.Price.Present() {
			cells = append(cells, known(r.Cost, about(r.Estimated)+"%.2f"))
		}
		t.row(append(cells, fmt.Sprint(r.Sessions))...)
	}
	return t.Flush()
}

// pastBanner is the line above an answer about GPUs that are not all real; empty above others.
func pastBanner(kinds []gpu.Kind) string {
	switch {
	case len(kinds) > 1:
		return "PARTLY NOT REAL: some of these GPUs are " + notLive(kinds) + "; sums include them."
	case len(kinds) == 1:
		return Banner(kinds[0])
	}
	return ""
}

func notLive(kinds []gpu.Kind) string {
	var out []string
	for _, k := range kinds {
		if k != gpu.Live {
			out = append(out, string(k))
		}
	}
	return strings.Join(out, " or ")
}

// gpuOf is a GPU's place, with a mark where its readings are not real.
func gpuOf(g *contract.PastGPU) string {
	if g.GPUKind == gpu.Live || g.GPUKind == "" {
		return fmt.Sprint(g.GPUID)
	}
	return fmt.Sprintf("%d (%s)", g.GPUID, g.GPUKind)
}

// about stands before a figure that is estimated for some of the time.
func about(estimated float64) string {
	if estimated > 0 {
		return "about "
	}
	return ""
}

// known is a number that may be absent.
func known(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func hours(h float64) string { return fmt.Sprintf("%.2f h", h) }

// span begins an answer, and returns the time zone of all its times.
func (t *table) span(s contract.PastSpan) *time.Location {
	if banner := pastBanner(s.Kinds); banner != "" {
		t.row(banner)
	}
	in := zoneOf(s)
	name := in.String()
	if in == time.Local { //nolint:gosmopolitan // it has no name of its own
		name = s.TimeZone
	}
	t.row("From " + momentIn(in, s.From) + " to " + momentIn(in, s.To) + " (" + name + "):")
	return in
}

// zoneOf is the time zone of an answer. A zone named only by its offset is taken for this machine's zone if that has the same
// offset at that time, so that it follows changes of the clock.
func zoneOf(s contract.PastSpan) *time.Location {
	if zone, err := time.LoadLocation(s.TimeZone); err == nil && s.TimeZone != "" {
		return zone
	}
	hours, err := time.Parse("-07:00", s.TimeZone)
	if err != nil {
		return time.UTC
	}
	_, offset := hours.Zone()
	zone := time.Local //nolint:gosmopolitan // of the person who reads
	if begin, err := time.Parse(time.RFC3339, s.From); err == nil {
		if _, here := begin.In(zone).Zone(); here == offset {
			return zone
		}
	}
	return time.FixedZone(s.TimeZone, offset)
}

// Moment is the day and time of a timestamp, in the local time zone.
func Moment(timestamp string) string { return momentIn(time.Local, timestamp) } //nolint:gosmopolitan // of the person who reads

func momentIn(zone *time.Location, timestamp string) string {
	parsed, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return timestamp
	}
	return explain.Clock(parsed.In(zone), "Mon 2006-01-02 15:04:05")
}

// PastSize prints the size of the stored history.
func PastSize(w io.Writer, p *contract.PastSize) error {
	t := newTable(w)
	t.row("The stored history takes " + explain.Size(p.Bytes) + ", and will take about " + explain.Size(p.Full) + " when full.")
	t.row("")
	var rows [][]string
	for i := range p.Kinds {
		k := &p.Kinds[i]
		from, to, kept, full := "-", "-", "ever", "unknown yet"
		if k.Oldest != nil {
			from = Moment(*k.Oldest)
		}
		if k.Newest != nil {
			to = Moment(*k.Newest)
		}
		if k.For != nil {
			kept = days(*k.For)
		}
		if k.FullBytes != nil {
			full = explain.Size(*k.FullBytes)
		}
		rows = append(rows, []string{k.Kind, fmt.Sprint(k.Rows), explain.Size(k.Bytes), from, to, kept, full})
	}
	s := ScreenOf(w)
	if err := cmp.Or(t.Flush(), Rows(s, []Column{
		{Title: "KIND"}, {Title: "ROWS"}, {Title: "SIZE"}, {Title: "FROM", Rank: 2}, {Title: "TO", Rank: 3}, {Title: "KEPT FOR"}, {Title: "WHEN FULL", Rank: 1},
	}, rows)); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\n"+strings.Join(Wrapped(s, p.How, ""), "\n"))
	return err
}

// days are seconds as people set how long something is kept.
func days(seconds float64) string {
	hours := seconds / 3600
	if hours < 72 {
		return fmt.Sprintf("%.0f h", hours)
	}
	return fmt.Sprintf("%.0f d", hours/24)
}
