package notify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// What people get with the default templates.
func TestDefaultTemplates(t *testing.T) {
	all := examples()
	for _, test := range []struct {
		name        string
		m           Message
		title, body string
	}{
		{
			"one", all[0], "node-1 GPU 0: too hot (3 °C left)",
			"[critical too_hot] node-1: GPU 0 (NVIDIA H100 PCIe) is 3 °C below its slowdown temperature; 60 s ago it came within 5 °C of it. Why: train.py (ann) is heating GPU 0. 85 °C · 579 W of 600 · fan 58 %. End or pause train.py (pid 4242, ann). Command: kill 4242",
		},
		{
			"the driver, late, with a link", all[1], "node-1 driver: driver gone",
			"12 min ago (03:04:05 UTC): [warning driver_gone] node-1: The driver (nvml) can no longer be read; this began just now.\nhttps://gpus.example.org/alerts",
		},
		{
			"many", all[2], "node-1 GPU 0: too hot (3 °C left) and 4 more",
			`- [critical too_hot] node-1: GPU 0 (NVIDIA H100 PCIe) is 3 °C below its slowdown temperature; 60 s ago it came within 5 °C of it. Why: train.py (ann) is heating GPU 0. 85 °C · 579 W of 600 · fan 58 %. End or pause train.py (pid 4242, ann). Command: kill 4242
- [critical too_hot] node-1: Still: GPU 0 (NVIDIA H100 PCIe) is 3 °C below its slowdown temperature; 60 s ago it came within 5 °C of it. Why: train.py (ann) is heating GPU 0. 85 °C · 579 W of 600 · fan 58 %. End or pause train.py (pid 4242, ann). Command: kill 4242
- [warning driver_gone] node-1: The driver (nvml) can no longer be read; this began just now.
- [critical too_hot, over] node-1: GPU 0 (NVIDIA H100 PCIe) is 3 °C below its slowdown temperature; 60 s ago it came within 5 °C of it.
… and 1 more: 1 over.
gpuwhy dropped 2 events: there were too many.
gpuwhy dropped 1 event that could not be delivered in time.
https://gpus.example.org/alerts`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			title, body, err := templates{}.one(serviceOf("generic://127.0.0.1/"), test.m)
			if err != nil {
				t.Fatal(err)
			}
			if title != test.title {
				t.Errorf("the title is %q, want %q", title, test.title)
			}
			if body != test.body {
				t.Errorf("the message is\n%s\nwant\n%s", body, test.body)
			}
		})
	}
}

// Each documented field and function, in a template.
func TestTemplateFields(t *testing.T) {
	text := `{{upper .Severity}} {{.Firing}} {{.Over}} {{.More}} {{.Rest}} {{.Dropped}} {{.TooMany}} {{.TooLate}} {{.Link}} {{.Test}} {{.One}} {{add 1 2}}` +
		`{{range .Events}} {{.ID}} {{.News}} {{.Rule}} {{.What}} {{.Severity}} {{.State}} {{.Node}} {{.Device}} {{.Short}} {{.Index}} {{.UUID}} {{.Name}}` +
		` {{.Value}} {{.Threshold}} {{clock .Since}} {{.Time.Year}} {{.For}} {{.Ended.IsZero}} {{.Message}} {{.Why}} {{.Headline}} {{.Facts}} {{.Advice}} {{.Action}} {{.Command}} {{.Link}} {{.About}} {{.IsOver}} {{.Late}} {{.Age}} {{.When}} {{clock .Sent}}{{end}}`
	parsed, err := parseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	events := examples()[0].Events
	events = append(events, events[0])
	late := circumstances{dropped: dropped{Crowded: 2, Late: 1}, publicURL: "https://gpus.example.org", now: events[0].Time.Add(21 * time.Hour)}
	m := message(events, 1, late)
	got, err := execute(parsed, m)
	if err != nil {
		t.Fatal(err)
	}
	want := "CRITICAL 2 0 1 1 critical 3 2 1 https://gpus.example.org/alerts false false 3" +
		" too_hot-GPU-1-0 fired too_hot too hot critical firing node-1 GPU 0 (NVIDIA H100 PCIe) GPU 0 0 GPU-1 NVIDIA H100 PCIe" +
		" 3 °C left 5 °C 2026-01-02 03:03:05 UTC 2026 60 s true " + m.Events[0].Message + " " + m.Events[0].Why + " train.py (ann) is heating GPU 0. 85 °C · 579 W of 600 · fan 58 %" +
		"  End or pause train.py (pid 4242, ann). kill 4242 https://gpus.example.org/gpu/GPU-1 true false" +
		" true 21 h 21 h ago (2026-01-02 03:04:05 UTC) 2026-01-03 00:04:05 UTC"
	if got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
}

