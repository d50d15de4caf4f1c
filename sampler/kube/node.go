package kube

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/host"
	"github.com/gpuwhy/gpuwhy/sampler/smi"
)

// A Node is a machine of a cluster whose GPUs can be read, or that should have some.
type Node struct {
	Cluster string
	Name    string            // in the cluster
	Labels  map[string]string // the cluster's labels as of when the node joined; never changed
	// Source reads its GPUs, as a sampler.Source. Its errors say what is wrong with the node. Its name is gpu.SourceKubernetes.
	Source *Source
	// Host knows what the API says about the machine, and its processes, as a sampler.Host.
	Host *Host
}

// A Source reads the GPUs of a node.
type Source struct {
	console *console
	smi     *smi.Source
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the console has ended
}

// Pace returns the current time between two readings: longer if each reading is its own exec.
func (s *Source) Pace() time.Duration { return s.console.paceNow() }

func newSource(ctx context.Context, c *console, log *slog.Logger) *Source {
	ctx, cancel := context.WithCancel(ctx)
	s := &Source{console: c, cancel: cancel, ended: make(chan struct{})}
	c.setPace()
	s.smi = smi.New(smi.Config{Run: c.Run, Interval: c.cfg.Interval, Pace: c.paceNow, Deadline: c.cfg.Deadline, Log: log})
	go func() {
		defer close(s.ended)
		c.run(ctx)
	}()
	return s
}

// Name is the source's name on the wire.
func (s *Source) Name() string { return gpu.SourceKubernetes }

// Read returns the newest reading of every device, as [smi.Source.Read] does, or says why the node can't be read.
func (s *Source) Read(ctx context.Context) (*gpu.Snapshot, error) {
	if why := s.console.advice(s.console.now()); why != nil {
		return nil, why
	}
	snap, err := s.smi.Read(ctx)
	if err != nil {
		if why := s.console.advice(s.console.now()); why != nil { // the first cause says more
			err = why
		}
	}
	if snap == nil {
		return nil, err
	}
	snap.Source = gpu.SourceKubernetes
	for i := range snap.Devices {
		snap.Devices[i].Source = gpu.SourceKubernetes
	}
	for i := range snap.Drivers {
		snap.Drivers[i].Source = gpu.SourceKubernetes
	}
	return snap, err
}

// Close ends everything that runs on the node for this source.
func (s *Source) Close() error {
	err := s.smi.Close()
	s.cancel()
	<-s.ended
	return err
}

// A Host is the machine of a node.
type Host struct {
	node func() *node // nil: it is gone
	// pods looks up the node's pods, in the background of the readings.
	pods *podNames
	now  func() time.Time

	mu      sync.Mutex
	known   map[int]*process
	foreign bool // the container has its own pids
	err     error
}

type process struct {
	asked time.Time
	read  time.Time // of the facts; zero: none
	facts gpu.ProcessFacts
}

const (
	mostAsked = 128 // processes in a round
	mostKnown = 4096
	forgotten = 5 * time.Minute
	factsFor  = 3 * time.Minute
)

// Read returns what the API says about the machine. CPU, memory, fans and the rest are absent.
func (h *Host) Read(context.Context) (gpu.Host, error) {
	var out gpu.Host
	if n := h.node(); n != nil {
		info := n.Status.Info
		out.Hostname, out.OS, out.Kernel, out.Boot = n.Metadata.Name, clean(info.OS), clean(info.Kernel), clean(info.BootID)
	}
	out.NoFans = gpu.Advice{
		What: "the machine's own fans can't be read through Kubernetes",
		Try:  "run a gpuwhy agent on the node to see them",
	}
	return out, nil
}

// Describe fills in the facts of the node's processes, as of the latest round. The facts of a new process come some readings later. All
// facts are absent if the container has its own pids, or no shell.
func (h *Host) Describe(_ context.Context, processes []gpu.Process) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for pid, p := range h.known {
		if now.Sub(p.asked) > forgotten {
			delete(h.known, pid)
		}
	}
	for i := range processes {
		p := h.known[processes[i].PID]
		if p == nil {
			if processes[i].PID <= 0 || len(h.known) >= mostKnown {
				continue
			}
			p = &process{}
			h.known[processes[i].PID] = p
		}
		p.asked = now
		if !p.read.IsZero() && now.Sub(p.read) < factsFor {
			processes[i].Facts = p.facts
			h.pods.name(&processes[i].Facts, now)
		}
	}
}

// next returns the pids to ask about: those with the oldest facts.
func (h *Host) next(may bool) (pids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !may || h.foreign {
		return nil
	}
	var all []int
	for pid, p := range h.known {
		if p.asked.After(p.read) {
			all = append(all, pid)
		}
	}
	if len(all) > mostAsked {
		all = oldest(all, h.known)
	}
	for _, pid := range all {
		pids = append(pids, strconv.Itoa(pid))
	}
	return pids
}

