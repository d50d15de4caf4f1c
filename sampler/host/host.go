// Package host reads the machine around the GPUs, and its processes. [Reader.Read] reads CPU,
// memory, disks, network, fans and temperatures. [Reader.Describe] says what the system knows about
// the processes that use a GPU. It is the only package that uses gopsutil. It reads /proc itself
// where each reading does that for many processes.
//
// It knows no GPU and no driver: the caller names the processes it asks about. On Linux it reads
// everything. On other systems it reads what gopsutil can: fans, temperatures, containers and
// what else a processor does are absent there.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	system "runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/shirou/gopsutil/v3/common"
	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/load"
	"github.com/shirou/gopsutil/v3/mem"
)

// ShowCommands says whose command lines and whose program names are shown.
type ShowCommands string

// The choices. Own processes are those of gpuwhy's effective user, so root's under sudo.
const (
	ShowNames ShowCommands = "names" // own command lines, everybody's program names
	ShowOwn   ShowCommands = "own"   // own command lines and program names
	ShowAll   ShowCommands = "all"   // everybody's command lines and program names
	ShowNone  ShowCommands = "none"  // nobody's
)

// A Reader reads this machine. Several goroutines may call its methods.
type Reader struct {
	root  string // "" except for a test's machine
	sysfs string // path of the machine's sysfs
	show  ShowCommands
	uid   int              // our effective user
	now   func() time.Time // wall clock
	hint  gpu.Advice       // why processes can't be identified; zero if they can
	users users
	names *names
	// Helpers returns the pids of processes that gpuwhy has started and that belong to it: they count as gpuwhy itself. Nil: there are
	// none.
	Helpers func() []int

	reservations *reservations // of the kubelet
	// privateCgroups means that gpuwhy is in its own control group namespace.
	privateCgroups bool
	portable       bool // the system is not Linux, or is read as if it were not

	reading  sync.Mutex // held by Read; guards what follows
	static   *gpu.Host  // set once all of it is known
	mounts   []disk.PartitionStat
	mounted  time.Time // when mounts were listed
	rates    meter
	sensors  sensors
	busiest  busiest
	virtual  func() bool // whether this is a virtual machine
	packages []string    // for each processor, a folder that counts how often it slowed down

	describing sync.Mutex // held by Describe; guards what follows
	known      map[int]*process
	boot       time.Time // the kernel's boot time; zero: not known
	swept      time.Time
	buf        []byte
}

// New returns a reader of this machine. Fans, temperatures and the processors' own values are read below sysfs. Read reports what can't be
// read.
func New(sysfs string, show ShowCommands, log *slog.Logger) *Reader {
	return newReader("", sysfs, show, log)
}

// NewAt returns a reader of the machine below root, which has its own /proc and /etc.
func NewAt(root string, show ShowCommands, log *slog.Logger) *Reader {
	return newReader(root, root+"/sys", show, log)
}

func newReader(root, sysfs string, show ShowCommands, log *slog.Logger) *Reader {
	quietGRPC()
	r := &Reader{
		root:         root,
		sysfs:        sysfs,
		show:         show,
		uid:          os.Geteuid(),
		now:          time.Now,
		users:        users{passwd: root + "/etc/passwd"},
		sensors:      sensors{sysfs: sysfs, timeout: context.WithTimeout},
		names:        newAsker("names of containers", namesFor, log, func(c containerKey) []way[answer] { return c.ways(root) }),
		reservations: newAsker("reservations of GPUs", reservedEvery, log, func(struct{}) []way[holders] { return kubelets(root) }),
		known:        map[int]*process{},
		buf:          make([]byte, 64<<10),
	}
	r.virtual = sync.OnceValue(r.isVirtual)
	if r.portable = system.GOOS != "linux"; r.portable {
		return r
	}
	r.privateCgroups = r.inOwn("cgroup", "cgroup:[4026531835]")
	if r.pidsAreOfAnotherNamespace() {
		r.hint = gpu.Advice{
			What: "gpuwhy can't see the names of processes from this container",
			Try:  "start it with --pid=host (in Kubernetes: hostPID: true)",
			Err:  gpu.ErrForeignPIDs,
		}
		log.Warn("pids mean other processes here", "what", r.hint.What, "try", r.hint.Try)
	}
	return r
}

