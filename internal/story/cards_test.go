//go:build !race

package story

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

// A model is a product of AMD or Intel: what its driver's files are like. The ids are those
// of AMD's and Intel's own lists, the files those of the kernel's documents.
type model struct {
	vendor, driver string // "amd", "amdgpu"
	id, revision   string
	table          [2]byte // the version of gpu_metrics; of format 0 there is none
	junction       bool    // it has a sensor of the hot spot
	edge           bool    // and one of the edge
	oneQueue       bool    // a queue encodes and decodes, and counts as encoding
	integrated     bool    // it is part of a processor
	power          string  // the file of hwmon
	top            int     // MHz, the highest clock
}

// target is the version of the instruction set, as the compute driver has it.
func (m *model) target() int {
	switch {
	case !m.edge:
		return 90402
	case m.oneQueue && m.table[0] == 1 && m.id != "0x740f", m.integrated:
		return 110000
	case m.table == [2]byte{1, 3} && m.id != "0x740f":
		return 100300
	case m.id == "0x740f":
		return 90010
	default:
		return 100100
	}
}

var models = map[string]model{
	"AMD Radeon RX 7900 XTX": {"amd", "amdgpu", "0x744c", "0xc8", [2]byte{1, 3}, true, true, true, false, "power1_average", 2525},
	"AMD Radeon RX 7800 XT":  {"amd", "amdgpu", "0x747e", "0xc8", [2]byte{1, 3}, true, true, true, false, "power1_average", 2430},
	"AMD Radeon RX 7900 XT":  {"amd", "amdgpu", "0x744c", "0xcc", [2]byte{1, 3}, true, true, true, false, "power1_average", 2400},
	"AMD Radeon RX 6800 XT":  {"amd", "amdgpu", "0x73bf", "0xc1", [2]byte{1, 3}, true, true, false, false, "power1_average", 2575},
	"AMD Radeon RX 6700 XT":  {"amd", "amdgpu", "0x73df", "0xc1", [2]byte{1, 3}, true, true, false, false, "power1_average", 2725},
	"AMD Radeon RX 5700 XT":  {"amd", "amdgpu", "0x731f", "0xc1", [2]byte{1, 1}, true, true, false, false, "power1_average", 2050},
	"AMD Radeon RX 580":      {"amd", "amdgpu", "0x67df", "0xe7", [2]byte{}, false, true, false, false, "power1_average", 1366},
	"AMD Radeon RX 7700S":    {"amd", "amdgpu", "0x7480", "0xc1", [2]byte{1, 3}, true, true, true, false, "power1_average", 2500},
	"AMD Radeon Pro W6800":   {"amd", "amdgpu", "0x73a3", "0x00", [2]byte{1, 3}, true, true, false, false, "power1_average", 2555},
	"AMD Radeon 780M":        {"amd", "amdgpu", "0x15bf", "0xc4", [2]byte{2, 3}, false, true, true, true, "power1_input", 2700},
	"AMD Radeon 8060S":       {"amd", "amdgpu", "0x1586", "0xc1", [2]byte{3, 0}, false, true, true, true, "power1_input", 2900},
	"AMD Instinct MI210":     {"amd", "amdgpu", "0x740f", "0x02", [2]byte{1, 3}, true, true, true, false, "power1_average", 1700},
	"AMD Instinct MI300X":    {"amd", "amdgpu", "0x74a1", "0x00", [2]byte{1, 6}, true, false, true, false, "power1_input", 2100},

	"Intel Arc A770":                 {vendor: "intel", driver: "i915", id: "0x56a0", top: 2400},
	"Intel Arc A750":                 {vendor: "intel", driver: "i915", id: "0x56a1", top: 2400},
	"Intel Arc A380":                 {vendor: "intel", driver: "i915", id: "0x56a5", top: 2450},
	"Intel Arc B580":                 {vendor: "intel", driver: "xe", id: "0xe20b", top: 2850},
	"Intel Data Center GPU Flex 170": {vendor: "intel", driver: "i915", id: "0x56c0", top: 2050},
	"Intel UHD Graphics 770":         {vendor: "intel", driver: "i915", id: "0x4680", integrated: true, top: 1550},
	"Intel Iris Xe Graphics":         {vendor: "intel", driver: "i915", id: "0x46a6", integrated: true, top: 1400},
	"Intel Arc Graphics 130V/140V":   {vendor: "intel", driver: "xe", id: "0x64a0", integrated: true, top: 2050},
}

