package nvidia

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

const (
	// settles is how long a card must be missing from the driver's list: the kernel lists a new card before the driver does.
	settles = 3 * time.Second
	// looksAgain is the time between two looks at the files about a missing card.
	looksAgain = 30 * time.Second
	// goesOn is how long a card may still answer after the log has reported it as broken.
	goesOn = 10 * time.Second
	// recent is how old a log line that says a card could not be started may be if no driver has the card.
	recent = 24 * time.Hour
)

// An unlisted card is one that the driver should list but does not.
type unlisted struct {
	since time.Time
	kind  gpu.FaultKind // what the kernel log reports about it; empty: nothing
	last  time.Time     // when it was logged
}

// facts are what files say about a missing card.
type facts struct {
	broken bool // it belongs to this machine, or was given to this container
	model  string
	uuid   string
}

// looks holds what is known about missing cards. Reading the files can wake a card and can hang, so each look runs on its own goroutine,
// one at a time.
type looks struct {
	mu     sync.Mutex
	busy   bool
	asked  string // the addresses
	looked time.Time
	found  map[string]facts // by address
}

// Missing returns the cards that the driver should list but does not, as lost devices: cards that the kernel has bound to the driver and
// that are awake, and cards that the kernel log reports as broken. devices are the devices that the driver lists; known is the card's
// identity when it last answered, if it ever did. Missing reads no file unless a card is missing, and then once every half minute.
//
// A container or a job may see all cards of the machine in /sys although only some were given to it. There a card counts only if this
// process may open its device node. A card without a driver counts only if the log reports it, and only if it has not answered since. A log
// line that says a card could not be started expires after a day, or once the driver has had the card: then somebody removed the driver.
func (k *Kernel) Missing(now time.Time, cards []Card, devices []gpu.Device, known func(Card) gpu.Identity) []gpu.Device {
	listed := map[string]bool{}
	for i := range devices {
		if devices[i].PCI == "" {
			return nil // it is not yet known which card it is
		}
		listed[devices[i].PCI] = true
		if devices[i].State == gpu.StateOK {
			k.answered[devices[i].PCI] = now
		}
	}
	all, bound := map[string]unlisted{}, map[string]bool{}
	for _, c := range cards {
		bound[c.Address], k.had[c.Address] = true, true
		if !listed[c.Address] && !c.Asleep() {
			all[c.Address] = unlisted{}
		}
	}
	if k.Suspects != nil {
		for _, s := range k.Suspects() {
			if !listed[s.PCI] && k.answered[s.PCI].Sub(s.Last) <= goesOn {
				all[s.PCI] = unlisted{kind: s.Kind, last: s.Last}
			}
		}
	}
	for address, m := range all {
		if m.since = k.missing[address].since; m.since.IsZero() {
			m.since = now
		}
		all[address] = m
	}
	if k.missing = all; len(all) == 0 {
		return nil
	}
	addresses := make([]string, 0, len(all))
	for address := range all {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	found := k.look(now, addresses)
	var out []gpu.Device
	for _, address := range addresses {
		m := all[address]
		is, seen := found[address]
		taken := !bound[address] && m.kind != gpu.FaultOffBus && (m.kind == "" || k.had[address] || m.since.Sub(m.last) > recent)
		certain := m.kind == gpu.FaultOffBus || m.kind != "" && bound[address]
		if !seen || !is.broken || taken || !certain && now.Sub(m.since) < settles {
			continue
		}
		c := Card{Address: address, dir: filepath.Join(k.sysfs, "bus/pci/devices", address)}
		id := known(c)
		if id.UUID == gpu.UUIDAt(address) { // it has never answered
			if id.PCI = address; is.model != "" {
				id.Name = is.model
			}
			if is.uuid != "" {
				id.UUID = is.uuid
			}
		}
		d := gpu.Device{Identity: id}
		why, since := m.reason(address), m.since
		if !m.last.IsZero() {
			since = m.last
		}
		d.Enter(gpu.StateLost, since.UTC(), why)
		out = append(out, d)
	}
	return out
}

// reason says why a missing card is lost.
func (m *unlisted) reason(address string) gpu.Advice {
	if m.kind != "" {
		what, try := m.kind.Meaning()
		return gpu.Advice{What: "the kernel log says about the card at " + address + ": " + what, Try: strings.ToLower(try[:1]) + strings.TrimSuffix(try[1:], "."), Err: gpu.ErrNotListed}
	}
	return gpu.Advice{
		What: "the driver does not list the card at " + address + ", although the kernel has bound it to the driver",
		Try:  "if an administrator has drained it (nvidia-smi drain), it comes back when that ends; otherwise the driver could not start the card, or has lost it: look for NVRM and Xid lines in the kernel log (dmesg), check the card's power cables and seating, and power-cycle the machine",
		Err:  gpu.ErrNotListed,
	}
}

// look returns what is known about the cards, and starts a new look in the background.
func (k *Kernel) look(now time.Time, addresses []string) map[string]facts {
	l := &k.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := strings.Join(addresses, " ")
	if !l.busy && (asked != l.asked || now.Sub(l.looked).Abs() >= looksAgain) {
		l.busy, l.asked, l.looked = true, asked, now
		go func() {
			found := make(map[string]facts, len(addresses))
			for _, address := range addresses {
				found[address] = k.examine(address)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.busy, l.found = false, found
		}()
	}
	return l.found
}

var informs = lazy.Pattern(`(?m)^(Model|GPU UUID|Device Minor|GPU Excluded):[ \t]*(.*?)[ \t]*$`)

// examine reads everything about a missing card.
func (k *Kernel) examine(address string) (f facts) {
	c := Card{Address: address, dir: filepath.Join(k.sysfs, "bus/pci/devices", address)}
	if c.read("vendor") != "0x10de" || !strings.HasPrefix(c.read("class"), "0x03") {
		return facts{} // it is gone, or not a GPU
	}
	driver, _ := os.Readlink(filepath.Join(c.dir, "driver")) // on an error there is no driver
	if driver = filepath.Base(driver); driver != "nvidia" && driver != "." {
		return facts{} // somebody else has it, for example a virtual machine
	}
	text, _ := os.ReadFile(filepath.Join(k.proc, "driver/nvidia/gpus", address, "information")) // missing if the driver has no folder for it
	minor, excluded := "", false
	for _, m := range informs().FindAllStringSubmatch(string(text), -1) {
		switch m[1] {
		case "Model":
			if model, ok := Text(m[2]); ok && !strings.Contains(model, "Unknown") {
				f.model = model
			}
		case "GPU UUID":
			if IsUUID(m[2]) && !strings.Contains(m[2], "?") {
				f.uuid = m[2]
			}
		case "Device Minor":
			minor = m[2]
		case "GPU Excluded":
			excluded = strings.EqualFold(m[2], "Yes")
		}
	}
	f.broken = !excluded && k.given(minor)
	return f
}

// given reports whether a card was given to this process: the process may open its device node, or is not in a container. Otherwise the
// card belongs to another job or to other users.
func (k *Kernel) given(minor string) bool {
	if minor != "" {
		switch err := k.mayOpen(filepath.Join(k.Devices, "nvidia"+minor)); {
		case err == nil:
			return true
		case errors.Is(err, fs.ErrPermission): // EPERM: the control group; EACCES: the file mode
			return false
		}
	}
	if k.contained() {
		return false
	}
	// A container with the machine's /proc: only the nodes of other cards show that this card was not given to it.
	nodes, _ := filepath.Glob(filepath.Join(k.Devices, "nvidia[0-9]*"))
	return k.proc == "/proc" || len(nodes) == 0
}

const firstPIDs = "pid:[4026531836]" // the kernel's name for the initial pid namespace

var ofContainers = lazy.Pattern(`(?m)^\d+:[^:]*:(?:/\.\.|.*(?:kubepods|docker[-/]|containerd|libpod|crio-|/lxc|garden|machine\.slice|/slurm|/job_\d))`)

// contained reports whether this is a container or a batch job, as far as its /proc shows.
func (k *Kernel) contained() bool {
	for _, process := range []string{"1", "self"} {
		dir := filepath.Join(k.proc, process)
		if namespace, err := os.Readlink(filepath.Join(dir, "ns/pid")); err == nil && namespace != firstPIDs {
			return true
		}
		if group, err := os.ReadFile(filepath.Join(dir, "cgroup")); err == nil && ofContainers().MatchString(string(group)) {
			return true
		}
	}
	if k.proc != "/proc" {
		return false
	}
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}
