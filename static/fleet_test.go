package static_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// fields are the members of a message.
func fields(v any) map[string]any {
	var m map[string]any
	if err := json.Unmarshal(encode(v), &m); err != nil {
		panic(err)
	}
	return m
}

// ofAll makes an answer about one node one about all nodes, if there are several.
func (s *site) ofAll(v any) any {
	if len(s.nodes) < 2 {
		return v
	}
	m := fields(v)
	m["node"], m["node_count"] = nil, len(s.nodes)
	return m
}

// greetNodes are the first messages to a viewer of several nodes.
func (s *site) greetNodes(status contract.GPUStatus) [][]byte {
	m := fields(status)
	var list []map[string]any
	for _, n := range s.nodes {
		list = append(list, map[string]any{"name": n.Node, "state": "ok", "age_seconds": 0, "gpu_count": len(n.Devices)})
	}
	m["node"], m["nodes"], m["snapshot"] = nil, list, nil
	out := [][]byte{message("gpu_status", m)}
	for _, n := range s.nodes {
		out = append(out, message("gpu_status_update", newUpdate(n, "Why of one node.")))
	}
	return out
}

// nodeOf is a node with two GPUs, whose indexes are those of every other node.
func nodeOf(t *testing.T, name string, now time.Time, load gpu.Percent) *gpu.Snapshot {
	t.Helper()
	s := exampleNamed(t, "one", now).Snapshot
	s.Node = name
	s.Devices = append(s.Devices, s.Devices[0])
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Node, d.Index, d.UUID = name, i, fmt.Sprintf("GPU-%s-%d", name, i)
		d.Utilization.GPU = gpu.Of(load)
		d.Processes = gpu.Of([]gpu.Process{running(7, 1<<30)})
	}
	return s
}

// setNodes makes these the newest snapshots of all nodes.
func (s *site) setNodes(why string, nodes ...*gpu.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := *nodes[0]
	all.Devices = nil
	for _, n := range nodes {
		all.Devices = append(all.Devices, n.Devices...)
	}
	s.snapshot, s.nodes, s.why = &all, nodes, why
}

func (s *site) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.summaries
}

const cardTitles = `[...document.querySelectorAll("#cards h3")].map((e) => e.textContent).join(", ")`

// The page shows the GPUs of all nodes, by node and index. What is said of all
// together is asked for, once for many updates.
func TestFleet(t *testing.T) {
	now := time.Now()
	site := newSite(t, nil, "")
	a, b, c := nodeOf(t, "a", now, 10), nodeOf(t, "b", now, 20), nodeOf(t, "c", now, 30)
	site.interval = time.Second                   // between two moments in the charts
	site.setNodes("All nodes are busy.", a, c, b) // in any order
	tab := browsertest.Open(t, 1440, 900)
	readIn(t, tab, "sv-SE", "UTC")
	// burst(updates) receives them all in one turn, and returns how many frames are asked for.
	tab.Before(`(() => {
	  const Real = WebSocket, frame = requestAnimationFrame;
	  let socket, frames = 0;
	  window.WebSocket = class extends Real { constructor(...of) { super(...of); socket = this; } };
	  window.requestAnimationFrame = (f) => { frames++; return frame(f); };
	  window.burst = (updates) => {
	    const before = frames;
	    for (const data of updates) socket.onmessage({ data: JSON.stringify({ event: "gpu_status_update", data }) });
	    return frames - before;
	  };
	})()`)
	visit(t, tab, site)
	untilWhy(t, tab, "All nodes are busy.")
	tab.Until(cardTitles + ` === "a GPU 0, a GPU 1, b GPU 0, b GPU 1, c GPU 0, c GPU 1"`)
	tab.Until(`document.getElementById("node").textContent === "3 nodes" && document.querySelector("#totals [data-key=busy] [data-f=value]").textContent === "6"`)
	if got := browsertest.Ask[string](tab, `[...document.querySelectorAll("#processes > tr")].map((r) => r.dataset.key).join(" ")`); got != "a/GPU-a-0/7 a/GPU-a-1/7 b/GPU-b-0/7 b/GPU-b-1/7 c/GPU-c-0/7 c/GPU-c-1/7" {
		t.Errorf("the processes are %s", got)
	}

	// An update of one node changes its cards alone.
	b = nodeOf(t, "b", now.Add(time.Second), 77)
	site.setNodes("Node b is busier.", a, b, c)
	site.send(t, "gpu_status_update", newUpdate(b, "Why of one node."))
	const loads = `[...document.querySelectorAll("#cards [data-meter=utilization]")].map((e) => e.children[2].textContent.replace("\u00a0%", "")).join(" ")`
	tab.Until(loads + ` === "10 10 77 77 30 30"`)
	untilWhy(t, tab, "Node b is busier.")
	tab.Until(`document.querySelector("[data-metric=utilization_percent] [data-f=readout]").textContent.startsWith("highest 77\u00a0% · b GPU ")`)
	sameAsServed(t, tab)

	// An alert names its node, as it is sent and as it is served.
	hot := alert.Alert{ID: "a", Rule: "hot", Severity: alert.Warning, State: alert.Firing, Message: "GPU 1 is hot.", Device: b.Devices[1].Identity, Since: now}
	site.mu.Lock()
	site.standing = []alert.Alert{hot}
	site.mu.Unlock()
	site.send(t, "alert", contract.NewAlert(&hot, site.fleet()))
	const told = `document.querySelector("#alerts [data-f=message]")?.textContent.replaceAll("\u00a0", " ")`
	tab.Until(told + ` === "b: GPU 1 is hot."`)
	if got := browsertest.Ask[string](tab, `fetch(location.href).then((r) => r.text()).then((text) => ((document) => `+told+`)(new DOMParser().parseFromString(text, "text/html")))`); got != "b: GPU 1 is hot." {
		t.Errorf("the alert is served as %q", got)
	}

	// After hundreds of updates in one turn the page asks once, and draws then.
	before := site.asked()
	var updates []contract.Update
	for n := range 300 {
		name := []string{"a", "b", "c"}[n%3]
		updates = append(updates, newUpdate(nodeOf(t, name, now.Add(2*time.Second), gpu.Percent(n%100)), "Why of one node."))
	}
	site.setNodes("After the burst.", a, b, c)
	if got := browsertest.Ask[int](tab, fmt.Sprintf("burst(%s)", encode(updates))); got != 0 {
		t.Errorf("a burst of updates asks for %d frames", got)
	}
	untilWhy(t, tab, "After the burst.")
	tab.Until(loads + ` === "97 97 98 98 99 99"`)
	if got := site.asked() - before; got != 1 {
		t.Errorf("a burst of updates asks for %d summaries", got)
	}

	// What a person chose is of one GPU of one node.
	tab.Until(`[...document.querySelectorAll("#by-gpu option")].map((o) => o.value).join(" ") === " a/0 a/1 b/0 b/1 c/0 c/1"`)
	browsertest.Ask[bool](tab, `(document.getElementById("by-gpu").value = "b/1", document.getElementById("by-gpu").onchange(), true)`)
	tab.Until(`[...document.querySelectorAll("#processes > tr")].map((r) => r.dataset.key).join(" ") === "b/GPU-b-1/7"`)
	browsertest.Ask[bool](tab, `(document.querySelector("#series > li:nth-child(4) button").click(), true)`)
	tab.Until(`document.querySelector("[data-metric=utilization_percent] [data-f=readout]").textContent === "98\u00a0% · b GPU 1"`)
	if got := browsertest.Ask[[]string](tab, `[...document.querySelectorAll("#series line")].map((l) => l.style.stroke)`); len(slices.Compact(slices.Sorted(slices.Values(got)))) != 6 {
		t.Errorf("the colors of the lines are %q", got)
	}

	// A node that is gone when the connection comes back is shown no longer.
	site.setNodes("Two nodes.", a, c)
	site.cut()
	site.await(t)
	untilWhy(t, tab, "Two nodes.")
	tab.Until(cardTitles + ` === "a GPU 0, a GPU 1, c GPU 0, c GPU 1"`)
	tab.Quiet("WebSocket connection to")
}