// Text of devices is text, wherever it goes.
func TestMarkup(t *testing.T) {
	const evil = `@everyone <!channel> [here](http://x) <b>*bold*</b> a_b`
	for address, want := range map[Secret]string{
		"generic://127.0.0.1/":                       evil,
		"ntfy://127.0.0.1/x":                         evil,
		"discord://t@1":                              "@\u200beveryone <\u200b!channel> [here]\u200b(http://x) <\u200bb>*bold*<\u200b/b> a_b",
		"slack://a:b@c":                              "@\u200beveryone &lt;!channel&gt; [here]\u200b(http://x) &lt;b&gt;*bold*&lt;/b&gt; a_b",
		"smtp://h/?usehtml=Yes&from=a@b&to=c@d":      "@everyone &lt;!channel&gt; [here](http://x) &lt;b&gt;*bold*&lt;/b&gt; a_b",
		"telegram://t@telegram?parsemode=HTML":       "@\u200beveryone &lt;!channel&gt; [here]\u200b(http://x) &lt;b&gt;*bold*&lt;/b&gt; a_b",
		"telegram://t@telegram?ParseMode=MarkdownV2": "@\u200beveryone <\u200b\\!channel\\> \\[here\\]\\(http://x\\) <\u200bb\\>\\*bold\\*<\u200b/b\\> a\\_b",
		"telegram://t@telegram?parsemode=Markdown":   "@\u200beveryone <\u200b!channel> \\[here]\u200b(http://x) <\u200bb>\\*bold\\*<\u200b/b> a\\_b",
	} {
		e := testEvent(time.Now())
		e.Message = evil
		custom, err := parseTemplate("<mine>{{(index .Events 0).Message}}")
		if err != nil {
			t.Fatal(err)
		}
		why := e
		why.Message, why.Headline, why.Facts, why.Action, why.Command = "", evil, evil, evil, evil
		commands, err := parseTemplate("<mine>{{with index .Events 0}}{{.Command}}|{{.Headline}}|{{.Facts}}|{{.Action}}{{end}}")
		if err != nil {
			t.Fatal(err)
		}
		if _, body, err := (templates{message: commands}).write(serviceOf(address), []Event{why}, circumstances{}); err != nil || body != "<mine>"+strings.Join([]string{want, want, want, want}, "|") {
			t.Errorf("%s: %q, want %q four times, %v", serviceOf(address).escape("x"), body, want, err)
		}
		if _, body, err := (templates{}).write(serviceOf(address), []Event{why}, circumstances{}); err != nil || strings.Count(body, want) != 4 {
			t.Errorf("by default %q, want %q four times, %v", body, want, err)
		}
		_, body, err := templates{message: custom}.write(serviceOf(address), []Event{e}, circumstances{})
		if err != nil || body != "<mine>"+want {
			t.Errorf("%s: %q, want %q, %v", serviceOf(address).escape("x"), body, want, err)
		}
		_, body, err = templates{}.write(serviceOf(address), []Event{e}, circumstances{})
		if err != nil || !strings.Contains(body, want) {
			t.Errorf("by default %q, want %q, %v", body, want, err)
		}
	}
}

