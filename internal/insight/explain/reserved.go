package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// unused reports whether a device is reserved for pods of which none has a
// process on it, as far as that is known.
func (v *vitals) unused() bool {
	list, listed := v.Processes.Get()
	return listed && len(v.Reservations.Or(nil)) > 0 && !slices.ContainsFunc(list, func(p gpu.Process) bool {
		pod, known := p.Facts.Pod.Get()
		return p.Type != gpu.TypeGraphics || !known || !pod.None()
	})
}

// reserved is about a device that is reserved for a pod which has nothing on
// it: it makes no noise, and nobody else can use it.
func reserved(d *device) *finding {
	if d.doing != resting || !d.unused() {
		return nil
	}
	f := &finding{
		confidence: High,
		since:      d.began(d.m.unused),
		advice:     "If the pod does not need it, delete the pod: until then nobody else gets the GPU.",
		evidence:   evidence{at: d.at},
	}
	list := d.Reservations.Or(nil)
	for _, r := range firsts(list, 4) {
		text := fmt.Sprintf("pod %s, container %s, %s", podName(&r), nameOf(r.Container), nameOf(r.Resource))
		if r.Instance != "" {
			text += ", instance " + nameOf(r.Instance)
		}
		f.fact("reserved by", text)
	}
	if more := len(list) - 4; more > 0 {
		f.figure("further reservations", float64(more), "")
	}
	f.figure("processes listed", float64(len(d.Processes.Or(nil))), "")
	have := "has"
	if len(reservers(list)) > 1 {
		have = "have"
		f.advice = "If the pods do not need it, delete them: until then nobody else gets the GPU."
	}
	f.clause = d.reservedBy(it) + ", which " + have
	if lasts := d.age(d.m.unused); lasts >= time.Minute {
		f.clause += " had no process on it for " + Span(lasts)
	} else {
		f.clause += " no process on it"
	}
	return f
}

// reservedBy says which pods have reserved a device, or a part of it. It is
// empty where none has, or where that is not known.
func (d *device) reservedBy(called string) string {
	list := d.Reservations.Or(nil)
	if len(list) == 0 {
		return ""
	}
	pods := reservers(list)
	who := "pod " + pods[0]
	switch n := len(pods); {
	case n > 3:
		who = fmt.Sprintf("%d pods (%s, …)", n, strings.Join(pods[:2], ", "))
	case n > 1:
		who = "pods " + strings.Join(pods[:n-1], ", ") + " and " + pods[n-1]
	}
	if !slices.ContainsFunc(list, func(r gpu.Reservation) bool { return r.Instance == "" }) {
		called = "a part of " + called
	}
	return called + " is reserved by " + who
}

// reservers are the names of the pods, each once.
func reservers(list []gpu.Reservation) []string {
	var out []string
	for i := range list {
		if name := podName(&list[i]); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func podName(r *gpu.Reservation) string { return nameOf(r.Namespace + "/" + r.Pod) }
