//go:build !race

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// openAPI is the program's own document, as a stranger's tools read it.
type openAPI struct {
	t        testing.TB
	doc      map[string]any
	compiler *jsonschema.Compiler
}

func readDocument(p *program, path string) *openAPI {
	p.t.Helper()
	_, text := p.fetch(path, nil)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	d := &openAPI{t: p.t, doc: parsed.(map[string]any), compiler: jsonschema.NewCompiler()}
	for _, schema := range d.lookUp("components", "schemas").(map[string]any) {
		schema.(map[string]any)["additionalProperties"] = false // nothing that is not documented
	}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("https://example.org/document", d.doc); err != nil {
		p.t.Fatal(err)
	}
	return d
}

// lookUp walks into the document, through references.
func (d *openAPI) lookUp(steps ...string) any {
	var here any = d.doc
	for _, step := range steps {
		object, ok := here.(map[string]any)
		if !ok {
			return nil
		}
		here = object[step]
		if next, ok := here.(map[string]any); ok {
			if ref, ok := next["$ref"].(string); ok {
				here = d.lookUp(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
		}
	}
	return here
}

// validate checks JSON against the schema at a place of the document.
func (d *openAPI) validate(what string, text []byte, steps ...string) {
	d.t.Helper()
	var pointer strings.Builder
	for _, step := range steps {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(step))
	}
	schema, err := d.compiler.Compile("https://example.org/document#" + pointer.String())
	if err != nil {
		d.t.Fatalf("%s: %v", what, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		d.t.Errorf("%s: %v", what, err)
		return
	}
	if err := schema.Validate(value); err != nil {
		d.t.Errorf("%s: %v\n%.1500s", what, err, text)
	}
}

// check requests a documented path and checks the answer against the document.
func (d *openAPI) check(p *program, path, address string, want int) {
	d.t.Helper()
	answer, body := p.fetch(address, nil)
	what := fmt.Sprintf("GET %s: %d", address, answer.StatusCode)
	if want != 0 && answer.StatusCode != want {
		d.t.Errorf("%s, want %d", what, want)
	}
	status := fmt.Sprint(answer.StatusCode)
	responses := d.lookUp("paths", path, "get", "responses").(map[string]any)
	if responses[status] == nil {
		d.t.Errorf("%s is not documented", what)
		return
	}
	contentType, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	content, _ := d.lookUp("paths", path, "get", "responses", status, "content").(map[string]any)
	media, ok := content[contentType].(map[string]any)
	if !ok {
		d.t.Errorf("%s: %q is not documented", what, contentType)
		return
	}
	if media["schema"] != nil {
		d.validate(what, body, "paths", path, "get", "responses", status, "content", contentType, "schema")
	}
}

// takes reports whether a request has a parameter of that name.
func (d *openAPI) takes(path, name string) bool {
	list, _ := d.lookUp("paths", path, "get").(map[string]any)["parameters"].([]any)
	return slices.ContainsFunc(list, func(p any) bool { return p.(map[string]any)["name"] == name })
}

// The running program answers every request as the document says, for a machine with
// GPUs in all states and for one without GPUs.
func TestEveryAnswerIsAsDocumented(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.H100().At(2), fakenvml.H100().At(3))
	m.GPU(0).SetProcesses(fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 3 << 30, SM: 90})
	m.GPU(0).Set(fakenvml.Utilization, 97)
	full := start(t, lib.Env(), fast, "--node=box", "--base-path=/gpu", "--state-dir="+t.TempDir())
	full.await("all GPUs answer", func(u contract.Update) bool { return u.Answering == 3 })
	m.GPU(2).Lost()
	u := full.await("one GPU is lost", func(u contract.Update) bool { return u.Devices == 3 && u.Answering == 2 })

	full.remembered()

	none := start(t, []string{"GPUWHY_NVML_LIBRARY=/nowhere/libnvidia-ml.so.1"}, fast, "--node=box", "--base-path=/gpu")
	none.await("there is no GPU", func(u contract.Update) bool { return u.Status == "no_gpu" })

	d := readDocument(full, "/openapi.json")
	paths := d.lookUp("paths").(map[string]any)
	if len(paths) < 24 {
		t.Fatalf("only %d paths are documented", len(paths))
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if d.lookUp("paths", path, "get") == nil {
			continue // TestWhatPeopleSayOfAlerts
		}
		taken := url.Values{}
		for name, value := range map[string]string{"cluster_id": "local", "node_name": "box", "from": "-1h", "gpu": u.GPUs[1].UUID} {
			if d.takes(path, name) {
				taken.Set(name, value)
			}
		}
		for _, tt := range []struct {
			values     []string // of the path's parameters
			query      string
			full, none int // the status; 0 for any that is documented
		}{
			{values: []string{"{id}", "0", "{cluster}", "local", "{node}", "box"}, full: 200},
			{values: []string{"{id}", u.GPUs[2].UUID, "{cluster}", "local", "{node}", "box"}, query: "?" + taken.Encode(), full: 200},
			{values: []string{"{id}", "99", "{cluster}", "other", "{node}", "other"}, query: "?cluster_id=other"},
			{values: []string{"{id}", "%ff%00/..", "{cluster}", "%ff", "{node}", "%00"}, query: "?gpu=%ff"},
			{values: []string{"{id}", "-1", "{cluster}", strings.Repeat("9", 400), "{node}", "%2e%2e%2f"}, query: "?gpu=-1&cluster_id="},
		} {
			address := strings.NewReplacer(tt.values...).Replace(path)
			if strings.Contains(address, "/..") {
				address = strings.ReplaceAll(address, "/..", url.PathEscape("/.."))
			}
			d.check(full, path, address+tt.query, tt.full)
			d.check(none, path, address+tt.query, tt.none)
		}
	}
}

