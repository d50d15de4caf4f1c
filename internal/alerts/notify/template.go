package notify

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
)

// The default templates.
var (
	//go:embed title.tmpl
	defaultTitle string
	//go:embed message.tmpl
	defaultMessage string
)

// The most that a template may write; the rest is cut.
const (
	longestTitle = 120   // characters
	mostOutput   = 16384 // bytes, before it is cut to what the service takes
)

var functions = template.FuncMap{
	"add": func(terms ...int) (sum int) {
		for _, n := range terms {
			sum += n
		}
		return sum
	},
	"upper": func(text string) (string, error) { return bounded(strings.ToUpper(text)) },
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },

	// These replace functions of text/template that make a long text of a short one.
	"print":    func(args ...any) (string, error) { return bounded(fmt.Sprint(args...)) },
	"println":  func(args ...any) (string, error) { return bounded(fmt.Sprintln(args...)) },
	"html":     func(args ...any) (string, error) { return bounded(template.HTMLEscaper(args...)) },
	"urlquery": func(args ...any) (string, error) { return bounded(template.URLQueryEscaper(args...)) },
	"printf":   func(...any) (string, error) { return "", errors.New("printf is not available in templates: use print") },
	"js":       func(...any) (string, error) { return "", errors.New("js is not available in templates") },
}

func bounded(text string) (string, error) {
	if len(text) > mostOutput {
		return "", fmt.Errorf("produces more than %d bytes", mostOutput)
	}
	return text, nil
}

// parseTemplate parses a template and tries it on examples; nil for an empty text.
func parseTemplate(text string) (*template.Template, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > longestTemplate {
		return nil, fmt.Errorf("is longer than %d bytes", longestTemplate)
	}
	t, err := template.New("template").Funcs(functions).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is not a valid template: %w", err)
	}
	if t.Tree != nil {
		if err := bounds(t.Root, 0); err != nil {
			return nil, err
		}
	}
	for _, m := range examples() {
		if _, err := execute(t, m); err != nil {
			return nil, fmt.Errorf("fails on example data: %w", err)
		}
	}
	return t, nil
}

// bounds refuses templates that could run for ever: a template may only range over its events, at
// most two levels deep, and may not call templates.
func bounds(n parse.Node, ranges int) error {
	var branch *parse.BranchNode
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, n := range n.Nodes {
			if err := bounds(n, ranges); err != nil {
				return err
			}
		}
		return nil
	case *parse.TemplateNode:
		return errors.New("uses template or block: write the text in place")
	case *parse.IfNode:
		branch = &n.BranchNode
	case *parse.WithNode:
		branch = &n.BranchNode
	case *parse.RangeNode:
		if branch, ranges = &n.BranchNode, ranges+1; !ofEvents(n.Pipe) || ranges > 2 {
			return errors.New("ranges over something other than .Events or $.Events, or nests more than two ranges")
		}
	default:
		return nil
	}
	return errors.Join(bounds(branch.List, ranges), bounds(branch.ElseList, ranges))
}

func ofEvents(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	what := p.Cmds[0].Args[0].String()
	return what == ".Events" || what == "$.Events"
}

// execute runs a template, and ends it without an error after mostOutput.
func execute(t *template.Template, m Message) (string, error) {
	out := limited{left: mostOutput}
	if err := t.Execute(&out, m); err != nil && !errors.Is(err, errFull) {
		return "", err
	}
	return strings.ToValidUTF8(out.String(), ""), nil
}

var errFull = errors.New("full")

