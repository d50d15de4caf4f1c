//go:build !race

package story

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A process of a story.
type process struct {
	PID       uint32    `yaml:"pid"`
	Name      string    `yaml:"name"`
	Command   []string  `yaml:"command"`
	User      string    `yaml:"user"`
	Type      string    `yaml:"type"`
	SM        yaml.Node `yaml:"sm"`
	Mem       yaml.Node `yaml:"mem"`
	Enc       yaml.Node `yaml:"enc"`
	Dec       yaml.Node `yaml:"dec"`
	Used      string    `yaml:"used"`
	Began     *Span     `yaml:"began"`
	Hidden    bool      `yaml:"hidden"`
	Unlisted  bool      `yaml:"unlisted"`
	Ended     bool      `yaml:"ended"`
	Container string    `yaml:"container"`
	Pod       string    `yaml:"pod"`
	Unit      string    `yaml:"unit"`
	Job       string    `yaml:"job"`
	CPU       float64   `yaml:"cpu"` // percent of one core, of a story without GPUs
	Closed    bool      `yaml:"closed"`
	Zombie    bool      `yaml:"zombie"`

	begun  time.Duration
	values [4]*Value
	ticks  float64 // of CPU
}

// A machine is what a story's program reads: a driver, and a root with /proc.
type machine struct {
	t       *testing.T
	story   *Story
	fake    *fakenvml.Machine // nil: there is no NVIDIA GPU
	library *fakenvml.Library
	drm     *drmtest.Machine
	cards   map[int]*card            // of AMD and Intel
	nvidia  map[int]*fakenvml.Device // the others
	opened  map[uint32][]int         // the descriptors of cards that processes have
	root    string                   // with /proc, and /sys but that of the fake
	clock   *storyClock
	epoch   time.Time // of the story's time 0, by Go's clock
	boot    time.Time

	values    []map[string]*Value // of each GPU
	processes [][]process
	states    []string
	bound     map[int]string    // where the link to a card that is gone led
	sensed    map[string]*Value // the machine's own fans and temperatures
	cpu       *Value            // percent of all cores; nil: the counters stand still
	busy      float64           // ticks of all cores so far
	runs      []process         // who uses the CPU
	reasons   map[int]bool      // given by the story
	unlisted  map[int]bool      // the driver does not say who works
	energy    []float64
	last      time.Duration
	random    *rand.Rand
	written   map[uint32]string
	folders   map[string]bool // made so far
	users     []string
}

// upFor is how long a machine has been up at the beginning, longer than any clock is set.
const upFor = 10000 * time.Hour

// units are how much of NVML's unit one of a story's is, by reading.
var keys = map[string]struct {
	keys []fakenvml.Key
	unit float64
}{
	"util":     {[]fakenvml.Key{fakenvml.Utilization}, 1},
	"memutil":  {[]fakenvml.Key{"memory_utilization"}, 1},
	"encoder":  {[]fakenvml.Key{"encoder"}, 1},
	"decoder":  {[]fakenvml.Key{"decoder"}, 1},
	"power":    {[]fakenvml.Key{fakenvml.Power}, 1000},
	"limit":    {[]fakenvml.Key{"power_limit"}, 1000},
	"temp":     {[]fakenvml.Key{fakenvml.Temperature}, 1},
	"memtemp":  {[]fakenvml.Key{"field82"}, 1},
	"pstate":   {[]fakenvml.Key{fakenvml.PerformanceState}, 1},
	"clock":    {[]fakenvml.Key{"clock0", "clock1"}, 1},
	"memclock": {[]fakenvml.Key{"clock2"}, 1},
	"used":     {[]fakenvml.Key{"memory_used"}, 1 << 20},
}

var reasonBits = map[string]int{
	"idle": 1, "application": 2, "power": 4, "hw slowdown": 8, "sync": 16, "heat": 32, "hw heat": 64, "power brake": 128, "display": 256,
}

