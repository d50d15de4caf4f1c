// Package sim simulates machines with GPUs, for demonstrations, for tests and for work on gpuwhy without a GPU. A simulation must be
// requested by name and never replaces a failed source, and every device has the source [gpu.SourceSimulated]. A device reports what the
// real product reports: an H100 has no fan, a GeForce no ECC.
//
// A reading depends only on the profile, the day on which [Nodes] was called, and the given clock: a test may set the clock to any time,
// and back.
//
// Time is divided into cycles of half an hour. In each cycle a device plays one job of its roster; each round of the roster shuffles its
// jobs. The hardware's response to a job is calculated once, second by second, and kept as a tape: power follows work, the die follows
// power within seconds and the cooler within minutes, the fan follows the die with a delay, its tachometer follows the fan, and limits of
// power and heat reduce the clocks. All tapes of a roster begin and end in the same state, so they join in any order: a moment a year later
// costs as much as the next one, and the energy of years is a multiplication and not a sum. A job that never ends is warm from its first
// second on. Machines and jobs are in machines.yaml.
package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// MaxFleet is the maximum number of GPUs in the profile "fleet:N".
const MaxFleet = 4096

// A Source simulates one machine: a node of a profile. Several goroutines may call its methods at once.
type Source struct {
	now     func() time.Time
	booted  time.Time // some days before the source was made
	driver  gpu.Driver
	devices []*device
	host    host
	labels  map[string]string
	seed    uint64 // of the host's own work
	made    time.Time
	past    time.Duration // before it was made
}

// Nodes returns a simulation of each machine of a profile, with the time that now returns. Their node names are in ascending order.
//
//   - "rtx-4090": a desktop with one card, where a game, a chat with a language
//     model, a training run, a render and a film encode take turns. The fans
//     stand still at rest; they start at 51 °C, and stop a minute or two after a
//     job, at 35 °C.
//   - "dgx-h100": one machine with eight passive H100: training that comes and
//     goes on four, an inference service, three MIG instances, one card behind
//     a blocked filter that slows down for heat, and one that goes through every
//     [gpu.State] within each half hour. The machine shows everything else that
//     it can show within an hour and a half.
//   - "demo": a workstation with four RTX 4090. In the last 15 minutes, which [Source.Earlier] has, anna trained on two of them and began again, and
//     ben began to render on one behind a blocked filter, which slows down for heat. It always begins at this moment.
//   - "fleet:N": 1 to [MaxFleet] GPUs of several products on nodes of eight,
//     "node-001" and on, in racks of four; about one in a hundred devices fails at times.
//
// For any other profile the error is a [gpu.Advice] that lists these.
func Nodes(profile string, now func() time.Time) ([]*Source, error) {
	var nodes []*Source
	kind, count, _ := strings.Cut(profile, ":")
	n, err := strconv.Atoi(count)
	plan := inStock().Machines[profile]
	switch {
	case kind == "fleet" && err == nil && n >= 1 && n <= MaxFleet:
		nodes = fleet(n)
	case len(plan.Cards) > 0:
		s, recorded := &Source{host: plan.Host, driver: plan.Driver}, tapes{}
		for i := range plan.Cards {
			s.install(newDevice(profile, i, i, i, &plan.Cards[i], recorded), true)
		}
		nodes = []*Source{s}
	default:
		return nil, &gpu.Advice{
			What: fmt.Sprintf("there is no simulation named %q", profile),
			Try:  fmt.Sprintf("use one of %s, fleet:N, with N from 1 to %d", strings.Join(Profiles(), ", "), MaxFleet),
		}
	}
	started := now().UTC()
	for _, s := range nodes {
		s.now, s.booted, s.seed = now, bootBefore(started), seedOf(s.host.Hostname)
		s.made, s.past = started, time.Duration(plan.Past)*time.Second
		for _, d := range s.devices {
			d.started, d.booted = started.Add(-s.past), s.booted
			if plan.Begins > 0 {
				_, in := floorDiv(int64(started.Sub(epoch)), int64(cycle))
				d.offset = time.Duration(plan.Begins)*time.Second - time.Duration(in)
			}
			d.identity.DriverVersion = s.driver.Version
			boot := d.moment(s.booted)
			d.spent = d.energyBefore(&boot) + boot.tape.sampleAt(boot.second).energy
		}
	}
	return nodes, nil
}

