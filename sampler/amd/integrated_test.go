//go:build linux

package amd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

// bc250 is a BC-250, picasso a Ryzen 7 3700U, strixHalo a Ryzen AI Max+ 395, steamDeck a Steam Deck.
func bc250() map[string]string     { return files("amd-bc-250") }
func picasso() map[string]string   { return files("radeon-vega-picasso") }
func strixHalo() map[string]string { return files("radeon-8060s") }
func steamDeck() map[string]string { return files("steam-deck") }

// rx6400 is a desktop card with little memory of its own, in a machine with a lot.
func rx6400() map[string]string {
	return merged(navi31(), map[string]string{
		"device": "0x743f\n", "revision": "0xc7\n",
		"mem_info_vram_total": "4278190080\n", "mem_info_vram_used": "1073741824\n",
		"mem_info_vis_vram_total": "268435456\n", "mem_info_vis_vram_used": "104857600\n",
		"mem_info_gtt_total": "33554432000\n",
	})
}

// mi300a is an Instinct MI300A: a processor with the files of the card MI300X.
func mi300a() map[string]string { return merged(mi300x(), map[string]string{"device": "0x74a0\n"}) }

// raven is a Ryzen 5 2400G: its table has version 2.1, and the driver reports no vddnb for it.
func raven() map[string]string {
	table := newTable(2, 1, 120).Word(108, 0)
	return lacking(merged(picasso(), map[string]string{"device": "0x15dd\n", "revision": "0xc6\n", "gpu_metrics": string(table)}), "in0", "in1")
}

// merged returns files, some of them replaced.
func merged(files, more map[string]string) map[string]string {
	files = maps.Clone(files)
	maps.Copy(files, more)
	return files
}

// lacking returns files without those whose names contain one of the parts.
func lacking(files map[string]string, parts ...string) map[string]string {
	files = maps.Clone(files)
	maps.DeleteFunc(files, func(name, _ string) bool {
		for _, part := range parts {
			if strings.Contains(name, part) {
				return true
			}
		}
		return false
	})
	return files
}

// TestIntegrated checks that each of several signs identifies a processor's GPU, and that a card is never taken for one, however few
// features it has.
func TestIntegrated(t *testing.T) {
	const unknown = "0x2a11\n" // an id of a future product
	processor, card, either := gpu.Of(true), gpu.Of(false), gpu.Reading[bool]{}
	signless := func() map[string]string { // a new processor about which the driver reports the minimum
		return lacking(merged(strixHalo(), map[string]string{"device": unknown}), "gpu_metrics", "in1_", "ip_discovery")
	}
	node := func(lines, memory string) func(*drmtest.Machine) {
		return func(m *drmtest.Machine) {
			kfdNode(m, 1, 4711, "simd_count 16\nsimd_per_cu 2\nvendor_id 4098\nlocation_id 768\ndomain 0\ndrm_render_minor 128\n"+lines, memory)
		}
	}
	for name, tt := range map[string]struct {
		files map[string]string
		more  func(*drmtest.Machine)
		want  gpu.Reading[bool]
	}{
		"Picasso, whose table is empty":          {picasso(), nil, processor},
		"Raven, with a table of version 2.1":     {raven(), nil, processor},
		"BC-250":                                 {bc250(), nil, processor},
		"Strix Halo":                             {strixHalo(), nil, processor},
		"Steam Deck, which has a limit of power": {steamDeck(), nil, processor},
		"Phoenix":                                {phoenix(), nil, processor},
		"Instinct MI300A":                        {mi300a(), nil, processor},

		"by its id alone":    {merged(lacking(strixHalo(), "gpu_metrics", "hwmon", "ip_discovery"), map[string]string{"mem_info_vram_total": "103079215104\n"}), nil, processor},
		"by vddnb alone":     {merged(lacking(picasso(), "gpu_metrics", "freq1", "mem_info_gtt"), map[string]string{"device": unknown}), nil, processor},
		"by its table alone": {merged(lacking(signless(), "freq1"), map[string]string{"gpu_metrics": steamDeck()["gpu_metrics"]}), nil, processor},
		"by a table of a version to come": {
			merged(lacking(signless(), "freq1"), map[string]string{"gpu_metrics": string(newTable(3, 9, 400))}), nil, processor,
		},
		"by the version of its engine": {merged(lacking(signless(), "freq1"), map[string]string{
			"ip_discovery/die/0/11/0/major": "11\n", "ip_discovery/die/0/11/0/minor": "5\n", "ip_discovery/die/0/11/0/revision": "4\n",
		}), nil, processor},
		"by its instruction set":            {lacking(signless(), "freq1"), node("gfx_target_version 90012\n", ""), processor},
		"by the cores beside it":            {lacking(signless(), "freq1"), node("cpu_cores_count 8\n", ""), processor},
		"by the memory that it computes in": {lacking(signless(), "freq1"), node("", "133143986176"), processor},
		"by its memory and its clocks":      {signless(), nil, processor},
		"by nothing":                        {lacking(signless(), "freq1"), nil, either},
		"a large part of the memory set apart": {
			merged(signless(), map[string]string{"mem_info_vram_total": "103079215104\n", "mem_info_gtt_total": "16642998272\n"}), nil, either,
		},

		"Radeon RX 6400":                   {rx6400(), nil, card},
		"Radeon RX 6400 without its table": {lacking(rx6400(), "gpu_metrics"), nil, card},
		"a card of a laptop":               {laptop(), nil, card},
		"the same without its table":       {lacking(laptop(), "gpu_metrics"), nil, card},
		"a card whose table is of a version to come": {
			merged(lacking(rx6400(), "hwmon"), map[string]string{"gpu_metrics": string(newTable(1, 9, 900))}), nil, card,
		},
		"Radeon RX 580":   {polaris(), nil, card},
		"Instinct MI300X": {mi300x(), nil, card},
		"a card of a laptop of which the driver says the least": {
			merged(signless(), map[string]string{"device": "0x743f\n", "mem_info_vram_total": "4278190080\n", "mem_info_gtt_total": "16642998272\n"}), nil, card,
		},
		"a card that computes": {lacking(navi31(), "gpu_metrics"), topology, card},
	} {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			m.Card(0, address, "amdgpu", tt.files)
			if tt.more != nil {
				tt.more(m)
			}
			if d := only(t, newSource(t, m, nil)); d.Shared.Unified != tt.want {
				t.Errorf("unified is %v, want %v", d.Shared.Unified, tt.want)
			}
		})
	}
}

