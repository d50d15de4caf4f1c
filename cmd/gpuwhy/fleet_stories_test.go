//go:build !race

package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// Ten machines and two hubs go through everything that happens to a fleet.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, t.TempDir())
	hubs := []*program{f.hub("hub-1"), f.hub("hub-2")}
	lib, card := machine(t, fakenvml.RTX4090())
	card.GPU(0).SetProcesses()
	rules := rulesFile(t, hotRules)
	all := names("gpu-", 10)
	agents := map[string]*program{}
	dirs := map[string]string{}
	link := newWire(t, f.addr)
	for i, name := range all {
		dirs[name] = t.TempDir()
		args := []string{"--cluster=lab", "--label=rack=r" + name[len(name)-1:], "--state-dir=" + dirs[name], "--fleet-credentials=" + f.joins(name, "--cluster=lab")}
		switch i {
		case 0:
			args = append(args, "--fleet=tls://"+link.ln.Addr().String(), "--alert-rules="+rules)
			agents[name] = f.agent(name, lib.Env(), args...)
			continue
		}
		agents[name] = f.agent(name, nil, append(args, "--source=simulate:rtx-4090")...)
	}
	keys := []string{"server"}
	for _, name := range all {
		keys = append(keys, "lab:"+name)
	}
	watchers := []*watcher{hubs[0].watch(), hubs[1].watch()}
	own := agents["gpu-01"].watch()
	live := func(what string) {
		t.Helper()
		for i, w := range watchers {
			defer func() {
				if t.Failed() {
					w.tell(i + 1)
				}
			}()
			testkit.Until(t, what+": news of all at hub "+string(rune('1'+i)), w.news(keys...))
		}
	}
	live("at the start")

	// blink lets the alert come and go, and compares what viewers of hubs get with what one of the machine itself gets.
	const hot = "hot"
	blink := func(times int) {
		t.Helper()
		for range times {
			card.GPU(0).Set(fakenvml.Temperature, 90)
			n := len(own.heard("lab:gpu-01", hot))
			testkit.Until(t, "the alert of gpu-01", func() bool { return len(own.heard("lab:gpu-01", hot)) > n })
			card.GPU(0).Set(fakenvml.Temperature, 50)
			testkit.Until(t, "the end of the alert", func() bool { return len(own.heard("lab:gpu-01", hot)) > n+1 })
		}
	}
	sameAt := func(what string, i, begin int) {
		t.Helper()
		testkit.Until(t, what+": the same events at hub "+string(rune('1'+i)), func() bool {
			want := own.heard("lab:gpu-01", hot) // what each was told may come later than what it is about
			return slices.Equal(watchers[i].heard("lab:gpu-01", hot), want[min(begin, len(want)):])
		}, "at the hub", func() any { return watchers[i].heard("lab:gpu-01", hot) }, "at the machine", func() any { return own.heard("lab:gpu-01", hot) }, "from", begin)
	}
	same := func(what string, begins []int) {
		t.Helper()
		for i := range watchers {
			sameAt(what, i, begins[i])
		}
	}

	story := stories(t)
	story("pages", func(t *testing.T) {
		for i, w := range watchers {
			p := hubs[i]
			before := w.lastOf("lab:gpu-03")
			w.send(`{"event":"subscribe","data":{"nodes":["lab:gpu-03"]},"id":"s"}`)
			w.send(`{"event":"request_gpu_update","id":"r"}`)
			testkit.Until(t, "the answer to request_gpu_update", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return len(w.replies[`"r"`]) > 0
			})
			w.mu.Lock()
			got := w.replies[`"r"`]
			w.mu.Unlock()
			if len(got) != 1 || got[0].Node != "lab:gpu-03" || got[0].Timestamp <= before.Timestamp {
				t.Errorf("asked for gpu-03 after %s: %d of %s at %s", before.Timestamp, len(got), got[0].Node, got[0].Timestamp)
			}
			w.send(`{"event":"subscribe","id":"all"}`)
			answer, page := p.fetch("/node/lab:gpu-03/", http.Header{"Accept": {"text/html"}})
			if answer.StatusCode != http.StatusOK || !strings.Contains(string(page), "gpu-03") || !strings.Contains(string(page), "RTX 4090") {
				t.Errorf("the page of gpu-03: %s\n%.500s", answer.Status, page)
			}
			var update contract.Update
			if code := p.get("/node/lab:gpu-03/api/gpu/metrics", &update); code != http.StatusOK || update.Node != "lab:gpu-03" || len(update.GPUs) != 1 {
				t.Errorf("/node/lab:gpu-03/api/gpu/metrics: %d, %+v", code, update)
			}
			var nodes []contract.ClusterNode
			p.get("/api/v1/gpu/nodes?cluster_id=lab", &nodes)
			if len(nodes) != 10 || nodes[2].Name != "gpu-03" || nodes[2].Cluster != "lab" || nodes[2].Labels["rack"] != "r3" || len(nodes[2].GPUs) != 1 {
				t.Errorf("contract D: %+v", nodes)
			}
			var lines []string
			for _, key := range keys {
				lines = append(lines, `gpuwhy_node_silent{node="`+key+`"} 0`)
			}
			p.awaitMetrics(lines...)
		}
	})
	story("alerts", func(t *testing.T) {
		blink(3)
		same("alerts that come and go", []int{0, 0})
		card.GPU(0).Set(fakenvml.Temperature, 90)
		find := func(p *program) (found contract.Alert) {
			for _, a := range p.alerts().Alerts {
				if a.Rule == hot && a.State != "resolved" {
					found = a
				}
			}
			return found
		}
		testkit.Until(t, "the alert at both hubs", func() bool { return find(hubs[0]).ID != "" && find(hubs[1]).ID != "" })
		id := find(hubs[0]).ID
		var a contract.Alert
		if code := hubs[0].ask("POST", "/api/alerts/"+id+"/acknowledge", `{"comment":"on it"}`, &a); code != http.StatusOK || a.Acknowledged == nil {
			t.Errorf("acknowledge at a hub: %d, %+v", code, a)
		}
		acknowledged := func(p *program) bool { a := find(p); return a.Acknowledged != nil && a.Acknowledged.Comment == "on it" }
		testkit.Until(t, "it is acknowledged everywhere", func() bool { return acknowledged(hubs[0]) && acknowledged(hubs[1]) && acknowledged(agents["gpu-01"]) })
		var silence contract.Silence
		if code := hubs[1].ask("POST", "/api/silences", `{"gpu_uuid":"`+a.GPUUUID+`","duration_seconds":600}`, &silence); code != http.StatusCreated {
			t.Errorf("silence at a hub: %d, %+v", code, silence)
		}
		silenced := func(p *program) bool { return find(p).SilencedUntil != nil }
		testkit.Until(t, "it is silenced everywhere", func() bool { return silenced(hubs[0]) && silenced(hubs[1]) && silenced(agents["gpu-01"]) })
		testkit.Until(t, "the other hub ends the silence", func() bool {
			return hubs[0].ask("DELETE", "/api/silences/"+silence.ID, "", nil) == http.StatusNoContent
		})
		testkit.Until(t, "it is silenced nowhere", func() bool { return !silenced(hubs[0]) && !silenced(hubs[1]) && !silenced(agents["gpu-01"]) })
		card.GPU(0).Set(fakenvml.Temperature, 50)
		testkit.Until(t, "its end", func() bool { return find(agents["gpu-01"]).ID == "" })
		same("an alert that somebody knows of", []int{0, 0})
	})
	begins := []int{0, 0}
	story("a hub is killed", func(*testing.T) {
		hubs[1].kill()
		blink(1)
		sameAt("while a hub is away", 0, 0) // so that none is still on its way to the one that starts now
		hubs[1] = f.hub("hub-2")
		watchers[1] = hubs[1].watch()
		begins[1] = len(own.heard("lab:gpu-01", hot))
		live("after a hub was killed")
		blink(1)
		same("after a hub was killed", begins)
	})
	story("a machine is cut off", func(t *testing.T) {
		work := fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 3 << 30, SM: 9}
		card.GPU(0).SetProcesses(work)
		began := own.lastOf("lab:gpu-01").Timestamp
		live("before gpu-01 is cut off")
		var told [2]int // of silences before: a busy machine may have been silent for a moment
		for i, w := range watchers {
			testkit.Until(t, "no silence is left", func() bool {
				told[i] = len(w.heard("lab:gpu-01", "node_silent"))
				return told[i]%2 == 0
			})
		}
		silence := func(i int) []string { return watchers[i].heard("lab:gpu-01", "node_silent")[told[i]:] }
		link.set(true)
		silent := func(w *watcher) bool { u, _ := w.lastUpdate("lab:gpu-01"); return u.SilentSince != "" }
		testkit.Until(t, "gpu-01 is silent at both hubs", func() bool { return silent(watchers[0]) && silent(watchers[1]) })
		for i, w := range watchers {
			u, _ := w.lastUpdate("lab:gpu-01")
			if last := w.lastOf("lab:gpu-01"); u.SilentSince < last.Timestamp || !strings.Contains(u.Reason, "nothing arrives") || len(u.GPUs) != 1 {
				t.Errorf("hub %d says of gpu-01: since %q (its last reading: %s), %q", i+1, u.SilentSince, last.Timestamp, u.Reason)
			}
		}
		blink(2)
		card.GPU(0).SetProcesses()
		testkit.Until(t, "the silence is told at both hubs", func() bool {
			return len(silence(0)) > 0 && len(silence(1)) > 0
		})
		link.set(false)
		live("after gpu-01 was cut off")
		blink(1)
		same("after gpu-01 was cut off", begins)
		for i := range watchers {
			testkit.Until(t, "the end of the silence", func() bool { return len(silence(i)) >= 2 })
			for n, said := range silence(i) { // of this one, and of others where the machine stood still
				if want := [...]string{" firing", " resolved"}[n%2]; !strings.HasSuffix(said, want) {
					t.Errorf("hub %d told of the silence: %q", i+1, silence(i))
				}
			}
		}
		until := agents["gpu-01"].remembered()
		differs := ""
		testkit.Until(t, "the server has the past of gpu-01", func() bool {
			differs = samePast(f.server, agents["gpu-01"], "/node/lab:gpu-01", began, until)
			return differs == ""
		}, func() string { return "it has " + differs })
	})
	story("NATS is restarted", func(t *testing.T) {
		if err := f.server.stop(syscall.SIGTERM); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		blink(2)
		f.serve()
		live("after NATS was restarted")
		blink(1)
		same("after NATS was restarted", begins)
	})
	for _, p := range append(slices.Collect(maps.Values(agents)), hubs...) {
		quiet(t, p)
	}
}

