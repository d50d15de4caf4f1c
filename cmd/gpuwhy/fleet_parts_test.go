//go:build !race

package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// A testFleet is a server, with its NATS, and what has joined it: real programs, each with credentials of its own.
type testFleet struct {
	t      *testing.T // all programs end with it
	state  string     // the server's state directory
	more   []string   // flags of the server
	addr   string     // of NATS
	server *program
}

// pace is how often the machines of a fleet are read. A machine is silent after two intervals and two seconds.
const pace = "--interval=500ms"

func newFleet(t *testing.T, state string, more ...string) *testFleet {
	t.Helper()
	f := &testFleet{t: t, state: state, addr: freeAddress(t), more: more}
	f.serve()
	return f
}

// serve starts the server, which may have run before.
func (f *testFleet) serve() {
	f.t.Helper()
	f.server = start(f.t, nil, append([]string{"serve", "--fleet-listen=" + f.addr, "--state-dir=" + f.state, "--node=server", "--source=simulate:rtx-4090", pace}, f.more...)...)
}

var inLine = regexp.MustCompile(`printf %s ([A-Za-z0-9+/=]+)`)

// joins makes credentials as for a machine that joins.
func (f *testFleet) joins(name string, args ...string) (file string) {
	f.t.Helper()
	r := command(f.t, nil, append([]string{"fleet", "join-command", name, "--state-dir=" + f.state, "--host=127.0.0.1", "--fleet-listen=" + f.addr}, args...)...)
	found := inLine.FindStringSubmatch(r.stdout)
	if r.code != exitOK || found == nil {
		f.t.Fatalf("join-command %s: %+v", name, r)
	}
	text, err := base64.StdEncoding.DecodeString(found[1])
	if err != nil {
		f.t.Fatal(err)
	}
	file = filepath.Join(f.t.TempDir(), "fleet.creds")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return file
}

// agent starts an agent that also serves a page, which shows what it knows.
func (f *testFleet) agent(name string, env []string, args ...string) *program {
	f.t.Helper()
	lacks := func(flag string) bool {
		return !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	}
	if lacks("--fleet=") {
		args = append(args, "--fleet=tls://"+f.addr)
	}
	if lacks("--fleet-credentials=") {
		args = append(args, "--fleet-credentials="+f.joins(name))
	}
	return start(f.t, env, append([]string{"agent", "--node=" + name, pace}, args...)...)
}

// hub starts a hub.
func (f *testFleet) hub(name string) *program {
	f.t.Helper()
	return start(f.t, nil, "hub", "--fleet=tls://"+f.addr, "--fleet-credentials="+f.joins(name, "--hub"), "--node="+name, pace)
}

// stories runs stories one after the other. Each builds on the ones before.
func stories(t *testing.T) func(name string, tell func(*testing.T)) {
	return func(name string, tell func(*testing.T)) {
		t.Helper()
		if !t.Run(name, tell) {
			t.FailNow()
		}
	}
}

// A watcher is a viewer that remembers what it has received.
type watcher struct {
	*viewer
	mu      sync.Mutex
	newest  map[string]contract.Update // by node
	live    map[string]contract.Update // the newest while the node was not silent
	updates map[string]int             // how many of these there were, each of a newer reading
	alerts  []contract.Alert
	replies map[string][]contract.Update // by id
	ended   error
}

// watch starts a watcher.
func (p *program) watch() *watcher {
	p.t.Helper()
	w := &watcher{viewer: p.dial(), newest: map[string]contract.Update{}, live: map[string]contract.Update{}, updates: map[string]int{}, replies: map[string][]contract.Update{}}
	go func() {
		for {
			a := <-w.come
			err := a.err
			if err == nil {
				err = w.note(&a.Message)
			}
			if err != nil {
				w.mu.Lock()
				w.ended = err
				w.mu.Unlock()
				return
			}
		}
	}()
	return w
}

func (w *watcher) note(m *client.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m.Event {
	case "gpu_status_update":
		var u contract.Update
		if err := m.Decode(&u); err != nil {
			return err
		}
		w.newest[u.Node] = u
		if u.SilentSince == "" && u.Timestamp > w.live[u.Node].Timestamp {
			w.live[u.Node] = u
			w.updates[u.Node]++
		}
		if m.ID != nil {
			w.replies[string(m.ID)] = append(w.replies[string(m.ID)], u)
		}
	case contract.AlertEvent, contract.HighGPUUsage:
		var a contract.Alert
		if err := m.Decode(&a); err != nil {
			return err
		}
		w.alerts = append(w.alerts, a)
	}
	return nil
}

// lastUpdate returns a node's newest update.
func (w *watcher) lastUpdate(node string) (contract.Update, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u, ok := w.newest[node]
	return u, ok
}

// heard returns the events about a rule's alerts at a node, in order.
func (w *watcher) heard(node, rule string) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.alerts {
		if a := &w.alerts[i]; a.Node == node && a.Rule == rule {
			text := a.ID + " " + a.State
			if a.Acknowledged != nil {
				text += " acknowledged by " + a.Acknowledged.By
			}
			if a.SilencedUntil != nil {
				text += " silenced"
			}
			all = append(all, text)
		}
	}
	return all
}

// lives reports whether all nodes are present and not silent.
func (w *watcher) lives(nodes ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(nodes, func(node string) bool { return !w.goesOn(node) })
}

// goesOn reports whether a node is present in its newest update. The caller holds w.mu.
func (w *watcher) goesOn(node string) bool {
	return w.newest[node].Node != "" && w.newest[node].SilentSince == ""
}

// news reports whether two newer readings of all nodes have arrived since now; the first may have been made earlier.
func (w *watcher) news(nodes ...string) func() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := maps.Clone(w.updates)
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !slices.ContainsFunc(nodes, func(node string) bool { return !w.goesOn(node) || w.updates[node] < before[node]+2 })
	}
}

// lastOf returns a node's newest update from before it was silent.
func (w *watcher) lastOf(node string) contract.Update {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live[node]
}

// tell logs what a viewer of a hub knows.
func (w *watcher) tell(hub int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Logf("the viewer of hub %d: %v", hub, w.ended)
	for node, u := range w.newest {
		w.t.Logf("%s: %d updates, the last of %s, %s, silent since %q: %s", node, w.updates[node], u.Timestamp, u.Status, u.SilentSince, u.Reason)
	}
}

// A wire is a TCP connection between programs that can be cut.
type wire struct {
	ln     net.Listener
	target string
	mu     sync.Mutex
	cut    bool
	open   map[net.Conn]bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{ln: ln, target: target, open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		w.set(true)
		all.Wait()
	})
	return w
}

// carry carries one connection.
func (w *wire) carry(c net.Conn) {
	defer c.Close()
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	cut := w.cut
	w.open[c], w.open[far] = true, true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, c)
		delete(w.open, far)
	}()
	if cut {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(far, c); far.Close() }) // one end closes the other
	both.Go(func() { _, _ = io.Copy(c, far); c.Close() })
	both.Wait()
}

// set cuts the wire, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for c := range w.open {
			c.Close()
		}
	}
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%02d", prefix, i+1))
	}
	return all
}