// A known result stays, even if a file fails later.
func TestIntegratedStays(t *testing.T) {
	m, f := drmtest.New(t), &faults{}
	files := merged(lacking(strixHalo(), "gpu_metrics", "in1_", "ip_discovery"), map[string]string{"device": "0x2a11\n"})
	c := m.Card(0, address, "amdgpu", files)
	s := newSource(t, m, f)
	if d := only(t, s); d.Shared.Unified != gpu.Of(true) {
		t.Fatalf("unified is %v", d.Shared.Unified)
	}
	f.set(c.File("mem_info_gtt_total"), syscall.EIO)
	if d := only(t, s); d.Shared.Unified != gpu.Of(true) || d.Shared.Total.Present() {
		t.Errorf("without the size of its memory unified is %v", d.Shared.Unified)
	}
}

// A process's use of the machine's memory counts for a GPU that is part of a processor, but not for a card.
func TestProcessesInTheMachinesMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  gpu.Bytes
	}{
		"Picasso":    {picasso(), 1600 * mib},
		"Steam Deck": {steamDeck(), 1600 * mib},
		"BC-250":     {bc250(), 1600 * mib},
		"RX 6400":    {rx6400(), 64 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			m.Card(0, address, "amdgpu", tt.files)
			m.Open(201, 10, "dri/renderD128", client(2, "drm-memory-vram:\t64 MiB\ndrm-memory-gtt: \t1536 MiB", ran("gfx", time.Second)))
			d := only(t, newSource(t, m, nil))
			if got := d.Processes.Or(nil); len(got) != 1 || got[0].Memory != gpu.Of(tt.want) {
				t.Errorf("it has %+v, want %d bytes", got, tt.want)
			}
		})
	}
}

// A GPU in no slot has no link, whatever the files say about the bus within the chip.
func TestNoSlot(t *testing.T) {
	inChip := map[string]string{
		"current_link_speed": "2.5 GT/s PCIe\n", "current_link_width": "1\n", "max_link_speed": "2.5 GT/s PCIe\n", "max_link_width": "1\n",
	}
	wide := map[string]string{
		"current_link_speed": "16.0 GT/s PCIe\n", "current_link_width": "16\n", "max_link_speed": "16.0 GT/s PCIe\n", "max_link_width": "16\n",
	}
	for name, tt := range map[string]struct {
		files map[string]string
		want  gpu.PCIe
	}{
		"Strix Halo":         {strixHalo(), drm.NoSlot},
		"BC-250":             {merged(bc250(), inChip), drm.NoSlot},
		"Picasso":            {merged(picasso(), wide), drm.NoSlot},
		"Radeon RX 7900 XTX": {navi31(), gpu.PCIe{Generation: gpu.Of(4), MaxGeneration: gpu.Of(4), Width: gpu.Of(16), MaxWidth: gpu.Of(16), Replays: gpu.Of[uint64](3)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			m.Card(0, address, "amdgpu", tt.files)
			if d := only(t, newSource(t, m, nil)); d.PCIe != tt.want {
				t.Errorf("the link is %+v, want %+v", d.PCIe, tt.want)
			}
		})
	}
}

