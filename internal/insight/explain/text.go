package explain

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// DeviceName names a device in a sentence: "GPU 0 (NVIDIA H100 PCIe)".
func DeviceName(d *gpu.Device) string {
	if d.Name == "" {
		return "GPU " + strconv.Itoa(d.Index)
	}
	return "GPU " + strconv.Itoa(d.Index) + " (" + nameOf(d.Name) + ")"
}

// ProcessName names a process in a sentence: "python (pid 4242, alice)", or "python (pid 4242, alice, container trainer)". A process whose
// name the host can't see is "a process (pid 4242)"; one that no longer exists is "a process that has ended (pid 4242)".
func ProcessName(p *gpu.Process) string {
	name := called(p)
	parts := []string{"pid " + strconv.Itoa(p.PID)}
	if user := p.Facts.User.Or(""); user != "" {
		parts = append(parts, userName(user))
	}
	if owner := belongsTo(&p.Facts); owner != "" {
		parts = append(parts, owner)
	}
	return name + " (" + strings.Join(parts, ", ") + ")"
}

// called returns what people call a process: the script or program that it runs. It quotes a name that would read as words.
func called(p *gpu.Process) string {
	name := runs(p)
	switch {
	case name == "" && gone(p):
		return "a process that has ended"
	case name == "":
		return "a process"
	case asPeopleSay().MatchString(name):
		return nameOf(name)
	default:
		return quoted(name)
	}
}

// quoted returns a name from outside, in quotation marks if it would read as words.
func quoted(name string) string {
	if readsAsWords(name) {
		return "“" + nameOf(name) + "”"
	}
	return nameOf(name)
}

func userName(user string) string { return quoted(user) }

// readsAsWords reports whether a name would read as a part of the sentence around it.
func readsAsWords(name string) bool {
	return strings.ContainsFunc(name, separates) || sentenceWords[strings.ToLower(name)]
}

func separates(r rune) bool {
	switch r {
	case '(', ')', '[', ']', '{', '}', ',', ';', '“', '”', '"', '\t', '\n', '\f', '\r':
		return true
	}
	return unicode.Is(unicode.Z, r)
}

var sentenceWords = newSet(`anything anybody anyone everything everybody everyone noone nothing nobody something somebody someone
	none nowhere no not a an the it they you your what who work idle unknown process processes gpu gpus fan fans display heat dust gpuwhy`)

func newSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// asPeopleSay matches names with spaces that gpuwhy itself makes.
var asPeopleSay = lazy.Pattern(`^(?:vllm serve|ollama runner|jupyter kernel(?: of [^()\[\]{},;“”"\s\p{Z}]+\.ipynb)?)$`)

// runs returns the script or program that a process runs; empty if not known.
func runs(p *gpu.Process) string { return p.Facts.Program.Or(p.Facts.Name.Or("")) }

// gone reports whether a process is known to no longer exist.
func gone(p *gpu.Process) bool { return !p.Facts.Exists.Or(true) }

// belongsTo names the pod, container, job or service of a process, if it is known to be in one.
func belongsTo(f *gpu.ProcessFacts) string {
	pod, container := f.Pod.Or(gpu.Pod{}), f.Container.Or(gpu.Container{})
	job, unit := f.Job.Or(gpu.Job{}), f.Unit.Or(gpu.Unit{})
	switch {
	case !pod.None() && pod.Name.Or("") != "":
		return "pod " + nameOf(strings.TrimPrefix(pod.Namespace.Or("")+"/"+pod.Name.Or(""), "/"))
	case !pod.None():
		return "pod " + nameOf(pod.UID)
	case !container.None():
		return "container " + nameOf(cmp.Or(container.Name.Or(""), container.ID[:min(len(container.ID), 12)]))
	case !job.None():
		return "job " + strconv.Itoa(job.ID)
	case strings.HasSuffix(unit.Name, ".service") && !strings.HasPrefix(unit.Name, "user@"):
		return nameOf(unit.Name)
	default:
		return ""
	}
}

// nameOf and textOf make a name or a text from outside fit for a sentence.
func nameOf(s string) string { return clean(s, 80) }
func textOf(s string) string { return clean(s, 400) }

