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
	walkEvery   = 250 * time.Millisecond // readings that come sooner share a walk
	lookAgain   = 5 * time.Second        // at a process that has no card open
	youngFor    = 10 * time.Second       // a process may be about to open one
	mostHolding = 256                    // descriptors of cards that a process has open
)

// Holders finds the processes that have cards open. Sources that share one share its walks
// over /proc. A walk reads folders and links, so it asks no driver and wakes no card.
//
// Processes without an open card are looked at when they are new, and then every five
// seconds: a process that opens its first card late is found that much later.
type Holders struct {
	// Clock is what it knows the time by: the machine's, unless it is changed before the first Find.
	Clock clockwork.Clock

	proc, sysfs string

	mu   sync.Mutex
	done chan struct{} // closed when the walk that is under way ends; nil: none is
	last *Held

	known map[int]*seen // by pid; only a walk uses it
}

// seen is what is remembered of a process from walk to walk.
type seen struct {
	first, looked time.Time
	holds, hidden bool
}

// Held is what a walk found. It never changes.
type Held struct {
	At time.Time // when the walk began
	// Hidden is how many processes do not show what they have open, as those of other
	// users do not: it takes root, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH. Those without a card count, too.
	Hidden int
	Err    error // why there was no walk

	byNode map[string][]Descriptor
}

// A Descriptor is an open card of a process.
type Descriptor struct {
	PID, Number int
}

// Of are the descriptors of a card's nodes.
func (h *Held) Of(nodes ...string) []Descriptor {
	var out []Descriptor
	for _, n := range nodes {
		out = append(out, h.byNode[n]...)
	}
	return out
}

// initialNamespace is what the kernel calls the first namespace of pids.
const initialNamespace = "pid:[4026531836]"

// SeesAll reports whether a procfs has all processes of the machine, and not those of a
// container alone: then its first process is in the first namespace of pids. Nor has it all
// where it was mounted with hidepid=invisible, and does not show the first process.
func SeesAll(proc string) bool {
	if _, err := os.Lstat(filepath.Join(proc, "1")); errors.Is(err, fs.ErrNotExist) {
		mounts, _ := ReadFile(filepath.Join(proc, "mounts")) // without it nothing is known
		return !strings.Contains(string(mounts), "hidepid=")
	}
	return HostPIDs(proc)
}

// HostPIDs reports whether the pids of a procfs are the machine's own, as the compute driver
// has them, and not those of a container.
func HostPIDs(proc string) bool {
	namespace, err := os.Readlink(filepath.Join(proc, "1/ns/pid"))
	return err != nil || namespace == initialNamespace
}

// NewHolders returns holders below the roots of procfs and sysfs, such as "/proc" and "/sys".
func NewHolders(proc, sysfs string) *Holders {
	return &Holders{Clock: clockwork.NewRealClock(), proc: proc, sysfs: sysfs, known: map[int]*seen{}}
}

// Find walks /proc, unless a walk has just been made or is under way. It waits for that as
// long as it may, and then returns the walk before, which is nil where there was none.
// Many goroutines may call it.
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
		to, err := os.Readlink(file)
		if err != nil || left == 0 || !strings.HasPrefix(to, "/dev/dri/") && !anyNode.MatchString(filepath.Base(to)) {
			continue
		}
		node := h.node(file, to)
		if node == "" {
			continue
		}
		p.holds = true
		left--
		held.byNode[node] = append(held.byNode[node], Descriptor{pid, n})
	}
}

// node is the name in sysfs of the card that a descriptor has open; "" for none. A container
// may have given it another name, so that the number of the device counts where there is one.
func (h *Holders) node(descriptor, to string) string {
	if major, minor, ok := deviceNumber(descriptor); ok {
		link := filepath.Join(h.sysfs, "dev/char", fmt.Sprintf("%d:%d", major, minor))
		if node := linked(link); anyNode.MatchString(node) {
			return node
		}
	}
	if base := filepath.Base(to); anyNode.MatchString(base) {
		return base
	}
	return ""
}
