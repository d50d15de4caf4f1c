package amd

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// names are product names by the PCI id of their chip, without the leading "AMD Radeon", each with the chip's revisions sold under it. They
// are the products since 2019 in AMD's own list in libdrm (amdgpu.ids). The machine's list, which may be older, is consulted first.
var names = map[uint32][]product{
	0x13c0: {{"Graphics (Granite Ridge)", ""}},
	0x15d8: {{"Vega Graphics (Picasso)", ""}},
	0x15dd: {{"Vega Graphics (Raven Ridge)", ""}},
	0x15e7: {{"Graphics (Barcelo)", ""}},
	0x1636: {{"Graphics (Renoir)", ""}},
	0x1638: {{"Graphics (Cezanne)", ""}},
	0x164c: {{"Graphics (Lucienne)", ""}},
	0x1114: {{"860M Graphics", "c2 d2 e2 e4 e9 ed f2 f9 fc"}, {"840M Graphics", "c3 d3 e5 ea ee f3 fa fd"}},
	0x1506: {{"610M", "c1 c2 c3 c4"}},
	0x150e: {{"890M Graphics", "c1 c5 c6 c7 d1 d3 e1 e3 e4 f1 f3"}, {"880M Graphics", "c4 d2"}},
	0x1586: {{"8060S Graphics", "c1 c3 c6 d1"}, {"8050S Graphics", "c2 c4 d2 d4"}, {"8040S Graphics", "d5"}},
	0x15bf: {{"780M Graphics", "00 02 06 c1 c2 c4 c6 c7 c9 cf d0 d1 d2 d3 d4 d7 d9 da dd"}, {"760M Graphics", "01 03 05 c3 c8 cb cd d5 d6 db dc df f0"}, {"740M Graphics", "07 08 c5 ca cc ce d8 de"}},
	0x15c8: {{"740M Graphics", "c1 c2 c3 c4 c5 c6 c7 c8 d1 d2 d3 d4 d5 d6 d7 d8"}},
	0x164e: {{"610M", "d8 d9 da db dc"}},
	0x1681: {{"680M", "06 0a c7 c8"}, {"660M", "07 0b c9"}},
	0x1900: {{"780M Graphics", "01 03 05 06 b0 b1 b2 b3 b4 b5 b6 b9 ba bb c0 c2 c4 c5 c7 c9 cb cc ce d0 d2 d4 d5 d7 d9 db dc de f0 f1 f2"}, {"760M Graphics", "02 04 07 b7 b8 c1 c3 c6 c8 ca cd cf d1 d3 d6 d8 da dd df"}},
	0x1901: {{"740M Graphics", "c1 c2 c3 c6 c7 c8 c9 ca d1 d2 d3 d4 d5 d6 d7 d8"}},
	0x1902: {{"840M Graphics", "c0 c1 c3 c7 c8 ca d1 d3 d7 d8"}, {"820M Graphics", "c2 c6 c9"}},
	0x66af: {{"VII", "c1"}},
	0x731f: {{"RX 5700 XT", "c1 c5"}, {"RX 5700", "c4"}, {"RX 5600 XT", "ca"}, {"RX 5600M", "c2"}, {"RX 5700M", "c3"}},
	0x7340: {{"RX 5500 XT", "c5"}, {"RX 5500", "c7"}, {"RX 5500M", "c1"}, {"RX 5300M", "c3"}, {"RX 5300", "cf"}},
	0x73a5: {{"RX 6950 XT", "c0"}},
	0x73af: {{"RX 6900 XT", "c0"}},
	0x73bf: {{"RX 6900 XT", "c0"}, {"RX 6800 XT", "c1"}, {"RX 6800", "c3"}},
	0x73df: {{"RX 6700 XT", "c1 c5"}, {"RX 6750 XT", "c0"}, {"RX 6700", "df ff"}, {"RX 6800M", "c2 c3"}, {"RX 6700M", "cf"}, {"RX 6750 GRE 12GB", "d5 e5"}},
	0x73e1: {{"Pro W6600M", "00"}},
	0x73e3: {{"Pro W6600", "00"}},
	0x73ef: {{"RX 6650 XT", "c1"}, {"RX 6800S", "c0"}, {"RX 6700S", "c2"}, {"RX 6650M", "c3"}, {"RX 6650M XT", "c4"}},
	0x73ff: {{"RX 6600 XT", "c1"}, {"RX 6600", "c7"}, {"RX 6600M", "c3"}, {"RX 6600S", "cb"}, {"RX 6600 LE", "cf"}},
	0x743f: {{"RX 6500 XT", "c1"}, {"RX 6400", "c7 d7"}, {"RX 6500M", "c3 c8"}, {"RX 6450M", "ce"}, {"RX 6300M", "cf"}, {"RX 6550M", "d3"}, {"6550S", "cc"}},
	0x7448: {{"Pro W7900", "00"}},
	0x7449: {{"Pro W7800 48GB", "00"}},
	0x744a: {{"Pro W7900 Dual Slot", "00"}},
	0x744b: {{"Pro W7900D", "00"}},
	0x744c: {{"RX 7900 XTX", "c8"}, {"RX 7900 XT", "cc"}, {"RX 7900 GRE", "ce"}, {"RX 7900M", "cf"}},
	0x745e: {{"Pro W7800", "cc"}},
	0x7460: {{"Pro V710", "00"}},
	0x7461: {{"Pro V710 MxGPU", "00"}},
	0x7470: {{"Pro W7700", "00"}},
	0x747e: {{"RX 7800 XT", "c8"}, {"RX 7700 XT", "ff"}, {"RX 7800M", "d8"}, {"RX 7700", "db"}},
	0x7480: {{"RX 7600", "cf"}, {"RX 7600 XT", "c0"}, {"RX 7650 GRE", "c2"}, {"RX 7700S", "c1"}, {"RX 7600S", "c3"}, {"RX 7600M XT", "c7"}, {"Pro W7600", "00"}},
	0x7483: {{"RX 7600M", "cf"}},
	0x7489: {{"Pro W7500", "00"}},
	0x7499: {{"RX 7400", "c0"}, {"RX 7300", "c1"}, {"Pro W7400", "00"}},
	0x7550: {{"RX 9070 XT", "c0"}, {"RX 9070", "c3"}, {"RX 9070 GRE", "c2"}},
	0x7551: {{"AI PRO R9700", "c0"}, {"AI PRO R9600D", "c8"}},
	0x7590: {{"RX 9060 XT", "c0"}, {"RX 9060 XT LP", "c1"}, {"RX 9060", "c7"}, {"RX 9050", "cf"}, {"RX 9050 4GB", "df"}},
}

