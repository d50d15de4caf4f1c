package amd

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// names are those of products, by the device's id and its revision, from AMD's own list in
// libdrm (amdgpu.ids). A machine that has that list is asked first.
var names = map[[2]uint32]string{
	{0x7340, 0xc5}: "AMD Radeon RX 5500 XT",
	{0x731f, 0xc1}: "AMD Radeon RX 5700 XT",
	{0x73bf, 0xc0}: "AMD Radeon RX 6900 XT",
	{0x73bf, 0xc1}: "AMD Radeon RX 6800 XT",
	{0x73df, 0xc1}: "AMD Radeon RX 6700 XT",
	{0x73ff, 0xc1}: "AMD Radeon RX 6600 XT",
	{0x73ff, 0xc7}: "AMD Radeon RX 6600",
	{0x744c, 0xc8}: "AMD Radeon RX 7900 XTX",
	{0x744c, 0xcc}: "AMD Radeon RX 7900 XT",
	{0x7480, 0xcf}: "AMD Radeon RX 7600",
	{0x66af, 0xc1}: "AMD Radeon VII",
}

// instincts are products of which each revision has one name.
var instincts = map[uint32]string{
	0x738c: "AMD Instinct MI100",
	0x7408: "AMD Instinct MI250X",
	0x740c: "AMD Instinct MI250X/MI250",
	0x740f: "AMD Instinct MI210",
	0x74a0: "AMD Instinct MI300A",
	0x74a1: "AMD Instinct MI300X",
	0x74a5: "AMD Instinct MI325X",
}

// listed are where AMD's list may be.
var listed = []string{"/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids"}

// nameByID is the name of a card that has not answered.
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
	if name, ok := names[[2]uint32{c.Product, c.Revision}]; ok {
		return name
	}
	if name, ok := instincts[c.Product]; ok {
		return name
	}
	if name := c.ListedName(); name != "" {
		return branded(name)
	}
	return fmt.Sprintf("AMD GPU %04x:%04x", c.Vendor, c.Product)
}

// branded has the maker's name before that of the product.
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