func newMachine(t *testing.T, lib *fakenvml.Library, s *Story, epoch time.Time) *machine {
	t.Helper()
	sysfs := drmtest.New(t)
	m := &machine{
		t: t, story: s, library: lib, root: filepath.Dir(sysfs.Sysfs), clock: newClock(), epoch: epoch, boot: epoch.Add(-upFor),
		random: rand.New(rand.NewPCG(1, 2)), written: map[uint32]string{}, folders: map[string]bool{},
		reasons: map[int]bool{}, unlisted: map[int]bool{}, bound: map[int]string{},
		drm: sysfs, cards: map[int]*card{}, nvidia: map[int]*fakenvml.Device{}, opened: map[uint32][]int{},
		last: -s.Before.Duration - s.Every.Duration,
	}
	var gpus []fakenvml.GPU
	for i, p := range s.GPUs {
		m.values = append(m.values, map[string]*Value{})
		m.processes, m.states, m.energy = append(m.processes, nil), append(m.states, "ok"), append(m.energy, 1e9)
		if offered[p.Vendor] != nil {
			m.cards[i] = m.plug(i, &p)
			continue
		}
		g := fakenvml.RTX4090().With(fakenvml.Name, p.Name).At(i+1).
			With("memory_total", int64(p.Memory*(1<<30))).With("display_active", btoi(p.Display)).
			With("persistence", btoi(p.Persistence)).With("mig", btoi(p.MIG))
		for _, k := range []fakenvml.Key{"power_limit", "power_default_limit", "power_max_limit"} {
			g = g.With(k, int(p.Limit*1000))
		}
		g = g.With("power_min_limit", int(p.Limit*300))
		if p.Slowdown > 0 {
			g = g.With("threshold1", int(p.Slowdown)).With("threshold0", int(p.Slowdown)+3)
		}
		g = g.Without("margin", "gpm", "encoder_sessions")
		for f := range 2 {
			for _, what := range []string{"speed", "rpm", "target", "policy"} {
				if f >= p.Fans {
					g = g.Without(fakenvml.Fan(f, what))
				}
			}
		}
		g = g.With("fans", p.Fans)
		for f := 2; f < p.Fans; f++ {
			for _, what := range []string{"speed", "rpm", "target", "policy"} {
				g = g.With(fakenvml.Fan(f, what), 0)
			}
		}
		if p.Fans == 0 {
			g = g.With("fans", fakenvml.Error(3))
		}
		for f := range p.Fans {
			if p.Tachometer != nil && !*p.Tachometer {
				g = g.Without(fakenvml.Fan(f, "rpm"))
			}
			if p.Policy == "unknown" {
				g = g.Without(fakenvml.Fan(f, "policy"))
			}
		}
		gpus = append(gpus, g)
	}
	if len(gpus) > 0 {
		m.fake = lib.Machine(t, gpus...)
	}
	for i := range s.GPUs {
		if m.cards[i] == nil {
			m.nvidia[i] = m.fake.GPU(len(m.nvidia))
		}
	}
	m.write("proc/self/status", "Name:\tgpuwhy\nNSpid:\t77\n")
	m.check(os.Symlink("pid:[4026531836]", m.path("proc/self/ns/pid")))
	m.write("proc/1/comm", "init\n")
	m.write("proc/self/stat", statLine(77, "gpuwhy", 5000, 0))
	m.write("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 100 0 100 700 100 0 0 0 0 0\n")
	m.write("proc/loadavg", "0.50 1.25 2.00 1/200 4711\n")
	m.write("proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 1000000 kB\nMemAvailable: 6000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
	cpuinfo := ""
	for i := range max(s.Cores, 1) {
		cpuinfo += fmt.Sprintf("processor\t: %d\nmodel name\t: CPU\n\n", i)
	}
	m.write("proc/cpuinfo", cpuinfo)
	m.write("proc/sys/kernel/osrelease", "6.12.0\n")
	m.write("proc/filesystems", "nodev\tproc\n")
	m.write("proc/self/mountinfo", "")
	m.write("proc/diskstats", "")
	m.write("proc/net/dev", "Inter-|   Receive  |  Transmit\n face |bytes\n")
	m.write("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 13\"\n")
	m.passwd()
	m.check(m.sense(s.Host, 0, time.Second))
	m.sensors(0)
	return m
}

// sense changes the machine's own fans and temperatures.
func (m *machine) sense(texts map[string]string, begun, lasts time.Duration) error {
	if m.sensed == nil && texts != nil {
		m.sensed = map[string]*Value{}
	}
	for name, text := range texts {
		v, err := parseValue(text, begun, lasts)
		if err != nil {
			return err
		}
		m.sensed[name] = v
	}
	return nil
}

// sensors writes them, in the order of their names.
func (m *machine) sensors(elapsed time.Duration) {
	if m.sensed == nil {
		return
	}
	m.write("sys/class/hwmon/hwmon0/name", "nct6798\n")
	fans, temps := 0, 0
	for _, name := range slices.Sorted(maps.Keys(m.sensed)) {
		if strings.Contains(name, "fan") {
			fans++
			m.write(fmt.Sprintf("sys/class/hwmon/hwmon0/fan%d_input", fans), fmt.Sprintf("%.0f\n", m.sensed[name].value(elapsed, m.random)))
			m.write(fmt.Sprintf("sys/class/hwmon/hwmon0/fan%d_label", fans), name+"\n")
			continue
		}
		temps++
		m.write(fmt.Sprintf("sys/class/hwmon/hwmon0/temp%d_input", temps), fmt.Sprintf("%.0f\n", 1000*m.sensed[name].value(elapsed, m.random)))
		m.write(fmt.Sprintf("sys/class/hwmon/hwmon0/temp%d_label", temps), name+"\n")
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m *machine) path(name string) string {
	file := filepath.Join(m.root, name)
	if folder := filepath.Dir(file); !m.folders[folder] {
		m.check(os.MkdirAll(folder, 0o755))
		m.folders[folder] = true
	}
	return file
}

func (m *machine) check(err error) {
	if err != nil {
		m.t.Helper()
		m.t.Fatal(err)
	}
}

func (m *machine) write(name, text string) { m.check(os.WriteFile(m.path(name), []byte(text), 0o644)) }

func (m *machine) passwd() {
	text := "root:x:0:0:root:/root:/bin/sh\n"
	for i, u := range m.users {
		text += fmt.Sprintf("%s:x:%d:%d::/home/%s:/bin/sh\n", u, 1000+i, 1000+i, u)
	}
	m.write("etc/passwd", text)
}

func (m *machine) uid(user string) int {
	if user == "root" || user == "" {
		return 0
	}
	i := slices.Index(m.users, user)
	if i < 0 {
		i = len(m.users)
		m.users = append(m.users, user)
		m.passwd()
	}
	return 1000 + i
}

func statLine(pid uint32, comm string, start, ticks int64) string {
	return fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194304 100 0 0 0 %d 10 0 0 20 0 1 0 %d 1000000 100 18446744073709551615 1 1 0\n", pid, comm, 10+ticks, start)
}

// enter begins a scene.
func (m *machine) enter(i int) error {
	sc, begun := m.story.Scenes[i], m.story.sceneStart[i]
	if sc.Clock != 0 || sc.Sleep != 0 {
		m.clock.change(sc.Clock, sc.Sleep)
	}
	if err := m.work(&sc, begun); err != nil {
		return err
	}
	switch sc.Driver {
	case "gone":
		m.fake.Unload()
	case "back":
		m.fake.Load()
	}
	for _, index := range slices.Sorted(maps.Keys(sc.GPUs)) {
		for g := range m.story.GPUs {
			if index != everyGPU && index != g {
				continue
			}
			for key, node := range sc.GPUs[index] {
				if err := m.change(g, key, node, begun, sc.For); err != nil {
					return fmt.Errorf("scene %d: %s: %w", i+1, key, located(node, err))
				}
			}
		}
	}
	return nil
}

// work changes what a scene says of the machine around the GPUs.
func (m *machine) work(sc *Scene, begun time.Duration) (err error) {
	if sc.CPU != nil {
		if m.cpu, err = parseValue(sc.CPU.Value, begun, sc.For); err != nil {
			return err
		}
	}
	if sc.Runs != nil {
		list, err := processes(sc.Runs, begun, sc.For)
		if err != nil {
			return err
		}
		for i := range list {
			for _, old := range m.runs {
				if old.PID == list[i].PID && old.Name == list[i].Name {
					list[i].begun, list[i].ticks = old.begun, old.ticks
				}
			}
		}
		m.runs = list
	}
	return m.sense(sc.Host, begun, sc.For)
}

// count adds up what the CPU did since the reading before.
func (m *machine) count(elapsed time.Duration, alive map[uint32]string) {
	m.sensors(elapsed)
	passed := max(0, elapsed-m.last).Seconds()
	if m.cpu != nil {
		const begin = 1000
		cores := float64(max(m.story.Cores, 1))
		m.busy += passed * max(0, min(100, m.cpu.value(elapsed, m.random))) * cores
		all := (elapsed + m.story.Before.Duration + time.Hour).Seconds() * 100 * cores
		m.write("proc/stat", fmt.Sprintf("cpu  %.0f 0 0 %.0f 0 0 0 0 0 0\n", begin+m.busy, all-m.busy))
	}
	for i := range m.runs {
		p := &m.runs[i]
		p.ticks += passed * p.CPU
		alive[p.PID] = m.describe(p)
	}
}

func (m *machine) change(g int, key string, node *yaml.Node, begun, lasts time.Duration) error {
	d := m.nvidia[g]
	c := m.cards[g]
	switch key {
	case "processes":
		if c != nil {
			list, err := processes(node, begun, lasts)
			m.processes[g] = m.since(g, list)
			return err
		}
		if m.unlisted[g] {
			d.Back()
			m.unlisted[g] = false
		}
		if node.Kind == yaml.ScalarNode {
			code := map[string]int{"none": 3, "not permitted": 4}[node.Value]
			d.Answer(code, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3")
			m.processes[g], m.unlisted[g] = nil, true
			return nil
		}
		list, err := processes(node, begun, lasts)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].SM.Value == "none" {
				d.Answer(3, "nvmlDeviceGetProcessUtilization")
				m.unlisted[g] = true
			}
		}
		m.processes[g] = m.since(g, list)
	case "state":
		if c != nil {
			name, _, err := state(node.Value)
			c.enterState(m.states[g], name)
			m.states[g] = name
			return err
		}
		if bound := filepath.Join(m.fake.SysfsRoot, "bus/pci/drivers/nvidia", d.PCI); m.states[g] == "gone" {
			m.check(os.Symlink(m.bound[g], bound))
		}
		d.Back()
		d.Wake()
		name, delay, err := state(node.Value)
		if err != nil {
			return err
		}
		switch m.states[g] = name; name {
		case "lost":
			d.Lost()
		case "hangs":
			d.Hang()
		case "slow":
			d.Slow(delay, "nvmlDeviceGetPowerUsage") // which a reading calls once
		case "refuses":
			d.Answer(999)
		case "asleep":
			d.AllowSleep(true)
			d.Sleep()
		case "gone":
			d.Lost()
			bound := filepath.Join(m.fake.SysfsRoot, "bus/pci/drivers/nvidia", d.PCI)
			target, err := os.Readlink(bound)
			m.check(err)
			m.bound[g] = target
			m.check(os.Remove(bound))
		}
	case "xid":
		code, err := strconv.Atoi(node.Value)
		d.RaiseXID(code)
		return err
	case "reasons":
		bits, err := reasons(node)
		if err != nil {
			return err
		}
		if c != nil {
			c.holdDown(bits)
			return nil
		}
		d.Set(fakenvml.EventReasons, bits)
		m.reasons[g] = true
	case "display", "persistence":
		if c != nil {
			c.display(node.Value == "yes" || node.Value == "true")
			return nil
		}
		d.Set(fakenvml.Key(map[string]string{"display": "display_active", "persistence": "persistence"}[key]), btoi(node.Value == "yes" || node.Value == "true"))
	case "policy":
		if c != nil {
			c.put(map[string]string{c.hwmon + "pwm1_enable": map[string]string{"auto": "2\n", "manual": "1\n"}[node.Value]})
			return nil
		}
		for f := range m.story.GPUs[g].Fans {
			switch node.Value {
			case "unknown":
				d.Unset(fakenvml.Fan(f, "policy"))
			default:
				d.Set(fakenvml.Fan(f, "policy"), btoi(node.Value == "manual"))
			}
		}
	case "fan", "rpm", "target":
		texts := []string{node.Value}
		if node.Kind == yaml.SequenceNode {
			texts = nil
			for _, n := range node.Content {
				texts = append(texts, n.Value)
			}
		}
		for f := range m.story.GPUs[g].Fans {
			v, err := parseValue(texts[min(f, len(texts)-1)], begun, lasts)
			if err != nil {
				return err
			}
			m.values[g][fmt.Sprintf("%s %d", key, f)] = v
		}
	default:
		v, err := parseValue(node.Value, begun, lasts)
		if err != nil {
			return err
		}
		m.values[g][key] = v
	}
	return nil
}

// since gives those processes their beginning that were there before.
func (m *machine) since(g int, list []process) []process {
	for i := range list {
		p := &list[i]
		for _, old := range m.processes[g] {
			if p.Began == nil && old.PID == p.PID && old.Name == p.Name {
				p.begun = old.begun
			}
		}
	}
	return list
}

// show makes the machine report what it does at a time of the story.
func (m *machine) show(elapsed time.Duration) {
	if m.fake == nil {
		m.report(elapsed)
		return
	}
	m.fake.Together(func() { m.report(elapsed) })
}

func (m *machine) report(elapsed time.Duration) {
	now := m.epoch.Add(elapsed)
	// The program compares this with Go's clock to know when processes began, and tells
	// it by the clock that was set.
	m.write("proc/uptime", fmt.Sprintf("%.2f 100.00\n", (now.Sub(m.boot)-m.clock.last().set).Seconds()))
	alive := map[uint32]string{}
	m.closeAll()
	for g := range m.story.GPUs {
		if c := m.cards[g]; c != nil {
			m.reportCard(g, c, elapsed)
			for i := range m.processes[g] {
				alive[m.processes[g][i].PID] = m.describe(&m.processes[g][i])
			}
			continue
		}
		set, unset := map[fakenvml.Key]any{}, []fakenvml.Key(nil)
		put := func(k fakenvml.Key, v *Value, unit float64) {
			switch {
			case v.absent == "none":
				unset = append(unset, k)
			case v.absent != "":
				set[k] = fakenvml.Error(4)
			default:
				set[k] = int64(math.Round(max(v.value(elapsed, m.random), 0)*unit/1) * 1)
			}
		}
		values := m.values[g]
		for _, name := range slices.Sorted(maps.Keys(values)) {
			v := values[name]
			if what, fan, isFan := strings.Cut(name, " "); isFan {
				f, _ := strconv.Atoi(fan)
				switch what {
				case "fan":
					put(fakenvml.Fan(f, "speed"), v, 1)
					if values[fmt.Sprint("target ", f)] == nil {
						put(fakenvml.Fan(f, "target"), v, 1)
					}
					if p := m.story.GPUs[g]; values[fmt.Sprint("rpm ", f)] == nil && (p.Tachometer == nil || *p.Tachometer) && v.absent == "" {
						set[fakenvml.Fan(f, "rpm")] = int(30 * max(v.value(elapsed, m.random), 0))
					}
				default:
					put(fakenvml.Fan(f, what), v, 1)
				}
				continue
			}
			for _, k := range keys[name].keys {
				put(k, v, keys[name].unit)
			}
			if name == "power" && v.absent == "" {
				m.energy[g] += v.value(elapsed, m.random) * 1000 * (elapsed - m.last).Seconds()
				set["energy"] = int64(m.energy[g])
			}
		}
		d := m.nvidia[g]
		if state := values["pstate"]; state != nil && !m.reasons[g] {
			set[fakenvml.EventReasons] = btoi(state.value(elapsed, m.random) >= 5)
		}
		d.Unset(unset...)
		d.SetAll(set)
		var listed []fakenvml.Process
		for i := range m.processes[g] {
			p := &m.processes[g][i]
			if !p.Hidden && !p.Ended {
				alive[p.PID] = m.describe(p)
			}
			if p.Unlisted {
				continue
			}
			f := fakenvml.Process{PID: p.PID, Type: orText(p.Type, "compute"), Memory: fakenvml.NotAvailable, Sampled: now.Add(-time.Millisecond)}
			if p.Used != "none" {
				f.Memory = uint64(num(p.Used) * (1 << 20))
			}
			for j, share := range []*uint32{&f.SM, &f.MemoryBandwidth, &f.Encoder, &f.Decoder} {
				if v := p.values[j]; v != nil && v.absent == "" {
					*share = uint32(math.Round(max(v.value(elapsed, m.random), 0)))
				}
			}
			listed = append(listed, f)
		}
		d.SetProcesses(listed...)
	}
	m.count(elapsed, alive)
	m.last = elapsed
	for pid := range m.written {
		if alive[pid] == "" {
			folder := m.path(fmt.Sprintf("proc/%d", pid))
			m.check(os.RemoveAll(folder))
			delete(m.folders, folder)
			delete(m.written, pid)
		}
	}
	for pid, text := range alive {
		if m.written[pid] != text {
			m.written[pid] = text
			for i, name := range []string{"stat", "status", "cmdline", "cgroup"} {
				m.write(fmt.Sprintf("proc/%d/%s", pid, name), strings.Split(text, "\x01")[i])
			}
		}
	}
}

func orText(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// describe is what /proc has of a process: four files.
func (m *machine) describe(p *process) string {
	comm := p.Name
	if len(comm) > 15 {
		comm = comm[:15]
	}
	command := p.Command
	if command == nil {
		command = []string{"/usr/bin/" + p.Name}
	}
	uid := m.uid(p.User)
	cgroup := "0::/user.slice/user-1000.slice/session-2.scope\n"
	switch {
	case p.Container != "":
		m.bundle("default", p.PID, map[string]string{"nerdctl/name": p.Container})
		cgroup = "0::/system.slice/nerdctl-" + containerID(p.PID) + ".scope\n"
	case p.Pod != "":
		const cri = "io.kubernetes.cri."
		m.bundle("k8s.io", p.PID, map[string]string{
			cri + "container-name": "main", cri + "sandbox-name": p.Pod, cri + "sandbox-namespace": "default",
		})
		cgroup = fmt.Sprintf("0::/kubepods.slice/kubepods-pod%032x.slice/cri-containerd-%s.scope\n", p.PID, containerID(p.PID))
	case p.Job != "":
		cgroup = "0::/system.slice/slurmstepd.scope/job_" + strings.TrimPrefix(p.Job, "job ") + "/step_0/user/task_0\n"
	case p.Unit != "":
		cgroup = "0::/system.slice/" + p.Unit + "\n"
	}
	up := m.epoch.Add(p.begun + m.sleptUntil(p.begun)).Sub(m.boot)
	stat, cmdline := statLine(p.PID, comm, int64(up/(10*time.Millisecond)), int64(p.ticks)), strings.Join(command, "\x00")+"\x00"
	if p.Zombie { // the kernel has freed its memory, and the arguments with that
		stat, cmdline = strings.Replace(stat, ") S ", ") Z ", 1), ""
	}
	return strings.Join([]string{
		stat,
		fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\n", comm, uid, uid, uid, uid),
		cmdline,
		cgroup,
	}, "\x01")
}

func containerID(pid uint32) string { return fmt.Sprintf("%064x", pid) }

// bundle is what containerd keeps of a container, from which its name is known.
func (m *machine) bundle(namespace string, pid uint32, annotations map[string]string) {
	file := filepath.Join("run/containerd/io.containerd.runtime.v2.task", namespace, containerID(pid), "config.json")
	if m.folders[filepath.Dir(filepath.Join(m.root, file))] {
		return // it is there
	}
	text, err := json.Marshal(map[string]any{"annotations": annotations})
	m.check(err)
	m.write(file, string(text))
}

// sleptUntil is how long the machine has slept before a time of the story.
func (m *machine) sleptUntil(elapsed time.Duration) (slept time.Duration) {
	for i, sc := range m.story.Scenes {
		if m.story.sceneStart[i] <= elapsed {
			slept += sc.Sleep
		}
	}
	return slept
}

// processes reads a list of them, as they are from a time on.
func processes(n *yaml.Node, begun, lasts time.Duration) (list []process, err error) {
	if err := decode(n, &list); err != nil {
		return nil, err
	}
	for i := range list {
		p := &list[i]
		p.begun = begun
		if p.Began != nil {
			p.begun = p.Began.Duration
		}
		for j, share := range []yaml.Node{p.SM, p.Mem, p.Enc, p.Dec} {
			if share.Value == "" || share.Value == "none" {
				continue
			}
			if p.values[j], err = parseValue(share.Value, begun, lasts); err != nil {
				return nil, wrong(&share, "%v", err)
			}
		}
	}
	return list, nil
}
