//go:build !race

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres/pgtest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A cluster is three NATS servers that store the same data.
type cluster struct {
	t       *testing.T
	options [3]natsserver.Options
	servers [3]*natsserver.Server
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var routes []string
	ports := freePorts(t, 6)
	for i := range c.options {
		port, route := ports[i], ports[3+i]
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", route))
		c.options[i] = natsserver.Options{
			ServerName: fmt.Sprintf("s%d", i+1), Host: "127.0.0.1", Port: port, NoSigs: true,
			JetStream: true, JetStreamMaxStore: 8 << 30, StoreDir: t.TempDir(), Cluster: natsserver.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: route},
		}
	}
	for i := range c.options {
		c.options[i].Routes = natsserver.RoutesFromStr(strings.Join(routes, ","))
		c.serve(i)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.stop(i)
		}
	})
	testkit.Until(t, "the servers know each other", func() bool {
		return slices.ContainsFunc(c.servers[:], func(s *natsserver.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 })
	})
	return c
}

// A reason is why a server ended on its own.
type reason struct{ text atomic.Value }

func (r *reason) Fatalf(format string, args ...any) { r.text.Store(fmt.Sprintf(format, args...)) }
func (*reason) Errorf(string, ...any)               {}
func (*reason) Warnf(string, ...any)                {}
func (*reason) Noticef(string, ...any)              {}
func (*reason) Debugf(string, ...any)               {}
func (*reason) Tracef(string, ...any)               {}

// serve starts a server, which may have run before.
func (c *cluster) serve(i int) {
	c.t.Helper()
	options := c.options[i]
	s, err := natsserver.NewServer(&options)
	if err != nil {
		c.t.Fatal(err)
	}
	why := &reason{}
	s.SetLogger(why, false, false)
	s.Start()
	c.servers[i] = s
	if !s.ReadyForConnections(testkit.Patience) {
		c.t.Fatalf("server %d does not start: %v", i+1, why.text.Load())
	}
}

func (c *cluster) stop(i int) {
	c.servers[i].Shutdown()
	c.servers[i].WaitForShutdown()
}

func (c *cluster) flag() string {
	var urls []string
	for i := range c.options {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", c.options[i].Port))
	}
	return "--fleet=" + strings.Join(urls, ",")
}

// leader returns the index of JetStream's leader.
func (c *cluster) leader() int {
	return slices.IndexFunc(c.servers[:], func(s *natsserver.Server) bool { return s.Running() && s.JetStreamIsLeader() })
}

// A fleet with separate NATS servers, hubs and recorders loses one of each.
func TestFleetOfServersThatAreThere(t *testing.T) {
	t.Parallel()
	db := postgresServer(t)
	db.Exec(t, "postgres", "CREATE SCHEMA fleet AUTHORIZATION "+pgtest.Guarded)
	history, password := "--history="+db.URL("postgres", pgtest.Guarded)+"&search_path=fleet", []string{"PGPASSWORD=" + pgtest.Password}
	c := newCluster(t)
	hub := start(t, password, "hub", c.flag(), "--node=hub", pace, history)
	lib, card := machine(t, fakenvml.RTX4090())
	card.GPU(0).SetProcesses(fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 3 << 30, SM: 9})
	agent := start(t, lib.Env(), "agent", c.flag(), "--node=gpu-1", pace, "--state-dir="+t.TempDir(), "--alert-rules="+rulesFile(t, hotRules))
	record := func() *program {
		t.Helper()
		p := background(t, password, "record", c.flag(), history)
		p.log.await(t, "recording the past of the fleet")
		return p
	}
	recorders := []*program{record(), record()}
	w, own := hub.watch(), agent.watch()
	const node = "gpu-1"
	blink := func() {
		t.Helper()
		for _, heat := range []uint64{90, 50} {
			n := len(own.heard(node, "hot"))
			card.GPU(0).Set(fakenvml.Temperature, heat)
			testkit.Until(t, "the alert, or its end", func() bool { return len(own.heard(node, "hot")) > n })
		}
	}
	same := func(what string) {
		t.Helper()
		want := own.heard(node, "hot")
		testkit.Until(t, "as many events "+what, func() bool { return len(w.heard(node, "hot")) >= len(want) })
		if got := w.heard(node, "hot"); !slices.Equal(got, want) {
			t.Errorf("%s the hub told\n%q, want\n%q", what, got, want)
		}
	}
	live := func(what string) {
		t.Helper()
		testkit.Until(t, "news "+what, w.news(node))
	}
	live("at the start")
	testkit.Until(t, "the machine itself", func() bool { return own.lives(node) })
	began := own.lastOf(node).Timestamp
	blink()
	same("at the start")

	lost := c.leader()
	c.stop(lost)
	live("without a server")
	blink()
	same("without a server")
	recorders[0].kill()
	blink()
	c.serve(lost)
	recorders = append(recorders, record())
	live("with all servers")
	blink()
	same("with all servers")

	card.GPU(0).SetProcesses() // its session ends
	until := agent.remembered()
	differs := ""
	testkit.Until(t, "the past of the machine", func() bool {
		differs = samePast(hub, agent, "/node/"+node, began, until)
		return differs == ""
	}, func() string { return "the database has " + differs })
	for _, p := range recorders[1:] {
		if err := p.stop(syscall.SIGTERM); err != nil {
			t.Errorf("a recorder ended with %v", err)
		}
		if !strings.Contains(p.log.String(), "recording ends") {
			t.Error("a recorder says nothing at its end")
		}
		quiet(t, p)
	}
	quiet(t, hub)
}
