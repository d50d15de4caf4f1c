package capture

import (
	"net/netip"
	"os"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A Mask replaces the names of people and machines, UUIDs and addresses in the texts of a report, as a capture does. A name gets the same
// replacement everywhere.
type Mask struct{ mask *mask }

// NewMask returns a mask that knows no name yet.
func NewMask() *Mask { return &Mask{newMask(false)} }

// The kinds of names that a report has.
const (
	User    = aUser
	Host    = aHost
	Address = "address"
)

// Learn makes the mask replace a name.
func (m *Mask) Learn(kind, name string) {
	if kind == User {
		m.mask.user(name)
		return
	}
	if name != "localhost" {
		m.mask.replace(kind, name)
	}
}

// LearnHere makes the mask replace the names of this machine and of who runs the program.
func (m *Mask) LearnHere(user string) {
	m.Learn(User, user)
	if host, err := os.Hostname(); err == nil { // without a name, there is nothing to replace
		m.Learn(Host, host)
	}
}

// Addresses of networks, loosely: what looks like one is only replaced if it is one.
var anAddress = lazy.Pattern(`(?i)[0-9a-f]*(?:[0-9a-f]{0,4}:){2,7}[0-9a-f.]*|\b\d{1,3}(?:\.\d{1,3}){3}\b`)

// Text returns a text without names. Addresses of this machine alone, such as 127.0.0.1, stay.
func (m *Mask) Text(text string) string {
	text = m.mask.text(text)
	return anAddress().ReplaceAllStringFunc(text, func(found string) string {
		ip, err := netip.ParseAddr(found)
		if err != nil || ip.IsLoopback() || ip.IsUnspecified() {
			return found
		}
		return m.mask.replace(Address, found)
	})
}
