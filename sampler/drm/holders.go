package drm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

const (
	walkEvery   = 250 * time.Millisecond // readings closer together share a walk
	lookAgain   = 5 * time.Second        // at a process without an open card
	youngFor    = 10 * time.Second       // a process may be about to open one
	mostHolding = 256                    // open card descriptors of one process
)

// Holders finds the processes that have cards open. Sources that share a Holders share its walks over /proc. A walk reads folders and
// links, so it asks no driver and wakes no card.
//
// A process without an open card is checked when it is new, and then every five seconds: if it opens its first card later, it is found with
// that delay.
type Holders struct {
	// Clock is the machine's clock, unless a test replaces it before the first Find.
	Clock clockwork.Clock

	proc, sysfs string

	mu   sync.Mutex
	done chan struct{} // closed when the running walk ends; nil: none is running
	last *Held

	known map[int]*seen // by pid; only a walk uses it
}

// seen is what is remembered about a process between walks.
type seen struct {
	first, looked time.Time
	holds, hidden bool
}

// Held is the result of a walk. It never changes.
type Held struct {
	At time.Time // when the walk began
	// Hidden counts the processes that do not show what they have open, such as other users' processes: that takes root, or CAP_SYS_PTRACE
	// and CAP_DAC_READ_SEARCH. Processes without a card count, too.
	Hidden int
	Err    error // why there was no walk

	byNode map[string][]Descriptor
}

// A Descriptor is a process's open card.
type Descriptor struct {
	PID, Number int
}

// Of returns the open descriptors of a card's nodes.
func (h *Held) Of(nodes ...string) []Descriptor {
	var out []Descriptor
	for _, n := range nodes {
		out = append(out, h.byNode[n]...)
	}
	return out
}

// initialNamespace is the kernel's name for the initial pid namespace.
const initialNamespace = "pid:[4026531836]"

// SeesAll reports whether a procfs shows all processes of the machine, not only a container's: then its first process is in the initial pid
// namespace. A procfs mounted with hidepid=invisible that does not show the first process does not show all either.
func SeesAll(proc string) bool {
	if _, err := os.Lstat(filepath.Join(proc, "1")); errors.Is(err, fs.ErrNotExist) {
		mounts, _ := ReadFile(filepath.Join(proc, "mounts")) // on an error nothing is known
		return !strings.Contains(string(mounts), "hidepid=")
	}
	return HostPIDs(proc)
}

// HostPIDs reports whether the pids in a procfs are the machine's own, as the compute driver uses them, and not a container's.
func HostPIDs(proc string) bool {
	namespace, err := os.Readlink(filepath.Join(proc, "1/ns/pid"))
	return err != nil || namespace == initialNamespace
}

// NewHolders returns a Holders below the roots of procfs and sysfs, such as "/proc" and "/sys".
func NewHolders(proc, sysfs string) *Holders {
	return &Holders{Clock: clockwork.NewRealClock(), proc: proc, sysfs: sysfs, known: map[int]*seen{}}
}

// Find walks /proc, unless a walk has just finished or is running. It waits for the walk for at most wait, and then returns the previous
// walk, or nil if there was none. Many goroutines may call it.
func (h *Holders) Find(wait time.Duration) *Held {
	h.mu.Lock()
	if h.done == nil && (h.last == nil || h.Clock.Since(h.last.At).Abs() >= walkEvery) {
		done := make(chan struct{})
		h.done = done
		go func() {
			held := h.walk()
			h.mu.Lock()
			defer h.mu.Unlock()
			h.last, h.done = held, nil
			close(done)
		}()
	}
	done, last := h.done, h.last
	h.mu.Unlock()
	if done == nil {
		return last
	}
	late := h.Clock.NewTimer(wait)
	defer late.Stop()
	select {
	case <-done:
	case <-late.Chan():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

func (h *Holders) walk() *Held {
	now := h.Clock.Now()
	held := &Held{At: now, byNode: map[string][]Descriptor{}}
	dir, err := os.Open(h.proc)
	if err != nil {
		held.Err = err
		return held
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	held.Err = err
	here := make(map[int]*seen, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 0 {
			continue
		}
		p := h.known[pid]
		if p == nil {
			p = &seen{first: now}
		}
		here[pid] = p
		if p.looked.IsZero() || p.holds || now.Sub(p.looked) >= lookAgain || now.Sub(p.first) < youngFor {
			h.look(held, pid, p)
			p.looked = now
		}
		if p.hidden {
			held.Hidden++
		}
	}
	h.known = here
	for _, all := range held.byNode {
		slices.SortFunc(all, func(a, b Descriptor) int {
			if a.PID != b.PID {
				return a.PID - b.PID
			}
			return a.Number - b.Number
		})
	}
	return held
}

// look finds the cards that a process has open.
func (h *Holders) look(held *Held, pid int, p *seen) {
	fds := filepath.Join(h.proc, strconv.Itoa(pid), "fd")
	dir, err := os.Open(fds)
	p.holds, p.hidden = false, errors.Is(err, fs.ErrPermission)
	if err != nil {
		return // it has ended, or is hidden
	}
	defer dir.Close()
	numbers, err := dir.Readdirnames(-1)
	p.hidden = errors.Is(err, fs.ErrPermission)
	left := mostHolding
	for _, number := range numbers {
		n, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		file := filepath.Join(fds, number)
		target, err := os.Readlink(file)
		if err != nil || left == 0 || !strings.HasPrefix(target, "/dev/dri/") && !anyNode.MatchString(filepath.Base(target)) {
			continue
		}
		node := h.node(file, target)
		if node == "" {
			continue
		}
		p.holds = true
		left--
		held.byNode[node] = append(held.byNode[node], Descriptor{pid, n})
	}
}

// node returns the sysfs name of the card that a descriptor has open; "" for none. A container may have renamed the node, so the device
// number decides if there is one.
func (h *Holders) node(descriptor, target string) string {
	if major, minor, ok := deviceNumber(descriptor); ok {
		link := filepath.Join(h.sysfs, "dev/char", fmt.Sprintf("%d:%d", major, minor))
		if node := linked(link); anyNode.MatchString(node) {
			return node
		}
	}
	if base := filepath.Base(target); anyNode.MatchString(base) {
		return base
	}
	return ""
}
