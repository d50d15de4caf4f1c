package explain

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// command returns the exact command that would end a cause. A wrong one is worse than none, so it is empty if the command would also end
// something else, or may not work.
func (d *device) command(kind Kind, what string) string {
	switch {
	case gpu.KindOf(d.Source) != gpu.Live: // nothing of it can be stopped
	case kind == Work && len(d.culprits) > 0 && !d.hidden() && d.blame() > Low:
		return stopping(d.named(), d.part)
	case kind == HeldAwake && (what == caseHolder || what == caseLightUser) && len(d.holders()) > 0:
		return stopping(d.holders(), memoryOf)
	case kind == HeldAwake && what == casePersistence:
		return "sudo nvidia-smi -pm 1"
	case kind == NeedsAction && what == string(gpu.FaultNeedsReset) && d.resets() && d.free() && d.doing == resting:
		return "sudo nvidia-smi --gpu-reset -i " + d.UUID
	case kind == HeldAwake && what == caseLeftBehind:
		return "sudo nvidia-smi --gpu-reset -i " + d.UUID
	}
	return ""
}

// free reports whether no living process, or one that may be alive, and no display uses a device.
func (d *device) free() bool {
	list, listed := d.AllProcesses()
	return listed && !d.Modes.DisplayActive.Or(false) &&
		!slices.ContainsFunc(list, func(p gpu.Process) bool { return !gone(&p) || !d.m.sawAlive(&p) && !p.Facts.Name.Present() })
}

// resets reports whether nvidia-smi can reset a device.
func (d *device) resets() bool {
	return d.Vendor == gpu.NVIDIA && strings.HasPrefix(d.UUID, "GPU-") && plainName().MatchString(d.UUID)
}