// A name can't begin another line or header, nor turn the text around it.
func TestNames(t *testing.T) {
	c := change("a", alert.Fired)
	c.Device.Name, c.Device.Node, c.Message = "H100\r\nBcc: x@y\u202e\x1b[31m", "node\x00\n1", "one\ntwo\xff"
	e := event(&c, &explain.DeviceAnswer{Sentence: "why\n\u2066not", Layers: explain.Layers{
		Headline: "head\nline", Facts: []explain.Fact{{Text: "85\n°C"}, {Text: "fan\u202e off"}}, Action: explain.Action{Text: "do\nthis", Command: "kill 1\nrm"},
	}})
	if e.Name != "H100 Bcc: x@y [31m" || e.Node != "node 1" || e.Message != "one two\uFFFD" || e.Why != "why not" ||
		e.Headline != "head line" || e.Facts != "85 °C · fan off" || e.Action != "do this" || e.Command != "" {
		t.Errorf("the event is %+v", e)
	}
	title, _, err := templates{}.write(serviceOf("smtp://h/?from=a@b&to=c@d"), []Event{e}, circumstances{})
	if err != nil || strings.ContainsFunc(title, unicode.IsControl) {
		t.Errorf("the title is %q, %v", title, err)
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{"": "", "heiß": "heiß", "heißer": "hei…"} {
		if got := cut(text, 4); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}

// A template that is taken ends, keeps within its bounds, and makes text.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		defaultTitle, defaultMessage, "{{range .Events}}{{range $.Events}}{{.Message}}{{end}}{{end}}", "{{range 9999999}}{{end}}",
		`{{$a := print .Events}}{{$a = print $a $a $a $a}}{{$a}}`, `{{html (html .)}}`, `{{printf "%999999d" 1}}`, `{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`,
		"{{index .Events 7}}", "{{with .Link}}{{else}}{{break}}{{end}}", "{{range .Events}}{{break}}{{end}}", "{{(index .Events 0).Time.Format .Severity}}", "\xff{{/* */}}",
		`{{slice "abc" 1 9}}`, `{{len .}}`, `{{.Events}}`, `{{call .One}}`, "{{js .}}", "{{block \"x\" .}}{{end}}",
	} {
		f.Add(text)
	}
	events := examples()[2].Events
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseTemplate(text)
		if err != nil {
			return
		}
		s := serviceOf("discord://t@1")
		title, body, err := templates{parsed, parsed}.write(s, events, circumstances{dropped: dropped{3, 4}, publicURL: "https://gpus.example.org/"})
		if err != nil {
			return // the default one is used
		}
		if !utf8.ValidString(title) || !utf8.ValidString(body) || strings.ContainsAny(title, "\r\n") || title == "" || body == "" {
			t.Errorf("%q makes %q and %q", text, title, body)
		}
		if utf8.RuneCountInString(title) > longestTitle || len(title)+len(body) > s.most {
			t.Errorf("%q makes %d and %d bytes", text, len(title), len(body))
		}
	})
}

