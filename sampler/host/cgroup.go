package host

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A place is what a process belongs to, by its control groups. A zero field means that it belongs to none.
type place struct {
	container gpu.Container
	pod       gpu.Pod
	unit      gpu.Unit
	job       gpu.Job
	// owner is the user in whose part of the tree (user-<uid>.slice) the process runs, -1 if in none. A rootless container's runtime
	// belongs to that user.
	owner int
	// parent is the control group above the container's. For containerd without systemd it is the namespace ("default").
	parent string
	cut    bool // what is above our own control group is not visible
	inside bool // a path is our own group or below it, where not even the container is visible
}

// parseCgroup parses /proc/<pid>/cgroup of version 1 (a path for each hierarchy), version 2 (one path) or both. If gpuwhy is in a private
// namespace, paths begin at its own group: "/" is that group, "/../docker-4f3a….scope" a sibling of it.
func parseCgroup(text string, private bool) place {
	out := place{owner: -1}
	var chosen int // how much the chosen unit's hierarchy is preferred
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		p := parsePath(fields[2], private)
		// The hierarchies may know different things: Slurm has no group in systemd's hierarchy.
		if out.container.None() {
			out.container, out.parent = p.container, p.parent
		}
		out.pod, out.job = cmp.Or(out.pod, p.pod), cmp.Or(out.job, p.job)
		if out.owner < 0 {
			out.owner = p.owner
		}
		// Units come from systemd: from its own hierarchy, or from the only one.
		rank := 1
		if fields[1] == "name=systemd" || fields[1] == "" {
			rank = 2
		}
		if !p.unit.None() && rank > chosen {
			out.unit, chosen = p.unit, rank
		}
		out.cut = out.cut || p.cut
		out.inside = out.inside || p.inside
	}
	return out
}

// containerID matches a runtime's id of a container, podName the kubelet's group under systemd.
const (
	containerID = `([0-9a-f]{64})`
	podName     = `(?:[a-z-]*-)?kubepods[a-z-]*-pod([0-9A-Fa-f_]{32,36})\.slice`
)

// containerGroups match the names that runtimes give to the groups of containers, after the parent group and a slash; each captures the
// container's id or name. The first match counts. Before a bare id, containerd puts the name of a namespace. If containerd is not
// configured for systemd, it makes the name with ":cri-containerd:" from systemd's name.
var containerGroups = []struct {
	pattern func() *regexp.Regexp
	runtime string
}{
	{lazy.Pattern(`^docker/` + containerID + `$`), gpu.RuntimeDocker},
	{lazy.Pattern(`^libpod_parent/` + containerID + `$`), gpu.RuntimePodman},
	{lazy.Pattern(`^(?:default|k8s\.io|moby)/` + containerID + `$`), gpu.RuntimeContainerd},
	{lazy.Pattern(`/` + containerID + `$`), ""},
	{lazy.Pattern(`/docker-` + containerID + `(?:\.scope)?$`), gpu.RuntimeDocker},
	{lazy.Pattern(`/libpod-(?:payload-)?` + containerID + `(?:\.scope)?$`), gpu.RuntimePodman},
	{lazy.Pattern(`/(?:cri-containerd|nerdctl)-` + containerID + `(?:\.scope)?$`), gpu.RuntimeContainerd},
	{lazy.Pattern(`/crio-` + containerID + `(?:\.scope)?$`), gpu.RuntimeCRIO},
	{lazy.Pattern(`/` + podName + `:cri-containerd:` + containerID + `$`), gpu.RuntimeContainerd},
	{lazy.Pattern(`/lxc\.payload\.(.+)$`), gpu.RuntimeLXC},
	{lazy.Pattern(`/systemd-nspawn@(.+)\.service$`), gpu.RuntimeNspawn},
	{lazy.Pattern(`^lxc(?:\.payload)?/(.+)$`), gpu.RuntimeLXC},
}

