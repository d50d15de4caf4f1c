package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	stdnet "net"
	"os"
	"os/user"
	"path"
	"path/filepath"
	system "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/host"
	"github.com/shirou/gopsutil/v3/load"
	"github.com/shirou/gopsutil/v3/mem"
	"github.com/shirou/gopsutil/v3/net"
	gopsutil "github.com/shirou/gopsutil/v3/process"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// This file reads systems other than Linux, as far as gopsutil does. Fans, temperatures, containers and pods exist only on Linux.

// readPortable reads the machine. As in Read, a part that can't be read is absent.
func (r *Reader) readPortable(ctx context.Context) (gpu.Host, error) {
	h := gpu.Host{
		CPUPower:     gpu.Absent[gpu.Watts](gpu.NotSupported),
		CPUThrottled: gpu.Absent[bool](gpu.NotSupported),
		Busiest:      gpu.Absent[[]gpu.HostProcess](gpu.NotSupported),
		NoFans: gpu.Advice{
			What: "gpuwhy reads the machine's fans and temperatures only on Linux",
			Try:  "use the system's own tools for them; gpuwhy still reads the fans of GPUs",
		},
	}
	var errs []error
	r.rates.begin(r.now())
	for _, part := range []struct {
		name string
		read func(context.Context, *gpu.Host) error
	}{
		{"system", r.readSystem},
		{"uptime", readBootTime},
		{"CPU", r.readTimes},
		{"load", readAverage},
		{"memory", readMemories},
		{"disks", r.readDrives},
		{"network", r.readInterfaces},
		{"gpuwhy itself", r.readOwn},
	} {
		if err := part.read(ctx, &h); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	return h, errors.Join(errs...)
}

// readSystem reads what never changes, until it has read all of it once.
func (r *Reader) readSystem(ctx context.Context, h *gpu.Host) error {
	if r.static != nil {
		*h = *r.static
		return nil
	}
	var errs [4]error
	var version string
	h.Hostname, errs[0] = os.Hostname()
	h.OS, _, version, errs[1] = host.PlatformInformationWithContext(ctx)
	if system.GOOS == "darwin" {
		h.OS = strings.TrimSpace("macOS " + version)
	}
	h.Kernel, errs[2] = host.KernelVersionWithContext(ctx)
	model, err := cpuModel(ctx)
	if errs[3] = err; model != "" {
		h.CPUModel = gpu.Of(model)
	}
	h.Cores = gpu.Of(system.NumCPU())
	if err = errors.Join(errs[:]...); err == nil {
		r.static = new(*h)
	}
	return err
}

func readBootTime(ctx context.Context, h *gpu.Host) error {
	seconds, err := host.UptimeWithContext(ctx)
	if err == nil {
		h.Uptime = gpu.Of(time.Duration(min(seconds, math.MaxInt64/uint64(time.Second))) * time.Second)
	}
	return err
}

func (r *Reader) readTimes(ctx context.Context, h *gpu.Host) error {
	if !countsCPU {
		h.CPU = gpu.Absent[gpu.Percent](gpu.NotSupported)
		return nil
	}
	return r.readCPU(ctx, h)
}

// readAverage reads the load average, on systems that have one.
func readAverage(ctx context.Context, h *gpu.Host) error {
	if system.GOOS == "windows" {
		h.Load1, h.Load5, h.Load15 = gpu.Absent[float64](gpu.NotSupported), gpu.Absent[float64](gpu.NotSupported), gpu.Absent[float64](gpu.NotSupported)
		return nil
	}
	avg, err := load.AvgWithContext(ctx)
	if err == nil {
		h.Load1, h.Load5, h.Load15 = gpu.Of(avg.Load1), gpu.Of(avg.Load5), gpu.Of(avg.Load15)
	}
	return err
}

func readMemories(ctx context.Context, h *gpu.Host) error {
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err == nil && (m.Total == 0 || m.Available > m.Total) {
		err = fmt.Errorf("%d of %d bytes available", m.Available, m.Total)
	}
	if err != nil {
		return err
	}
	h.MemoryTotal, h.MemoryAvailable = gpu.Of(gpu.Bytes(m.Total)), gpu.Of(gpu.Bytes(m.Available))
	h.MemoryUsed = gpu.Of(gpu.Bytes(m.Total - m.Available))
	total, used, err := swap(ctx)
	if err == nil {
		h.SwapTotal, h.SwapUsed = gpu.Of(total), gpu.Of(used)
	}
	return err
}

// readDrives lists the disks of this machine, except network and removable ones.
func (r *Reader) readDrives(ctx context.Context, h *gpu.Host) error {
	if r.mounts == nil || r.now().Sub(r.mounted) >= mountsFor {
		list, err := drives(ctx)
		if err != nil {
			return err
		}
		r.mounts, r.mounted = list, r.now()
	}
	var traffic map[string]disk.IOCountersStat
	var errs []error
	if countsDisks {
		var err error
		traffic, err = disk.IOCountersWithContext(ctx)
		if !errors.Is(err, errors.ErrUnsupported) { // some Windows drives don't support it
			errs = append(errs, err)
		}
	}
	for _, m := range r.mounts {
		d := gpu.Disk{Device: m.Device, Mount: m.Mountpoint, FileSystem: m.Fstype}
		if use, err := disk.UsageWithContext(ctx, m.Mountpoint); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Mountpoint, err))
		} else {
			d.Total, d.Used = gpu.Of(gpu.Bytes(use.Total)), gpu.Of(gpu.Bytes(use.Used))
		}
		name := filepath.Base(m.Device)
		if t, ok := traffic[name]; ok {
			d.Read, d.Write = r.rates.bytes(name+" read", t.ReadBytes), r.rates.bytes(name+" written", t.WriteBytes)
		}
		h.Disks = append(h.Disks, d)
	}
	return errors.Join(errs...)
}