// The numbers of the kernel's initial namespaces (proc_ns.h).
const (
	initialPID    = "pid:[4026531836]"
	initialCgroup = "cgroup:[4026531835]"
)

// take parses the script's output about processes.
func (h *Host) take(text []byte, err error) {
	now := h.now()
	all, foreign := parseProcesses(string(text))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.foreign = err, foreign
	for pid, facts := range all {
		if p := h.known[pid]; p != nil {
			p.facts, p.read = facts, now
		}
	}
}

// parseProcesses parses the script's output; foreign means that the pids belong to a namespace of the container.
func parseProcesses(text string) (all map[int]gpu.ProcessFacts, foreign bool) {
	all = map[int]gpu.ProcessFacts{}
	var files host.Files
	pid := 0
	note := func() {
		if pid <= 0 {
			return
		}
		if files.Stat == "" { // visible to the driver, but gone here
			all[pid] = gpu.ProcessFacts{Exists: gpu.Of(false)}
		} else if facts, err := files.Facts(); err == nil {
			all[pid] = facts
		}
	}
	var private bool
	var boot time.Time
	for line := range strings.Lines(text) {
		kind, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			continue
		}
		switch kind {
		case "n":
			pid, cgroup, _ := strings.Cut(rest, " ")
			if pid != initialPID {
				return nil, true
			}
			private = cgroup != initialCgroup
		case "b":
			if n, err := strconv.ParseInt(rest, 10, 64); err == nil && n > 0 {
				boot = time.Unix(n, 0)
			}
		case "p":
			note()
			pid, _ = strconv.Atoi(rest)
			files = host.Files{Private: private, Boot: boot}
		case "s":
			files.Stat += rest + "\n"
		case "u":
			if ids := strings.Fields(rest); len(ids) > 1 {
				files.UID = ids[1] // the effective one
			}
		case "c":
			files.Cgroup += rest + "\n"
		}
	}
	note()
	return all, false
}

// podNames looks up the names of a node's pods.
type podNames struct {
	list func(ctx context.Context) ([]pod, error) // lists the node's pods
	ctx  context.Context                          //nolint:containedctx // of the node: asking goes on beside the readings
	wait *sync.WaitGroup

	mu     sync.Mutex
	byUID  map[string]*pod
	asking bool
	asked  time.Time
	err    error
}

const podsEvery = 10 * time.Second

// name sets the names of a process's pod and container. For an unknown pod the pods are listed again.
func (n *podNames) name(f *gpu.ProcessFacts, now time.Time) {
	pod, ok := f.Pod.Get()
	if !ok || pod.None() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.byUID[pod.UID]
	if p == nil {
		absent := gpu.NotReported
		if r, is := errors.AsType[*refusal](n.err); is && r.Code == 403 {
			absent = gpu.NotPermitted
		}
		pod.Namespace, pod.Name, pod.Container = gpu.Absent[string](absent), gpu.Absent[string](absent), gpu.Absent[string](absent)
		f.Pod = gpu.Of(pod)
		n.ask(now)
		return
	}
	pod.Namespace, pod.Name = gpu.Of(p.Metadata.Namespace), gpu.Of(p.Metadata.Name)
	if in, ok := f.Container.Get(); ok && in.ID != "" {
		for i := range p.Status.Containers {
			c := &p.Status.Containers[i]
			if _, id, _ := strings.Cut(c.ID, "://"); id == in.ID {
				pod.Container = gpu.Of(c.Name)
				in.Name, in.Image = gpu.Of(c.Name), gpu.Of(clean(c.Image))
				f.Container = gpu.Of(in)
			}
		}
	}
	f.Pod = gpu.Of(pod)
}

// ask lists the node's pods, unless that was done a short while ago. The caller holds the lock.
func (n *podNames) ask(now time.Time) {
	if n.asking || now.Sub(n.asked) < podsEvery || n.ctx.Err() != nil {
		return
	}
	n.asking, n.asked = true, now
	n.wait.Go(func() {
		all, err := n.list(n.ctx)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.asking, n.err = false, err
		if err != nil {
			return
		}
		n.byUID = map[string]*pod{}
		for i := range all {
			n.byUID[all[i].Metadata.UID] = &all[i]
		}
	})
}

// oldest returns the pids with the oldest facts, as many as one round asks about.
func oldest(pids []int, known map[int]*process) []int {
	slices.SortFunc(pids, func(a, b int) int { return known[a].read.Compare(known[b].read) })
	return pids[:mostAsked]
}
