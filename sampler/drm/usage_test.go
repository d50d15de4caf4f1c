//go:build linux

package drm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

// The texts follow Documentation/gpu/drm-usage-stats.rst and what amdgpu, i915 and xe are known to write.
const (
	amdInfo = "pasid:\t32773\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\n" +
		"drm-total-vram:\t2 MiB\ndrm-shared-vram:\t0\ndrm-resident-vram:\t1024 KiB\ndrm-memory-vram:\t1024 KiB\n" +
		"drm-memory-gtt: \t512 KiB\ndrm-memory-cpu: \t0 KiB\namd-requested-vram:\t9 KiB\n" +
		"drm-engine-gfx:\t1000000000 ns\ndrm-engine-dec:\t0 ns\n"
	i915Info = "drm-driver:\ti915\ndrm-pdev:\t0000:00:02.0\ndrm-client-id:\t9\n" +
		"drm-engine-render:\t5 ns\ndrm-engine-capacity-video:\t2\ndrm-engine-video:\t6 ns\ndrm-total-system0:\t4096\n"
	xeInfo = "drm-driver:\txe\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t42\n" +
		"drm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\ndrm-cycles-ccs:\t3\ndrm-engine-capacity-ccs:\t4\n" +
		"drm-resident-vram0:\t1 GiB\n"
)

func TestParseInfo(t *testing.T) {
	amd, ok := ParseInfo([]byte("pos:\t0\n" + amdInfo))
	if !ok || amd.Driver != "amdgpu" || amd.Address != "0000:03:00.0" || amd.Client != 7 || !amd.Known {
		t.Errorf("%v %+v", ok, amd)
	}
	if vram, _ := amd.Memory["vram"].Held(); vram != 1<<20 || amd.Memory["vram"].Total != 2<<20 {
		t.Errorf("memory %+v", amd.Memory)
	}
	if want := map[string]Engine{"gfx": {Busy: 1e9, Capacity: 1}, "dec": {Capacity: 1}}; !maps.Equal(amd.Engines, want) {
		t.Errorf("engines %+v, want %+v", amd.Engines, want)
	}
	i915, _ := ParseInfo([]byte(i915Info))
	ofI915 := map[string]Engine{"render": {Busy: 5, Capacity: 1}, "video": {Busy: 6, Capacity: 2}}
	if !maps.Equal(i915.Engines, ofI915) {
		t.Errorf("engines %+v, want %+v", i915.Engines, ofI915)
	}
	if bytes, ok := i915.Memory["system0"].Held(); bytes != 4096 || !ok {
		t.Errorf("memory %+v", i915.Memory)
	}
	// Without the total cycles, busy cycles say nothing.
	xe, _ := ParseInfo([]byte(xeInfo))
	want := map[string]Engine{"rcs": {Busy: 28257900, Cycles: true, Total: 7655183225, Capacity: 1}}
	if !maps.Equal(xe.Engines, want) {
		t.Errorf("engines %+v, want %+v", xe.Engines, want)
	}
	if bytes, _ := xe.Memory["vram0"].Held(); bytes != 1<<30 {
		t.Errorf("memory %+v", xe.Memory)
	}
	for _, text := range []string{
		"", "pos:\t0\nflags:\t02\n", "drm-client-id:\t1\n", "drm-driver:\n",
	} {
		if info, ok := ParseInfo([]byte(text)); ok {
			t.Errorf("%q is of a card: %+v", text, info)
		}
	}
	odd, ok := ParseInfo([]byte("drm-driver: x\ndrm-pdev: ../../etc\ndrm-client-id: -1\n" +
		"drm-engine-: 1 ns\ndrm-engine-a: 18446744073709551616 ns\n" +
		"drm-engine-b: 1 s\ndrm-engine-c\x1b: 1 ns\ndrm-memory-vram: 18014398509481984 KiB\n" +
		"drm-memory-gtt: 1 XiB\ndrm-engine-capacity-d: 2\n"))
	if !ok || odd.Address != "" || odd.Known || len(odd.Engines) != 0 || len(odd.Memory) != 0 {
		t.Errorf("%v %+v", ok, odd)
	}
}

