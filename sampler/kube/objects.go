package kube

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A node holds the fields read of a Node.
type node struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Capacity   map[string]string `json:"capacity"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
		Info struct {
			BootID string `json:"bootID"`
			Kernel string `json:"kernelVersion"`
			OS     string `json:"osImage"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

// offersGPUs reports whether the node has GPUs, whole or partial.
func (n *node) offersGPUs() bool {
	for name, count := range n.Status.Capacity {
		if name == "nvidia.com/gpu" || name == "nvidia.com/gpu.shared" || strings.HasPrefix(name, "nvidia.com/mig-") {
			if count != "" && strings.Trim(count, "0") != "" {
				return true
			}
		}
	}
	return false
}

// unready reports whether the node is not ready and, unless its condition is unknown, why.
func (n *node) unready() (why string, is bool) {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status != "True" {
			return clean(strings.TrimSpace(c.Reason + " " + c.Message)), true
		}
	}
	return "", false
}

// labels returns the node's labels, bounded in number and size.
func (n *node) labels() map[string]string {
	const most, longest = 128, 317
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(n.Metadata.Labels)) {
		if v := n.Metadata.Labels[k]; len(out) < most && len(k) <= longest && len(v) <= longest {
			out[k] = v
		}
	}
	return out
}

// A pod holds the fields read of a Pod.
type pod struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Name string `json:"name"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase      string      `json:"phase"`
		Containers []container `json:"containerStatuses"`
	} `json:"status"`
}

type container struct {
	Name     string `json:"name"`
	ID       string `json:"containerID"` // "containerd://0123…"
	Image    string `json:"image"`
	Ready    bool   `json:"ready"`
	Restarts int    `json:"restartCount"`
	State    struct {
		Running *struct{} `json:"running"`
		Waiting *struct {
			Reason string `json:"reason"`
		} `json:"waiting"`
		Terminated *struct {
			Reason string `json:"reason"`
		} `json:"terminated"`
	} `json:"state"`
}

// A target is a container with nvidia-smi.
type target struct {
	namespace, pod, uid, container string
	restarts                       int // a different count is another run of the container
}

// trouble says why a pod can't be used now; zero: it can.
type trouble struct {
	what string // "is restarting"
	try  string
}

// in returns the container with a name, or the first one.
func (p *pod) in(name string) (target, trouble) {
	if name == "" && len(p.Spec.Containers) > 0 {
		name = p.Spec.Containers[0].Name
	}
	t := target{p.Metadata.Namespace, p.Metadata.Name, p.Metadata.UID, name, 0}
	look := "kubectl -n " + t.namespace + " describe pod " + t.pod
	if p.Metadata.Deleted != "" {
		return t, trouble{"is being replaced", "wait until its replacement runs; to see what holds it up: " + look}
	}
	i := slices.IndexFunc(p.Status.Containers, func(c container) bool { return c.Name == name })
	if i < 0 {
		found := slices.ContainsFunc(p.Spec.Containers, func(c struct {
			Name string `json:"name"`
		},
		) bool {
			return c.Name == name
		})
		if !found {
			return t, trouble{"has no container " + strconv.Quote(clean(name)), "name the container with pods in the clusters file"}
		}
		return t, trouble{"has not started", "to see what it waits for: " + look}
	}
	c := &p.Status.Containers[i]
	t.restarts = c.Restarts
	switch {
	case c.State.Waiting != nil:
		return t, trouble{"is restarting (" + clean(c.State.Waiting.Reason) + ")", look + " says why; so does kubectl -n " + t.namespace + " logs " + t.pod + " -c " + name + " --previous"}
	case c.State.Running == nil:
		return t, trouble{"is not running", "to see why: " + look}
	case !c.Ready:
		return t, trouble{"is not ready", "building and loading a driver takes minutes; to see more: " + look}
	case p.Status.Phase != "Running":
		return t, trouble{"is " + clean(p.Status.Phase), "to see why: " + look}
	}
	return t, trouble{}
}

// matches reports whether a pod is of this kind.
func (k *Pods) matches(p *pod) bool {
	if !slices.Contains(k.Namespaces, p.Metadata.Namespace) {
		return false
	}
	for name, want := range k.Labels {
		value, there := p.Metadata.Labels[name]
		begin, open := strings.CutSuffix(want, "*")
		if !there || value != want && (!open || !strings.HasPrefix(value, begin)) {
			return false
		}
	}
	return true
}

// watched returns the pods to watch in each namespace: those with labels that a selector can name, or all.
func watched(kinds []Pods) map[string]url.Values {
	type need struct {
		key    string
		values []string
		all    bool
	}
	needs := map[string]*need{}
	for _, k := range kinds {
		for _, namespace := range k.Namespaces {
			n := needs[namespace]
			if n == nil {
				n = &need{}
				needs[namespace] = n
			}
			for key, value := range k.Labels { // one of them is enough to find the pods
				n.all = n.all || len(k.Labels) > 1 || strings.HasSuffix(value, "*") || n.key != "" && n.key != key
				n.key = key
				n.values = append(n.values, value)
			}
		}
	}
	out := map[string]url.Values{}
	for namespace, n := range needs {
		query := url.Values{}
		if !n.all {
			query.Set("labelSelector", n.key+" in ("+strings.Join(n.values, ",")+")")
		}
		out[namespace] = query
	}
	return out
}

// clean makes others' text fit for people and the log: printable, of bounded length.
func clean(s string) string {
	const longest = 300
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, s)
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return strings.TrimSpace(s)
}
