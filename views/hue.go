package views

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

// people is the number of hues for people, p1 to p5. The next one is for services and unknown users.
const people = picture.People

const serviceHue = "p6"

// services are the names of service accounts that isService does not recognize by their form.
var services = []string{
	"root", "daemon", "bin", "sys", "nobody", "www-data", "mail", "games", "messagebus", "gdm", "sddm", "lightdm", "ollama",
	"postgres", "redis", "nginx", "docker", "kubelet", "slurm", "munge", "prometheus", "grafana", "jenkins", "triton-server",
}

// Hues assigns colors to people's work. A person has one hue, chosen by name: the same on every page and in every picture, after a reload
// and after a restart if the result of [Hues.Kept] is kept. The zero value knows nobody. Its methods may be called concurrently.
type Hues struct {
	mu     sync.Mutex
	owners [people]string // the owner of each hue; empty if nobody has it yet
}

// hueOf returns the color class of a user's work. Services share one. A person gets the hue that the name hashes to, or the next
// free one if it is taken; once all are taken, people share them.
func (h *Hues) hueOf(user string) string {
	user = clean(user, longestName)
	if isService(user) {
		return serviceHue
	}
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, user) // it never fails
	first := int(sum.Sum32() % people)
	class := func(i int) string { return "p" + strconv.Itoa(1+i) }
	if h == nil {
		return class(first)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.owners[:], user); i >= 0 {
		return class(i)
	}
	for i := range people {
		if hue := (first + i) % people; h.owners[hue] == "" {
			h.owners[hue] = user
			return class(hue)
		}
	}
	return class(first)
}

// Kept implements [keep.Part]. It returns the owner of each hue.
func (h *Hues) Kept() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.owners[:])
}

// Restore implements [keep.Part].
func (h *Hues) Restore(kept []string, _ time.Time) error {
	if len(kept) > people {
		return fmt.Errorf("%d people have hues, and there are %d hues", len(kept), people)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	copy(h.owners[:], kept)
	return nil
}

// isService reports whether a user is a service account, or unknown.
func isService(user string) bool {
	return user == "" || slices.Contains(services, user) || strings.HasPrefix(user, "_") ||
		strings.HasPrefix(user, "svc-") || strings.HasPrefix(user, "svc_") || strings.HasPrefix(user, "systemd-") ||
		strings.HasSuffix(user, "-svc") || strings.HasSuffix(user, "-service")
}

// A worker is a program of a user. Processes with the same program and user count as one worker.
type worker struct{ program, user string }

func workerOf(p *gpu.Process) worker { return worker{programOf(p).Or(""), p.Facts.User.Or("")} }

// hue returns the color class of a process, which is its user's.
func (in *Input) hue(p *gpu.Process) string { return in.Hues.hueOf(p.Facts.User.Or("")) }

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

// firstNamed returns the first worker that a headline names, as in "train.py (ann) and others".
func firstNamed(who string) worker {
	name, after, found := strings.Cut(who, " (")
	if !found {
		name, _, _ = strings.Cut(who, " and ")
		return worker{program: name}
	}
	user, _, _ := strings.Cut(after, ")")
	return worker{name, user}
}

// unquoted strips the quotation marks that sentences put around names which look like words.
func unquoted(name string) string { return strings.TrimSuffix(strings.TrimPrefix(name, "“"), "”") }