func FuzzParseInfo(f *testing.F) {
	for _, text := range []string{
		amdInfo, i915Info, xeInfo, "", "drm-", "drm-driver:x\ndrm-engine-capacity-gfx:0\ndrm-engine-gfx:1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		info, _ := ParseInfo([]byte(text))
		if len(info.Engines) > mostKinds || len(info.Memory) > mostKinds || Clean(info.Driver) != info.Driver {
			t.Errorf("%+v", info)
		}
		for name, e := range info.Engines {
			if e.Capacity == 0 || e.Capacity > 1<<16 || name == "" || len(name) > mostKind || e.Cycles && e.Total == 0 {
				t.Errorf("%q: %+v", name, e)
			}
		}
	})
}

func FuzzNameIn(f *testing.F) {
	f.Add("1002  AMD\n\t744c  Navi [Radeon]\n")
	f.Add("1002  AMD\n\t744c  ][\n")
	f.Fuzz(func(t *testing.T, list string) {
		if got := nameIn(strings.NewReader(list), 0x1002, 0x744c); Clean(got) != got {
			t.Errorf("%q", got)
		}
	})
}

// clocked are a Holders and a Meter with their own clock.
type clocked struct {
	*drmtest.Machine
	*Holders
	*Meter
	*clockwork.FakeClock
}

func newClocked(t *testing.T) *clocked {
	m := drmtest.New(t)
	clock := clockwork.NewFakeClock()
	c := &clocked{m, NewHolders(m.Proc, m.Sysfs), NewMeter(clock, m.Proc, nil), clock}
	c.Clock = clock
	return c
}

const here = "0000:03:00.0"

func (c *clocked) read() Usage {
	held := c.Find(time.Minute)
	return c.Read(here, held.Of("card0", "renderD128"))
}

func (c *clocked) after(d time.Duration) Usage {
	c.Advance(d)
	return c.read()
}

func info(client int, lines ...string) string {
	return fmt.Sprintf("drm-driver:\tamdgpu\ndrm-pdev:\t%s\ndrm-client-id:\t%d\n%s\n", here, client, strings.Join(lines, "\n"))
}

func gfx(ns int64) string { return fmt.Sprintf("drm-engine-gfx:\t%d ns", ns) }

func TestUsage(t *testing.T) {
	c := newClocked(t)
	const second = int64(time.Second)
	const memory = "drm-memory-vram:\t1 MiB\ndrm-memory-gtt:\t3 MiB"
	c.Open(100, 5, "dri/renderD128", info(1, gfx(10*second), memory))
	c.Open(100, 6, "dri/renderD128", info(1, gfx(10*second), memory)) // duplicated
	c.Open(100, 7, "dri/card0", info(2, memory))
	c.Open(101, 5, "dri/renderD128", info(1, gfx(10*second), memory)) // inherited
	c.Open(102, 3, "dri/renderD129", info(3, gfx(1)))                 // of another card
	c.Open(103, 3, "null", "")
	first := c.read()
	if len(first.Processes) != 2 || first.Processes[0].PID != 100 || first.Processes[0].Measured || len(first.Engines) != 0 {
		t.Fatalf("the first reading is %+v", first)
	}
	if p := first.Processes[0]; p.Memory["vram"] != 2<<20 || p.Memory["gtt"] != 6<<20 || !slices.Equal(p.Used, []string{"gfx"}) {
		t.Errorf("process 100 has %+v", p)
	}
	for _, d := range []int{5, 6} {
		c.Open(100, d, "dri/renderD128", info(1, gfx(10*second+second/2), memory))
	}
	c.Open(101, 5, "dri/renderD128", info(1, gfx(10*second+second/2), memory))
	c.Open(100, 7, "dri/card0", info(2, "drm-engine-dec:\t250000000 ns")) // named from now on
	next := c.after(time.Second)
	want := map[string]gpu.Percent{"gfx": 50, "dec": 25}
	if !maps.Equal(next.Engines, want) || !maps.Equal(next.Processes[0].Engines, want) || next.Processes[1].Engines["gfx"] != 50 {
		t.Errorf("then %+v, want %v", next, want)
	}
	c.Exit(100)
	c.Exit(101)
	if last := c.after(time.Second); len(last.Processes) != 0 || len(last.Engines) != 0 || len(c.clients) != 0 {
		t.Errorf("when all have ended: %+v, %d clients", last, len(c.clients))
	}
}