// A kernelFile is where a reading of a story stands in the kernel's files, and how much of the file's
// unit one of the story's is.
type kernelFile struct {
	name string
	unit float64
}

// A card is a card of AMD or Intel in the made-up sysfs of a machine.
type card struct {
	model
	*drmtest.Card
	number  int
	hwmon   string // its folder of sensors, below the device
	refuses bool
	throttling,
	throttled uint64 // the reasons of now, and for how long in all
	joules, idle float64                           // counters: of energy, and of milliseconds without work
	clock        float64                           // ticks that an engine of xe could have worked
	spent        map[client]map[string]float64     // by engine: the time, in ns, or ticks of xe
	shown        map[string]string                 // what its files say
	clients      map[client]int                    // their numbers
	files        map[string]kernelFile             // by reading
	held         map[uint32]*process               // that the compute driver lists
	engines      func(p *process) map[int][]string // the engines of each share of a process
}

type client struct {
	pid   uint32
	name  string
	begun time.Duration
}

// kinds of readings that the files of each vendor have.
var offered = map[string][]string{
	"amd": {
		"util", "memutil", "power", "limit", "temp", "hotspot", "memtemp", "fan", "rpm", "policy", "clock", "memclock", "used",
		"reasons", "state", "processes", "display",
	},
	"intel": {"util", "power", "limit", "temp", "memtemp", "rpm", "clock", "reasons", "state", "processes", "display"},
}

// check finds what a vendor's cards can't be told to do.
func (p *Product) check() error {
	if p.Vendor == "" || p.Vendor == "nvidia" {
		if p.Sleeps {
			return fmt.Errorf("%s: sleeps: yes is for AMD and Intel", p.Name)
		}
		return nil
	}
	model, known := models[p.Name]
	if !known || model.vendor != p.Vendor {
		return fmt.Errorf("there is no product %q of %s", p.Name, p.Vendor)
	}
	if p.Persistence || p.MIG {
		return fmt.Errorf("%s: persistence and mig are for NVIDIA", p.Name)
	}
	return nil
}

// reports finds a reading that a product does not have.
func (p *Product) reports(key string, n *yaml.Node, lasts time.Duration) error {
	list, listed := offered[p.Vendor]
	name, _, _ := strings.Cut(n.Value, " ")
	switch {
	case key == "processes" && n.Kind == yaml.SequenceNode:
		all, err := processes(n, 0, lasts)
		for i := range all {
			err = cmp.Or(err, all[i].canBe(p))
		}
		return err
	case listed && key == "processes":
		return fmt.Errorf("on %s a process is closed to gpuwhy, or it is listed", p.Name)
	case p.Vendor == "amd" && key == "policy" && n.Value == "unknown":
		return fmt.Errorf("%s says who controls the fan", p.Name)
	case !listed && key == "hotspot", listed && !slices.Contains(list, key):
		return fmt.Errorf("%s has no reading %q", p.Name, key)
	case !listed || key != "state" || slices.Contains([]string{"ok", "lost", "asleep", "gone"}, name):
	case p.Vendor != "amd" || name != "refuses":
		return fmt.Errorf("%s has no state %q", p.Name, name)
	}
	return nil
}

// canBe finds what a process can't be on a product.
func (p *process) canBe(product *Product) error {
	_, ofKernel := offered[product.Vendor]
	switch {
	case p.Type == "rocm" && product.Vendor != "amd", p.Type == "mps" && ofKernel:
		return fmt.Errorf("on %s no process is of type %q", product.Name, p.Type)
	case ofKernel && (p.Hidden || p.Ended):
		return fmt.Errorf("on %s a process is listed where /proc has it", product.Name)
	case !ofKernel && p.Closed:
		return fmt.Errorf("on %s the driver lists all processes", product.Name)
	}
	return nil
}