// plainName matches a name that a shell takes literally and that is not an option.
var plainName = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9_.@:-]*$`)

// stopping returns the command that ends the first of some processes, together with those that do the same and have a good part of the
// work. part returns a process's part of the work or the memory.
func stopping(list []*gpu.Process, part func(*gpu.Process) float64) string {
	first := list[0]
	if gone(first) || staysUp(first) {
		return ""
	}
	f := &first.Facts
	pod, container, job, unit := f.Pod.Or(gpu.Pod{}), f.Container.Or(gpu.Container{}), f.Job.Or(gpu.Job{}), f.Unit.Or(gpu.Unit{})
	name, space := pod.Name.Or(""), pod.Namespace.Or("")
	switch {
	case !pod.None():
		if plainName().MatchString(name) && plainName().MatchString(space) {
			return "kubectl delete pod -n " + space + " " + name
		}
		return ""
	case container.Runtime == gpu.RuntimeLXC, container.Runtime == gpu.RuntimeNspawn: // a whole operating system
	case !container.None():
		return stopContainer(&container, &unit)
	case !job.None():
		return "scancel " + strconv.Itoa(job.ID)
	case isTheWork(&unit) && !unit.User:
		return "sudo systemctl stop " + unit.Name
	case isTheWork(&unit) && loginName().MatchString(f.User.Or("")) && f.User.Or("") != "root":
		// The user is named because another user may have a unit of the same name.
		return "sudo systemctl --user -M " + f.User.Or("") + "@.host stop " + unit.Name
	}
	if !f.Exists.Or(false) || first.PID <= 1 {
		return "" // in this namespace the pid may belong to another process
	}
	// With sudo, because the process's user is known but the reader of this command is not.
	command := "sudo kill " + strconv.Itoa(first.PID)
	if !identifies(f.Program.Or("")) {
		return command
	}
	for _, p := range list[1:] {
		if p.PID > 1 && p.PID != first.PID && p.Facts.Exists.Or(false) && sameWork(&p.Facts, f) && part(p)*5 >= part(first)*2 {
			command += " " + strconv.Itoa(p.PID)
		}
	}
	return command
}

// EndCommand returns the command that ends processes of one machine: all of them, and nothing else. It is empty if there is no such
// command, for example for a part of a desktop, which nobody should be told to end.
func EndCommand(list []*gpu.Process) string {
	var command string
	var pids []string
	for _, p := range list {
		one := stopping([]*gpu.Process{p}, func(*gpu.Process) float64 { return 1 })
		if pid, isKill := strings.CutPrefix(one, "sudo kill "); isKill {
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
			continue
		}
		if one == "" || command != "" && one != command {
			return ""
		}
		command = one
	}
	switch {
	case len(pids) == 0:
		return command
	case command != "":
		return ""
	}
	return "sudo kill " + strings.Join(pids, " ")
}

// stopContainer returns the command that stops a container, for runtimes that report the container's own name and can stop it by that name.
// It is empty for containerd, whose containers belong to several tools, and for CRI-O, whose containers belong to the kubelet.
func stopContainer(c *gpu.Container, u *gpu.Unit) string {
	name := c.Name.Or("")
	if u.User || strings.HasPrefix(u.Name, "user@") { // a user's own runtime; another user's may have a container of that name
		name = c.ID[:min(len(c.ID), 12)]
	}
	if !plainName().MatchString(name) {
		return ""
	}
	switch c.Runtime {
	case gpu.RuntimeDocker:
		return "docker stop " + name
	case gpu.RuntimePodman:
		return "podman stop " + name
	}
	return ""
}

// sameWork reports whether two processes run the same program, with the same command if known, for the same user, in the same place.
func sameWork(a, b *gpu.ProcessFacts) bool {
	x, known := a.Command.Get()
	y, too := b.Command.Get()
	return a.Program.Or("") == b.Program.Or("") && a.User.Present() && a.User == b.User && (!known || !too || x == y) &&
		a.Pod == b.Pod && a.Container == b.Container && a.Job.Or(gpu.Job{}).ID == b.Job.Or(gpu.Job{}).ID && a.Unit == b.Unit
}

// names makes a case-insensitive pattern of names, in which * matches anything.
func names(list string) func() *regexp.Regexp {
	text := regexp.QuoteMeta(strings.Join(strings.Fields(list), "|"))
	text = strings.NewReplacer(`\*`, ".*", `\|`, "|").Replace(text)
	return lazy.Pattern("(?i)^(?:" + text + ")$")
}

// notOne matches programs whose processes each run something different, and names that many programs share.
var notOne = names(`
	python* pypy* ipython* bpython ptpython perl* ruby* php* lua* node* julia* java javaw deno bun tsx ts-node npx bunx r rscript
	bash sh dash zsh ksh ash rbash fish tmux* screen mono dotnet wine* proton jupyter* ipykernel* spyder* matlab*
	torchrun accelerate deepspeed ray ray::* srun mpirun mpiexec env sudo conda uv poetry make
	main __main__* main.* app.* run.* test.* index.* server.* start.* script.* a.out`)

// identifies reports whether two processes of one user and place do the same if both run a program of this name.
func identifies(program string) bool { return program != "" && !notOne().MatchString(program) }

var loginName = lazy.Pattern(`^[a-z_][a-z0-9_-]*$`)

// manyThings matches services that run the work of others: stopping one ends more than the work. It would be better to stop only the unit
// or scope whose main process this is, but gpuwhy does not know which that is.
var manyThings = names(`
	*ssh* dropbear* telnet* *cron* at atd inetd xinetd user session* *login* *getty* *console* su sudo*
	slurm* pbs* sge* lsf* condor* htcondor* munge nomad consul supervisor* monit runit* pm2* forever* *runner* jenkins*
	buildkite* teamcity* airflow* celery* ray* dask* salt* puppet* chef* ansible*
	*jupyter* *hub rstudio* code-server* *vscode* *vnc* rdp* xrdp* gnome-remote* nx* x2go* sunshine* guac* tmux* screen*
	ttyd* cockpit* webmin* emacs*
	docker* containerd* crio* cri-o* podman* kube* k3s* k0s* rke2* microk8s* snap.* lxc* lxd* incus* libvirt* virt* qemu*
	pve* proxmox* machine* systemd-*
	init* rc dbus* polkit* udev* udisks* nvidia-* network* pipewire* pulseaudio wireplumber xdg-*
	*dm gdm* sddm* lightdm* *display* *greet* x11* xorg* wayland* org.* gnome* plasma* kde* kwin* cosmic* cinnamon* xfce* mate* lxqt* gamescope*
	steamos* sway* hyprland* niri* weston* uwsm* wayfire* labwc* river*`)

// isTheWork reports whether a unit is a service that does one thing, as far as its name shows.
func isTheWork(u *gpu.Unit) bool {
	name, service := strings.CutSuffix(u.Name, ".service")
	template, _, _ := strings.Cut(name, "@")
	return service && plainName().MatchString(u.Name) && !manyThings().MatchString(template)
}

// notEnded matches programs that nobody should be told to end: parts of a desktop, of the system, and programs that do the work of others.
var notEnded = names(`
	x xorg* xwayland* xvnc* xtigervnc xvfb xephyr xnest nxagent*
	gnome-* gsd-* gjs* mutter* kwin* plasma plasmashell plasma-* ksmserver* kded* krunner ksplash* kscreen* cosmic-*
	niri* labwc river wayfire* marco muffin* compiz* metacity* xfwm* xfce4-* xfdesktop xfsettingsd mate-* cinnamon*
	nemo-desktop budgie-* gala gala-* io.elementary* lxqt-* lxpanel pcmanfm* sway sway-* swaybar swaybg swaylock hyprland*
	hyprlock hyprpaper weston* gamescope* mangowc dwl dwm hikari cage phoc phosh mir mir-* miracle-* lomiri* unity8 unity-*
	enlightenment* treeland* deepin-* dde-* ukui-* i3 bspwm openbox fluxbox icewm* awesome qtile xmonad* picom compton
	waybar quickshell sddm* gdm* lightdm* lxdm* xdm slim ly greetd* regreet tuigreet gtkgreet *-greeter xdg-*
	systemd* (sd-pam) init login dbus-* sshd* nvidia-* qemu-* cloud-hyp* firecracker vmware-vmx virtualboxvm gpuwhy*`)

// staysUp reports whether a process should not be ended, by its program or by the kernel's name, which is cut.
func staysUp(p *gpu.Process) bool {
	return p.Type == gpu.TypeMPS || notEnded().MatchString(p.Facts.Name.Or("")) || notEnded().MatchString(p.Facts.Program.Or(""))
}
