package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// MaxFleet is the most GPUs that the profile "fleet:N" has.
const MaxFleet = 4096

// Profiles lists the names that [New] takes, for help texts.
func Profiles() []string {
	return []string{"rtx-4090", "dgx-h100", "fleet:N"}
}

// A Source simulates one machine: a node of a profile. Its methods may be called
// from several goroutines at once.
type Source struct {
	now     func() time.Time
	booted  time.Time // some days before the source was made
	driver  gpu.Driver
	devices []*device
	host    host
}

// New returns the first of the [Nodes] of a profile, which most profiles have alone.
func New(profile string, now func() time.Time) (*Source, error) {
	nodes, err := Nodes(profile, now)
	if err != nil {
		return nil, err
	}
	return nodes[0], nil
}

// Nodes returns a simulation of each machine of a profile, at the time that now
// gives. The names of the nodes are in ascending order.
//
//   - "rtx-4090": a desktop with one card, where a game, a chat with a language
//     model, a training run, a render and a film encode take turns. The fans
//     stand still at rest, and turn for each job and for a minute or two after.
//   - "dgx-h100": one machine with eight passive H100: training that comes and
//     goes on four, an inference service, three MIG instances, one card behind
//     a blocked filter that slows down for heat, and one that is in every
//     [gpu.State] within each half hour. The machine shows everything else that
//     it has to show within an hour and a half.
//   - "fleet:N": 1 to [MaxFleet] GPUs of several products on nodes of eight,
//     "node-001" and on; of each hundred devices about one fails at times.
//
// Any other profile is a [gpu.Advice] that lists these.
func Nodes(profile string, now func() time.Time) ([]*Source, error) {
	var nodes []*Source
	kind, count, _ := strings.Cut(profile, ":")
	switch {
	case profile == "rtx-4090":
		nodes = []*Source{{host: desktopHost, driver: driver("570.133.07", "12.8"), devices: desktopMachine()}}
	case profile == "dgx-h100":
		nodes = []*Source{{host: dgxHost, driver: driver("550.127.08", "12.4"), devices: dgxMachine()}}
	case kind == "fleet":
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > MaxFleet {
			return nil, unknown(profile)
		}
		nodes = fleet(n)
	default:
		return nil, unknown(profile)
	}
	started := now().UTC()
	for _, s := range nodes {
		s.now, s.booted = now, bootBefore(started)
		for _, d := range s.devices {
			d.started, d.booted, d.driver = started, s.booted, s.driver.Version
			d.spent = d.energyAt(s.booted)
		}
	}
	return nodes, nil
}

func unknown(profile string) error {
	return &gpu.Advice{
		What: fmt.Sprintf("there is no simulation named %q", profile),
		Try:  fmt.Sprintf("use one of %s, with N from 1 to %d", strings.Join(Profiles(), ", "), MaxFleet),
	}
}

// bootBefore is when the machines were booted: a morning some weeks before, so that
// uptime and energy look like those of machines in use. It depends only on the day.
func bootBefore(start time.Time) time.Time {
	return start.Truncate(24 * time.Hour).Add(-17*24*time.Hour + 6*time.Hour + 12*time.Minute)
}

func driver(version, cuda string) gpu.Driver {
	return gpu.Driver{
		Source:  gpu.SourceSimulated,
		Version: gpu.Of(version), CUDA: gpu.Of(cuda), Library: gpu.Of("12." + version),
	}
}

// Name returns "simulated".
func (s *Source) Name() string { return gpu.SourceSimulated }

// Node is the name of the simulated machine, which is shown in place of the real
// one's.
func (s *Source) Node() string { return s.host.name }

// Close does nothing: a simulation holds nothing open.
func (s *Source) Close() error { return nil }

// Read returns what the machine reports now: Devices, Drivers, Host and the
// processes' facts. The sampler sets Index and Node. The only error is that of
// ctx.
func (s *Source) Read(ctx context.Context) (*gpu.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := s.now().UTC()
	snap := &gpu.Snapshot{
		Time:    now,
		Source:  gpu.SourceSimulated,
		Devices: make([]gpu.Device, len(s.devices)),
		Drivers: []gpu.Driver{s.driver},
	}
	for i, d := range s.devices {
		d.read(&snap.Devices[i], now)
	}
	snap.Host = s.readHost(now)
	return snap, nil
}

