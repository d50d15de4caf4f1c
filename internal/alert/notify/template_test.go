package notify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
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
			"[critical too_hot] node-1: GPU 0 (NVIDIA H100 PCIe) is 3 °C below the temperature at which it slows itself down; 60 s ago it came within 5 °C of it. GPU 0 works. Look at its fans.",
		},
		{
			"the driver, late, with a link", all[1], "node-1 driver: driver gone",
			"12 min ago (03:04:05 UTC): [warning driver_gone] node-1: The driver (nvml) can't be read any more; this began just now.\nhttps://gpus.example.org/alerts",
		},
		{
			"many", all[2], "node-1 GPU 0: too hot (3 °C left) and 4 more",
			`- [critical too_hot] node-1: GPU 0 (NVIDIA H100 PCIe) is 3 °C below the temperature at which it slows itself down; 60 s ago it came within 5 °C of it. GPU 0 works. Look at its fans.
- [critical too_hot] node-1: Still: GPU 0 (NVIDIA H100 PCIe) is 3 °C below the temperature at which it slows itself down; 60 s ago it came within 5 °C of it. GPU 0 works. Look at its fans.
- [warning driver_gone] node-1: The driver (nvml) can't be read any more; this began just now.
- [critical too_hot, over] node-1: GPU 0 (NVIDIA H100 PCIe) is 3 °C below the temperature at which it slows itself down; 60 s ago it came within 5 °C of it.
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
		` {{.Value}} {{.Threshold}} {{clock .Since}} {{.Time.Year}} {{.For}} {{.Message}} {{.Why}} {{.Advice}} {{.Link}} {{.About}} {{.IsOver}} {{.Late}} {{.Age}} {{.When}} {{clock .Sent}}{{end}}`
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
		" 3 °C left 5 °C 2026-01-02 03:03:05 UTC 2026 60 s " + m.Events[0].Message + " GPU 0 works. Look at its fans. https://gpus.example.org/gpu/GPU-1 true false" +
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
	e := event(&c, "why\n\u2066not")
	if e.Name != "H100 Bcc: x@y [31m" || e.Node != "node 1" || e.Message != "one two\uFFFD" || e.Why != "why not" {
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
	if e := event(&c, ""); e.Value != "3 °C left" || e.Threshold != "5 °C" {
		t.Errorf("%+v", e)
	}
	for value, want := range map[float64]string{
		0:     "0 °C left",
		-0.04: "0 °C left",
		-2:    "2 °C above where it slows itself down",
		-1.5:  "1.5 °C above where it slows itself down",
	} {
		c.Value, c.Threshold = gpu.Of(value), gpu.Of(-1.0)
		if e := event(&c, ""); e.Value != want || e.Threshold != "1 °C above where it slows itself down" {
			t.Errorf("%v: %q, %q, want %q", value, e.Value, e.Threshold, want)
		}
	}
	c.Value, c.Watch = gpu.Of(3.0), alert.Temperature
	if e := event(&c, ""); e.Value != "3 °C" {
		t.Errorf("%+v", e)
	}
}
