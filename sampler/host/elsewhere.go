package host

import (
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Files are a process's files in another machine's /proc.
type Files struct {
	Stat, Cgroup string // /proc/<pid>/stat and cgroup
	UID          string // the effective user's id, from /proc/<pid>/status; empty: not known
	// Private means that Cgroup was read in its own control group namespace.
	Private bool
	Boot    time.Time // when the machine booted; zero: not known
}

// Facts returns what the files say: the name, the user (root, or the id), the start, and what the process belongs to. The caller must look
// up the names of its pod and container. The command line and everything that needs two readings are absent, and so is the resident memory,
// which is counted in pages whose size the files don't give.
//
// It returns an error if Stat can't be parsed.
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