// Hint says why [Reader.Describe] can't identify processes, and what to do about it: gpuwhy runs in its own pid namespace, and drivers
// report the host's pids. It is zero if Describe can identify them.
func (r *Reader) Hint() gpu.Advice { return r.hint }

// Settle waits until the runtimes and the kubelet have answered about the described processes' containers and about reservations. A program
// that reads only once calls Describe and Reserve again after that. The error is ctx's.
func (r *Reader) Settle(ctx context.Context) error {
	return errors.Join(r.names.settle(ctx), r.reservations.settle(ctx))
}

// Close ends the requests to container runtimes and the kubelet.
func (r *Reader) Close() error {
	r.names.close()
	r.reservations.close()
	return nil
}

func (r *Reader) path(name string) string { return r.root + "/" + name }

// gopsutil returns a context that makes gopsutil look below our root.
func (r *Reader) gopsutil(ctx context.Context) context.Context {
	return context.WithValue(ctx, common.EnvKey, common.EnvMap{
		common.HostProcEnvKey: r.path("proc"),
		common.HostSysEnvKey:  r.path("sys"),
		common.HostEtcEnvKey:  r.path("etc"),
		common.HostDevEnvKey:  r.path("dev"),
		common.HostRunEnvKey:  r.path("run"),
		"HOST_PROC_MOUNTINFO": r.path("proc/self/mountinfo"),
	})
}

