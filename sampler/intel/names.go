package intel

import (
	"fmt"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// A product is what the PCI id says about a GPU: no driver file has its name.
type product struct{ name, architecture string }

// productName returns a GPU's name from the table, otherwise from the machine's own list of PCI ids, otherwise a name with its id.
func productName(c *drm.Card) string {
	name := products[c.Product].name
	if name == "" {
		name = c.ListedName()
	}
	if name == "" {
		name = fmt.Sprintf("GPU 8086:%04x", c.Product)
	}
	return "Intel " + strings.TrimPrefix(name, "Intel ")
}

func architecture(id uint32) gpu.Reading[string] {
	if p, known := products[id]; known {
		return gpu.Of(p.architecture)
	}
	return gpu.Reading[string]{}
}

// discrete are the id ranges of GPUs with their own memory: DG1, the products of Xe-HP, Ponte Vecchio, Alchemist and Battlemage.
var discrete = [][2]uint32{{0x0201, 0x0210}, {0x0b69, 0x0b6e}, {0x0bd0, 0x0be5}, {0x4905, 0x4909}, {0x4f80, 0x4f88},
	{0x5690, 0x56c2}, {0xe200, 0xe2ff}}

// integrated reports whether a GPU is part of a processor. A GPU with an unknown id is if it has the address that all integrated GPUs have.
func integrated(id uint32, address string) bool {
	for _, ids := range discrete {
		if id >= ids[0] && id <= ids[1] {
			return false
		}
	}
	_, known := products[id]
	return known || address == "0000:00:02.0"
}

// The architectures, by Intel's names.
const (
	gen9  = "Gen9"
	gen11 = "Gen11"
	xeLP  = "Xe-LP"
	xeLPG = "Xe-LPG"
	xe2   = "Xe2"
	xe3   = "Xe3"
	xeHPG = "Xe-HPG"
	xeHPC = "Xe-HPC"
)

// products are names by PCI device id, from public lists of ids.
var products = map[uint32]product{
	0x1902: {"HD Graphics 510", gen9},
	0x1906: {"HD Graphics 510", gen9},
	0x190b: {"HD Graphics 510", gen9},
	0x1912: {"HD Graphics 530", gen9},
	0x1916: {"HD Graphics 520", gen9},
	0x191b: {"HD Graphics 530", gen9},
	0x191d: {"HD Graphics P530", gen9},
	0x191e: {"HD Graphics 515", gen9},
	0x1921: {"HD Graphics 520", gen9},
	0x1923: {"HD Graphics 535", gen9},
	0x1926: {"Iris Graphics 540", gen9},
	0x1927: {"Iris Graphics 550", gen9},
	0x192b: {"Iris Graphics 555", gen9},
	0x1932: {"Iris Pro Graphics 580", gen9},
	0x193b: {"Iris Pro Graphics 580", gen9},
	0x3184: {"UHD Graphics 605", gen9},
	0x3185: {"UHD Graphics 600", gen9},
	0x3e90: {"UHD Graphics 610", gen9},
	0x3e91: {"UHD Graphics 630", gen9},
	0x3e92: {"UHD Graphics 630", gen9},
	0x3e93: {"UHD Graphics 610", gen9},
	0x3e94: {"UHD Graphics P630", gen9},
	0x3e96: {"UHD Graphics P630", gen9},
	0x3e98: {"UHD Graphics 630", gen9},
	0x3e9a: {"UHD Graphics P630", gen9},
	0x3e9b: {"UHD Graphics 630", gen9},
	0x3e9c: {"UHD Graphics 610", gen9},
	0x3ea0: {"UHD Graphics 620", gen9},
	0x3ea1: {"UHD Graphics 610", gen9},
	0x3ea5: {"Iris Plus Graphics 655", gen9},
	0x3ea6: {"Iris Plus Graphics 645", gen9},
	0x3ea8: {"Iris Plus Graphics 655", gen9},
	0x3ea9: {"UHD Graphics 620", gen9},
	0x5902: {"HD Graphics 610", gen9},
	0x5906: {"HD Graphics 610", gen9},
	0x590b: {"HD Graphics 610", gen9},
	0x5912: {"HD Graphics 630", gen9},
	0x5916: {"HD Graphics 620", gen9},
	0x5917: {"UHD Graphics 620", gen9},
	0x591b: {"HD Graphics 630", gen9},
	0x591c: {"UHD Graphics 615", gen9},
	0x591d: {"HD Graphics P630", gen9},
	0x591e: {"HD Graphics 615", gen9},
	0x5921: {"HD Graphics 620", gen9},
	0x5923: {"HD Graphics 635", gen9},
	0x5926: {"Iris Plus Graphics 640", gen9},
	0x5927: {"Iris Plus Graphics 650", gen9},
	0x5a84: {"HD Graphics 505", gen9},
	0x5a85: {"HD Graphics 500", gen9},
	0x87c0: {"UHD Graphics 617", gen9},
	0x87ca: {"UHD Graphics 617", gen9},
	0x9b21: {"UHD Graphics 620", gen9},
	0x9b41: {"UHD Graphics", gen9},
	0x9ba4: {"UHD Graphics 610", gen9},
	0x9ba8: {"UHD Graphics 610", gen9},
	0x9bc4: {"UHD Graphics", gen9},
	0x9bc5: {"UHD Graphics 630", gen9},
	0x9bc6: {"UHD Graphics P630", gen9},
	0x9bc8: {"UHD Graphics 630", gen9},
	0x9bca: {"UHD Graphics", gen9},
	0x9bcc: {"UHD Graphics", gen9},
	0x9be6: {"UHD Graphics P630", gen9},
	0x9bf6: {"UHD Graphics P630", gen9},
	0x4555: {"UHD Graphics", gen11},
	0x4571: {"UHD Graphics", gen11},
	0x4e55: {"UHD Graphics", gen11},
	0x4e61: {"UHD Graphics", gen11},
	0x4e71: {"UHD Graphics", gen11},
	0x8a51: {"Iris Plus Graphics G7", gen11},
	0x8a52: {"Iris Plus Graphics G7", gen11},
	0x8a53: {"Iris Plus Graphics G7", gen11},
	0x8a56: {"Iris Plus Graphics G1", gen11},
	0x8a58: {"UHD Graphics G1", gen11},
	0x8a5a: {"Iris Plus Graphics G4", gen11},
	0x8a5c: {"Iris Plus Graphics G4", gen11},
	0x4626: {"Iris Xe Graphics", xeLP},
	0x4628: {"UHD Graphics", xeLP},
	0x4680: {"UHD Graphics 770", xeLP},
	0x4682: {"UHD Graphics 730", xeLP},
	0x4688: {"UHD Graphics 770", xeLP},
	0x4690: {"UHD Graphics 770", xeLP},
	0x4692: {"UHD Graphics 730", xeLP},
	0x4693: {"UHD Graphics 710", xeLP},
	0x46a6: {"Iris Xe Graphics", xeLP},
	0x46a8: {"Iris Xe Graphics", xeLP},
	0x46aa: {"Iris Xe Graphics", xeLP},
	0x46b3: {"UHD Graphics", xeLP},
	0x46c3: {"UHD Graphics", xeLP},
	0x46d0: {"UHD Graphics", xeLP},
	0x46d1: {"UHD Graphics", xeLP},
	0x46d2: {"UHD Graphics", xeLP},
	0x4905: {"Iris Xe MAX Graphics", xeLP},
	0x4906: {"Iris Xe Pod", xeLP},
	0x4908: {"Iris Xe Graphics", xeLP},
	0x4909: {"Iris Xe MAX 100", xeLP},
	0x4c8a: {"UHD Graphics 750", xeLP},
	0x4c8b: {"UHD Graphics 730", xeLP},
	0x4c90: {"UHD Graphics P750", xeLP},
	0x4c9a: {"UHD Graphics", xeLP},
	0x9a40: {"Iris Xe Graphics", xeLP},
	0x9a49: {"Iris Xe Graphics", xeLP},
	0x9a60: {"UHD Graphics", xeLP},
	0x9a68: {"UHD Graphics", xeLP},
	0x9a70: {"UHD Graphics", xeLP},
	0x9a78: {"UHD Graphics G4", xeLP},
	0xa720: {"UHD Graphics", xeLP},
	0xa721: {"UHD Graphics", xeLP},
	0xa780: {"UHD Graphics 770", xeLP},
	0xa782: {"UHD Graphics 730", xeLP},
	0xa788: {"UHD Graphics", xeLP},
	0xa78b: {"UHD Graphics", xeLP},
	0xa7a0: {"Iris Xe Graphics", xeLP},
	0xa7a1: {"Iris Xe Graphics", xeLP},
	0xa7a8: {"UHD Graphics", xeLP},
	0xa7a9: {"UHD Graphics", xeLP},
	0x7d40: {"Graphics", xeLPG},
	0x7d41: {"Graphics", xeLPG},
	0x7dd1: {"Graphics", xeLPG},
	0x7dd5: {"Graphics", xeLPG},
	0x7d45: {"Graphics", xeLPG},
	0x7d51: {"Graphics", xeLPG},
	0x7d55: {"Arc Graphics", xeLPG},
	0x7d67: {"Graphics", xeLPG},
	0x6420: {"Graphics", xe2},
	0x64a0: {"Arc Graphics 130V/140V", xe2},
	0x64b0: {"Graphics", xe2},
	0xb080: {"Arc B390", xe3},
	0xb081: {"Arc B370", xe3},
	0xb082: {"Arc B390", xe3},
	0xb083: {"Arc B370", xe3},
	0xb084: {"Arc Pro B390", xe3},
	0xb08f: {"Graphics", xe3},
	0xb090: {"Graphics", xe3},
	0xb0a0: {"Graphics", xe3},
	0xe209: {"Arc B580", xe2},
	0xe20b: {"Arc B580", xe2},
	0xe20c: {"Arc B570", xe2},
	0xe211: {"Arc Pro B60", xe2},
	0xe212: {"Arc Pro B50", xe2},
	0xe222: {"Arc Pro B65", xe2},
	0xe223: {"Arc Pro B70", xe2},
	0x5690: {"Arc A770M", xeHPG},
	0x5691: {"Arc A730M", xeHPG},
	0x5692: {"Arc A550M", xeHPG},
	0x5693: {"Arc A370M", xeHPG},
	0x5694: {"Arc A350M", xeHPG},
	0x5695: {"Iris Xe MAX A200M", xeHPG},
	0x5696: {"Arc A570M", xeHPG},
	0x5697: {"Arc A530M", xeHPG},
	0x56a0: {"Arc A770", xeHPG},
	0x56a1: {"Arc A750", xeHPG},
	0x56a2: {"Arc A580", xeHPG},
	0x56a5: {"Arc A380", xeHPG},
	0x56a6: {"Arc A310", xeHPG},
	0x56b0: {"Arc Pro A30M", xeHPG},
	0x56b1: {"Arc Pro A40/A50", xeHPG},
	0x56b2: {"Arc Pro A60M", xeHPG},
	0x56b3: {"Arc Pro A60", xeHPG},
	0x56af: {"Arc A760A", xeHPG},
	0x56ba: {"Arc A380E", xeHPG},
	0x56bb: {"Arc A310E", xeHPG},
	0x56bc: {"Arc A370E", xeHPG},
	0x56bd: {"Arc A350E", xeHPG},
	0x56be: {"Arc A750E", xeHPG},
	0x56bf: {"Arc A580E", xeHPG},
	0x56c0: {"Data Center GPU Flex 170", xeHPG},
	0x56c1: {"Data Center GPU Flex 140", xeHPG},
	0x56c2: {"Data Center GPU Flex 170V", xeHPG},
	0x0bd5: {"Data Center GPU Max 1550", xeHPC},
	0x0bd6: {"Data Center GPU Max 1550", xeHPC},
	0x0bd7: {"Data Center GPU Max 1350", xeHPC},
	0x0bd8: {"Data Center GPU Max 1350", xeHPC},
	0x0bd9: {"Data Center GPU Max 1100", xeHPC},
	0x0bda: {"Data Center GPU Max 1100", xeHPC},
	0x0bdb: {"Data Center GPU Max 1100", xeHPC},
}
