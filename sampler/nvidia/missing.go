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
	// settles is how long a card must be missing from the driver's list: when a card comes, the kernel lists it first.
	settles = 3 * time.Second
	// looksAgain is how often the files about a missing card are read.
	looksAgain = 30 * time.Second
	// goesOn is how long a card may still answer after the log has said that it is broken.
	goesOn = 10 * time.Second
	// recent is how old the word that a card could not be started may be where no driver has the card.
	recent = 24 * time.Hour
)

// An unlisted card is one that the driver should list.
type unlisted struct {
	since time.Time
	kind  gpu.FaultKind // what the kernel's log says of it; empty: nothing
	last  time.Time     // when it said so
}

// facts are what files say of a missing card.
type facts struct {
	broken bool // it is this machine's, or given to this container
	model  string
	uuid   string
}

// looks are what is known of missing cards. Reading the files can wake a card and can hang, so it has a goroutine of
// its own, one at a time.
type looks struct {
	mu    sync.Mutex
	busy  bool
	asked string // the addresses
	at    time.Time
	found map[string]facts // by address
}

// Missing are the cards that the driver should list and does not, as lost devices: what the kernel has bound to the driver and
// does not sleep, and what the suspects of the kernel's log say is broken. devices are those that the driver lists, and known is who a
// card was when it last answered, if it has. It reads no file unless a card is missing, and then every half minute.
//
// A container or a job may see all cards of the machine in /sys, and be given one of them. There a card counts only if this
// process may open its device node. A card without a driver counts only by the log's word, and only if it has not answered since. That
// it could not be started is old after a day, or once the driver had the card: then somebody has taken the driver away.
func (k *Kernel) Missing(now time.Time, cards []Card, devices []gpu.Device, known func(Card) gpu.Identity) []gpu.Device {
	listed := map[string]bool{}
	for i := range devices {
		if devices[i].PCI == "" {
			return nil // which card it is, is not known yet
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

// reason is why a missing card is lost.
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

// look returns what is known of the cards, and finds it out beside the reading.
func (k *Kernel) look(now time.Time, addresses []string) map[string]facts {
	l := &k.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := strings.Join(addresses, " ")
	if !l.busy && (asked != l.asked || now.Sub(l.at).Abs() >= looksAgain) {
		l.busy, l.asked, l.at = true, asked, now
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

// examine reads what there is to know of a card that is missing.
func (k *Kernel) examine(address string) (f facts) {
	c := Card{Address: address, dir: filepath.Join(k.sysfs, "bus/pci/devices", address)}
	if c.read("vendor") != "0x10de" || !strings.HasPrefix(c.read("class"), "0x03") {
		return facts{} // it is not there any more, or no GPU
	}
	driver, _ := os.Readlink(filepath.Join(c.dir, "driver")) // none: it leads nowhere
	if driver = filepath.Base(driver); driver != "nvidia" && driver != "." {
		return facts{} // somebody else has it, such as a virtual machine
	}
	text, _ := os.ReadFile(filepath.Join(k.proc, "driver/nvidia/gpus", address, "information")) // none where the driver has no place for it
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

// given reports whether a card is for us: we may open its device node, or this is the machine itself. Where we may not, it
// is another job's, or for other users.
func (k *Kernel) given(minor string) bool {
	if minor != "" {
		switch err := k.mayOpen(filepath.Join(k.Devices, "nvidia"+minor)); {
		case err == nil:
			return true
		case errors.Is(err, fs.ErrPermission): // EPERM of the control group, EACCES of the file's mode
			return false
		}
	}
	if k.contained() {
		return false
	}
	// With the /proc of the machine in a container, nodes of others alone say that this one is not given.
	nodes, _ := filepath.Glob(filepath.Join(k.Devices, "nvidia[0-9]*"))
	return k.proc == "/proc" || len(nodes) == 0
}

const firstPIDs = "pid:[4026531836]" // the kernel's name of the first namespace of pids

var ofContainers = lazy.Pattern(`(?m)^\d+:[^:]*:(?:/\.\.|.*(?:kubepods|docker[-/]|containerd|libpod|crio-|/lxc|garden|machine\.slice|/slurm|/job_\d))`)

// contained reports whether this is a container or a job of a batch system, as far as its /proc tells.
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