// Read returns what can be read about the machine. A part that can't be read is absent and named in the error; the other parts are good.
// Rates are since the previous call, and absent in the first.
//
// Fans and temperatures come from chips that answer in time; a chip that does not answer keeps its previous values for half a minute.
//
// Sources: /proc/stat, loadavg, meminfo, uptime, mountinfo, diskstats, net/dev and self/stat; statfs of each mounted disk; /sys/class/net,
// hwmon and powercap, and the thermal_throttle of each processor; stat of each process, every two seconds or less often; once cpuinfo,
// boot_id and /etc/os-release.
func (r *Reader) Read(ctx context.Context) (gpu.Host, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	if err := ctx.Err(); err != nil {
		return gpu.Host{}, err
	}
	if r.portable {
		return r.readPortable(ctx)
	}
	ctx = r.gopsutil(ctx)
	var h gpu.Host
	var errs []error
	r.rates.begin(r.now())
	for _, part := range []struct {
		name string
		read func(context.Context, *gpu.Host) error
	}{
		{"system", r.readStatic},
		{"uptime", r.readUptime},
		{"CPU", r.readCPU},
		{"CPU power", r.readPower},
		{"CPU throttling", r.readThrottling},
		{"load", r.readLoad},
		{"memory", r.readMemory},
		{"disks", r.readDisks},
		{"network", r.readNetworks},
		{"sensors", r.readSensors},
		{"processes", r.readBusiest},
		{"gpuwhy itself", r.readSelf},
	} {
		if err := part.read(ctx, &h); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	return h, errors.Join(errs...)
}

// readStatic reads what never changes, until it has read all of it once.
func (r *Reader) readStatic(ctx context.Context, h *gpu.Host) error {
	if r.static != nil {
		*h = *r.static
		return nil
	}
	var errs []error
	text := func(s string, err error) string {
		errs = append(errs, err)
		return s
	}
	h.Hostname, h.OS, h.Kernel = text(os.Hostname()), text(r.osName()), text(r.line("proc/sys/kernel/osrelease"))
	if boot, err := r.line("proc/sys/kernel/random/boot_id"); !errors.Is(err, os.ErrNotExist) {
		h.Boot = text(boot, err)
	}
	infos, err := cpu.InfoWithContext(ctx)
	if err == nil && len(infos) == 0 {
		err = errors.New("no processor in cpuinfo")
	}
	if len(infos) > 0 {
		h.Cores = gpu.Of(len(infos)) // one entry for each logical processor
		if model := strings.Join(strings.Fields(infos[0].ModelName), " "); model != "" {
			h.CPUModel = gpu.Of(model)
		}
	}
	if err = errors.Join(append(errs, err)...); err == nil {
		r.static = new(*h)
	}
	return err
}

// osName returns PRETTY_NAME from os-release.
func (r *Reader) osName() (string, error) {
	text, err := os.ReadFile(r.path("etc/os-release"))
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(r.path("usr/lib/os-release"))
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`), nil
		}
	}
	return "", errors.New("no PRETTY_NAME in os-release")
}

// line reads a short file.
func (r *Reader) line(name string) (string, error) { return readOnce(r.path(name)) }

func (r *Reader) readUptime(_ context.Context, h *gpu.Host) error {
	up, err := r.uptime()
	if err == nil {
		h.Uptime = gpu.Of(up)
	}
	return err
}

// uptime is the time since boot to 10 ms, including sleep.
func (r *Reader) uptime() (time.Duration, error) {
	text, err := r.line("proc/uptime")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(text, " ")
	seconds, err := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second)), err
}

func (r *Reader) readCPU(ctx context.Context, h *gpu.Host) error {
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil {
		return err
	}
	if len(times) == 0 {
		return errors.New("no CPU times in " + r.path("proc/stat"))
	}
	t := times[0] // guest time is already in User
	busy := t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal
	all := r.rates.rate("all of the CPU", busy+t.Idle+t.Iowait).Or(0)
	share := func(busy float64) gpu.Percent { return gpu.Percent(min(100, 100*busy/all)) }
	if rate := r.rates.rate("busy CPU", busy); all > 0 {
		h.CPU = gpu.Map(rate, share)
	}
	return nil
}

func (r *Reader) readLoad(ctx context.Context, h *gpu.Host) error {
	avg, err := load.AvgWithContext(ctx)
	if err != nil {
		return err
	}
	h.Load1, h.Load5, h.Load15 = gpu.Of(avg.Load1), gpu.Of(avg.Load5), gpu.Of(avg.Load15)
	return nil
}

func (r *Reader) readMemory(ctx context.Context, h *gpu.Host) error {
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return err
	}
	if m.Total == 0 || m.Available > m.Total {
		return fmt.Errorf("%s says %d of %d bytes available", r.path("proc/meminfo"), m.Available, m.Total)
	}
	h.MemoryTotal = gpu.Of(gpu.Bytes(m.Total))
	h.MemoryAvailable = gpu.Of(gpu.Bytes(m.Available))
	h.MemoryUsed = gpu.Of(gpu.Bytes(m.Total - m.Available))
	h.SwapTotal = gpu.Of(gpu.Bytes(m.SwapTotal))
	h.SwapUsed = gpu.Of(gpu.Bytes(m.SwapTotal - min(m.SwapTotal, m.SwapFree)))
	return nil
}

func (r *Reader) readSelf(_ context.Context, h *gpu.Host) error {
	var buf [1 << 10]byte
	n, err := readInto(r.path("proc/self/stat"), buf[:], 1)
	if err != nil {
		return err
	}
	s, err := parseStat(buf[:n])
	if err != nil {
		return err
	}
	h.Self.RSS = s.resident()
	h.Self.CPU = gpu.Map(r.rates.rate("own ticks", float64(s.ticks)), shareOfCore)
	if r.Helpers == nil {
		return nil
	}
	for _, pid := range r.Helpers() {
		name := strconv.Itoa(pid)
		n, err := readInto(r.path("proc/"+name+"/stat"), buf[:], 1)
		if err != nil {
			continue // it has ended
		}
		if s, err = parseStat(buf[:n]); err != nil {
			return err
		}
		memory, ticks := s.resident().Or(0), gpu.Map(r.rates.rate("ticks of helper "+name, float64(s.ticks)), shareOfCore).Or(0)
		h.Self.RSS = gpu.Map(h.Self.RSS, func(own gpu.Bytes) gpu.Bytes { return own + memory })
		h.Self.CPU = gpu.Map(h.Self.CPU, func(own gpu.Percent) gpu.Percent { return own + ticks })
	}
	return nil
}

// inOwn reports whether gpuwhy may be in its own namespace and not in the machine's initial one.
func (r *Reader) inOwn(kind, first string) bool {
	namespace, err := os.Readlink(r.path("proc/self/ns/" + kind))
	return !errors.Is(err, os.ErrNotExist) && namespace != first
}

// pidsAreOfAnotherNamespace reports whether a pid of the host, as a driver reports it, means another process in this /proc, or none. In the
// proc file system of an outer namespace, NSpid has several numbers.
func (r *Reader) pidsAreOfAnotherNamespace() bool {
	status, err := os.ReadFile(r.path("proc/self/status"))
	return err == nil && r.inOwn("pid", "pid:[4026531836]") && len(fieldsOf(status, "NSpid:")) < 2
}
