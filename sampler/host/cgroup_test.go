package host

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	anID      = "4f3a9c1e7b25d806f1c4a3b2e5d69788c0a1b2c3d4e5f60718293a4b5c6d7e8f"
	anotherID = "aa11bb22cc33dd44ee55ff66007788990a1b2c3d4e5f60718293a4b5c6d7e8f0"
	aPod      = "0b5e3a1c-6f2d-4c8e-9a71-2d4f6b8c0e13"
)

func container(runtime, id string) gpu.Reading[gpu.Container] {
	return gpu.Of(gpu.Container{ID: id, Runtime: runtime})
}

// whereabouts are the facts about where a process runs.
type whereabouts struct {
	container gpu.Reading[gpu.Container]
	pod       gpu.Reading[gpu.Pod]
	unit      gpu.Reading[gpu.Unit]
	job       gpu.Reading[gpu.Job]
}

func whereaboutsOf(f *gpu.ProcessFacts) whereabouts {
	return whereabouts{f.Container, f.Pod, f.Unit, f.Job}
}

// in makes whereabouts; parts that are not given are known to be none.
func in(parts ...any) whereabouts {
	w := whereabouts{gpu.Of(gpu.Container{}), gpu.Of(gpu.Pod{}), gpu.Of(gpu.Unit{}), gpu.Of(gpu.Job{})}
	for _, part := range parts {
		switch part := part.(type) {
		case gpu.Reading[gpu.Container]:
			w.container = part
		case gpu.Pod:
			w.pod = gpu.Of(part)
		case gpu.Unit:
			w.unit = gpu.Of(part)
		case gpu.Job:
			w.job = gpu.Of(part)
		}
	}
	return w
}

var (
	pod     = gpu.Pod{UID: aPod}
	docker  = container(gpu.RuntimeDocker, anID)
	podman  = container(gpu.RuntimePodman, anID)
	cri     = container(gpu.RuntimeContainerd, anID)
	crio    = container(gpu.RuntimeCRIO, anID)
	unnamed = container("", anID)
)

