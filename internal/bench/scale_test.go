//go:build !race && linux

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/uplink"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// An agentsConfig says which nodes a process publishes.
type agentsConfig struct {
	URL      string
	Nodes    int
	Interval time.Duration
}

// traffic is what a NATS server has received and sent.
type traffic struct{ InMessages, InBytes, OutMessages, OutBytes int64 }

// runNATS runs in the process of a NATS server that stores its messages in a folder.
func runNATS(dir string) error {
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(testkit.Patience) {
		return errors.New("NATS does not start")
	}
	return converse(s.ClientURL(), func([]string) (any, error) {
		v, err := s.Varz(nil)
		if err != nil {
			return nil, err
		}
		return traffic{v.InMsgs, v.InBytes, v.OutMsgs, v.OutBytes}, nil
	})
}

// runAgents runs in a process with the agents of many nodes. Each reading is based on a few that were simulated beforehand.
func runAgents(c *agentsConfig) error {
	m, err := newMachines(c.Nodes)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Open(bus.Config{URLs: []string{c.URL}, Name: "agents", Log: log})
	if err != nil {
		return err
	}
	alerts := alert.New(alert.Defaults())
	past := recent.New()
	up := uplink.New(uplink.Config{
		Bus: b, Version: "1.0.0", Interval: c.Interval, Alerts: alerts, Recent: past.Past, Clock: clock.Clock{}, Log: log,
	})
	go func() { panic(up.Run(context.Background())) }() // it ends with the process
	var mu sync.Mutex
	var published []time.Time
	go func() {
		const each = 25 * time.Millisecond
		begun, n := time.Now(), 0
		for tick := 1; ; tick++ {
			time.Sleep(time.Until(begun.Add(time.Duration(tick) * each))) // nodes are read at all times
			var batch []*insight.Moment
			for due := int(time.Duration(tick) * each * time.Duration(c.Nodes) / c.Interval); n < due; n++ {
				batch = append(batch, m.moment(n%c.Nodes, time.Now()).At(insight.Place{}, insight.Link{}))
			}
			up.Announce(alerts.ObserveAll(batch))
			for _, moment := range batch {
				past.Observe(moment)
				up.Observe(moment)
				mu.Lock()
				published = append(published, moment.Snapshot.Time)
				mu.Unlock()
			}
		}
	}()
	return converse(c.Nodes, func([]string) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		out := published
		published = nil
		return out, nil
	})
}

// A collected is what a program's garbage collector reports.
type collected struct {
	mu   sync.Mutex
	live float64 // what was in use after a collection, in MB: the least since it was asked, as what is made meanwhile counts too; 0: none was since
}

var liveOf = regexp.MustCompile(`^gc .*->([0-9]+) MB, `)

// follow reads the lines of GODEBUG=gctrace=1.
func (c *collected) follow(r io.Reader) {
	for in := bufio.NewScanner(r); in.Scan(); {
		if m := liveOf.FindStringSubmatch(in.Text()); m != nil {
			c.mu.Lock()
			if v, _ := strconv.ParseFloat(m[1], 64); c.live == 0 || v < c.live { // digits alone
				c.live = v
			}
			c.mu.Unlock()
		}
	}
}

func (c *collected) heap() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live
	c.live = 0
	return live
}

// A station is a hub that shows a fleet.
type station struct {
	*process
	addr  string
	heap  *collected
	start time.Duration // from its start until it has all nodes
}

