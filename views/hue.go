package views

import (
	"hash/fnv"
	"slices"
	"strings"
)

// culprit is the hue of the process that the answer names. No other has it.
const culprit = "p1"

// services are users for whom nobody sits at the machine, beside those whose name says so.
var services = []string{
	"root", "daemon", "bin", "sys", "nobody", "www-data", "mail", "games", "messagebus", "gdm", "sddm", "lightdm", "ollama",
	"postgres", "redis", "nginx", "docker", "kubelet", "slurm", "munge", "prometheus", "grafana", "jenkins", "triton-server",
}

// hueOf is the class of the colour of a user's work: p6 of a service and of somebody who is not known, and one of p2 to p5
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