// Profiles returns the names of the single machines that can be simulated, sorted.
func Profiles() (names []string) {
	for name, plan := range inStock().Machines {
		if len(plan.Cards) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// bootBefore returns when the machines booted: a morning some weeks before.
func bootBefore(start time.Time) time.Time {
	return start.Truncate(24 * time.Hour).Add(-17*24*time.Hour + 6*time.Hour + 12*time.Minute)
}

// install adds a device. If together, devices with as many jobs as the first share its schedule.
func (s *Source) install(d *device, together bool) {
	s.devices = append(s.devices, d)
	if first := s.devices[0]; together && len(d.roster) == len(first.roster) {
		d.seed, d.offset = first.seed, first.offset
	}
}

// Name returns "simulated".
func (s *Source) Name() string { return gpu.SourceSimulated }

// Node returns the simulated machine's name, shown in place of the real one's.
func (s *Source) Node() string { return s.host.Hostname }

// Labels says where a machine of a fleet is; nil for others.
func (s *Source) Labels() map[string]string { return s.labels }

// Close does nothing: a simulation holds nothing open.
func (s *Source) Close() error { return nil }

// Read returns what the machine reports now: Devices, Drivers, Host and the processes' facts. The sampler sets Index and Node. The only
// error is ctx's.
func (s *Source) Read(ctx context.Context) (*gpu.Snapshot, error) {
	if err := ctx.Err(); errors.Is(err, context.Canceled) { // past a deadline, as on a busy machine, it is still read at once
		return nil, err
	}
	return s.report(s.now().UTC()), nil
}

// Earlier yields what the machine would have reported before the source was made, had it been read at an interval, the oldest first: nothing,
// unless its profile begins with a past. The snapshots are like those of [Source.Read].
func (s *Source) Earlier(every time.Duration) iter.Seq[*gpu.Snapshot] {
	return func(yield func(*gpu.Snapshot) bool) {
		for t := s.made.Add(-s.past); t.Before(s.made); t = t.Add(every) {
			if !yield(s.report(t)) {
				return
			}
		}
	}
}

// report is what the machine reports at a time.
func (s *Source) report(now time.Time) *gpu.Snapshot {
	snap := &gpu.Snapshot{
		Time:    now,
		Source:  gpu.SourceSimulated,
		Devices: make([]gpu.Device, len(s.devices)),
		Drivers: []gpu.Driver{s.driver},
	}
	moments := make([]moment, 0, perNode)
	for i, d := range s.devices {
		moments = append(moments, d.moment(now))
		d.read(&snap.Devices[i], &moments[i], now)
	}
	snap.Host = s.readHost(now, moments, snap.Devices)
	return snap
}

// A tapes shares recordings between devices.
type tapes map[tapeKey]*tape

type tapeKey struct {
	product, site, job string
	grain              int
}

// The size of a fleet's nodes and racks.
const (
	perNode = 8 // devices
	perRack = 4 // nodes
)

// fleet distributes products over nodes. On every other node the devices train together.
func fleet(n int) []*Source {
	const grains = 3 // more would mean more tapes
	plan := inStock().Machines["fleet"]
	products := [...]string{"h100", "a100", "l40s", "a6000"}
	sites := [...]string{"front", "rear"}
	recorded := tapes{}
	var nodes []*Source
	for i := range n {
		number, slot := i/perNode, i%perNode
		if slot == 0 {
			nodes = append(nodes, &Source{host: nodeHost(plan.Host, number+1), driver: plan.Driver, labels: map[string]string{
				"rack": fmt.Sprintf("rack-%02d", number/perRack+1),
			}})
		}
		c := card{
			PCI:     fmt.Sprintf("0000:%02x:00.0", 0x11+0x1c*slot),
			Product: products[number%len(products)],
			Site:    sites[number/len(products)%len(sites)],
			Jobs:    []string{"finetuning", "resting", "pretraining", "resting"},
		}
		switch {
		case i%97 == 41:
			c.Jobs = []string{"failing"}
		case slot == 7 && c.Product == "h100":
			c.Jobs = []string{"serving"}
		}
		nodes[number].install(newDevice("fleet", i, slot, i%grains, &c, recorded), number%2 == 0)
	}
	return nodes
}