// Without a socket the page asks for the GPUs of all nodes.
func TestFleetWithoutSocket(t *testing.T) {
	now := time.Now()
	site := newSite(t, nil, "")
	site.interval = 100 * time.Millisecond
	site.setNodes("Asked for.", nodeOf(t, "a", now, 10), nodeOf(t, "b", now, 20))
	site.setRefuse(true)
	tab := browsertest.Open(t, 1440, 900)
	tab.Before(quickRetry)
	tab.Visit(site.URL + base)
	tab.Until(`document.getElementById("connection").dataset.state === "polling"`)
	site.setNodes("Asked again.", nodeOf(t, "a", now.Add(time.Second), 10), nodeOf(t, "b", now.Add(time.Second), 20))
	untilWhy(t, tab, "Asked again.")
	tab.Until(cardTitles + ` === "a GPU 0, a GPU 1, b GPU 0, b GPU 1" && document.getElementById("node").textContent === "2 nodes"`)
	site.setRefuse(false)
	site.await(t)
	site.setNodes("Sent.", nodeOf(t, "a", now.Add(2*time.Second), 10), nodeOf(t, "b", now.Add(2*time.Second), 20))
	site.send(t, "gpu_status_update", newUpdate(nodeOf(t, "a", now.Add(2*time.Second), 10), "Why of one node."))
	untilWhy(t, tab, "Sent.")
	tab.Until(cardTitles + ` === "a GPU 0, a GPU 1, b GPU 0, b GPU 1"`)
	tab.Quiet("WebSocket connection to")
}

// The page of a GPU follows that GPU, whatever other nodes send.
func TestDevicePageInAFleet(t *testing.T) {
	now := time.Now()
	site := newSite(t, nil, "")
	a, b := nodeOf(t, "a", now, 10), nodeOf(t, "b", now, 20)
	site.setNodes("Two nodes.", a, b)
	tab := browsertest.Open(t, 1440, 900)
	tab.Visit(site.URL + base + "gpu/GPU-b-1")
	site.await(t)
	tab.Until(`document.title.includes("b GPU 1") && ` + cardTitles + ` === "b GPU 1"`)
	b = nodeOf(t, "b", now.Add(time.Second), 64)
	site.send(t, "gpu_status_update", newUpdate(b, "Why of one node."))
	site.send(t, "gpu_status_update", newUpdate(nodeOf(t, "a", now.Add(time.Second), 99), "Why of one node."))
	tab.Until(`document.title.startsWith("64\u00a0%") && document.getElementById("gone").hidden`)
	if why := browsertest.Ask[string](tab, `document.getElementById("causes").innerText`); strings.Contains(why, "a GPU") {
		t.Errorf("the causes are %s", why)
	}
	b.Devices = b.Devices[:1]
	site.send(t, "gpu_status_update", newUpdate(b, "Why of one node."))
	tab.Until(`!document.getElementById("gone").hidden`)
	tab.Quiet()
}