// plug puts a card into the machine.
func (m *machine) plug(number int, p *Product) *card {
	c := &card{
		model: models[p.Name], number: number, joules: 1e6, idle: 1e5, clock: 1e9,
		spent: map[client]map[string]float64{}, shown: map[string]string{}, clients: map[client]int{},
		held: map[uint32]*process{},
	}
	address := fmt.Sprintf("0000:%02x:00.0", number+1)
	if c.vendor == "intel" && c.integrated {
		address = "0000:00:02.0"
	}
	files := map[string]string{
		"vendor": map[string]string{"amd": "0x1002\n", "intel": "0x8086\n"}[c.vendor], "device": c.id + "\n",
		"current_link_speed": "16.0 GT/s PCIe\n", "max_link_speed": "16.0 GT/s PCIe\n",
		"current_link_width": "16\n", "max_link_width": "16\n",
	}
	c.hwmon = fmt.Sprintf("hwmon/hwmon%d/", number+1)
	if c.vendor == "amd" {
		c.amd(p, files)
	} else {
		c.intel(p, files)
	}
	c.Card = m.drm.Card(number, address, c.driver, files)
	if p.Sleeps {
		c.Set(map[string]string{"power/control": "auto\n"})
	}
	c.display(p.Display)
	if files[c.hwmon+"name"] != "" { // as the kernel lists it among those of the mainboard
		m.check(os.MkdirAll(filepath.Join(m.root, "sys/class/hwmon"), 0o755))
		m.check(os.Symlink(c.File(strings.TrimSuffix(c.hwmon, "/")), filepath.Join(m.root, "sys/class", c.hwmon)))
	}
	if c.vendor == "amd" {
		m.topology(c, p)
	}
	return c
}

func (c *card) amd(p *Product, files map[string]string) {
	h := c.hwmon
	bytes := fmt.Sprintln(int64(p.Memory * (1 << 30)))
	maps.Copy(files, map[string]string{
		"revision": c.revision + "\n", "product_name": p.Name + "\n", "mem_info_vram_total": bytes, "mem_info_vis_vram_total": bytes,
		"pp_dpm_sclk": fmt.Sprintf("0: 500Mhz *\n1: %dMhz \n", c.top), "unique_id": fmt.Sprintf("4c1a9f7e0b35d2%02x\n", c.number),
		h + "name": "amdgpu\n", h + "freq1_label": "sclk\n", h + "freq2_label": "mclk\n", h + "power1_label": "PPT\n",
	})
	files["ip_discovery/die/0/12/0/major"] = map[bool]string{true: "4\n", false: "3\n"}[c.oneQueue]
	if c.integrated {
		files["mem_info_gtt_total"] = fmt.Sprintln(int64(14 << 30))
	} else {
		files[h+"power1_cap_max"] = fmt.Sprintln(int64(1.15 * p.Limit * 1e6))
	}
	c.files = map[string]kernelFile{
		"util": {"gpu_busy_percent", 1}, "memutil": {"mem_busy_percent", 1}, "used": {"mem_info_vram_used", 1 << 20},
		"power": {h + c.power, 1e6}, "limit": {h + "power1_cap", 1e6}, "temp": {h + "temp1_input", 1000},
		"hotspot": {h + "temp2_input", 1000}, "memtemp": {h + "temp3_input", 1000}, "fan": {h + "pwm1", 2.55},
		"rpm": {h + "fan1_input", 1}, "clock": {h + "freq1_input", 1e6}, "memclock": {h + "freq2_input", 1e6},
	}
	if !c.edge {
		c.files["temp"] = c.files["hotspot"]
		delete(c.files, "hotspot")
	}
	if c.edge {
		files[h+"temp1_label"], files[h+"temp1_crit"] = "edge\n", "100000\n"
	}
	if c.junction {
		files[h+"temp2_label"], files[h+"temp2_crit"] = "junction\n", "110000\n"
		files[h+"temp3_label"], files[h+"temp3_crit"] = "mem\n", "108000\n"
	}
	if p.Fans > 0 {
		files[h+"pwm1_max"], files[h+"pwm1_enable"], files[h+"fan1_max"] = "255\n", "2\n", "3300\n"
	}
	video := []string{"dec"}
	if c.oneQueue {
		video = []string{"enc"}
	}
	c.engines = func(p *process) map[int][]string {
		shader := map[string]string{"graphics": "gfx", "": "compute", "compute": "compute"}
		return map[int][]string{0: {shader[p.Type]}, 2: {"enc"}, 3: video}
	}
}