// places has the result for each file of testdata/cgroup, and the user in whose part of the tree it is.
var places = map[string]struct {
	want  whereabouts
	owner int
}{
	"docker-cgroupfs-v1":   {in(docker), -1},
	"docker-cgroupfs-v2":   {in(docker), -1},
	"docker-systemd-v1":    {in(docker, gpu.Unit{Slice: "system.slice"}), -1},
	"docker-systemd-v2":    {in(docker, gpu.Unit{Slice: "system.slice"}), -1},
	"docker-rootless-v2":   {in(docker, gpu.Unit{Name: "user@1000.service", Slice: "user.slice"}), 1000},
	"docker-parent-v2":     {in(unnamed), -1},
	"docker-in-docker-v2":  {in(docker), -1}, // the outer one, which this machine's Docker knows
	"deleted-v2":           {in(docker, gpu.Unit{Slice: "system.slice"}), -1},
	"podman-cgroupfs-v1":   {in(podman), -1},
	"podman-systemd-v1":    {in(podman, gpu.Unit{Slice: "machine.slice"}), -1},
	"podman-v2":            {in(podman, gpu.Unit{Slice: "machine.slice"}), -1},
	"podman-rootless-v2":   {in(podman, gpu.Unit{Name: "user@1000.service", Slice: "user.slice"}), 1000},
	"podman-quadlet-v2":    {in(podman, gpu.Unit{Name: "llama.service", Slice: "system.slice"}), -1},
	"podman-conmon-v2":     {in(gpu.Unit{Name: "libpod-conmon-" + anID + ".scope", Slice: "machine.slice"}), -1},
	"nerdctl-cgroupfs-v2":  {in(cri), -1},
	"nerdctl-systemd-v2":   {in(cri, gpu.Unit{Slice: "system.slice"}), -1},
	"lxc-v2":               {in(container(gpu.RuntimeLXC, "webserver")), -1},
	"incus-project-v2":     {in(container(gpu.RuntimeLXC, "research_trainer")), -1},
	"lxc-proxmox-v1":       {in(container(gpu.RuntimeLXC, "104")), -1},
	"lxd-v1":               {in(container(gpu.RuntimeLXC, "lab")), -1},
	"nspawn-v2":            {in(container(gpu.RuntimeNspawn, "debian"), gpu.Unit{Slice: "machine.slice"}), -1},
	"systemd-service-v2":   {in(gpu.Unit{Name: "ollama.service", Slice: "system.slice"}), -1},
	"systemd-session-v1":   {in(gpu.Unit{Name: "session-3.scope", Slice: "user-1000.slice"}), 1000},
	"root-v1":              {in(), -1},
	"root-v2":              {in(), -1},
	"empty":                {in(), -1},
	"slurm-v1":             {in(gpu.Job{ID: 280678, Step: "0"}, gpu.Unit{Name: "slurmd.service", Slice: "system.slice"}), -1},
	"slurm-v2":             {in(gpu.Job{ID: 1392969, Step: "0"}, gpu.Unit{Name: "slurmstepd.scope", Slice: "system.slice"}), -1},
	"slurm-batch-v2":       {in(gpu.Job{ID: 1392969, Step: "batch"}, gpu.Unit{Name: "slurmstepd.scope", Slice: "system.slice"}), -1},
	"slurm-multiple-v2":    {in(gpu.Job{ID: 12, Step: "interactive"}, gpu.Unit{Name: "gpu07_slurmstepd.scope", Slice: "system.slice"}), -1},
	"k8s-misconfigured-v2": {in(cri, pod, gpu.Unit{Name: "containerd.service", Slice: "system.slice"}), -1},

	"podman-quadlet-rootless-v2": {in(podman, gpu.Unit{Name: "llama.service", Slice: "app.slice", User: true}), 1000},
	"systemd-user-service-v2":    {in(gpu.Unit{Name: "jupyter.service", Slice: "app.slice", User: true}), 1000},
	"systemd-user-v2": {in(gpu.Unit{
		Name: "vte-spawn-3f9e7a12-5c40-4b6e-8a1d-90c2b7d4e6f5.scope", Slice: "app-org.gnome.Terminal.slice", User: true}), 1000},

	"k8s-besteffort-cgroupfs-v1":    {in(unnamed, pod), -1},
	"k8s-burstable-cgroupfs-v2":     {in(unnamed, pod), -1},
	"k8s-guaranteed-cgroupfs-v2":    {in(unnamed, pod), -1},
	"k8s-crio-cgroupfs-v1":          {in(crio, pod), -1},
	"k8s-besteffort-systemd-v2":     {in(cri, pod, gpu.Unit{Slice: "kubepods-besteffort-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"}), -1},
	"k8s-burstable-systemd-v1":      {in(cri, pod, gpu.Unit{Slice: "kubepods-burstable-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"}), -1},
	"k8s-guaranteed-systemd-v2":     {in(cri, pod, gpu.Unit{Slice: "kubepods-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"}), -1},
	"k8s-burstable-systemd-v2":      {in(cri, pod, gpu.Unit{Slice: "kubepods-burstable-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"}), -1},
	"k8s-guaranteed-cgroupfs-v1":    {in(unnamed, pod), -1},
	"k8s-crio-burstable-systemd-v2": {in(crio, pod, gpu.Unit{Slice: "kubepods-burstable-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"}), -1},
	"k8s-docker-systemd-v2":         {in(docker, pod, gpu.Unit{Slice: "kubepods-burstable-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"}), -1},
	"k8s-crio-systemd-v2":           {in(crio, pod, gpu.Unit{Slice: "kubepods-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"}), -1},
	"k8s-static-pod-v2": {in(cri, gpu.Pod{UID: "8d3cf5b1a0e94762b1c7d9e3f5a80624"},
		gpu.Unit{Slice: "kubepods-burstable-pod8d3cf5b1a0e94762b1c7d9e3f5a80624.slice"}), -1},
	"k8s-kind-v2": {in(container(gpu.RuntimeDocker, anotherID), pod, gpu.Unit{Slice: "system.slice"}), -1},

	// From our own namespace, what is above is not visible, so "none" can't be known.
	"private-own":        {whereabouts{}, -1},
	"private-beside":     {whereabouts{container: docker}, -1},
	"private-pod-beside": {whereabouts{container: crio, pod: gpu.Of(pod), unit: gpu.Of(gpu.Unit{Slice: "kubepods-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"})}, -1},
	"private-same-pod":   {whereabouts{container: cri}, -1},
	"private-host":       {whereabouts{container: gpu.Of(gpu.Container{}), unit: gpu.Of(gpu.Unit{Name: "sshd.service", Slice: "system.slice"})}, -1},
}

func recordedCgroup(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/cgroup", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPlaces(t *testing.T) {
	for name, tt := range places {
		t.Run(name, func(t *testing.T) {
			p := parseCgroup(recordedCgroup(t, name), strings.HasPrefix(name, "private-"))
			var f gpu.ProcessFacts
			p.fill(&f)
			if got := whereaboutsOf(&f); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			if p.owner != tt.owner {
				t.Errorf("owner = %d, want %d", p.owner, tt.owner)
			}
		})
	}
	files, err := os.ReadDir("testdata/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := places[f.Name()]; !ok {
			t.Errorf("nothing is tested of %s", f.Name())
		}
	}
}