// newStation starts a hub, and waits until it has all nodes.
func newStation(tb testing.TB, binary, url string, nodes int) *station {
	tb.Helper()
	cmd := exec.Command(binary, "hub", "--fleet="+url, fmt.Sprintf("--max-viewers=%d", maxViewers))
	cmd.Env = []string{"GODEBUG=gctrace=1"}
	r, w := io.Pipe()
	cmd.Stderr = w
	s := &station{heap: &collected{}}
	go s.heap.follow(r)
	begun := time.Now()
	s.process, s.addr = listening(tb, cmd)
	for {
		summary, err := summaryOf(s.addr)
		if err == nil && summary.NodeCount == nodes {
			s.start = time.Since(begun)
			return s
		}
		if time.Since(begun) > 2*testkit.Patience {
			tb.Fatalf("the hub has %d of %d nodes: %v", summary.NodeCount, nodes, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func summaryOf(addr string) (s contract.Summary, err error) {
	c, err := client.New("http://"+addr, client.Options{})
	if err != nil {
		return s, err
	}
	summary, err := client.Do(context.Background(), c, client.GetSummary())
	if err != nil {
		return s, err
	}
	return *summary, nil
}

// scale measures a fleet of real processes. It returns the hub's cost per node; before is the cost with a fleet of another size.
func scale(b *testing.B, nodes, viewers int, interval time.Duration, before *load) (l *load) {
	b.Helper()
	b.Run(fmt.Sprintf("nodes=%d/interval=%s", nodes, interval), func(b *testing.B) {
		var url string
		broker := begin(b, role{NATS: b.TempDir()}, &url)
		var count int
		agents := begin(b, role{Agents: &agentsConfig{url, nodes, interval}}, &count)
		binary := built(b)
		first := newStation(b, binary, url, nodes) // it makes what NATS keeps
		first.end()
		time.Sleep(interval + 30*time.Second) // all whole states are kept
		hub := newStation(b, binary, url, nodes)
		time.Sleep(max(interval, 20*time.Second)) // what the start leaves is collected
		span := max(interval, 20*time.Second)
		nodeSeconds := float64(nodes) * span.Seconds()
		hub.heap.heap()
		alone := hub.cpu()
		time.Sleep(span)
		alone = hub.cpu() - alone
		unseen, resident := hub.heap.heap(), hub.value("status", "VmRSS")

		var connected int
		begin(b, role{Crowd: &crowdConfig{Addr: hub.addr, Path: fleetPage, Viewers: max(1, viewers-1), Does: doesRead}}, &connected)
		w := newWitness(b, hub.addr, fleetPage)
		time.Sleep(5 * time.Second)
		var t0, t1 traffic
		var published []time.Time
		agents.ask(&published, "published")
		broker.ask(&t0, "traffic")
		hubCPU, brokerCPU, agentsCPU := hub.cpu(), broker.cpu(), agents.cpu()
		time.Sleep(span) // what is measured is a span of time
		hubCPU, brokerCPU, agentsCPU = hub.cpu()-hubCPU, broker.cpu()-brokerCPU, agents.cpu()-agentsCPU
		broker.ask(&t1, "traffic")
		agents.ask(&published, "published")
		w.await(b, published[len(published)-1])
		l = &load{cpu: hubCPU.Seconds() * 1e6 / nodeSeconds, heap: hub.heap.heap() * 1e6 / float64(nodes)}
		l.late, l.bytes = w.late(published)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(alone.Seconds()*1e6/nodeSeconds, "us-cpu-unseen/node/s")
		b.ReportMetric(l.cpu, "us-cpu/node/s")
		b.ReportMetric(brokerCPU.Seconds()*1e6/nodeSeconds, "us-cpu-nats/node/s")
		b.ReportMetric(agentsCPU.Seconds()*1e6/nodeSeconds, "us-cpu-agents/node/s")
		b.ReportMetric(float64(t1.InBytes-t0.InBytes)/nodeSeconds, "B-in/node/s")
		b.ReportMetric(float64(t1.OutBytes-t0.OutBytes)/nodeSeconds, "B-out/node/s")
		b.ReportMetric(float64(t1.InMessages-t0.InMessages)/nodeSeconds, "msg-in/node/s")
		b.ReportMetric(unseen*1e3/float64(nodes), "kB-live-unseen/node")
		b.ReportMetric(l.heap/1e3, "kB-live/node")
		b.ReportMetric(resident/float64(nodes), "kB-rss-unseen/node")
		b.ReportMetric(hub.value("status", "VmRSS")/float64(nodes), "kB-rss/node")
		b.ReportMetric(hub.value("status", "VmHWM")/float64(nodes), "kB-rss-at-most/node")
		b.ReportMetric(hub.start.Seconds()*1e3, "ms-start")
		b.ReportMetric(float64(l.late[len(l.late)/2].Milliseconds()), "ms-late")
		b.ReportMetric(float64(l.late[len(l.late)*99/100].Milliseconds()), "ms-late-p99")
		if before != nil {
			b.ReportMetric(l.cpu/before.cpu, "x-cpu-of-a-tenth")
			b.ReportMetric(l.heap/before.heap, "x-memory-of-a-tenth")
		}
	})
	return l
}