func (c *card) intel(p *Product, files map[string]string) {
	h := c.hwmon
	c.files = map[string]kernelFile{"clock": {"drm/card%d/gt/gt0/rps_act_freq_mhz", 1}}
	top, reasons := fmt.Sprintln(c.top), []string{"pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc"}
	engines := map[int][]string{0: {"compute"}, 2: {"video"}, 3: {"video"}}
	drawing := "render"
	if c.driver == "xe" {
		c.files["clock"] = kernelFile{"tile0/gt0/freq0/act_freq", 1}
		engines, drawing = map[int][]string{0: {"ccs"}, 2: {"vcs"}, 3: {"vcs"}}, "rcs"
		files["tile0/gt0/freq0/rp0_freq"], files["tile0/gt0/gtidle/name"] = top, "gt0-rc\n"
		files["tile0/gt0/freq0/throttle/status"] = "0\n"
		for _, r := range reasons {
			files["tile0/gt0/freq0/throttle/reason_"+r] = "0\n"
		}
	} else {
		gt := fmt.Sprintf("drm/card%d/gt/gt0/", c.number)
		c.files["clock"] = kernelFile{gt + "rps_act_freq_mhz", 1}
		files[gt+"rps_RP0_freq_mhz"], files[gt+"throttle_reason_status"] = top, "0\n"
		for _, r := range reasons {
			files[gt+"throttle_reason_"+r] = "0\n"
		}
	}
	c.engines = func(p *process) map[int][]string {
		e := maps.Clone(engines)
		if p.Type == "graphics" {
			e[0] = []string{drawing}
		}
		return e
	}
	if c.integrated {
		return
	}
	bytes := fmt.Sprintln(int64(p.Memory * (1 << 30)))
	files[h+"name"] = c.driver + "\n"
	if c.driver == "xe" {
		files["tile0/physical_vram_size_bytes"] = bytes
		for name, label := range map[string]string{"energy1": "card", "power1": "card", "temp2": "pkg", "temp3": "vram"} {
			files[h+name+"_label"] = label + "\n"
		}
		files[h+"temp2_crit"] = "100000\n"
		c.files["temp"], c.files["memtemp"] = kernelFile{h + "temp2_input", 1000}, kernelFile{h + "temp3_input", 1000}
	} else {
		files[fmt.Sprintf("drm/card%d/lmem_total_bytes", c.number)] = bytes
		c.files["temp"] = kernelFile{h + "temp1_input", 1000}
	}
	c.files["limit"] = kernelFile{h + "power1_max", 1e6}
	for f := range p.Fans {
		c.files[fmt.Sprint("rpm ", f)] = kernelFile{fmt.Sprintf("%sfan%d_input", h, f+1), 1}
	}
}

// topology is what the compute driver says of a card.
func (m *machine) topology(c *card, p *Product) {
	node := fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/", c.number+1)
	m.write(node+"gpu_id", fmt.Sprintln(c.kfd()))
	m.write(node+"properties", fmt.Sprintf("simd_count 192\nsimd_per_cu 2\nnum_xcc 1\nvendor_id 4098\nlocation_id %d\ndomain 0\n"+
		"gfx_target_version %d\ndrm_render_minor %d\n", (c.number+1)<<8, c.target(), 128+c.number))
	m.write(node+"mem_banks/0/properties", fmt.Sprintf("heap_type 1\nsize_in_bytes %d\n", int64(p.Memory*(1<<30))))
	m.check(os.MkdirAll(filepath.Join(m.root, "sys/class/kfd/kfd/proc"), 0o755))
}

