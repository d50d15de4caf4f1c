//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A receiver is where notifications arrive. It refuses the first ones.
type receiver struct {
	*httptest.Server
	refused  atomic.Int64 // how many it still refuses
	messages chan string
}

func newReceiver(t *testing.T, refuse int64) *receiver {
	r := &receiver{messages: make(chan string, 16)}
	r.refused.Store(refuse)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		if r.refused.Add(-1) >= 0 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		r.messages <- string(text)
	}))
	t.Cleanup(r.Close)
	return r
}

// target returns the receiver as a target in a rules file.
func (r *receiver) target() string {
	return "generic://" + strings.TrimPrefix(r.URL, "http://") + "/hook?disabletls=yes&template=json"
}

// An evening of one card, as a person sees it on the page and on the phone: work
// begins and is named, the alert fires once, its message arrives although the
// receiver fails twice, work ends and its heat is explained, the alert is over.
func TestTheStoryEndToEnd(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	phone := newReceiver(t, 2)
	rules := rulesFile(t, onlyRules("{name: high_gpu_usage, hold: 0s, clear: 0s, notify: [phone]}")+fmt.Sprintf(`
targets:
  - {name: phone, url: '%s'}
group_wait: 0s
group_interval: 1s
public_url: https://gpus.example.org/
`, phone.target()))
	p := start(t, lib.Env(), fast, "--node=vm", "--alert-rules="+rules)
	bot := p.dial()
	tab := browser.Open(t, 1440, 900)
	tab.Visit(p.url)
	tab.Until(live)
	why := func(part string) string {
		return fmt.Sprintf(`document.getElementById("why").textContent.replaceAll("\u00a0", " ").includes(%q)`, part)
	}
	tab.Until(why("is idle at 0 %"))

	bot.comesToWork(m)
	toWork(m)
	tab.Until(why(self(t)))
	tab.Until(why("busy at 97 %"))
	tab.Until(`document.querySelector("#alerts").textContent.includes("1 for your information")`)
	var fired contract.Alert
	bot.next(contract.HighGPUUsage, &fired)

	var told map[string]string
	if err := json.Unmarshal([]byte(testkit.Receive(t, "a message", phone.messages)), &told); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"97 %", self(t), "https://gpus.example.org/"} {
		if !strings.Contains(told["message"], part) {
			t.Errorf("the message lacks %q: %q", part, told["message"])
		}
	}
	if !strings.Contains(told["title"], "high gpu usage") {
		t.Errorf("the title is %q", told["title"])
	}
	if left := phone.refused.Load(); left > -1 {
		t.Errorf("it was told before the receiver took it: %d", left)
	}
	// The page of alerts says how the target does, and not where it is.
	_, page := p.fetch("/alerts?tab=told", http.Header{"Accept": {"text/html"}})
	for _, want := range []string{"Notifications", ">phone<", ">generic<"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%q is not on the page of alerts", want)
		}
	}
	if strings.Contains(string(page), strings.TrimPrefix(phone.URL, "http://")) {
		t.Error("the page of alerts has the address of a target")
	}
	if said := p.log.String(); strings.Contains(said, phone.URL) || strings.Count(said, "part=notify") == 0 {
		t.Error("the log has the address of a target, or nothing of its failure")
	}

	toRest(m)
	tab.Until(why("is cooling down after " + self(t)))
	over := bot.nextAlert("The alert is over", func(a contract.Alert) bool { return a.State == "resolved" })
	if over.ID != fired.ID {
		t.Errorf("%s is over, %s fired", over.ID, fired.ID)
	}
	tab.Until(`!document.querySelector("#alerts").textContent.includes("for your information")`)
	if text := testkit.Receive(t, "the message of the end", phone.messages); !strings.Contains(text, "The alert is over") {
		t.Errorf("the end is told so: %q", text)
	}
	var list contract.Alerts
	if p.get("/api/alerts", &list); len(list.Alerts) != 0 || len(list.Past) != 1 || list.Past[0].ID != fired.ID {
		t.Errorf("it fired more than once: %+v", list)
	}
	p.awaitMetrics(
		`gpuwhy_alerts_firing{node="vm",rule="high_gpu_usage",severity="info"} 0`,
		`gpuwhy_notifications_total{node="vm",target="phone",result="failed"} 2`,
		`gpuwhy_notifications_total{node="vm",target="phone",result="sent"} 2`,
	)
	select {
	case more := <-phone.messages:
		t.Errorf("one message too many: %q", more)
	default:
	}
	tab.Quiet(leaves)
}

// awaitMetrics waits until /metrics has the lines.
func (p *program) awaitMetrics(lines ...string) {
	p.t.Helper()
	var missing []string
	testkit.Until(p.t, "/metrics has all lines", func() bool {
		_, text := p.fetch("/metrics", nil)
		missing = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(string(text), "\n"+line+"\n") })
		return len(missing) == 0
	}, func() string { return fmt.Sprintf("it lacks %q", missing) })
}