// Messages on the socket match the AsyncAPI document, and so do the replies to each
// message that clients may send.
func TestEveryEventIsAsDocumented(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.H100().At(2))
	m.GPU(0).SetProcesses(fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 3 << 30, SM: 90})
	m.GPU(0).Set(fakenvml.Utilization, 97)
	p := start(t, lib.Env(), fast, "--alert-rules="+rulesFile(t, atOnce))
	d := readDocument(p, "/asyncapi.json")

	messages := d.lookUp("components", "messages").(map[string]any)
	for name, message := range messages {
		for _, example := range message.(map[string]any)["examples"].([]any) {
			text, err := json.Marshal(example.(map[string]any)["payload"])
			if err != nil {
				t.Fatal(err)
			}
			d.validate("the example of "+name, text, "components", "messages", name, "payload")
		}
	}

	ends := strings.TrimSuffix(p.url, "/")
	if address := d.lookUp("channels", "socket", "address"); address != "/ws" {
		t.Errorf("the socket is documented at %v", address)
	}
	v := p.dial()
	sent := []string{
		`{"event":"subscribe","id":"s","data":{"gpus":[0,"GPU-none"],"nodes":null}}`,
		`{"event":"unsubscribe","id":1.5}`,
		`{"event":"request_gpu_update","id":"r"}`,
	}
	for _, text := range sent {
		var m client.Message
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		d.validate(text, []byte(text), "components", "messages", m.Event, "payload")
		v.send(text)
	}
	for _, text := range []string{"{", `{"event":"make_coffee","id":7}`, `{"event":"make_coffee","id":1.5}`, `{"event":"subscribe","id":"x","data":{"gpus":7}}`} {
		v.send(text)
	}

	waiting := map[string]int{"gpu_status": 1, "gpu_status_update": 3, "high_gpu_usage_alert": 1, "subscribed": 3, "gpu_status_patch": 2, "error": 4}
	for left, asked := 14, false; left > 0; {
		if left == 3 && !asked { // what still waits is of patches
			v.send(`{"event":"subscribe","id":"d","data":{"delta":true}}`)
			asked = true
		}
		m, err := v.message()
		if err != nil {
			t.Fatal(err)
		}
		if messages[m.Event] == nil {
			t.Fatalf("%s is not documented", m.Event)
		}
		d.validate(m.Event, m.Text, "components", "messages", m.Event, "payload")
		if waiting[m.Event] > 0 {
			waiting[m.Event]--
			left--
		}
	}
	if answer, _ := p.fetch("/ws", http.Header{"Host": {strings.TrimPrefix(ends, "http://")}}); answer.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("a GET that is no handshake: %d", answer.StatusCode)
	}
}

// The documents open in a browser and load nothing from other hosts. Trying an address
// shows its answer.
func TestTheDocumentsOpenInABrowser(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), fast, "--base-path=/gpu-why/")
	p.await("the GPU answers", func(u contract.Update) bool { return u.Answering == 1 })
	const ownOnly = `performance.getEntriesByType("resource").every((r) => r.name.startsWith(location.origin + "/gpu-why/"))`
	check := func(path, condition string) *browser.Tab {
		tab := browser.Open(t, 1440, 900)
		tab.Visit(strings.TrimSuffix(p.url, "/") + path)
		tab.Do(chromedp.WaitReady("body"))
		tab.Until(condition)
		if !browser.Ask[bool](tab, ownOnly) {
			t.Errorf("%s asks others: %s", path, browser.Ask[string](tab, `performance.getEntriesByType("resource").map((r) => r.name).join(" ")`))
		}
		return tab
	}
	check("/redoc", `document.getElementById("get-api-gpu-metrics-id") !== null && document.querySelectorAll("h3").length > 60`).Quiet(leaves)
	check("/docs/events", `document.getElementById("message-gpu_status") !== null && document.getElementById("limits") !== null`).Quiet(leaves)

	// The viewer keeps its parts in shadow trees.
	const request = `document.querySelector("rapi-doc").shadowRoot?.querySelector("[id='get-/gpu/info'] api-request")?.shadowRoot`
	docs := check("/docs#get-/gpu/info", request+`?.querySelector("[part~=btn-try]") != null`)
	browser.Ask[any](docs, request+`.querySelector("[part~=btn-try]").click()`)
	docs.Until(`/Status:.*200/i.test(` + request + `.textContent)`)
	docs.Until(`[...` + request + `.querySelectorAll("*")].some((e) => /pynvml_installed/.test(e.textContent + (e.shadowRoot?.textContent ?? "")))`)
	docs.Quiet(leaves)
}

// Each answer has the common headers exactly once, even when /ws refuses a request that is not a WebSocket.
func TestFixedHeadersAreThereOnce(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--source=simulate:rtx-4090", "--state-dir=none")
	for name, header := range map[string]http.Header{
		"no upgrade":    nil,
		"no key":        {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}},
		"other version": {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"12"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}},
		"other origin": {
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
			"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Origin": {"http://elsewhere.example"},
		},
	} {
		answer, _ := p.fetch("/ws", header)
		if answer.StatusCode < 400 {
			t.Errorf("%s: %s", name, answer.Status)
		}
		for header, values := range answer.Header {
			if len(values) > 1 && header != "Vary" {
				t.Errorf("%s: %s is there %d times", name, header, len(values))
			}
		}
		if answer.Header.Get("X-Content-Type-Options") == "" {
			t.Errorf("%s: no X-Content-Type-Options", name)
		}
	}
}