// What a session manager has opened for a compositor belongs to the compositor; what it alone holds stays its own.
func TestOpenedForOthers(t *testing.T) {
	c := newClocked(t)
	for pid, name := range map[int]string{50: "systemd-logind", 100: "kwin_wayland", 101: "child"} {
		c.Write(filepath.Join(c.Proc, strconv.Itoa(pid), "comm"), name+"\n")
	}
	const memory = "drm-memory-vram:\t1 MiB"
	c.Open(50, 20, "dri/card0", info(1, memory))
	c.Open(50, 21, "dri/card0", info(2, memory))
	c.Open(100, 5, "dri/card0", info(1, memory))
	c.Open(101, 5, "dri/card0", info(1, memory))
	got := map[int]gpu.Bytes{}
	for _, p := range c.read().Processes {
		got[p.PID] = p.Memory["vram"]
	}
	if want := map[int]gpu.Bytes{50: 1 << 20, 100: 1 << 20, 101: 1 << 20}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c.Exit(100)
	c.Exit(101)
	c.Advance(time.Second)
	if all := c.read().Processes; len(all) != 1 || all[0].Memory["vram"] != 2<<20 {
		t.Errorf("alone it has %+v", all)
	}
}

// What a counter says, second by second, and the resulting share; -1: none.
func TestCounters(t *testing.T) {
	const s = int64(time.Second)
	for name, tt := range map[string]struct {
		counter []int64
		want    []gpu.Percent
	}{
		"steady":                      {[]int64{0, s / 4, s / 2}, []gpu.Percent{-1, 25, 25}},
		"idle":                        {[]int64{s, s, s}, []gpu.Percent{-1, 0, 0}},
		"a little more than the time": {[]int64{0, s + s/10}, []gpu.Percent{-1, 100}},
		"a jump that can't be":        {[]int64{0, 1 << 62, s, 2 * s}, []gpu.Percent{-1, -1, 50, 100}},
		"back for a moment":           {[]int64{10 * s, 9 * s, 11 * s}, []gpu.Percent{-1, 0, 50}},
		"back for good": {[]int64{10 * s, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
			[]gpu.Percent{-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0}},
		"ahead for good": {[]int64{0, 1e14, 1e14, 1e14, 1e14, 1e14, 1e14, 1e14, 1e14, 1e14, 1e14, 1e14, 1e14},
			[]gpu.Percent{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClocked(t)
			for i, n := range tt.counter {
				c.Open(100, 5, "dri/renderD128", info(1, gfx(n)))
				got := gpu.Percent(-1)
				if v, ok := c.after(time.Second).Engines["gfx"]; ok {
					got = v
				}
				if got != tt.want[i] {
					t.Errorf("second %d: %v, want %v", i, got, tt.want[i])
				}
			}
		})
	}
}

func TestCycles(t *testing.T) {
	c := newClocked(t)
	for i, want := range []gpu.Percent{-1, 20, 0, -1, 25} {
		busy, total := []int{100, 300, 300, 10, 35}[i], []int{1000, 2000, 3000, 100, 200}[i] // the counter restarts
		lines := fmt.Sprintf("drm-cycles-rcs:\t%d\ndrm-total-cycles-rcs:\t%d", busy, total)
		c.Open(100, 5, "dri/card0", info(1, lines))
		if i == 3 {
			c.Advance(catchUp)
			c.after(time.Second)
			c.Advance(catchUp)
		}
		got := gpu.Percent(-1)
		if v, ok := c.after(time.Second).Engines["rcs"]; ok {
			got = v
		}
		if got != want {
			t.Errorf("reading %d: %v, want %v", i, got, want)
		}
	}
}

// Files that vanish, fail or are not permitted while the list is read cost only their own process.
func TestProcessesThatChange(t *testing.T) {
	c := newClocked(t)
	for pid := range 6 {
		c.Open(100+pid, 5, "dri/renderD128", info(pid, gfx(0), "drm-memory-vram:\t1 KiB"))
	}
	c.Meter.read = func(file string) ([]byte, error) {
		switch pid := filepath.Base(filepath.Dir(filepath.Dir(file))); pid {
		case "101":
			return nil, &os.PathError{Op: "open", Path: file, Err: syscall.EACCES}
		case "102":
			return nil, &os.PathError{Op: "read", Path: file, Err: syscall.ESRCH}
		case "103":
			return nil, &os.PathError{Op: "read", Path: file, Err: syscall.EIO}
		case "104":
			return []byte("\x00\xff garbage"), nil
		case "105":
			c.Exit(100) // while the list is read
			return ReadFile(file)
		default:
			return ReadFile(file)
		}
	}
	for range 2 {
		u := c.after(time.Second)
		var pids []string
		for _, p := range u.Processes {
			pids = append(pids, fmt.Sprint(p.PID, p.Denied))
		}
		if want := []string{"101 true", "105 false"}; u.Denied != 1 || !slices.Equal(pids[len(pids)-2:], want) {
			t.Errorf("%d denied of %v, want %v at the end", u.Denied, pids, want)
		}
	}
}

// A fully hidden process is counted, and one without cards is not checked each time.
func TestWalk(t *testing.T) {
	c := newClocked(t)
	c.Open(100, 5, "dri/renderD128", info(1))
	c.Open(101, 5, "null", "")
	held := c.Find(time.Minute)
	if got := held.Of("renderD128"); !slices.Equal(got, []Descriptor{{100, 5}}) || held.Hidden != 0 || held.Err != nil {
		t.Fatalf("%v holds it, %d hidden, %v", got, held.Hidden, held.Err)
	}
	if c.Find(time.Minute) != held {
		t.Error("two readings at the same moment have two walks")
	}
	c.Advance(youngFor)
	c.Find(time.Minute)
	c.Open(101, 6, "dri/card0", info(2))
	c.Advance(time.Second)
	if got := c.Find(time.Minute).Of("card0"); len(got) != 0 {
		t.Errorf("an old process was looked at again at once: %v", got)
	}
	c.Advance(lookAgain)
	if got := c.Find(time.Minute).Of("card0"); len(got) != 1 {
		t.Errorf("an old process was not looked at again: %v", got)
	}
	if err := os.RemoveAll(c.Proc); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Second)
	if held := c.Find(time.Minute); held.Err == nil || len(held.Of("card0")) != 0 {
		t.Errorf("without /proc: %+v", held)
	}
}

