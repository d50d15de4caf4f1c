package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/kube/fakekube"
)

var (
	zeroPod       gpu.Pod
	zeroContainer gpu.Container
)

// A process of a pod has the names that the API knows. The commands that read the container's /proc are faked.
func TestPodsOfProcesses(t *testing.T) {
	s, m := lab(t)
	folder, id := filepath.Dir(m.Program()), strings.Repeat("ab", 32)
	write(t, filepath.Join(folder, "printed"), strings.ReplaceAll(printed(0, id), "p 8\n", ""))
	for name, text := range map[string]string{
		"readlink": "case $1 in */pid) echo 'pid:[4026531836]';; *) echo 'cgroup:[4026532999]';; esac",
		// sed PROGRAM FILE prints the lines of the recording with its letter.
		"sed": `case "$1$2$3" in *btime*) l=b;; */stat) l=s;; */status) l=u;; *) l=c;; esac
while IFS= read -r line; do case "$line" in "$l "*) printf '%s\n' "$line";; esac; done <` + folder + "/printed",
	} {
		write(t, filepath.Join(folder, name), "#!/bin/sh\n"+text+"\n")
		if err := os.Chmod(filepath.Join(folder, name), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	s.Deny("list pods", false)
	s.Pod("research", "train-0", "gpu-1", folder, fakekube.Labels(map[string]any{"job": "train"}), func(body map[string]any) {
		body["metadata"].(map[string]any)["uid"] = uid
		body["status"].(map[string]any)["containerStatuses"] = []any{map[string]any{"name": "trainer", "containerID": "containerd://" + id, "image": "train:7"}}
	})
	f := watch(t, parsed(t, s.URL, ""))
	snap := f.well("gpu-1")
	n, _ := f.node("gpu-1")
	processes := snap.Devices[0].Processes.Or(nil)
	if len(processes) == 0 {
		t.Fatal("the machine has no process")
	}
	f.until("the process has a pod", func() bool {
		f.well("gpu-1")
		n.Host.Describe(t.Context(), processes)
		pod := processes[0].Facts.Pod.Or(zeroPod)
		return pod.Name.Or("") == "train-0" && pod.Namespace.Or("") == "research" && pod.Container.Or("") == "trainer"
	})
	if image := processes[0].Facts.Container.Or(zeroContainer).Image.Or(""); image != "train:7" {
		t.Errorf("the image is %q", image)
	}
	h, err := n.Host.Read(t.Context())
	if err != nil || h.Hostname != "gpu-1" || h.Boot != "boot-gpu-1" || h.CPU.Present() {
		t.Errorf("%+v, %v", h, err)
	}
}
