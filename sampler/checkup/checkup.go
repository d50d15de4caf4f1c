// Package checkup says what a check of a machine is: whether something that gpuwhy needs is there, and how to mend it. The packages that
// know what they need declare their checks. A check changes nothing, and wakes no GPU.
package checkup

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"strconv"
	"time"
)

// A Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	Fine          Verdict = "fine"
	Limited       Verdict = "limited"        // it works, but more could be seen
	NotFine       Verdict = "not fine"       // something does not work until it is mended
	NotApplicable Verdict = "not applicable" // here or with these settings
)

// A Finding is what a check found.
type Finding struct {
	Verdict Verdict
	What    string // what was found, without a capital letter and full stop
	Mend    string // the command or the setting that mends it; empty where there is nothing to mend
	Names   []Name // the names of people, machines and networks in both
}

// A Name is one that does not belong in a report for others.
type Name struct {
	Kind string // "user", "host" or "address"
	Text string
}

// A Check looks at one thing.
type Check struct {
	Name string // what it looks at: "NVIDIA driver"
	Run  func(ctx context.Context) Finding
}

// Good returns a finding without anything to mend.
func Good(what string) Finding { return Finding{Verdict: Fine, What: what} }

// None returns a finding that there is nothing to check.
func None(why string) Finding { return Finding{Verdict: NotApplicable, What: why} }

// Less returns a finding that more could be seen.
func Less(what, mend string) Finding { return Finding{Verdict: Limited, What: what, Mend: mend} }

// Bad returns a finding that must be mended.
func Bad(what, mend string) Finding { return Finding{Verdict: NotFine, What: what, Mend: mend} }

// With returns the finding with names in its texts.
func (f Finding) With(kind string, names ...string) Finding {
	for _, name := range names {
		if name != "" {
			f.Names = append(f.Names, Name{kind, name})
		}
	}
	return f
}

// patience is how long one check may take: files of a hung driver or disk can block forever.
const patience = 10 * time.Second

// Do runs a check. One that does not end in time is not fine.
func (c Check) Do(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := make(chan Finding, 1)
	go func() { found <- c.Run(ctx) }()
	select {
	case f := <-found:
		return f
	case <-ctx.Done():
		select {
		case f := <-found:
			return f
		case <-time.After(time.Second): // a check that minds its context says why
		}
		return Bad("nothing answered within "+patience.String()+": a driver or a disk hangs", "look for messages in the kernel log: sudo dmesg | tail -n 50")
	}
}

// A Machine is the machine as checks see it.
type Machine struct {
	Sysfs, Proc, Dev string                                   // where the kernel has its files; empty where it has none
	User             string                                   // who runs gpuwhy; empty if unknown
	Access           func(path string, write bool) error      // nil: the path may be opened
	Group            func(path string) (name string, ok bool) // the group of a file
	Container        bool
}

// Node finds out whether gpuwhy may open a device file, and which command lets it.
func (m *Machine) Node(path string, write bool) (f Finding, ok bool) {
	err := m.Access(path, write)
	switch {
	case err == nil:
		return Finding{}, true
	case os.IsNotExist(err):
		return Bad("there is no "+path, ""), false
	case m.Container:
		return Bad(path+" may not be opened in this container", "start the container with its devices: docker run --gpus all … (NVIDIA), or --device /dev/dri --group-add \"$(stat -c %g /dev/dri/renderD128)\""), false
	}
	who := cmp.Or(m.User, "gpuwhy")
	mend := "sudo chmod a+rw " + path
	if group, known := m.Group(path); known && group != "root" {
		mend = "sudo usermod -aG " + group + " " + who + ", then start gpuwhy in a new session"
	}
	return Bad(path+" may not be opened by "+who, mend).With("user", m.User), false
}

// GroupName returns the name of a group, or its number.
func GroupName(id uint32) string {
	number := strconv.FormatUint(uint64(id), 10)
	g, err := user.LookupGroupId(number)
	if err != nil {
		return number
	}
	return g.Name
}