// A product is a name under which a chip is sold.
type product struct {
	name      string
	revisions string // PCI revisions: "c1 c3"; empty: a name for revisions missing from AMD's list
}

// chips are products whose revisions all have one name.
var chips = map[uint32]string{
	0x13fe: "AMD BC-250",
	0x1435: "AMD Custom GPU 0932",
	0x163f: "AMD Custom GPU 0405",
	0x7481: "AMD Steam Machine",
	0x738c: "AMD Instinct MI100",
	0x7408: "AMD Instinct MI250X",
	0x740c: "AMD Instinct MI250X/MI250",
	0x740f: "AMD Instinct MI210",
	0x74a0: "AMD Instinct MI300A",
	0x74a1: "AMD Instinct MI300X",
	0x74a2: "AMD Instinct MI308X",
	0x74a5: "AMD Instinct MI325X",
	0x74a8: "AMD Instinct MI308X HF",
	0x74a9: "AMD Instinct MI300X HF",
	0x74b5: "AMD Instinct MI300X VF",
	0x74b6: "AMD Instinct MI308X",
	0x74bd: "AMD Instinct MI300X HF",
	0x75a0: "AMD Instinct MI350X",
	0x75a3: "AMD Instinct MI355X",
	0x75b0: "AMD Instinct MI350X VF",
	0x75b3: "AMD Instinct MI355X VF",
}

// listed are the places where AMD's list may be.
var listed = []string{"/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids"}

// nameByID returns the name of a card that has not answered.
func nameByID(c *drm.Card) string {
	for _, file := range listed {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		name := nameIn(f, c.Product, c.Revision)
		_ = f.Close() // it was only read
		if name != "" {
			return branded(name)
		}
	}
	if name := tabled(c.Product, c.Revision); name != "" {
		return name
	}
	if name := c.ListedName(); name != "" {
		return branded(name)
	}
	if name := tabledChip(c.Product); name != "" {
		return name
	}
	return fmt.Sprintf("AMD GPU %04x:%04x", c.Vendor, c.Product)
}

// tabled returns the name of a product in the tables here; "" if they lack it.
func tabled(chip, revision uint32) string {
	wanted := fmt.Sprintf("%02x", revision)
	for _, p := range names[chip] {
		if slices.Contains(strings.Fields(p.revisions), wanted) {
			return radeon + p.name
		}
	}
	return chips[chip]
}

// tabledChip returns the names under which a chip is sold, for a revision that the tables lack: "AMD Radeon RX 9070 XT/RX 9070".
func tabledChip(chip uint32) string {
	all := names[chip]
	if len(all) == 0 {
		return ""
	}
	const most = 3 // a chip with many names has the most common ones first
	sold := make([]string, 0, most)
	for _, p := range all[:min(len(all), most)] {
		sold = append(sold, p.name)
	}
	return radeon + strings.Join(sold, "/")
}

const radeon = "AMD Radeon "

// branded puts the manufacturer's name before the product's.
func branded(name string) string {
	if strings.HasPrefix(name, "AMD") {
		return name
	}
	return "AMD " + name
}

// nameIn finds a product in AMD's list: "744C, C8, AMD Radeon RX 7900 XTX".
func nameIn(list io.Reader, product, revision uint32) string {
	id := func(text string) uint32 {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 16, 32)
		if err != nil {
			return ^uint32(0)
		}
		return uint32(n)
	}
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if part := strings.SplitN(lines.Text(), ",", 3); len(part) == 3 && id(part[0]) == product && id(part[1]) == revision {
			return drm.Clean(part[2])
		}
	}
	return ""
}
