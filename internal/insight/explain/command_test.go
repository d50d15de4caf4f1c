package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// runner returns a living process of alice's that runs a program.
func runner(pid int, program string, sm gpu.Percent, change ...func(*gpu.ProcessFacts)) gpu.Process {
	p := process(pid, "python3", sm)
	p.Facts.Program, p.Facts.Exists = gpu.Of(program), gpu.Of(true)
	for _, c := range change {
		c(&p.Facts)
	}
	return p
}

// commandOf returns the command in the first device's answer.
func commandOf(a explain.Answer) string { return a.Devices[0].Action.Command }

func TestCommand(t *testing.T) {
	unit := func(name string) func(*gpu.ProcessFacts) {
		return func(f *gpu.ProcessFacts) { f.Unit = gpu.Of(gpu.Unit{Name: name, Slice: "system.slice"}) }
	}
	own := func(name, user string) func(*gpu.ProcessFacts) {
		return func(f *gpu.ProcessFacts) {
			f.Unit, f.User = gpu.Of(gpu.Unit{Name: name, Slice: "app.slice", User: true}), gpu.Of(user)
		}
	}
	container := func(runtime, name string) func(*gpu.ProcessFacts) {
		return func(f *gpu.ProcessFacts) {
			c := gpu.Container{ID: strings.Repeat("0123456789abcdef", 4), Runtime: runtime}
			if name != "" {
				c.Name = gpu.Of(name)
			}
			f.Container = gpu.Of(c)
		}
	}
	user := func(name string) func(*gpu.ProcessFacts) {
		return func(f *gpu.ProcessFacts) { f.User = gpu.Of(name) }
	}
	kernel := func(name string) func(*gpu.ProcessFacts) {
		return func(f *gpu.ProcessFacts) { f.Name, f.Program = gpu.Of(name), gpu.Reading[string]{} }
	}
	line := func(command string) func(*gpu.ProcessFacts) {
		return func(f *gpu.ProcessFacts) { f.Command = gpu.Of(command) }
	}
	gone := func(f *gpu.ProcessFacts) { f.Exists = gpu.Reading[bool]{} }
	pod := func(space, name string) func(*gpu.ProcessFacts) {
		return func(f *gpu.ProcessFacts) {
			f.Pod = gpu.Of(gpu.Pod{UID: "u", Namespace: gpu.Of(space), Name: gpu.Of(name)})
		}
	}
	job := func(f *gpu.ProcessFacts) { f.Job = gpu.Of(gpu.Job{ID: 812, Step: "0"}) }
	mps := runner(50, "server", 97)
	mps.Type = gpu.TypeMPS
	for _, tt := range []struct {
		name string
		list []gpu.Process
		want string
	}{
		{"one", []gpu.Process{runner(50, "train.py", 97)}, "sudo kill 50"},
		{"those of one program", []gpu.Process{runner(50, "train.py", 50), runner(51, "train.py", 40)}, "sudo kill 50 51"},
		{"not one that does little", []gpu.Process{runner(50, "train.py", 80), runner(51, "train.py", 12)}, "sudo kill 50"},
		{"not one that does nothing", []gpu.Process{runner(50, "train.py", 97), runner(51, "train.py", 0)}, "sudo kill 50"},
		{"not another's", []gpu.Process{runner(50, "train.py", 50), runner(51, "train.py", 45, user("bob"))}, "sudo kill 50"},
		{"not another program", []gpu.Process{runner(50, "train.py", 50), runner(51, "eval.py", 45)}, "sudo kill 50"},
		{"not of another command", []gpu.Process{runner(50, "train.py", 50, line("a")), runner(51, "train.py", 45, line("b")), runner(52, "train.py", 42, line("a"))},
			"sudo kill 50 52"},
		{"an interpreter is no name", []gpu.Process{runner(50, "python3", 50), runner(51, "python3", 45)}, "sudo kill 50"},
		{"nor is a kernel", []gpu.Process{runner(50, "jupyter kernel", 50), runner(51, "jupyter kernel", 45)}, "sudo kill 50"},
		{"nor what many have", []gpu.Process{runner(50, "main.py", 50), runner(51, "main.py", 45)}, "sudo kill 50"},
		{"nor is the kernel's name", []gpu.Process{runner(50, "", 50, kernel("train")), runner(51, "", 45, kernel("train"))}, "sudo kill 50"},
		{"nor in another session", []gpu.Process{runner(50, "train.py", 50, unit("session-3.scope")), runner(51, "train.py", 45, unit("session-4.scope"))}, "sudo kill 50"},
		{"nor in a container", []gpu.Process{runner(50, "train.py", 50), runner(51, "train.py", 45, container(gpu.RuntimeDocker, "b"))}, "sudo kill 50"},
		{"nor in a pod", []gpu.Process{runner(50, "train.py", 50), runner(51, "train.py", 45, pod("ml", "b"))}, "sudo kill 50"},
		{"nor who may not be alive", []gpu.Process{runner(50, "train.py", 50), runner(51, "train.py", 45, gone)}, "sudo kill 50"},
		{"who may not be alive", []gpu.Process{runner(50, "train.py", 97, gone)}, ""},
		{"the first process", []gpu.Process{runner(1, "train.py", 97)}, ""},
		{"several that may do it", []gpu.Process{runner(50, "train.py", 3), runner(51, "eval.py", 2)}, ""},

		{"a service", []gpu.Process{runner(50, "main.py", 97, unit("comfyui.service"))}, "sudo systemctl stop comfyui.service"},
		{"one of several", []gpu.Process{runner(50, "main.py", 97, unit("comfyui@2.service"))}, "sudo systemctl stop comfyui@2.service"},
		{"a service with an odd name", []gpu.Process{runner(50, "main.py", 97, unit("a;b.service"))}, "sudo kill 50"},
		{"a user's service", []gpu.Process{runner(50, "main.py", 97, own("comfyui.service", "ann"))}, "sudo systemctl --user -M ann@.host stop comfyui.service"},
		{"a user with an odd name", []gpu.Process{runner(50, "main.py", 97, own("comfyui.service", "ann smith"))}, "sudo kill 50"},
		{"root in a user's service", []gpu.Process{runner(50, "main.py", 97, own("comfyui.service", "root"))}, "sudo kill 50"},
		{"a user's desktop", []gpu.Process{runner(50, "main.py", 97, own("org.gnome.Shell@wayland.service", "ann"))}, "sudo kill 50"},

		{"docker", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimeDocker, "trainer"))}, "docker stop trainer"},
		{"podman", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimePodman, "trainer"))}, "podman stop trainer"},
		{"a user's podman", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimePodman, "trainer"), unit("user@1000.service"))}, "podman stop 0123456789ab"},
		{"containerd", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimeContainerd, "trainer"))}, ""},
		{"CRI-O", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimeCRIO, "trainer"))}, ""},
		{"LXC", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimeLXC, "web"))}, "sudo kill 50"},
		{"nspawn", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimeNspawn, "web"))}, "sudo kill 50"},
		{"a runtime that is not known", []gpu.Process{runner(50, "main.py", 97, container("", "trainer"))}, ""},
		{"a container without a name", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimeDocker, ""))}, ""},
		{"an option as a name", []gpu.Process{runner(50, "main.py", 97, container(gpu.RuntimeDocker, "-a"))}, ""},
		{"a pod", []gpu.Process{runner(50, "main.py", 97, pod("ml", "train-0"), container(gpu.RuntimeCRIO, "c"))}, "kubectl delete pod -n ml train-0"},
		{"a job", []gpu.Process{runner(50, "main.py", 97, job, unit("slurmstepd.scope"))}, "scancel 812"},
		{"the server of others' work", []gpu.Process{mps}, ""},
		{"by its name too", []gpu.Process{runner(50, "nvidia-cuda-mps-server", 97)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := commandOf(explain.NewHistory().Add(snapshot(made(working(97, tt.list...))))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	for name := range strings.FieldsSeq("ssh sshd cron crond anacron sddm gdm gdm3 lightdm jupyterhub jupyter slurmd docker containerd kubelet dbus dbus-broker " +
		"systemd-logind getty@tty1 user@1000 display-manager xrdp code-server@ann actions.runner.x snap.docker.dockerd k3s libvirtd supervisor greetd") {
		if got := commandOf(explain.NewHistory().Add(snapshot(made(working(97, runner(50, "hashcat", 97, unit(name+".service"))))))); got != "sudo kill 50" {
			t.Errorf("%s.service: %q", name, got)
		}
	}
	for name := range strings.FieldsSeq("Xorg Xorg.bin X Xwayland cosmic-comp niri kwin_wayland kwin_wayland_wr kwin_wayland_wrapper kwin_x11 labwc river wayfire " +
		"marco muffin compiz gamescope gamescope-wl gamescope-session xfwm4 mutter mutter-x11-fram gnome-shell gnome-session-b plasmashell sddm-greeter gdm " +
		"sway Hyprland cinnamon weston budgie-wm xdg-desktop-por nvidia-cuda-mps systemd qemu-system-x86") {
		if got := commandOf(explain.NewHistory().Add(snapshot(made(working(97, runner(50, name, 97)))))); got != "" {
			t.Errorf("%s: %q", name, got)
		}
		if got := commandOf(explain.NewHistory().Add(snapshot(made(working(97, runner(50, "x.py", 97, kernel(name))))))); got != "" {
			t.Errorf("%s, by the kernel's name: %q", name, got)
		}
	}
}

// What ended processes have left behind goes with a reset, which would end everything that is alive.
func TestReset(t *testing.T) {
	const reset = "sudo nvidia-smi --gpu-reset -i GPU-0"
	alive := runner(7, "train.py", 0)
	ended := gpu.Process{PID: 7, Type: gpu.TypeCompute, Memory: alive.Memory, Facts: gpu.ProcessFacts{Exists: gpu.Of(false)}}
	unseen, unknown := ended, gpu.Process{PID: 8, Type: gpu.TypeGraphics}
	unseen.PID = 9
	holding := func(list ...gpu.Process) func(*gpu.Device) {
		return func(d *gpu.Device) { d.Processes = gpu.Of(list) }
	}
	display := func(d *gpu.Device) { d.Modes.DisplayActive = gpu.Of(true) }
	amd := func(d *gpu.Device) { d.Vendor = gpu.AMD }
	for _, tt := range []struct {
		name          string
		before, after []func(*gpu.Device)
		want, says    string
	}{
		{"seen to end", []func(*gpu.Device){holding(alive)}, []func(*gpu.Device){holding(ended)}, reset, "Leftovers from a process that has ended (pid 7) keep"},
		{"it lives", []func(*gpu.Device){holding(alive)}, []func(*gpu.Device){holding(alive)}, "sudo kill 7", "train.py (pid 7, alice) keeps"},
		{"never seen", []func(*gpu.Device){holding()}, []func(*gpu.Device){holding(ended)}, "", "A process that gpuwhy can't see (pid 7) keeps"},
		{"one that was never seen beside it", []func(*gpu.Device){holding(alive)}, []func(*gpu.Device){holding(ended, unseen)}, "", "Leftovers from a process that has ended (pid 7)"},
		{"with a desktop", []func(*gpu.Device){holding(alive)}, []func(*gpu.Device){holding(ended, shell)}, "", "Leftovers from"},
		{"with somebody", []func(*gpu.Device){holding(alive)}, []func(*gpu.Device){holding(ended, unknown)}, "", "Leftovers from"},
		{"with a display", []func(*gpu.Device){holding(alive)}, []func(*gpu.Device){holding(ended), display}, "", "Leftovers from"},
		{"of another vendor", []func(*gpu.Device){holding(alive), amd}, []func(*gpu.Device){holding(ended), amd}, "", "Leftovers from"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			change := func(all []func(*gpu.Device)) gpu.Device { return made(append([]func(*gpu.Device){held}, all...)...) }
			a := play(t, during(30*time.Second, change(tt.before)), during(30*time.Second, change(tt.after)))
			if got := commandOf(a); got != tt.want || !strings.Contains(a.Sentence, tt.says) {
				t.Errorf("got %q, want %q: %s", got, tt.want, a.Sentence)
			}
			if strings.Contains(a.Devices[0].Action.Text, "--gpu-reset") != (tt.want == reset) {
				t.Errorf("the advice is %q", a.Devices[0].Action.Text)
			}
		})
	}
}

// With several nodes, an action says on which one to run its command.
func TestNodeOfACommand(t *testing.T) {
	busyDevice, idle := made(working(97, runner(50, "train.py", 97))), made()
	one, other := explain.NewHistory().Add(snapshot(busyDevice)), explain.NewHistory().Add(snapshot(idle))
	a := explain.Combine([]explain.Member{{Node: "desk", Answer: &one}, {Node: "other", Answer: &other}})
	const begins = "On desk: End or pause train.py (pid 50, alice)."
	if a.Action.Command != "sudo kill 50" || !strings.HasPrefix(a.Action.Text, begins) || !strings.HasPrefix(a.Devices[0].Action.Text, begins) {
		t.Errorf("got %+v, %+v", a.Action, a.Devices[0].Action)
	}
	if strings.HasPrefix(one.Action.Text, "On") {
		t.Errorf("alone: %+v", one.Action)
	}
}

// Names are not words of a sentence.
func TestNamesAreNoWords(t *testing.T) {
	for name, want := range map[string]string{
		"train.py": "train.py", "jupyter kernel": "jupyter kernel", "jupyter kernel of a.ipynb": "jupyter kernel of a.ipynb",
		"jupyter kernel is fine": "“jupyter kernel is fine”", "jupyter kernel of root is fine.ipynb": "“jupyter kernel of root is fine.ipynb”",
		"jupyter kernels": "“jupyter kernels”", "nothing": "“nothing”", "Nobody": "“Nobody”", "something": "“something”", "vllm serve": "vllm serve",
		"a b": "“a b”", "a\u00a0b": "“a\ufffdb”", "nothing.py": "nothing.py", "x (y)": "“x (y)”",
	} {
		p := runner(5, name, 0)
		if got := explain.ProcessName(&p); got != want+" (pid 5, alice)" {
			t.Errorf("%q: %q", name, got)
		}
	}
	p := runner(5, "x.py", 0, func(f *gpu.ProcessFacts) { f.User = gpu.Of("ann, who is fine") })
	if got := explain.ProcessName(&p); got != "x.py (pid 5, “ann, who is fine”)" {
		t.Errorf("got %q", got)
	}
}

// The command for several processes ends each of them, and nothing else.
func TestEndCommand(t *testing.T) {
	job := func(id int) func(*gpu.ProcessFacts) {
		return func(f *gpu.ProcessFacts) { f.Job = gpu.Of(gpu.Job{ID: id}) }
	}
	for _, tt := range []struct {
		name string
		list []gpu.Process
		want string
	}{
		{"nothing", nil, ""},
		{"one", []gpu.Process{runner(50, "train.py", 97)}, "sudo kill 50"},
		{"one on two GPUs", []gpu.Process{runner(50, "train.py", 97), runner(50, "train.py", 90)}, "sudo kill 50"},
		{"each of several, also one that does nothing", []gpu.Process{runner(50, "train.py", 97), runner(51, "train.py", 0), runner(52, "eval.py", 9)}, "sudo kill 50 51 52"},
		{"a job, once", []gpu.Process{runner(50, "train.py", 97, job(7)), runner(51, "train.py", 90, job(7))}, "scancel 7"},
		{"not two jobs", []gpu.Process{runner(50, "train.py", 97, job(7)), runner(51, "train.py", 90, job(8))}, ""},
		{"not a job and another", []gpu.Process{runner(50, "train.py", 97, job(7)), runner(51, "train.py", 90)}, ""},
		{"not a desktop's shell", []gpu.Process{runner(50, "gnome-shell", 3)}, ""},
		{"nor what is beside it", []gpu.Process{runner(50, "train.py", 97), runner(51, "gnome-shell", 3)}, ""},
	} {
		var list []*gpu.Process
		for i := range tt.list {
			list = append(list, &tt.list[i])
		}
		if got := explain.EndCommand(list); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
