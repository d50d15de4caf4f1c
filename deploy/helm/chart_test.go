package helm

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var (
	helm   = flag.String("helm", "", "check what this helm makes of the chart, too, and not only what is in deploy/kubernetes")
	update = flag.Bool("update", false, "with -helm: write deploy/kubernetes")
)

// manifests are the generated files in deploy/kubernetes, with their values.
var manifests = map[string][]string{
	"gpuwhy.yaml":    nil,
	"agentless.yaml": {"--set", "agent.enabled=false,hub.enabled=false,agentless.enabled=true,networkPolicy.enabled=false"},
}

const head = "# Generated from the chart in deploy/helm: make manifests\n"

type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Template struct {
			Spec struct {
				HostPID                      bool  `yaml:"hostPID"`
				HostNetwork                  bool  `yaml:"hostNetwork"`
				AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
				EnableServiceLinks           *bool `yaml:"enableServiceLinks"`
				SecurityContext              struct {
					RunAsUser      int                   `yaml:"runAsUser"`
					RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
					SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
				} `yaml:"securityContext"`
				Containers     []container
				InitContainers []container `yaml:"initContainers"`
				Volumes        []struct {
					Name     string
					HostPath struct{ Path string } `yaml:"hostPath"`
				}
			}
		}
	}
	Rules []struct {
		Resources, Verbs []string
	}
}

