package views

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// culprit is the hue of the process that the answer names. No other has it.
const culprit = "p1"

// services are users for whom nobody sits at the machine, beside those whose name says so.
var services = []string{
	"root", "daemon", "bin", "sys", "nobody", "www-data", "mail", "games", "messagebus", "gdm", "sddm", "lightdm", "ollama",
	"postgres", "redis", "nginx", "docker", "kubelet", "slurm", "munge", "prometheus", "grafana", "jenkins", "triton-server",
}

// hueOf is the class of the color of a user's work: p6 of a service and of somebody who is not known, and one of p2 to p5
// of people, always the same.
func hueOf(user string) string {
	service := user == "" || slices.Contains(services, user) || strings.HasPrefix(user, "_") ||
		strings.HasPrefix(user, "svc-") || strings.HasPrefix(user, "svc_") || strings.HasPrefix(user, "systemd-") ||
		strings.HasSuffix(user, "-svc") || strings.HasSuffix(user, "-service")
	if service {
		return "p6"
	}
	h := fnv.New32a()
	h.Write([]byte(user))
	return string([]byte{'p', '2' + byte(h.Sum32()%4)})
}

// A worker is whose work a process is: two of the same program and user are one to people, and have one hue.
type worker struct{ program, user string }

func workerOf(p *gpu.Process) worker { return worker{programOf(p).Or(""), p.Facts.User.Or("")} }

// hue is the class of the color of a process: p1 where the answer names it, else that of its user.
func (in *Input) hue(p *gpu.Process) string {
	w := workerOf(p)
	if in.accused(w) {
		return culprit
	}
	return hueOf(w.user)
}

// accused reports whether the answer names a worker first.
func (in *Input) accused(w worker) bool {
	if w.program == "" {
		return false
	}
	i := slices.IndexFunc(in.Causes, func(c explain.Cause) bool { return c.Device != nil })
	if i < 0 {
		return false
	}
	name := firstNamed(in.Causes[i].Who)
	program, user := unquoted(name.program), unquoted(name.user)
	return program == clean(w.program, longestName) && user == clean(w.user, longestName)
}

// firstNamed is the first whom a headline names, as in "train.py (ann) and others".
func firstNamed(who string) worker {
	name, after, found := strings.Cut(who, " (")
	if !found {
		name, _, _ = strings.Cut(who, " and ")
		return worker{program: name}
	}
	user, _, _ := strings.Cut(after, ")")
	return worker{name, user}
}

// unquoted is a name without the quotation marks that sentences put around what would read as words.
func unquoted(name string) string { return strings.TrimSuffix(strings.TrimPrefix(name, "“"), "”") }