// kfd is the compute driver's number of the card.
func (c *card) kfd() int { return 4700 + c.number }

func (c *card) display(active bool) {
	state := map[bool][2]string{true: {"enabled\n", "On\n"}, false: {"disabled\n", "Off\n"}}[active]
	output := fmt.Sprintf("drm/card%d/card%d-DP-1/", c.number, c.number)
	c.put(map[string]string{output + "enabled": state[0], output + "dpms": state[1]})
}

// put writes those files that have changed.
func (c *card) put(files map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := files[name]; c.shown[name] != text {
			c.shown[name] = text
			c.Write(c.File(name), text)
		}
	}
}

func (c *card) remove(name string) {
	if _, there := c.shown[name]; there {
		delete(c.shown, name)
		c.Remove(name)
	}
}

// enterState changes whether and how the card answers.
func (c *card) enterState(was, is string) {
	switch was {
	case "asleep":
		c.Wake()
	case "gone", "lost":
		c.Plug()
	case "refuses":
		c.refuse(false)
	}
	switch is {
	case "asleep":
		c.Sleep()
	case "gone", "lost":
		c.Unplug()
	case "refuses":
		c.refuse(true)
	}
}

// refuse makes reading the sensors fail, as while the driver resets the card.
func (c *card) refuse(refuses bool) {
	c.refuses = refuses
	for _, f := range c.files {
		if _, there := c.shown[f.name]; refuses && there {
			c.remove(f.name)
			c.Write(c.File(f.name+"/none"), "")
		} else if !refuses {
			c.Remove(f.name)
		}
	}
	c.remove("gpu_metrics")
}

// held down are the reasons of a story as the drivers have them.
var (
	ofAMD   = map[int]int{4: 0, 32: 36, 64: 44} // by bit of the story's: the bit of gpu_metrics
	ofIntel = map[int]string{4: "pl1", 32: "thermal", 64: "thermal", 8: "prochot", 128: "vr_tdc"}
)

// holdDown says what holds the clocks.
func (c *card) holdDown(bits int) {
	c.throttling = 0
	if c.vendor == "intel" {
		reasons, status := "tile0/gt0/freq0/throttle/reason_", "tile0/gt0/freq0/throttle/status"
		if c.driver == "i915" {
			gt := fmt.Sprintf("drm/card%d/gt/gt0/throttle_reason_", c.number)
			reasons, status = gt, gt+"status"
		}
		files := map[string]string{status: "0\n"}
		for bit, name := range ofIntel {
			if bits&bit != 0 {
				files[status], files[reasons+name] = "1\n", "1\n"
			} else if files[reasons+name] == "" {
				files[reasons+name] = "0\n"
			}
		}
		c.put(files)
		return
	}
	for bit, target := range ofAMD {
		if bits&bit != 0 {
			c.throttling |= 1 << target
		}
	}
}

// metrics is the driver's table, of which all but the reasons is left out: the other files have the rest.
func (c *card) metrics() string {
	size, offset := map[[2]byte]int{{1, 1}: 96, {1, 3}: 120, {1, 6}: 1664, {2, 3}: 152, {3, 0}: 264}[c.table], 112
	t := []byte(strings.Repeat("\xff", size))
	binary.LittleEndian.PutUint16(t, uint16(size))
	t[2], t[3] = c.table[0], c.table[1]
	switch c.table {
	case [2]byte{1, 1}: // bits of this product alone
		binary.LittleEndian.PutUint32(t[68:], uint32(c.throttling|c.throttling>>32))
	case [2]byte{1, 6}, [2]byte{3, 0}: // for how long each has held the clocks
		power, heat := map[byte]int{1: 40, 3: 236}[c.table[0]], map[byte]int{1: 44, 3: 248}[c.table[0]]
		c.throttled++
		for start, bit := range map[int]int{power: 0, heat: 36} {
			count := uint32(500)
			if c.throttling&(1<<bit) != 0 {
				count += uint32(c.throttled)
			}
			binary.LittleEndian.PutUint32(t[start:], count)
		}
	default:
		if c.table[0] == 2 {
			offset = 120
		}
		binary.LittleEndian.PutUint64(t[offset:], c.throttling)
	}
	return string(t)
}