type limited struct {
	strings.Builder
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.Builder.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// examples are messages to try templates on.
func examples() []Message {
	moment := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := Event{
		ID: "too_hot-GPU-1-0", News: fired, Rule: "too_hot", Severity: string(alert.Critical), State: string(alert.Firing),
		Node: "node-1", Device: "GPU 0 (NVIDIA H100 PCIe)", Index: 0, UUID: "GPU-1", Name: "NVIDIA H100 PCIe",
		Value: "3 °C left", Threshold: "5 °C", Since: moment.Add(-time.Minute), Time: moment,
		Message:  "GPU 0 (NVIDIA H100 PCIe) is 3 °C below its slowdown temperature; 60 s ago it came within 5 °C of it.",
		Why:      "train.py (pid 4242, ann) keeps GPU 0 (NVIDIA H100 PCIe) busy at 99 %, 85 °C, 579 W of 600 W, fan at 58 %.",
		Headline: "train.py (ann) is heating GPU 0.", Facts: "85 °C · 579 W of 600 · fan 58 %",
		Action: "End or pause train.py (pid 4242, ann).", Command: "kill 4242",
	}
	ended, again, both := one, one, one
	ended.News, ended.State, ended.Value, ended.Ended = over, string(alert.Resolved), "", moment.Add(-30*time.Second)
	ended.Why, ended.Headline, ended.Facts, ended.Action, ended.Command = "", "", "", "", ""
	again.News, both.News = repeated, brief
	driver := Event{
		ID: "driver_gone-nvml-0", News: fired, Rule: "driver_gone", Severity: string(alert.Warning), State: string(alert.Firing),
		Node: "node-1", Device: "The driver (nvml)", Index: -1, Since: moment, Time: moment, Message: "The driver (nvml) can no longer be read; this began just now.",
	}
	all := []Event{one, ended, again, both, driver}
	return []Message{
		message(all[:1], 1, circumstances{now: moment.Add(10 * time.Second)}),
		message(all[4:], 1, circumstances{publicURL: "https://gpus.example.org/", now: moment.Add(12 * time.Minute)}),
		message(all, 4, circumstances{dropped: dropped{Crowded: 2, Late: 1}, publicURL: "https://gpus.example.org/", now: moment}),
	}
}

// templates make a title and a message; nil: the default ones.
type templates struct{ title, message *template.Template }

var byDefault = sync.OnceValue(func() templates {
	return templates{template.Must(parseTemplate(defaultTitle)), template.Must(parseTemplate(defaultMessage))}
})

// mostEvents is how many alerts a message describes.
const mostEvents = 20

// write makes a message of as many events as there is room for.
func (t templates) write(s service, events []Event, about circumstances) (title, body string, err error) {
	for n := min(len(events), mostEvents); n > 0; n-- {
		if title, body, err = t.one(s, message(events, n, about)); err != nil {
			return "", "", err
		}
		if len(title)+len(body) < s.most {
			return title, body, nil
		}
	}
	// There is no room even for one: leave out commands, because a shortened command would be a
	// different one.
	events = slices.Clone(events)
	for i := range events {
		events[i].Command = ""
	}
	if title, body, err = t.one(s, message(events, 1, about)); err != nil {
		return "", "", err
	}
	return title, shorten(body, s.most-len(title)-1), nil
}

func (t templates) one(s service, m Message) (title, body string, err error) {
	title, err = run(t.title, byDefault().title, s, m)
	if err != nil {
		return "", "", err
	}
	body, err = run(t.message, byDefault().message, s, m)
	title = cmp.Or(cut(strings.Join(strings.Fields(lines(title)), " "), longestTitle), "gpuwhy")
	return title, cmp.Or(lines(body), title), err
}

// run executes a template. Its own text may be markup for the service.
func run(t, fallback *template.Template, s service, m Message) (string, error) {
	if t == nil {
		text, err := execute(fallback, m)
		return s.escape(text), err
	}
	m.Events = slices.Clone(m.Events)
	for i := range m.Events {
		e := &m.Events[i]
		for _, text := range []*string{
			&e.Rule, &e.What, &e.Node, &e.Device, &e.UUID, &e.Name, &e.Value, &e.Threshold, &e.Message, &e.Why,
			&e.Headline, &e.Facts, &e.Advice, &e.Action, &e.Command,
		} {
			*text = s.escape(*text)
		}
	}
	return execute(t, m)
}