// A tapes shares recordings between devices.
type tapes map[tapeKey]*tape

type tapeKey struct {
	product *product
	site    site
	job     string
}

func (t tapes) of(p *product, s site, jobs []job) []*tape {
	out := make([]*tape, len(jobs))
	for i := range jobs {
		key := tapeKey{p, s, jobs[i].name}
		if t[key] == nil {
			t[key] = record(p, s, &jobs[i])
		}
		out[i] = t[key]
	}
	return out
}

func desktopMachine() []*device {
	d := newDevice("rtx-4090", 0, rtx4090, desktop, desktopJobs, tapes{})
	d.pci = "0000:01:00.0"
	d.services = desktopServices
	d.displays = true
	return []*device{d}
}

// dgxMachine gives each of the eight cards its work; four of them share one schedule,
// since they share their jobs.
func dgxMachine() []*device {
	recorded := tapes{}
	parts := [...]struct {
		pci    string
		site   site
		roster []job
	}{
		{"0000:1b:00.0", front, trainingRoster},
		{"0000:43:00.0", front, trainingRoster},
		{"0000:52:00.0", rear, trainingRoster},
		{"0000:61:00.0", rear, trainingRoster},
		{"0000:9d:00.0", front, []job{serving}},
		{"0000:c3:00.0", front, []job{notebooks}},
		{"0000:d1:00.0", blocked, []job{diffusion}},
		{"0000:df:00.0", rear, []job{failing}},
	}
	devices := make([]*device, len(parts))
	for i, part := range parts {
		part.site.grain = i
		d := newDevice("dgx-h100", i, h100, part.site, part.roster, recorded)
		d.pci = part.pci
		devices[i] = d
	}
	for _, d := range devices[1:4] {
		d.follow(devices[0])
	}
	devices[2].remapped = 1
	devices[5].instances = migInstances(devices[5].identity.UUID)
	devices[6].errorEvery = 7 * time.Hour
	return devices
}

// perNode is how many GPUs a node of a fleet has.
const perNode = 8

// fleet spreads products over nodes. On every other node the devices train
// together; on the other nodes each device has a schedule of its own.
func fleet(n int) []*Source {
	const grains = 3 // more would be more tapes
	products := [...]*product{h100, a100, l40s, a6000}
	sites := [...]site{front, rear}
	recorded := tapes{}
	nodes := make([]*Source, (n+perNode-1)/perNode)
	for i := range n {
		number, slot := i/perNode, i%perNode
		if slot == 0 {
			nodes[number] = &Source{host: nodeHost(number + 1), driver: driver("570.133.20", "12.8")}
		}
		node := nodes[number]
		p, s := products[number%len(products)], sites[number/len(products)%len(sites)]
		roster := labRoster
		switch {
		case i%97 == 41:
			roster = []job{failing}
		case slot == 7 && p == h100:
			roster = []job{serving}
		}
		s.grain = i % grains
		d := newDevice("fleet", i, p, s, fitted(roster, p), recorded)
		d.identity.VendorIndex, d.slot = gpu.Of(slot), slot
		d.pci = fmt.Sprintf("0000:%02x:00.0", 0x11+0x1c*slot)
		node.devices = append(node.devices, d)
		if first := node.devices[0]; number%2 == 0 && len(d.roster) == len(first.roster) {
			d.follow(first)
		}
	}
	return nodes
}

// fitted returns the roster with processes that fit into the product's memory: the same
// work in smaller batches.
func fitted(roster []job, p *product) []job {
	room := p.total - p.reserved - p.ownUse - 512*mib
	tooLarge := func(q process) bool { return q.memory > room }
	if !slices.ContainsFunc(roster, func(j job) bool { return slices.ContainsFunc(j.processes, tooLarge) }) {
		return roster
	}
	out := slices.Clone(roster)
	for i := range out {
		out[i].processes = slices.Clone(out[i].processes)
		for k := range out[i].processes {
			q := &out[i].processes[k]
			q.memory = min(q.memory, room/(2*mib)*(2*mib))
		}
	}
	return out
}