// If the driver does not report the utilization, it is the clients' share of the engines.
func TestUtilizationOfClients(t *testing.T) {
	type machine struct {
		files map[string]string
		errno syscall.Errno // for gpu_busy_percent
	}
	for name, tt := range map[string]machine{
		"the file is refused":                        {bc250(), syscall.EOPNOTSUPP},
		"it is refused as the kernel refuses itself": {bc250(), syscall.Errno(524)},
		"there is none":                              {lacking(bc250(), "gpu_busy_percent"), 0},
		"it is empty":                                {merged(bc250(), map[string]string{"gpu_busy_percent": ""}), 0},
		"there is none, nor a table":                 {lacking(picasso(), "gpu_busy_percent"), 0},
		"of a card":                                  {lacking(polaris(), "gpu_busy_percent"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, f := drmtest.New(t), &faults{}
			c := m.Card(0, address, "amdgpu", tt.files)
			f.set(c.File("gpu_busy_percent"), tt.errno)
			game := func(gfx, compute time.Duration) string {
				return client(2, vram, ran("gfx", gfx), ran("compute", compute))
			}
			m.Open(201, 10, "dri/renderD128", game(time.Minute, 0))
			s := newSource(t, m, f)
			now := func() gpu.Reading[gpu.Percent] { return only(t, s).Utilization.GPU }
			if got := now(); got != (gpu.Reading[gpu.Percent]{}) {
				t.Errorf("the first reading has %v", got)
			}
			after := func(want gpu.Reading[gpu.Percent], what string) {
				t.Helper()
				clockOf(s).Advance(time.Second)
				if got := now(); got != want {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
			m.Open(201, 10, "dri/renderD128", game(time.Minute+900*time.Millisecond, 300*time.Millisecond))
			m.Open(201, 11, "dri/card0", game(time.Minute+900*time.Millisecond, 300*time.Millisecond))     // the same client
			m.Open(202, 5, "dri/renderD128", game(time.Minute+900*time.Millisecond, 300*time.Millisecond)) // inherited
			after(gpu.Of[gpu.Percent](90), "one client")
			m.Open(203, 5, "dri/renderD128", client(3, vram, ran("gfx", time.Second)))
			after(gpu.Reading[gpu.Percent]{}, "beside a process that has not been measured")
			m.Exit(202)
			m.Open(201, 10, "dri/renderD128", game(time.Minute+1300*time.Millisecond, 300*time.Millisecond))
			m.Open(201, 11, "dri/card0", game(time.Minute+1300*time.Millisecond, 300*time.Millisecond))
			m.Open(203, 5, "dri/renderD128", client(3, vram, ran("gfx", 1200*time.Millisecond)))
			after(gpu.Of[gpu.Percent](60), "two clients")
			m.Open(203, 5, "dri/renderD128", client(3, vram, ran("gfx", 2200*time.Millisecond), ran("enc", time.Hour)))
			after(gpu.Of[gpu.Percent](100), "one that works all the time, and has the video engine, too")
			after(gpu.Of[gpu.Percent](0), "at rest")
			m.Exit(201)
			m.Exit(203)
			after(gpu.Of[gpu.Percent](0), "with nobody")
		})
	}
}

// If the driver reports the utilization, it is not derived from clients.
func TestUtilizationOfTheDriver(t *testing.T) {
	m, f := drmtest.New(t), &faults{}
	c := m.Card(0, address, "amdgpu", picasso())
	m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Minute)))
	s := newSource(t, m, f)
	only(t, s)
	m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Minute+900*time.Millisecond)))
	clockOf(s).Advance(time.Second)
	if got := only(t, s).Utilization.GPU; got != gpu.Of[gpu.Percent](41) {
		t.Errorf("the utilization is %v, and the file says 41", got)
	}
	f.set(c.File("gpu_busy_percent"), syscall.EIO)
	clockOf(s).Advance(time.Second)
	if got := only(t, s).Utilization.GPU; got.Quality() != gpu.NotReported {
		t.Errorf("of a file that fails the utilization is %v", got)
	}
}

