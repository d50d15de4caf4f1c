package host

import (
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Files are what the /proc of another machine has of a process.
type Files struct {
	Stat, Cgroup string // /proc/<pid>/stat and cgroup
	UID          string // the effective user's id, from /proc/<pid>/status; empty: not known
	// Private says that Cgroup was read in a control group namespace of its own.
	Private bool
	Boot    time.Time // when the machine was started; zero: not known
}

// Facts returns what the files say: the name, the user (root, or the id), the start, and what the process belongs to. The
// names of its pod and container are for the caller to find. The command line and what needs two readings are
// absent, and so is the resident memory, which is counted in pages of a size that the files don't say.
//
// It returns an error where Stat can't be read.
func (f *Files) Facts() (gpu.ProcessFacts, error) {
	stat, err := parseStat([]byte(f.Stat))
	if err != nil {
		return gpu.ProcessFacts{}, err
	}
	facts := gpu.ProcessFacts{Exists: gpu.Of(true), Name: gpu.Of(clean(stat.comm))}
	if uid, err := strconv.ParseUint(f.UID, 10, 32); err == nil {
		facts.User = gpu.Of(strconv.FormatUint(uid, 10))
		if uid == 0 {
			facts.User = gpu.Of("root")
		}
	}
	if !f.Boot.IsZero() {
		facts.Started = gpu.Of(f.Boot.Add(time.Duration(stat.start) * tick).UTC())
	}
	if f.Cgroup != "" {
		p := parseCgroup(f.Cgroup, f.Private)
		p.fill(&facts)
	}
	return facts, nil
}
