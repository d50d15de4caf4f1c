package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A file is parsed strictly, and each mistake is reported with its line.
func TestParse(t *testing.T) {
	file, err := Parse([]byte(`
clusters:
  - id: lab
    kubeconfig: /etc/gpuwhy/lab.kubeconfig
    context: admin
  - id: prod
    url: https://10.0.0.1:6443
    token_file: /run/secrets/prod
    ca_file: /etc/gpuwhy/prod.pem
    node_selector: zone=b
    mode: once
    exec_interval: 1m
    max_execs: 4
    pods:
      - namespaces: [gpus]
        labels: {app: driver*}
  - id: here
    in_cluster: true
`))
	if err != nil {
		t.Fatal(err)
	}
	lab, prod := file.Clusters[0], file.Clusters[1]
	if lab.Mode != Auto || lab.Interval != 5*time.Second || lab.ExecInterval != 30*time.Second || lab.MaxExecs != 16 || len(lab.Pods) != len(DefaultPods) {
		t.Errorf("the defaults: %+v", lab)
	}
	if prod.Mode != Once || prod.ExecInterval != time.Minute || prod.MaxExecs != 4 || len(prod.Pods) != 1 || prod.Pods[0].Container != "" {
		t.Errorf("what was set: %+v", prod)
	}
	for text, want := range map[string]string{
		"":                              "line 1: there is no cluster",
		"clusters: []":                  "line 1: there is no cluster",
		"- id: a":                       "line 1: ",
		"clusters:\n- id: a\n  nope: 1": `line 3: unknown key "nope"`,
		"clusters:\n- id: a\n  id: b":   "line 3: ",
		"clusters:\n- url: https://a":   "line 2: id: a cluster needs one",
		"clusters:\n- id: a":            "line 2: id: a cluster needs one of kubeconfig, url and in_cluster",
		"clusters:\n- id: a/b\n  in_cluster: true":                                              "line 2: id: must have only letters",
		"clusters:\n- id: local\n  url: https://a":                                              "line 2: id: ",
		"clusters:\n- id: a\n  url: ftp://a":                                                    "line 3: url: must look like",
		"clusters:\n- id: a\n  url: https://u:p@a":                                              "line 3: url: must look like",
		"clusters:\n- id: a\n  url: https://a\n  ca_file: b\n  skip_tls_verify: true":           "line 5: skip_tls_verify: ",
		"clusters:\n- id: a\n  in_cluster: true\n  token_file: b":                               "line 4: token_file: has no effect",
		"clusters:\n- id: a\n  url: https://a\n  mode: never":                                   "line 4: mode: must be",
		"clusters:\n- id: a\n  url: https://a\n  interval: 5":                                   "line 4: ",
		"clusters:\n- id: a\n  url: https://a\n  interval: 1ms":                                 "line 4: interval: must be from",
		"clusters:\n- id: a\n  url: https://a\n  max_execs: many":                               `line 4: "many" must be a whole number`,
		"clusters:\n- id: a\n  url: https://a\n  in_cluster: maybe":                             "must be true or false",
		"clusters:\n- id: a\n  url: https://a\n  pods: [{labels: {a: b}}]":                      "line 4: pods: each kind needs",
		"clusters:\n- id: a\n  url: https://a\n  pods: [{namespaces: [a], labels: {a: 'b c'}}]": "line 4: pods: ",
		"clusters:\n- {id: a, url: 'https://a'}\n- {id: a, url: 'https://b'}":                   `line 3: id: cluster "a" is already in line 2`,
		"clusters:\n- {id: a, url: 'https://a'}\n---\nclusters: []":                             "exactly one YAML document",
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "kube.") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Whatever a file contains, it is either rejected or valid.
func FuzzParse(f *testing.F) {
	f.Add("clusters:\n- id: a\n  url: https://a\n")
	f.Add("clusters: &a [*a]")
	f.Add("clusters:\n- &x {id: a, in_cluster: true}\n- *x\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse([]byte(text))
		if (err == nil) != (file != nil) {
			t.Errorf("%v beside %v", file, err)
		}
		if err == nil {
			for _, c := range file.Clusters {
				if c.ID == "" || c.MaxExecs < 1 || c.Interval < time.Second {
					t.Errorf("%+v is good", c)
				}
			}
		}
	})
}

const uid = "0aaf0d6e-0b0d-4ef9-8d0a-3f9b0a7c2d11"

// printed returns the script's output about a process, in a container with the machine's pids.
func printed(pid int, container string) string {
	return fmt.Sprintf(`n pid:[4026531836] cgroup:[4026532999]
b 1700000000
p %d
s %d (python) x) S 1 1 1 0 -1 0 0 0 0 0 250 10 0 0 20 0 9 0 12345 1000 77 0
u 1000	1000	1000	1000
c 0::/../../kubepods-burstable-pod%s.slice/cri-containerd-%s.scope
p 8
`, pid, pid, strings.ReplaceAll(uid, "-", "_"), container)
}

// The pod of a process is in its control group, even seen from another container.
func TestParseProcesses(t *testing.T) {
	id := strings.Repeat("ab", 32)
	all, foreign := parseProcesses(printed(7, id))
	f := all[7]
	if foreign || f.Pod.Or(f.Pod.Or(zeroPod)).UID != uid || f.Container.Or(zeroContainer).ID != id || f.Name.Or("") != "python) x" || f.User.Or("") != "1000" {
		t.Errorf("%+v", f)
	}
	if want := time.Unix(1700000123, 450e6); !f.Started.Or(time.Time{}).Equal(want) {
		t.Errorf("it began at %v, want %v", f.Started, want)
	}
	if gone := all[8]; gone.Exists.Or(true) {
		t.Error("a process that has no stat exists")
	}
	if _, foreign := parseProcesses(strings.Replace(printed(7, id), "4026531836", "4026532001", 1)); !foreign {
		t.Error("pids of a namespace of the container are taken for the machine's")
	}
}
