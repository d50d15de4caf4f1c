// Package term prints for people at a terminal: tables, answers and JSON. It replaces control
// characters, so that no device or process name can control the terminal.
package term

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Banner is the line above simulated or recorded readings; empty for current readings of a machine.
func Banner(kind gpu.Kind) string {
	switch kind {
	case gpu.Simulated:
		return "SIMULATED: none of these readings is real."
	case gpu.Recorded:
		return "RECORDED: these readings are not of this machine as it is now."
	}
	return ""
}

// JSON prints an answer for people and programs.
func JSON(w io.Writer, answer any) error {
	encoder := json.NewEncoder(escaping{w})
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(answer)
}

// JSONLine prints an answer on a line of its own.
func JSONLine(w io.Writer, answer any) error { return json.NewEncoder(escaping{w}).Encode(answer) }

// escaping writes JSON, and escapes what could control a terminal; it is within strings alone.
type escaping struct{ io.Writer }

// Write writes whole JSON texts.
func (e escaping) Write(p []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(p) {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(e.Writer, b.String())
	return len(p), err
}

type table struct{ *tabwriter.Writer }

// row writes cells. Names can't move the terminal's cursor or its columns.
func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = Printable(c)
	}
	fmt.Fprintln(t, strings.Join(cells, "\t")) // an error comes back from Flush
}

// runsIn is a process's pod or container and its job, or else its unit; "-" if none is known.
func runsIn(f *gpu.ProcessFacts) string {
	var in []string
	switch c, p := f.Container.Or(gpu.Container{}), f.Pod.Or(gpu.Pod{}); {
	case p.Name.Present():
		in = append(in, "pod "+p.Namespace.Or("?")+"/"+p.Name.Or(""))
	case !p.None():
		in = append(in, "pod "+short(p.UID))
	case !c.None():
		in = append(in, cmp.Or(c.Runtime, "container")+" "+c.Name.Or(short(c.ID)))
	}
	if j := f.Job.Or(gpu.Job{}); !j.None() {
		in = append(in, fmt.Sprintf("job %d", j.ID))
	}
	if u := f.Unit.Or(gpu.Unit{}); len(in) == 0 && u.Name != "" {
		in = append(in, u.Name)
	}
	return cmp.Or(strings.Join(in, ", "), "-")
}

// short is an id as far as people read it.
func short(id string) string { return id[:min(len(id), 12)] }

// text is a reading for a table: "-" where there is none.
func text[T any](r gpu.Reading[T], format func(T) string) string {
	if v, ok := r.Get(); ok {
		return format(v)
	}
	return "-"
}

func percent(p gpu.Percent) string     { return fmt.Sprintf("%.0f %%", float64(p)) }
func celsius(c gpu.Celsius) string     { return fmt.Sprintf("%.0f °C", float64(c)) }
func megahertz(m gpu.Megahertz) string { return fmt.Sprintf("%.0f MHz", float64(m)) }
func watts(w gpu.Watts) string         { return fmt.Sprintf("%.0f W", float64(w)) }
func mebibytes(b gpu.Bytes) string     { return fmt.Sprintf("%.0f MiB", b.MiB()) }

// Printable replaces characters that could control a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Clock is the time of day of a timestamp, in the local time zone.
func Clock(timestamp string) string {
	parsed, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return timestamp
	}
	return parsed.Local().Format(time.TimeOnly)
}
