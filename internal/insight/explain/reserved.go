package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of devices that somebody has and does not use.

// unused reports whether a device is kept for pods none of which has a process
// on it, as far as that is known.
func unused(d *gpu.Device) bool {
	list, listed := d.Processes.Get()
	return listed && len(d.Reservations.Or(nil)) > 0 && !slices.ContainsFunc(list, func(p gpu.Process) bool {
		pod, known := p.Facts.Pod.Get()
		return p.Type != gpu.TypeGraphics || !known || !pod.None()
	})
}

// reserved is about a device that is kept for a pod which has nothing on it:
// nothing to hear, and nothing for others either.
func reserved(c *card) *finding {
	if c.doing != resting || !unused(c.d) {
		return nil
	}
	f := &finding{
		confidence: High,
		since:      c.began(c.m.unused),
		evidence:   &proofs{at: c.at},
		advice:     "If the pod does not need it, delete the pod: until then nobody else gets the GPU.",
	}
	list := c.d.Reservations.Or(nil)
	for _, r := range firsts(list, 4) {
		text := fmt.Sprintf("pod %s, container %s, %s", nameOf(podName(&r)), nameOf(r.Container), nameOf(r.Resource))
		if r.Instance != "" {
			text += ", instance " + nameOf(r.Instance)
		}
		f.evidence.fact("reserved by", text)
	}
	if more := len(list) - 4; more > 0 {
		f.evidence.figure("further reservations", float64(more), "")
	}
	f.evidence.figure("processes listed", float64(len(c.d.Processes.Or(nil))), "")
	which, have := "which has", "which has had"
	if len(reservers(list)) > 1 {
		which, have = "which have", "which have had"
		f.advice = "If the pods do not need it, delete them: until then nobody else gets the GPU."
	}
	f.clause = func(it string) string {
		clause := c.reservedBy(it) + ", "
		if lasts := c.age(c.m.unused); lasts >= time.Minute {
			return clause + have + " no process on it for " + Span(lasts)
		}
		return clause + which + " no process on it"
	}
	return f
}

// reservedBy says who has a device, and if it is a part of it only; empty where
// nobody has, or that is not known.
func (c *card) reservedBy(it string) string {
	list := c.d.Reservations.Or(nil)
	if len(list) == 0 {
		return ""
	}
	const most = 3
	pods := reservers(list)
	who := "pod " + pods[0]
	switch {
	case len(pods) > most:
		who = fmt.Sprintf("%d pods (%s, …)", len(pods), strings.Join(pods[:most-1], ", "))
	case len(pods) > 1:
		who = "pods " + strings.Join(pods[:len(pods)-1], ", ") + " and " + pods[len(pods)-1]
	}
	if !slices.ContainsFunc(list, func(r gpu.Reservation) bool { return r.Instance == "" }) {
		return "a part of " + it + " is reserved by " + who
	}
	return it + " is reserved by " + who
}

// reservers are the names of the pods, each once.
func reservers(list []gpu.Reservation) []string {
	var out []string
	for i := range list {
		if name := nameOf(podName(&list[i])); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func podName(r *gpu.Reservation) string { return r.Namespace + "/" + r.Pod }