// While there is work that fdinfo does not show, the utilization is not known.
func TestUtilizationBesideCompute(t *testing.T) {
	const node = "simd_count 80\nsimd_per_cu 2\nvendor_id 4098\nlocation_id 768\ndomain 0\ndrm_render_minor 128\n"
	for name, tt := range map[string]struct {
		files map[string]string
		bytes string // the memory of the compute driver's process on the card
		want  gpu.Reading[gpu.Percent]
	}{
		"with a processor, in the machine's memory": {lacking(bc250(), "gpu_busy_percent"), "0", gpu.Absent[gpu.Percent](gpu.NotSupported)},
		"with a card":                     {lacking(polaris(), "gpu_busy_percent"), fmt.Sprint(512 * mib), gpu.Absent[gpu.Percent](gpu.NotSupported)},
		"with a card, and on another one": {lacking(polaris(), "gpu_busy_percent"), "0", gpu.Of[gpu.Percent](25)},
	} {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			m.Card(0, address, "amdgpu", tt.files)
			kfdNode(m, 1, 4711, node, "")
			m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Minute)))
			kfdUser(m, 205, 4711, tt.bytes)
			s := newSource(t, m, nil)
			only(t, s)
			m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Minute+250*time.Millisecond)))
			clockOf(s).Advance(time.Second)
			snap := read(t, s)
			if got := snap.Devices[0].Utilization.GPU; got != tt.want {
				t.Errorf("the utilization is %v, want %v", got, tt.want)
			}
			if said := slices.ContainsFunc(snap.Notes, func(a gpu.Advice) bool { return a.What == notTold.What }); said == tt.want.Present() {
				t.Errorf("the notes are %v", snap.Notes)
			}
		})
	}
}

// If some processes are hidden, the utilization is not known, and the reason is given.
func TestUtilizationOfHiddenClients(t *testing.T) {
	m, f := drmtest.New(t), &faults{}
	m.Card(0, address, "amdgpu", lacking(bc250(), "gpu_busy_percent"))
	m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Second)))
	f.set(m.Proc+"/201/fdinfo", syscall.EACCES)
	s := newSource(t, m, f)
	only(t, s)
	clockOf(s).Advance(time.Second)
	if got := only(t, s).Utilization.GPU; got.Quality() != gpu.NotPermitted {
		t.Errorf("the utilization is %v", got)
	}
	m.Exit(201)
	m.Open(202, 10, "dri/renderD128", "pos:\t0\npdev:\t"+address+"\ngfx0:\t78%\n") // Linux before 5.19
	clockOf(s).Advance(time.Second)
	if got := only(t, s).Utilization.GPU; got.Quality() != gpu.NotSupported {
		t.Errorf("of an old kernel the utilization is %v", got)
	}
}

func TestProductNames(t *testing.T) {
	for _, tt := range []struct {
		chip, revision uint32
		want           string
	}{
		{0x1586, 0xc1, "AMD Radeon 8060S Graphics"}, {0x1586, 0xd2, "AMD Radeon 8050S Graphics"}, {0x150e, 0xd1, "AMD Radeon 890M Graphics"},
		{0x7590, 0xc0, "AMD Radeon RX 9060 XT"}, {0x7550, 0xc3, "AMD Radeon RX 9070"}, {0x7551, 0xc0, "AMD Radeon AI PRO R9700"},
		{0x744c, 0xc8, "AMD Radeon RX 7900 XTX"}, {0x743f, 0xc7, "AMD Radeon RX 6400"}, {0x13fe, 0, "AMD BC-250"}, {0x74a0, 1, "AMD Instinct MI300A"},
		{0x7590, 0xee, ""}, {0x1638, 0xc4, ""}, {0x1234, 0, ""},
	} {
		if got := tabled(tt.chip, tt.revision); got != tt.want {
			t.Errorf("%04x of revision %02x is %q, want %q", tt.chip, tt.revision, got, tt.want)
		}
	}
	for chip, want := range map[uint32]string{
		0x7590: "AMD Radeon RX 9060 XT/RX 9060 XT LP/RX 9060", 0x1638: "AMD Radeon Graphics (Cezanne)", 0x7551: "AMD Radeon AI PRO R9700/AI PRO R9600D", 0x1234: "",
	} {
		if got := tabledChip(chip); got != want {
			t.Errorf("%04x is %q, want %q", chip, got, want)
		}
	}
	for chip, all := range names { // no two entries of a chip may have the same revision
		seen := map[string]bool{}
		for _, p := range all {
			for r := range strings.FieldsSeq(p.revisions) {
				if seen[r] || len(r) != 2 {
					t.Errorf("%04x: revision %q", chip, r)
				}
				seen[r] = true
			}
		}
	}
}
