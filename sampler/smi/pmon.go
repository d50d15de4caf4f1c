package smi

import (
	"runtime"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// A usage is what one line of pmon says about one process, or the line of a device without processes, which has no pid.
type usage struct {
	gpu                                   int
	pid                                   int // 0: the device has no process
	kind                                  gpu.ProcessType
	sm, bandwidth, encoder, decoder, size value
}

// A header maps pmon's column names to positions.
type header map[string]int

// headerOf parses a header: "# gpu pid type sm mem enc dec … command".
func headerOf(line string) (header, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
	names := strings.Fields(strings.ToLower(rest))
	h := make(header, len(names))
	for i, name := range names {
		h[name] = i
	}
	_, hasGPU := h["gpu"]
	_, hasPID := h["pid"]
	return h, ok && hasGPU && hasPID && len(h) == len(names)
}

// parse reads a line; ok is false unless it is a complete line under this header.
func (h header) parse(line string) (u usage, ok bool) {
	parts := strings.Fields(line)
	whole := len(h)
	if index, last := h["command"]; last && index == len(h)-1 { // the command may be empty, or contain spaces
		whole--
	}
	if len(h) == 0 || len(parts) < whole {
		return usage{}, false
	}
	column := func(name string) value {
		if i, ok := h[name]; ok && i < len(parts) {
			return value(parts[i])
		}
		return "N/A"
	}
	index, isIndex := column("gpu").number()
	if !isIndex || index < 0 || index > 1<<10 {
		return usage{}, false
	}
	u = usage{
		gpu: int(index), kind: kindOf(column("type")),
		sm: column("sm"), bandwidth: column("mem"), encoder: column("enc"), decoder: column("dec"), size: column("fb"),
	}
	if column("pid") == "-" {
		return u, true
	}
	u.pid, ok = pidOf(column("pid"))
	return u, ok
}

func kindOf(v value) gpu.ProcessType {
	switch kind := strings.ToUpper(strings.TrimSpace(string(v))); {
	case strings.Contains(kind, "M"):
		return gpu.TypeMPS
	case kind == "C":
		return gpu.TypeCompute
	case kind == "G":
		return gpu.TypeGraphics
	case kind == "C+G", kind == "G+C":
		return gpu.TypeComputeGraphics
	default:
		return gpu.TypeUnknown
	}
}

// pidOf returns a pid that the system can assign.
func pidOf(v value) (int, bool) {
	most := float64(1 << 22) // on Linux
	if runtime.GOOS == "windows" {
		most = 1<<31 - 1
	}
	pid, ok := v.number()
	return int(pid), ok && pid >= 1 && pid <= most && pid == float64(int(pid))
}

// quiet is the least time between two rounds in which pmon prints nothing. It pauses for a second or more.
const quiet = 200 * time.Millisecond

// mostLines is the most lines believed in one round.
const mostLines = 1 << 16

// rounds separates the rounds of pmon, in each of which it prints every process of every device. Only a complete round shows that a process
// has ended.
type rounds struct {
	header header
	now    []usage // the round being printed
	last   []usage // the previous round
	read   time.Time
	lastAt time.Time
	seen   map[usage]bool
	// samples are the devices for which a process's share was ever printed: then "-" means none.
	samples map[int]bool
}

// add takes a line, and reports whether it came from pmon.
func (r *rounds) add(line string, now time.Time) bool {
	if strings.HasPrefix(strings.TrimSpace(line), "#") {
		if h, ok := headerOf(line); ok {
			r.header = h
		}
		return true
	}
	u, ok := r.header.parse(line)
	if !ok {
		return false
	}
	id := usage{gpu: u.gpu, pid: u.pid, kind: u.kind}
	if n := len(r.now); n > 0 && (r.seen[id] || u.gpu < r.now[n-1].gpu || now.Sub(r.read) >= quiet || n == mostLines) {
		r.last, r.lastAt = r.now, r.read
		r.now, r.seen = nil, nil
	}
	if r.seen == nil {
		r.seen = map[usage]bool{}
	}
	if r.samples == nil {
		r.samples = map[int]bool{}
	}
	r.now, r.read, r.seen[id] = append(r.now, u), now, true
	for _, v := range []value{u.sm, u.bandwidth, u.encoder, u.decoder} {
		if _, is := v.number(); is {
			r.samples[u.gpu] = true
		}
	}
	return true
}

// newest returns the newest complete round, and when it was printed; none while the first is being printed.
func (r *rounds) newest(now time.Time) ([]usage, time.Time) {
	if now.Sub(r.read) >= quiet {
		return r.now, r.read
	}
	return r.last, r.lastAt
}

// processes returns the processes of one device. A share that was not printed is 0 if the device takes samples, or if it did nothing at
// all.
func (r *rounds) processes(round []usage, d *gpu.Device) []gpu.Process {
	index := d.VendorIndex.Or(-1)
	busy, known := d.Utilization.GPU.Trusted()
	none := gpu.Absent[gpu.Percent](gpu.NotReported)
	if r.samples[index] || known && busy == 0 {
		none = gpu.Of(gpu.Percent(0))
	}
	part := func(v value) gpu.Reading[gpu.Percent] {
		if v == "-" {
			return none
		}
		return share(v)
	}
	list := processList{}
	for _, u := range round {
		if u.gpu != index || u.pid == 0 {
			continue
		}
		p := gpu.Process{
			PID: u.pid, Type: u.kind, Memory: nvidia.Within(memoryOf(u.size), d.Memory.Total),
			SM: part(u.sm), MemoryBandwidth: part(u.bandwidth), Encoder: part(u.encoder), Decoder: part(u.decoder),
			Video: gpu.Absent[gpu.Percent](gpu.NotSupported),
		}
		list.add(p)
	}
	return list.sorted()
}

// memoryOf returns a process's memory; not reported if nvidia-smi has no number, as in Windows display mode.
func memoryOf(v value) gpu.Reading[gpu.Bytes] {
	r := mebibytes(v)
	if !r.Present() && r.Quality() != gpu.NotPermitted {
		return gpu.Reading[gpu.Bytes]{}
	}
	return r
}