// The server's disk is full for a while: machines stay live, the server says that its disk is full, and waiting data arrives
// once there is space, exactly once.
func TestFleetOnAFullDisk(t *testing.T) {
	t.Parallel()
	f := newFleet(t, mount(t, "tmpfs", "size=32m"))
	lib, card := machine(t, fakenvml.RTX4090())
	card.GPU(0).SetProcesses()
	agent := f.agent("gpu-1", lib.Env(), "--state-dir="+t.TempDir(), "--alert-rules="+rulesFile(t, hotRules))
	w, own := f.hub("hub-1").watch(), agent.watch()
	fleeting := func(state string) func() bool {
		return func() bool {
			var health contract.MonitorHealth
			f.server.get("/api/health", &health)
			part := health.Parts["fleet"]
			return part.State == state && (state == "ok" || strings.Contains(*part.LastError, "can't write"))
		}
	}
	blink := func() {
		t.Helper()
		for _, heat := range []uint64{90, 50} {
			n := len(own.heard("gpu-1", "hot"))
			card.GPU(0).Set(fakenvml.Temperature, heat)
			testkit.Until(t, "the alert, or its end", func() bool { return len(own.heard("gpu-1", "hot")) > n })
		}
	}
	same := func(what string) {
		t.Helper()
		want := own.heard("gpu-1", "hot")
		testkit.Until(t, "as many events "+what, func() bool { return len(w.heard("gpu-1", "hot")) >= len(want) })
		if got := w.heard("gpu-1", "hot"); !slices.Equal(got, want) {
			t.Errorf("%s a hub told\n%q, want\n%q", what, got, want)
		}
	}
	blink()
	same("before")
	full := filepath.Join(f.state, "full")
	fillUp(t, full)
	waits := func() bool {
		_, text := agent.fetch("/metrics", nil)
		return regexp.MustCompile(`(?m)^gpuwhy_fleet_events_waiting\{.*\} [1-9]`).Match(text)
	}
	for range 200 { // some may fit into what its file has
		if blink(); waits() {
			break
		}
	}
	testkit.Until(t, "events wait", waits)
	testkit.Until(t, "the server says so", fleeting("failed"))
	testkit.Until(t, "news of the machine", w.news("gpu-1"))
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the server is well", fleeting("ok"))
	blink()
	same("afterwards")
	quiet(t, f.server)
	quiet(t, agent)
}

