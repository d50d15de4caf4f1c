package drm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// pciIDs are the files where distributions keep the list of PCI ids.
var pciIDs = []string{"/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids", "/usr/share/pci.ids"}

// ListedName returns the card's name in the machine's own list of PCI ids, "" if the machine has no such list or the list lacks the card.
// It reads the list each time, which takes some milliseconds.
func (c *Card) ListedName() string {
	for _, file := range pciIDs {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		name := nameIn(f, c.Vendor, c.Product)
		_ = f.Close() // it was only read
		if name != "" {
			return name
		}
	}
	return ""
}

// nameIn finds a device in a list of PCI ids. If a chip is sold under several names, they are in brackets: "Navi 31 [Radeon RX 7900 XT/7900
// XTX]".
func nameIn(list io.Reader, vendor, product uint32) string {
	ofVendor, ofProduct := fmt.Sprintf("%04x ", vendor), fmt.Sprintf("\t%04x ", product)
	found := false
	for lines := bufio.NewScanner(list); lines.Scan(); {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#' || strings.HasPrefix(line, "\t\t"):
		case line[0] != '\t':
			if found {
				return ""
			}
			found = strings.HasPrefix(line, ofVendor)
		case found && strings.HasPrefix(line, ofProduct):
			name := line[len(ofProduct):]
			if begin, end := strings.Index(name, "["), strings.LastIndex(name, "]"); begin >= 0 && end > begin+1 {
				name = name[begin+1 : end]
			}
			return Clean(name)
		}
	}
	return ""
}