// reportCard writes what the files of a card say at a time of the story.
func (m *machine) reportCard(g int, c *card, elapsed time.Duration) {
	values, passed := m.values[g], elapsed-m.last
	shares := m.spend(c, g, elapsed, passed)
	if state := m.states[g]; state == "gone" || state == "lost" {
		return
	}
	files := map[string]string{}
	busy := 0.0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		what, fan, isFan := strings.Cut(name, " ")
		f, known := c.files[name]
		if isFan && c.vendor == "amd" {
			if f, known = c.files[what]; fan != "0" {
				continue // the driver shows them as one
			}
		}
		if !known && (name != "power" && name != "util" || v.absent != "") {
			continue
		}
		switch {
		case v.absent == "none":
			c.remove(f.name)
			continue
		case v.absent != "":
			files[f.name] = ""
			c.put(map[string]string{f.name: "0\n"})
			m.check(os.Chmod(c.File(f.name), 0))
			delete(files, f.name)
			continue
		}
		value := max(v.value(elapsed, m.random), 0)
		switch {
		case c.vendor == "intel" && name == "power":
			c.joules += value * passed.Seconds()
		case c.vendor == "intel" && name == "util":
			busy = min(value, 100)
		default:
			files[f.name] = fmt.Sprintln(int64(math.Round(value * f.unit)))
		}
		if p := m.story.GPUs[g]; what == "fan" && values["rpm "+fan] == nil && (p.Tachometer == nil || *p.Tachometer) {
			files[c.files["rpm"].name] = fmt.Sprintln(int64(33 * value))
		}
	}
	if values["util"] == nil {
		busy = shares
	}
	switch {
	case c.vendor == "intel":
		m.counters(c, files, busy, passed)
	case c.table[0] != 0:
		files["gpu_metrics"] = c.metrics()
	}
	if !c.refuses {
		c.put(files)
	}
}

// counters are those of Intel's drivers.
func (m *machine) counters(c *card, files map[string]string, busy float64, passed time.Duration) {
	c.idle += (1 - busy/100) * float64(passed.Milliseconds())
	idle := fmt.Sprintln(int64(c.idle))
	if c.driver == "xe" {
		files["tile0/gt0/gtidle/idle_residency_ms"] = idle
	} else {
		files[fmt.Sprintf("drm/card%d/gt/gt0/rc6_residency_ms", c.number)] = idle
	}
	if v := m.values[c.number]["power"]; v == nil || v.absent != "" {
		return
	}
	energy := fmt.Sprintln(int64(c.joules * 1e6))
	if !c.integrated {
		files[c.hwmon+"energy1_input"] = energy
		return
	}
	const domain = "sys/class/powercap/intel-rapl:0:1/" // which is the processor's
	m.write(domain+"name", "uncore\n")
	m.write(domain+"energy_uj", energy)
	m.write(domain+"max_energy_range_uj", "262143328850\n")
}

// hertz is of the counter of time that xe has.
const hertz = 19.2e6

// spend lets the processes of a card work, and opens it for them. It returns the sum of what they
// use of its busiest engine.
func (m *machine) spend(c *card, g int, elapsed, passed time.Duration) (busiest float64) {
	c.clock += hertz * passed.Seconds()
	sums := map[string]float64{}
	here := map[uint32]bool{}
	for i := range m.processes[g] {
		p := &m.processes[g][i]
		id := client{p.PID, p.Name, p.begun}
		if c.spent[id] == nil {
			c.spent[id], c.clients[id] = map[string]float64{}, len(c.clients)+1
		}
		engines := c.engines(p)
		for share, v := range p.values {
			if v == nil || v.absent != "" || p.Type == "rocm" && share == 0 {
				continue
			}
			used := max(v.value(elapsed, m.random), 0) / 100
			for _, engine := range engines[share] {
				c.spent[id][engine] += used * passed.Seconds() * c.rate(engine)
				sums[engine] += 100 * used
			}
		}
		if p.Unlisted {
			continue
		}
		here[p.PID] = true
		m.open(c, p, c.info(p, id))
	}
	for pid := range c.held {
		if !here[pid] {
			delete(c.held, pid)
			folder := filepath.Join(m.root, "sys/class/kfd/kfd/proc", fmt.Sprint(pid))
			m.check(os.RemoveAll(folder))
			delete(m.folders, folder)
		}
	}
	for _, sum := range sums {
		busiest = max(busiest, min(sum, 100))
	}
	return busiest
}