// readInterfaces lists the interfaces that are up and have had traffic, except loopback and virtual ones: these systems have many unused
// ones.
func (r *Reader) readInterfaces(ctx context.Context, h *gpu.Host) error {
	up := map[string]bool{}
	known, err := stdnet.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range known {
		up[i.Name] = i.Flags&(stdnet.FlagUp|stdnet.FlagLoopback|stdnet.FlagPointToPoint) == stdnet.FlagUp
	}
	all, err := net.IOCountersWithContext(ctx, true)
	if err != nil {
		return err
	}
	for _, n := range all {
		if !up[n.Name] || virtual(n.Name) || n.BytesRecv+n.BytesSent == 0 {
			continue
		}
		h.Networks = append(h.Networks, gpu.Interface{
			Name:          clean(n.Name),
			Received:      r.rates.bytes(n.Name+" received", n.BytesRecv),
			Sent:          r.rates.bytes(n.Name+" sent", n.BytesSent),
			ReceivedTotal: gpu.Of(gpu.Bytes(n.BytesRecv)),
			SentTotal:     gpu.Of(gpu.Bytes(n.BytesSent)),
		})
	}
	slices.SortFunc(h.Networks, func(a, b gpu.Interface) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

func (r *Reader) readOwn(ctx context.Context, h *gpu.Host) error {
	p := &gopsutil.Process{Pid: int32(os.Getpid())}
	m, memoryErr := p.MemoryInfoWithContext(ctx)
	if memoryErr == nil {
		h.Self.RSS = gpu.Of(gpu.Bytes(m.RSS))
	}
	t, err := p.TimesWithContext(ctx)
	if err == nil {
		h.Self.CPU = gpu.Map(r.rates.rate("own seconds", t.User+t.System), ofCore)
	}
	return errors.Join(memoryErr, err)
}

// ofCore returns the share of one core that seconds of CPU time per second are.
func ofCore(seconds float64) gpu.Percent { return gpu.Percent(100 * seconds) }

// ownName is the user that this program runs as; "" if not known.
var ownName = sync.OnceValue(func() string {
	own, err := user.Current()
	if err != nil {
		return ""
	}
	return own.Username
})

// describePortable returns what the system knows about a process.
func (r *Reader) describePortable(ctx context.Context, pid int, now time.Time) (facts gpu.ProcessFacts) {
	if pid <= 0 || pid > math.MaxInt32 {
		gpu.Withdraw(&facts, gpu.NotReported)
		return facts
	}
	here, err := gopsutil.PidExistsWithContext(ctx, int32(pid))
	if err != nil || !here {
		delete(r.known, pid)
		gpu.Withdraw(&facts, absence(err))
		facts.Exists = gpu.Reading[bool]{}
		if err == nil {
			facts.Exists = gpu.Of(false)
		}
		return facts
	}
	// The handle is new each time, since gopsutil keeps the first start time.
	q := &gopsutil.Process{Pid: int32(pid)}
	milliseconds, startErr := q.CreateTimeWithContext(ctx)
	start := uint64(max(milliseconds, 0))
	p := r.known[pid]
	if p == nil || p.start != start {
		p = &process{start: start}
		r.known[pid] = p
	}
	p.asked = true
	if !now.Before(p.due) {
		r.refreshPortable(ctx, q, p, now)
	}
	p.facts.Started = gpu.Absent[time.Time](absence(startErr))
	if startErr == nil && milliseconds > 0 {
		p.facts.Started = gpu.Of(time.UnixMilli(milliseconds).UTC())
	}
	p.facts.CPU, p.facts.RSS = gpu.Reading[gpu.Percent]{}, gpu.Reading[gpu.Bytes]{}
	if t, err := q.TimesWithContext(ctx); err == nil {
		p.facts.CPU = gpu.Map(p.ticks.read(t.User+t.System, now), ofCore)
	} else {
		p.facts.CPU = gpu.Absent[gpu.Percent](absence(err))
	}
	if m, err := q.MemoryInfoWithContext(ctx); err != nil {
		p.facts.RSS = gpu.Absent[gpu.Bytes](absence(err))
	} else if m.RSS > 0 {
		p.facts.RSS = gpu.Of(gpu.Bytes(m.RSS))
	}
	return p.facts
}

// refreshPortable reads what changes rarely.
func (r *Reader) refreshPortable(ctx context.Context, q *gopsutil.Process, p *process, now time.Time) {
	p.due = now.Add(refreshAfter + time.Duration(q.Pid%30)*time.Second)
	f := &p.facts
	gpu.Withdraw(f, gpu.NotSupported)
	f.Exists = gpu.Of(true)
	name, err := q.NameWithContext(ctx)
	f.Name = gpu.Absent[string](absence(err))
	if err == nil && name != "" {
		f.Name = gpu.Of(clean(name))
	}
	owner, ownerErr := q.UsernameWithContext(ctx)
	f.User = gpu.Absent[string](absence(ownerErr))
	if ownerErr == nil {
		f.User = gpu.Of(clean(owner))
	}
	args, argsErr := argumentsOf(ctx, q)
	own := ownerErr == nil && owner == ownName()
	f.Command, f.Private = r.show.commands(own, args, argsErr)
	f.Program = readable(r.show.program(own), args, argsErr, func() string { return programOf(unixName(name), unixNames(args)) })
}

// unixName returns a program's name in Unix form: with slashes, without ".exe".
func unixName(file string) string {
	if system.GOOS == "windows" {
		file = filepath.ToSlash(file)
	}
	if isWindows(file) {
		file = file[:len(file)-len(path.Ext(file))]
	}
	return file
}

// unixNames returns the arguments with the program's and the files' names in Unix form.
func unixNames(args []string) []string {
	out := slices.Clone(args)
	for i := range out {
		if i == 0 || drive().MatchString(out[i]) {
			out[i] = unixName(strings.ReplaceAll(out[i], `\`, "/"))
		}
	}
	return out
}