// The same through /proc, as a driver's pids are looked up.
func TestDescribeTellsPlaces(t *testing.T) {
	for name, tt := range places {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if strings.HasPrefix(name, "private-") {
				m.link("proc/self/ns/cgroup", "cgroup:[4026532500]")
			} else {
				m.link("proc/self/ns/cgroup", "cgroup:[4026531835]")
			}
			m.process(10, "python", 1000, 200, 0, "python", "train.py")
			m.write("proc/10/cgroup", recordedCgroup(t, name))
			r := m.reader(ShowAll)
			defer r.Close()
			f := facts(t, r, 10)
			if f.Name != gpu.Of("python") || f.User != gpu.Of("alice") || f.Exists != gpu.Of(true) {
				t.Errorf("facts = %+v", f)
			}
			got := whereaboutsOf(&f)
			if c, ok := got.container.Get(); ok { // its name is another test's
				c.Name, c.Image = gpu.Reading[string]{}, gpu.Reading[string]{}
				got.container = gpu.Of(c)
			}
			if got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestPlaceIsReadAgain(t *testing.T) {
	m := newMachine(t)
	m.process(10, "python", 1000, 200, 0, "python")
	r := m.reader(ShowAll)
	if f := facts(t, r, 10); f.Unit != (gpu.Reading[gpu.Unit]{}) || f.Container != (gpu.Reading[gpu.Container]{}) {
		t.Errorf("without a control group: %+v", f)
	}
	m.write("proc/10/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n")
	m.now = m.now.Add(2 * refreshAfter)
	if f := facts(t, r, 10); f.Unit.Or(gpu.Unit{}).Name != "session-3.scope" || f.Container != gpu.Of(gpu.Container{}) {
		t.Errorf("in a session: %+v", f)
	}
	m.write("proc/10/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_extern/user/task_0\n") // adopted
	m.now = m.now.Add(2 * refreshAfter)
	if f := facts(t, r, 10); f.Job != gpu.Of(gpu.Job{ID: 7, Step: "extern"}) {
		t.Errorf("adopted by a job: %+v", f)
	}
}

// This very process: its place can be found, or at least nothing is made up.
func TestOurOwnPlace(t *testing.T) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	f := facts(t, thisMachine(ShowOwn), os.Getpid())
	if c, ok := f.Container.Get(); ok && !c.None() && !strings.Contains(string(text), c.ID) {
		t.Errorf("container %s is not in %s", c.ID, text)
	}
	if u, ok := f.Unit.Get(); ok && !strings.Contains(string(text), u.Name) {
		t.Errorf("unit %s is not in %s", u.Name, text)
	}
	private := thisMachine(ShowOwn).privateCgroups
	if !private && (!f.Container.Present() || !f.Pod.Present() || !f.Unit.Present() || !f.Job.Present()) {
		t.Errorf("all can be seen from here, and is not told: %+v of %s", f, text)
	}
	if f.Exists != gpu.Of(true) || f.Name.Or("") == "" || !f.User.Present() || !f.Started.Present() {
		t.Errorf("facts = %+v", f)
	}
}

// Whatever a path says: every result is part of the path, and is safe to put into the path of a file or a request.
func FuzzCgroup(f *testing.F) {
	files, err := os.ReadDir("testdata/cgroup")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		f.Add(recordedCgroup(f, file.Name()), strings.HasPrefix(file.Name(), "private-"))
	}
	f.Add("0::/../..", true)
	f.Add("0::/lxc/..", false)
	f.Add("1:a:b:c\n::\n0::", false)
	id := regexp.MustCompile(`^[0-9a-f]{64}$`)
	uid := regexp.MustCompile(`^[0-9A-Fa-f-]{32,36}$`)
	f.Fuzz(func(t *testing.T, text string, private bool) {
		p := parseCgroup(text, private)
		if again := parseCgroup(text, private); again != p {
			t.Errorf("read twice: %+v, %+v", p, again)
		}
		byName := p.container.Runtime == gpu.RuntimeLXC || p.container.Runtime == gpu.RuntimeNspawn
		if c := p.container; !c.None() && !byName && (!id.MatchString(c.ID) || !strings.Contains(text, c.ID)) {
			t.Errorf("container %q", c.ID)
		}
		if byName && (strings.Contains(p.container.ID, "/") || len(p.container.ID) > 4*maxName) {
			t.Errorf("container named %q", p.container.ID)
		}
		if !p.pod.None() && !uid.MatchString(p.pod.UID) {
			t.Errorf("pod %q", p.pod.UID)
		}
		if p.job.ID < 0 || p.owner < -1 || p.job.None() && p.job.Step != "" {
			t.Errorf("job %+v, owner %d", p.job, p.owner)
		}
		if p.container.None() {
			return
		}
		for _, w := range (&containerKey{p.container.ID, p.container.Runtime, p.parent, p.owner, !p.pod.None()}).ways("") {
			if path.Clean(w.path) != w.path || strings.ContainsAny(w.path, "\x00\n") {
				t.Errorf("would look at %q", w.path)
			}
		}
	})
}