func clean(s string, longest int) string {
	if utf8.RuneCountInString(s) > longest {
		s = string([]rune(s)[:longest-1]) + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// ours are beginnings of sentences that are capitalized: they are not names of processes.
var ours = []string{
	"a process (", "a process that has ended (", "a process that gpuwhy can't see (", "leftovers from ",
	"a fan ", "a display ", "clocks set ", "monitoring (", "fan ", "the fan ", "the driver ", "the machine needs ", "not known about ", "a part of GPU ",
}

func sentence(clauses ...string) string {
	text := strings.TrimRight(strings.Join(clauses, "; "), ".")
	for _, beginning := range ours {
		if strings.HasPrefix(text, beginning) {
			text = strings.ToUpper(text[:1]) + text[1:]
			break
		}
	}
	return text + "."
}

// inside returns a sentence in the form that fits inside another one.
func inside(text string) string {
	for _, beginning := range append(ours, "it is not ", "the ") {
		if first := strings.ToUpper(beginning[:1]) + beginning[1:]; strings.HasPrefix(text, first) {
			return beginning + text[len(first):]
		}
	}
	return text
}

// capital begins a text from outside as a sentence does. The name gpuwhy has no capital letter.
func capital(s string) string {
	s = textOf(s)
	if s == "" || strings.HasPrefix(s, "gpuwhy") {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// Plural returns a number of things: "1 process", "2 processes".
func Plural(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return strconv.Itoa(n) + " " + many
}

// number returns a value rounded for people, never "-0".
func number(v float64) string { return strconv.FormatInt(int64(math.Round(v)), 10) }

func withUnit(v float64, unit string) string {
	return strings.TrimSuffix(number(v)+" "+unit, " ")
}

// Clock formats a time. If the clocks of its zone show it twice, as after they were set back, the zone is added: "02:30 CEST".
func Clock(t time.Time, layout string) string {
	name, offset := t.Zone()
	begins, ends := t.ZoneBounds()
	other, twice := "", false
	if !begins.IsZero() {
		before, was := begins.Add(-1).Zone()
		if t.Sub(begins) < time.Duration(was-offset)*time.Second {
			other, twice = before, true
		}
	}
	if !ends.IsZero() {
		after, is := ends.Zone()
		if ends.Sub(t) <= time.Duration(offset-is)*time.Second {
			other, twice = after, true
		}
	}
	switch {
	case !twice:
	case name == other:
		layout += " -07:00"
	default:
		layout += " MST"
	}
	return t.Format(layout)
}

// Span returns a duration as people say it: "40 s", "12 min".
func Span(d time.Duration) string {
	whole := func(unit time.Duration) string { return strconv.Itoa(int(d / unit)) }
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
	case d < 90*time.Minute:
		return whole(time.Minute) + " min"
	case d < 48*time.Hour:
		return whole(time.Hour) + " h"
	default:
		return strconv.Itoa(int(d/(24*time.Hour))) + " days"
	}
}

// Size returns the size of a file as people say it: "331 MB". 1 kB is 1,000 bytes.
func Size(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if size < 999.5 {
			break
		}
		size, unit = size/1000, next
	}
	decimals := 1
	if unit == "B" || size >= 99.95 {
		decimals = 0
	}
	return strconv.FormatFloat(size, 'f', decimals, 64) + " " + unit
}

// others returns " with 2 other processes"; empty for none.
func others(n int) string {
	if n <= 0 {
		return ""
	}
	return withOthers(n)
}

// summary returns a summary such as "71 °C, 431 W of 450 W, fan at 66 %".
func (d *device) summary() string {
	var out []string
	if present(d.temp) {
		out = append(out, withUnit(d.temp, "°C"))
	}
	if d.hotSpot >= 80 && d.hotSpot >= d.temp+10 {
		out = append(out, "hot spot "+withUnit(d.hotSpot, "°C"))
	}
	if present(d.power) {
		text := withUnit(d.power, "W")
		if present(d.limit) {
			text += " of " + withUnit(d.limit, "W")
		}
		out = append(out, text)
	}
	switch {
	case !present(d.fan):
	case d.fan == 0 && !(d.rpm > 0):
		out = append(out, "fan off")
	default:
		out = append(out, "fan at "+d.fanSpeed())
	}
	return strings.Join(out, ", ")
}

// fanSpeed returns how fast the fan turns, as the driver reports it.
func (d *device) fanSpeed() string {
	if d.byRPM {
		return withUnit(d.rpm, "RPM")
	}
	return withUnit(d.fan, "%")
}

// figure adds a number as evidence, unless it is NaN.
func (f *finding) figure(name string, value float64, unit string) *finding {
	if present(value) {
		text := withUnit(value, unit)
		if unit == "MiB" && value >= 1024 { // as on the page
			text = strconv.FormatFloat(value/1024, 'f', 1, 64) + " GiB"
		}
		f.Evidence = append(f.Evidence, Evidence{Name: name, Value: gpu.Of(value), Unit: unit, Text: text, At: f.readAt})
	}
	return f
}

// fact adds a text as evidence, unless it is empty.
func (f *finding) fact(name, text string) {
	if text != "" {
		f.Evidence = append(f.Evidence, Evidence{Name: name, Text: text, At: f.readAt})
	}
}

func (f *finding) happened(name string, moment time.Time) {
	f.Evidence = append(f.Evidence, Evidence{Name: name, Text: moment.UTC().Format("2006-01-02 15:04:05 UTC"), At: moment, Moment: true})
}

func (f *finding) heat(d *device) *finding {
	f.Evidence = slices.Grow(f.Evidence, 8)
	f.figure("temperature", d.temp, "°C")
	if d.hotSpot > d.temp {
		f.figure("hot spot", d.hotSpot, "°C")
	}
	f.figure("power draw", d.power, "W").figure("power limit", d.limit, "W")
	if d.byRPM {
		return f.figure("fan, measured", d.rpm, "RPM")
	}
	return f.figure("fan, as commanded", d.fan, "%")
}

func (f *finding) clocks(d *device) *finding {
	if d.byClock() {
		return f.figure("clock", d.clock, "MHz").figure("fastest clock", d.top, "MHz")
	}
	return f.figure("SM clock", d.clock, "MHz").figure("fastest SM clock", d.top, "MHz")
}

// rest adds the evidence that shows whether a device is at rest.
func (f *finding) rest(d *device) {
	f.figure("power at rest", d.idleWatts, "W").clocks(d).figure("processes listed", float64(len(d.Processes.Or(nil))), "")
}