// rate is what an engine's counter has in a second of work: there are two for video, and four for computing.
func (c *card) rate(engine string) float64 {
	rate := 1e9
	if c.driver == "xe" {
		rate = hertz
	}
	return rate * float64(capacity(c.vendor, engine))
}

func capacity(vendor, engine string) int {
	switch {
	case vendor == "intel" && (engine == "video" || engine == "vcs"):
		return 2
	case engine == "ccs":
		return 4
	default:
		return 1
	}
}

// info is what the driver says of a process that has the card open.
func (c *card) info(p *process, id client) string {
	var b strings.Builder
	fmt.Fprintf(&b, "drm-driver:\t%s\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n", c.driver, 100*(c.number+1)+c.clients[id], c.Address)
	if p.Used != "none" && p.Type != "rocm" {
		region := map[string]string{"amdgpu": "vram", "i915": "local0", "xe": "vram0"}[c.driver]
		if c.integrated {
			region = map[string]string{"amdgpu": "vram", "i915": "system0", "xe": "system"}[c.driver]
		}
		kib := int64(num(p.Used) * 1024)
		fmt.Fprintf(&b, "drm-total-%s:\t%d KiB\ndrm-resident-%s:\t%d KiB\n", region, kib, region, kib)
	}
	spent := c.spent[id]
	names := slices.Sorted(maps.Keys(spent))
	if c.vendor == "intel" { // which lists all engines from the beginning
		names = []string{"render", "copy", "video", "compute"}
		if c.driver == "xe" {
			names = []string{"rcs", "bcs", "vcs", "ccs"}
		}
	}
	for _, name := range names {
		switch n := int64(spent[name]); {
		case c.driver == "xe":
			fmt.Fprintf(&b, "drm-cycles-%s:\t%d\ndrm-total-cycles-%s:\t%d\n", name, n, name, int64(c.clock))
		case n > 0 || c.vendor == "intel":
			fmt.Fprintf(&b, "drm-engine-%s:\t%d ns\n", name, n)
		}
		if many := capacity(c.vendor, name); many > 1 {
			fmt.Fprintf(&b, "drm-engine-capacity-%s:\t%d\n", name, many)
		}
	}
	return b.String()
}

// open makes a process have the card open. Of one that is closed to gpuwhy nobody sees what it has open.
func (m *machine) open(c *card, p *process, info string) {
	if p.Type == "rocm" && c.vendor == "amd" {
		c.held[p.PID] = p
		m.write(fmt.Sprintf("sys/class/kfd/kfd/proc/%d/vram_%d", p.PID, c.kfd()), fmt.Sprintln(int64(num(p.Used)*(1<<20))))
	}
	if p.Closed {
		dir := filepath.Join(m.root, "proc", fmt.Sprint(p.PID), "fd")
		if _, err := os.Stat(dir); err != nil {
			m.check(os.MkdirAll(dir, 0o755))
			m.check(os.Chmod(dir, 0))
		}
		return
	}
	m.drm.Open(int(p.PID), 10+c.number, fmt.Sprint("dri/renderD", 128+c.number), info)
	m.opened[p.PID] = append(m.opened[p.PID], 10+c.number)
}

// closeAll ends what processes had open at the reading before.
func (m *machine) closeAll() {
	for pid, all := range m.opened {
		dir := filepath.Join(m.root, "proc", fmt.Sprint(pid))
		for _, n := range all {
			m.check(os.RemoveAll(filepath.Join(dir, "fd", fmt.Sprint(n))))
			m.check(os.RemoveAll(filepath.Join(dir, "fdinfo", fmt.Sprint(n))))
		}
	}
	clear(m.opened)
}