// quiet reports lines of one part's log that repeat more than a few times in a row, since each problem is logged once. On a
// machine that stops for a while a problem may occur more than once, with a line in between that says it was over.
func quiet(t *testing.T, p *program) {
	t.Helper()
	const few, flood = 4, 40
	last, inRow, seen := map[string]string{}, map[string]int{}, map[string]int{}
	for line := range strings.Lines(p.log.String()) {
		_, said, ok := strings.Cut(line, " level=")
		if !ok {
			continue
		}
		_, part, _ := strings.Cut(said, " part=")
		part, _, _ = strings.Cut(part, " ")
		if said != last[part] {
			last[part], inRow[part] = said, 0
		}
		inRow[part]++
		if seen[said]++; inRow[part] > few || seen[said] > flood {
			t.Errorf("%d times in the log: %s", seen[said], said)
		}
	}
}

// samePast returns how a program's past of a machine differs from the machine's own; empty if it does not.
func samePast(asked, self *program, path string, from, to string) string {
	query := "?from=" + from + "&to=" + to
	var a, b contract.PastReadings
	self.get("/api/gpu/readings"+query+"&tier=raw", &a)
	asked.get(path+"/api/gpu/readings"+query+"&tier=raw", &b)
	if len(a.Readings) < 3 || !reflect.DeepEqual(a.Readings, b.Readings) {
		return fmt.Sprintf("%d readings, and itself %d", len(b.Readings), len(a.Readings))
	}
	var sa, sb contract.PastSessions
	self.get("/api/gpu/sessions"+query, &sa)
	asked.get(path+"/api/gpu/sessions"+query, &sb)
	if len(sa.Sessions) == 0 || !reflect.DeepEqual(sa.Sessions, sb.Sessions) {
		return fmt.Sprintf("the sessions %+v, and itself %+v", sb.Sessions, sa.Sessions)
	}
	events := func(p *program, path string) (all []string) {
		var list contract.PastEvents
		p.get(path+"/api/events"+query, &list)
		for _, e := range list.Events {
			if !strings.Contains(e.Text, "sends") { // what a hub says of a silence
				all = append(all, e.Time+" "+e.Kind+" "+e.Text)
			}
		}
		return all
	}
	if ea, eb := events(self, ""), events(asked, path); len(ea) < 4 || !slices.Equal(ea, eb) {
		return fmt.Sprintf("the events\n%q, and itself\n%q", eb, ea)
	}
	return ""
}