var (
	bareID      = lazy.Pattern(`^` + containerID + `$`)
	podSlice    = lazy.Pattern(`^` + podName + `(?::cri-containerd:[0-9a-f]{64})?$`)
	podGroup    = lazy.Pattern(`^pod([0-9A-Fa-f-]{32,36})$`)
	slurmJob    = lazy.Pattern(`^job_([0-9]{1,10})$`)
	slurmStep   = lazy.Pattern(`^step_([0-9A-Za-z+_.-]{1,32})$`)
	slurmAbove  = lazy.Pattern(`^(?:slurm(?:_[^/]*)?|(?:[^/]*_)?slurmstepd\.scope)$`)
	userSlice   = lazy.Pattern(`^user-([0-9]{1,10})\.slice$`)
	userManager = lazy.Pattern(`^user@[0-9]+\.service$`)
	unitName    = lazy.Pattern(`^[^/]+\.(?:service|scope)$`)
)

// maxName is the longest name, in bytes: as long as the kernel allows for groups.
const maxName = 255

// parsePath parses one path from the root to the container. Below the container only a pod counts, since a Kubernetes node can itself be a
// container.
func parsePath(path string, private bool) place {
	out := place{owner: -1}
	path = strings.TrimSuffix(path, " (deleted)")
	if !strings.HasPrefix(path, "/") {
		return out
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	above := 0
	for above < len(segments) && segments[above] == ".." {
		above++
	}
	out.cut = above > 0 || private
	out.inside = private && above == 0
	segments = segments[above:]
	var kubernetes, slurm bool
	for i, s := range segments {
		before := ""
		if i > 0 {
			before = segments[i-1]
		}
		kubernetes = kubernetes || strings.Contains(s, "kubepods") // "kubelet-kubepods.slice" on a node in a container
		slurm = slurm || slurmAbove().MatchString(s)
		if out.pod.None() {
			out.pod.UID = podUID(s, kubernetes || out.cut)
		}
		if out.job.None() && (slurm || out.cut) {
			out.job.ID = number(slurmJob, s)
		} else if !out.job.None() && out.job.Step == "" {
			out.job.Step = submatch(slurmStep, s)
		}
		if !out.container.None() {
			continue
		}
		if out.container = containerOf(s, before, kubernetes); !out.container.None() {
			out.parent = clean(before)
			continue
		}
		out.climb(s)
	}
	return out
}

// climb records the systemd unit, slice and user named by one part of a path.
func (p *place) climb(s string) {
	if strings.HasSuffix(s, ".slice") {
		p.unit.Slice = clean(s)
		if uid := number(userSlice, s); uid > 0 {
			p.owner = uid
		}
		return
	}
	if len(s) > maxName || !unitName().MatchString(s) {
		return
	}
	// Below user@1000.service are the units of that user's service manager.
	if userManager().MatchString(p.unit.Name) {
		p.unit.User = true
	}
	p.unit.Name = clean(s)
}

// containerOf returns the container of a group by the group's name and its parent's.
func containerOf(s, before string, kubernetes bool) gpu.Container {
	if kubernetes && bareID().MatchString(s) {
		return gpu.Container{ID: s} // containerd and Docker name such groups in the same way
	}
	path := before + "/" + s
	for _, group := range containerGroups {
		if m := group.pattern().FindStringSubmatch(path); m != nil && len(m[len(m)-1]) <= maxName {
			return gpu.Container{ID: clean(m[len(m)-1]), Runtime: group.runtime}
		}
	}
	return gpu.Container{}
}

// podUID returns a pod's uid as Kubernetes writes it; the names under systemd have underscores instead of dashes. The uid of a pod from a
// file on the node is a hash.
func podUID(s string, kubernetes bool) string {
	uid := strings.ReplaceAll(submatch(podSlice, s), "_", "-")
	if uid == "" && kubernetes {
		return submatch(podGroup, s)
	}
	return uid
}

func submatch(pattern func() *regexp.Regexp, s string) string {
	if m := pattern().FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

func number(pattern func() *regexp.Regexp, s string) int {
	n, _ := strconv.Atoi(submatch(pattern, s)) // 0 if missing
	return n
}

// fill sets the facts that follow from the place.
func (p *place) fill(f *gpu.ProcessFacts) {
	f.Container = found(p.container, p.inside)
	f.Pod, f.Unit, f.Job = found(p.pod, p.cut), found(p.unit, p.cut), found(p.job, p.cut)
}

// found returns a reading of v, or NotReported if v is none but may be hidden.
func found[T interface{ None() bool }](v T, hidden bool) gpu.Reading[T] {
	if hidden && v.None() {
		return gpu.Reading[T]{}
	}
	return gpu.Of(v)
}
