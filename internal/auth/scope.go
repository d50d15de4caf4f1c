package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Scope is the machines that something holds for. Empty, it is all of them. Else it is a list of alternatives, sorted and
// without spaces: "node:gpu-1", "cluster:lab" or "label:rack=r12". A machine has to match one of them.
type Scope string

// A Machine is what a [Scope] tells machines apart by.
type Machine struct {
	Node, Cluster string
	Labels        map[string]string
}

var errScope = errors.New("write a scope as node:NAME, cluster:NAME or label:NAME=VALUE, several with commas between them")

// ParseScope reads a scope as people write it.
func ParseScope(text string) (Scope, error) {
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		kind, value, _ := strings.Cut(part, ":")
		label, _, labeled := strings.Cut(value, "=")
		switch {
		case (kind == "node" || kind == "cluster") && value != "":
		case kind == "label" && labeled && label != "":
		default:
			return "", fmt.Errorf("%q is no scope: %w", part, errScope)
		}
		parts[i] = part
	}
	slices.Sort(parts)
	return Scope(strings.Join(slices.Compact(parts), ",")), nil
}

// Union returns the machines of any of the scopes; without one, all.
func Union(scopes ...Scope) Scope {
	var parts []string
	for _, s := range scopes {
		if s == "" {
			return ""
		}
		parts = append(parts, strings.Split(string(s), ",")...)
	}
	slices.Sort(parts)
	return Scope(strings.Join(slices.Compact(parts), ","))
}

// Words are the scope for people, such as "label rack=r12 or machine gpu-1"; empty for all machines.
func (s Scope) Words() string {
	if s == "" {
		return ""
	}
	parts := strings.Split(string(s), ",")
	for i, part := range parts {
		kind, value, _ := strings.Cut(part, ":")
		if kind == "node" {
			kind = "machine"
		}
		parts[i] = kind + " " + value
	}
	return strings.Join(parts, " or ")
}

// Has reports whether a machine is one of the scope.
func (s Scope) Has(m Machine) bool {
	if s == "" {
		return true
	}
	for part := range strings.SplitSeq(string(s), ",") {
		kind, value, _ := strings.Cut(part, ":")
		switch kind {
		case "node":
			if value == m.Node {
				return true
			}
		case "cluster":
			if value == m.Cluster {
				return true
			}
		case "label":
			name, want, _ := strings.Cut(value, "=")
			if got, has := m.Labels[name]; has && got == want {
				return true
			}
		}
	}
	return false
}

// Within reports whether a scope has no machine that another does not have. It compares the scopes as they are written: a
// machine is not within its cluster.
func (s Scope) Within(other Scope) bool {
	if other == "" || s == other {
		return true
	}
	if s == "" {
		return false
	}
	allowed := strings.Split(string(other), ",")
	for part := range strings.SplitSeq(string(s), ",") {
		if !slices.Contains(allowed, part) {
			return false
		}
	}
	return true
}