// Nothing that is read from a kept file makes more than a message.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"version":1,"targets":[{"name":"ops","pending":[{"id":"x","news":"fired","severity":"warning","message":"m","queued":"2026-01-02T03:04:05Z"}]}]}`))
	f.Add([]byte(`{"version":1,"targets":[{"name":"ops","dropped":-1,"fails":99999999999,"pending":[{"message":"a\nb\u0000"}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := build(config("ops"), nil, func() {}, quietLog)
		if err != nil {
			t.Fatal(err)
		}
		var before Kept
		if json.Unmarshal(text, &before) != nil {
			return
		}
		if err := n.Restore(before, time.Now()); err != nil {
			t.Fatal(err)
		}
		w := n.workers[0]
		if len(w.queue.Pending) > mostPending || w.queue.Crowded < 0 || w.queue.Late < 0 || len(w.queue.Known) > mostKnown || w.queue.Fails < 0 {
			t.Errorf("restored: %+v", w.queue)
		}
		if len(w.queue.Pending) == 0 {
			return
		}
		title, body, err := templates{}.write(w.set.service, w.queue.take(), circumstances{dropped: w.queue.dropped})
		if err != nil || strings.ContainsFunc(title, unicode.IsControl) || len(title)+len(body) > mostBytes {
			t.Errorf("it makes %q and %q, %v", title, body, err)
		}
		if again, err := json.Marshal(n.Kept()); err != nil || len(again) > 4<<20 {
			t.Errorf("%d bytes, %v", len(again), err)
		}
	})
}

// What is left of a distance is not taken for a temperature.
func TestWhatIsLeft(t *testing.T) {
	c := alert.Change{News: alert.Fired, Alert: alert.Alert{Watch: alert.TemperatureMargin, Unit: "°C", Value: gpu.Of(3.0), Threshold: gpu.Of(5.0)}}
	if e := event(&c, nil); e.Value != "3 °C left" || e.Threshold != "5 °C" {
		t.Errorf("%+v", e)
	}
	for value, want := range map[float64]string{
		0:     "0 °C left",
		-0.04: "0 °C left",
		-2:    "2 °C above the slowdown temperature",
		-1.5:  "1.5 °C above the slowdown temperature",
	} {
		c.Value, c.Threshold = gpu.Of(value), gpu.Of(-1.0)
		if e := event(&c, nil); e.Value != want || e.Threshold != "1 °C above the slowdown temperature" {
			t.Errorf("%v: %q, %q, want %q", value, e.Value, e.Threshold, want)
		}
	}
	c.Value, c.Watch = gpu.Of(3.0), alert.Temperature
	if e := event(&c, nil); e.Value != "3 °C" {
		t.Errorf("%+v", e)
	}
}

// The answer's headline and facts stand for its sentence, and a command is told only where the
// rule itself does not say what to do.
func TestWhyIsTold(t *testing.T) {
	why := explain.DeviceAnswer{Sentence: "train.py (pid 7, ann) keeps GPU 3 busy.", Layers: explain.Layers{
		Headline: "train.py (ann) is heating GPU 3.", Facts: []explain.Fact{{Text: "85 °C"}, {Text: "579 W of 600"}, {Text: "fan 58 %"}},
		Action: explain.Action{Text: "End or pause train.py (pid 7, ann).", Command: "kill 7"},
	}}
	facts := why.Layers
	facts.Facts, facts.Action.Command = nil, ""
	long := why.Layers
	long.Action.Command = "kill" + strings.Repeat(" 1234567", 40)
	for name, tt := range map[string]struct {
		news   alert.News
		advice string
		layers explain.Layers
		want   string
	}{
		"all":                {alert.Fired, "", why.Layers, "It. Why: train.py (ann) is heating GPU 3. 85 °C · 579 W of 600 · fan 58 %. End or pause train.py (pid 7, ann). Command: kill 7"},
		"the rule's advice":  {alert.Fired, "Look.", why.Layers, "It. Why: train.py (ann) is heating GPU 3. 85 °C · 579 W of 600 · fan 58 %. Look."},
		"without facts":      {alert.Repeated, "", facts, "Still: It. Why: train.py (ann) is heating GPU 3. End or pause train.py (pid 7, ann)."},
		"without a headline": {alert.Fired, "", explain.Layers{}, "It. train.py (pid 7, ann) keeps GPU 3 busy."},
		"a long command":     {alert.Fired, "", long, "It. Why: train.py (ann) is heating GPU 3. 85 °C · 579 W of 600 · fan 58 %. End or pause train.py (pid 7, ann)."},
		"over":               {alert.Over, "Look.", why.Layers, "It."},
	} {
		c := change("a", tt.news)
		c.Message, c.Advice = "It.", tt.advice
		why.Layers = tt.layers
		e := event(&c, &why)
		_, body, err := templates{}.write(serviceOf("generic://127.0.0.1/"), []Event{e}, circumstances{now: c.Time})
		if _, text, _ := strings.Cut(body, ": "); err != nil || text != tt.want {
			t.Errorf("%s: %q, want %q, %v", name, text, tt.want, err)
		}
	}
	// A message with too little room has no part of a command.
	c := change("a", alert.Fired)
	c.Message, c.Advice = strings.Repeat("m", longestSentence), ""
	why.Layers = explain.Layers{Headline: strings.Repeat("h", 100), Action: explain.Action{Text: strings.Repeat("a", 150), Command: "kill 7" + strings.Repeat(" 8", 140)}}
	_, body, err := templates{}.write(serviceOf("pushover://shoutrrr:TOKEN@USER/"), []Event{event(&c, &why)}, circumstances{now: c.Time})
	if err != nil || strings.Contains(body, "kill") || !strings.Contains(body, "aaa") {
		t.Errorf("%q, %v", body, err)
	}
}

// How long an alert lasted has no clear time in it.
func TestForHowLong(t *testing.T) {
	c := change("a", alert.Over)
	c.Since, c.Ended = c.Time.Add(-3*time.Minute), c.Time.Add(-time.Minute)
	if e := event(&c, nil); e.For() != "2 min" {
		t.Errorf("it lasted %s", e.For())
	}
	c.Ended = time.Time{}
	if e := event(&c, nil); e.For() != "3 min" {
		t.Errorf("it lasts %s", e.For())
	}
}
