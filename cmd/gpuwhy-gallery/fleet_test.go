//go:build !race

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A page that is open shows that a node falls silent, and that it comes back.
func TestANodeFallsSilent(t *testing.T) {
	s := newStage(t, "fleet:16")
	all := newPlayer(t, "fleet:16", time.Date(2026, time.March, 3, 13, 38, 0, 0, time.UTC), time.Now()).next(0)
	s.publish(all)
	show := func(link insight.Link) {
		m, found := s.Hub.Newest().Node("node-002")
		if !found {
			t.Fatal("there is no such node")
		}
		s.Hub.Publish(m.At(m.Place, link))
		s.Hub.Turn()
	}
	fleet, own := quietTab(t, 1440, 900), quietTab(t, 1440, 900)
	fleet.Visit(s.url)
	own.Visit(s.url + "node/node-002/")
	for _, b := range []*browser.Tab{fleet, own} {
		b.Until(`document.getElementById("state").dataset.state !== "connecting" && document.querySelector("meta[name=version]") !== null`)
	}
	for range 2 {
		show(insight.Link{Remote: true, Silent: time.Now().Add(-time.Minute), Why: gpu.Advice{What: "its agent <b>sends</b> nothing", Try: "look after it"}})
		fleet.Until(`document.querySelector("#standouts [data-silent] .of-answer")?.innerText.includes("Its agent <b>sends</b> nothing") && document.querySelectorAll(".node[data-silent], .card[data-state=silent]").length > 0`)
		fleet.Until(`document.querySelector(".answer").innerText.includes("silent")`)
		own.Until(`document.getElementById("silent-node").checkVisibility() && document.getElementById("silent-node").innerText.includes("Look after it.")`)
		show(insight.Link{Remote: true})
		fleet.Until(`document.querySelector("[data-silent]") === null && !document.querySelector(".answer").innerText.includes("silent")`)
		own.Until(`!document.getElementById("silent-node").checkVisibility()`)
	}
}

// A node may be called what its cluster calls it: its page, its GPUs, its search and its socket have that in their addresses.
func TestNamesOfNodesInAddresses(t *testing.T) {
	s := newStage(t, "fleet:16")
	names := []string{"lab:gpu-17.example.org", "a/b", `<b>"x"</b>&?#%2F`, "...", "é ü", "a+b;c=d"}
	for i, name := range names {
		snap := *fixture.Nodes(time.Now().UTC(), len(names), false)[i].Snapshot
		snap.Node = name
		for j := range snap.Devices {
			snap.Devices[j].Node = name
		}
		s.Publish(&snap)
	}
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(s.url, "/")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html, */*;q=0.5")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	_, nodes := get("/nodes")
	for i, name := range names {
		base := "/node/" + url.PathEscape(name) + "/"
		uuid := fmt.Sprintf("GPU-%08x-0000-4000-8000-%012d", i, 0)
		for path, want := range map[string]string{
			base: uuid, base + "gpu/" + uuid: uuid, base + "processes": "<main", base + "find?part=list": "found", base + "api/gpu/summary": `"node":`,
			base + "embed/gpu/" + uuid: uuid, base + "gpu/0": uuid,
		} {
			if status, body := get(path); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d", path, status)
			}
		}
		if !strings.Contains(nodes, `href="`+strings.ReplaceAll(strings.ReplaceAll(base, "&", "&amp;"), `"`, "&#34;")+`"`) {
			t.Errorf("the list does not lead to %s", base)
		}
		b := quietTab(t, 1440, 900)
		b.Visit(strings.TrimSuffix(s.url, "/") + base)
		b.Until(`document.getElementById("state").dataset.state === "live"`)
		if got := browser.Ask[string](b, `document.querySelector(".host bdi").textContent`); got != name {
			t.Errorf("%q is called %q", name, got)
		}
	}
}