type container struct {
	Name      string
	Args      []string
	Resources struct{ Limits, Requests map[string]string }
	Mounts    []struct {
		Name     string
		ReadOnly bool `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
	SecurityContext struct {
		Privileged               bool
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop, Add []string }
	} `yaml:"securityContext"`
}

// check reports what is wrong in manifests, and returns their objects.
func check(t *testing.T, text []byte) (all []object) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if o.Kind != "" {
			all = append(all, o)
		}
	}
	seen := map[string]bool{}
	for i := range all {
		o := &all[i]
		if key := o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name; seen[key] {
			t.Errorf("%s is there twice", key)
		} else {
			seen[key] = true
		}
		pod := o.Spec.Template.Spec
		agent := o.Kind == "DaemonSet"
		if pod.HostNetwork || pod.HostPID && !agent || len(pod.Containers) > 0 && pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("%s may do more than it needs: %+v", o.Metadata.Name, pod)
		}
		if len(pod.Containers) > 0 && !agent && (!pod.SecurityContext.RunAsNonRoot || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken) {
			t.Errorf("%s is root, or has a token of the cluster", o.Metadata.Name)
		}
		if len(pod.Containers) > 0 && (pod.EnableServiceLinks == nil || *pod.EnableServiceLinks) {
			t.Errorf("%s gets variables of services, which begin as settings do", o.Metadata.Name)
		}
		for _, v := range pod.Volumes {
			if path := v.HostPath.Path; path != "" && (!agent || !slices.Contains([]string{"/var/lib/gpuwhy", "/var/lib/kubelet/pod-resources", "/etc/passwd"}, path)) {
				t.Errorf("%s mounts %s of the host", o.Metadata.Name, path)
			}
		}
		for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
			s := c.SecurityContext
			if c.Resources.Limits["memory"] == "" || c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" {
				t.Errorf("%s: %+v", o.Metadata.Name, c.Resources)
			}
			if s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
				t.Errorf("%s: %+v", o.Metadata.Name, s)
			}
			for _, name := range s.Capabilities.Add {
				if !agent || name != "SYS_PTRACE" && name != "DAC_READ_SEARCH" {
					t.Errorf("%s has the capability %s", o.Metadata.Name, name)
				}
			}
			for _, m := range c.Mounts {
				if !m.ReadOnly && m.Name != "state" {
					t.Errorf("%s may write to %s", o.Metadata.Name, m.Name)
				}
			}
			if len(c.Args) < 3 || strings.Contains(strings.Join(c.Args, " "), "PASSWORD") {
				t.Errorf("%s: %v", o.Metadata.Name, c.Args)
			}
		}
		for _, r := range o.Rules {
			for _, resource := range r.Resources {
				most := map[string][]string{"nodes": {"get", "list", "watch"}, "pods": {"get", "list", "watch"}, "pods/exec": {"get", "create"}}[resource]
				for _, verb := range r.Verbs {
					if !slices.Contains(most, verb) || strings.HasSuffix(o.Metadata.Name, "-agent") && (resource != "nodes" || verb != "get") {
						t.Errorf("%s may %s %s", o.Metadata.Name, verb, resource)
					}
				}
				if resource == "pods/exec" && (o.Kind != "Role" || len(r.Verbs) != 2) {
					t.Errorf("%s %s: %v", o.Kind, o.Metadata.Name, r)
				}
			}
		}
	}
	return all
}

func kinds(all []object) string {
	var out []string
	for _, o := range all {
		out = append(out, o.Kind+"/"+o.Metadata.Name)
	}
	return strings.Join(out, " ")
}

func TestManifests(t *testing.T) {
	for name := range manifests {
		text, err := os.ReadFile(filepath.Join("../kubernetes", name))
		if err != nil {
			t.Fatal(err)
		}
		all := check(t, text)
		want := []string{"DaemonSet/gpuwhy-agent", "Deployment/gpuwhy-hub", "NetworkPolicy/gpuwhy-agent"}
		if name == "agentless.yaml" {
			want = []string{"Role/gpuwhy-agentless", "RoleBinding/gpuwhy-agentless", "ClusterRole/gpuwhy-gpuwhy-agentless"}
		}
		for _, o := range want {
			if !strings.Contains(kinds(all)+" ", o+" ") {
				t.Errorf("%s lacks %s", name, o)
			}
		}
	}
}

func run(t *testing.T, args ...string) (text []byte, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), *helm, args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if text, err = cmd.Output(); err != nil {
		err = errors.New(stderr.String() + string(text))
	}
	return text, err
}

// TestChart runs only with -helm, since building helm takes minutes (make chart).
func TestChart(t *testing.T) {
	if *helm == "" {
		t.Skip("make chart gives the helm")
	}
	for name, args := range manifests {
		text, err := run(t, append([]string{"template", "gpuwhy", "gpuwhy", "--namespace", "gpuwhy"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		text = append([]byte(head), text...)
		path := filepath.Join("../kubernetes", name)
		if *update {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(got)); diff != "" {
			t.Errorf("%s is not what the chart makes (make manifests):\n%s", path, diff)
		}
	}
	values, err := filepath.Glob("gpuwhy/ci/*.yaml")
	if err != nil || len(values) < 2 {
		t.Fatal(values, err)
	}
	for _, file := range append(values, "gpuwhy/values.yaml") {
		if _, err := run(t, "lint", "--strict", "gpuwhy", "-f", file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		text, err := run(t, "template", "gpuwhy", "gpuwhy", "--namespace", "gpuwhy", "-f", file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		all := check(t, text)
		if strings.HasSuffix(file, "all.yaml") {
			for _, kind := range []string{"Deployment/gpuwhy-recorder ", "ServiceMonitor/gpuwhy-hub", "PodMonitor/gpuwhy-agent ", "PodDisruptionBudget/gpuwhy-hub ", "Role/gpuwhy-agentless "} {
				if !strings.Contains(kinds(all)+" ", kind) {
					t.Errorf("%s: no %s in %s", file, kind, kinds(all))
				}
			}
		} else if strings.HasSuffix(file, "hub-only.yaml") && strings.Contains(kinds(all), "agent") {
			t.Errorf("%s: %s", file, kinds(all))
		}
	}
	// Settings that can't work are refused.
	for _, set := range []string{
		"agnet.enabled=true", "agent.capabilities={SYS_ADMIN}", "fleet.url=http://x", "fleet.url=nats://user:password@x", "recorder.enabled=true", "cluster=a b",
		"hub.replicas=-1", "agent.resources.limits.memory=much", "agent.extraArgs={rm}", "recorder.history=postgres://u:secret@db/x",
	} {
		if text, err := run(t, "template", "gpuwhy", "gpuwhy", "--set", set); err == nil {
			t.Errorf("%s was taken: %d bytes", set, len(text))
		}
	}
}