// A descriptor is identified by its device number: a container may rename the node.
func TestNodeByNumber(t *testing.T) {
	c := newClocked(t)
	node := filepath.Join(t.TempDir(), "renderD128")
	const number = 226<<8 | 129
	if err := syscall.Mknod(node, syscall.S_IFCHR|0o600, number); err != nil {
		t.Skip("only root makes devices:", err)
	}
	c.Card(1, "0000:0c:00.0", "amdgpu", nil)
	fd := filepath.Join(c.Proc, strconv.Itoa(100), "fd")
	if err := os.MkdirAll(fd, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(node, filepath.Join(fd, "3")); err != nil {
		t.Fatal(err)
	}
	held := c.Find(time.Minute)
	if len(held.Of("renderD129")) != 1 || len(held.Of("renderD128")) != 0 {
		t.Errorf("it holds %v", held.byNode)
	}
}

func TestRest(t *testing.T) {
	now := time.Now()
	var r Rest
	tick := func(idle bool) bool {
		now = now.Add(time.Second)
		if !r.Pausing(now) {
			r.Note(now, idle)
		}
		return r.Pausing(now)
	}
	run := func(seconds int, idle bool) (paused int) {
		for range seconds {
			if tick(idle) {
				paused++
			}
		}
		return paused
	}
	if run(60, false) != 0 {
		t.Error("a card that works is left alone")
	}
	if n := run(10, true); n != 0 {
		t.Errorf("after %d s of rest it is left alone", n)
	}
	if n := run(20, true); n != 20 {
		t.Errorf("of 20 s it is left alone for %d", n)
	}
	if n := run(100, true); n < 97 {
		t.Errorf("then of 100 s it is left alone for %d", n)
	}
	r.Awake()
	if tick(true) {
		t.Error("it is awake, and left alone")
	}
}
