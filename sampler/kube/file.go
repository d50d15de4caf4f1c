package kube

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A File lists clusters.
type File struct {
	Clusters []Cluster `yaml:"clusters"`
}

// A Cluster says how to reach a cluster's API, and what to read. Exactly one of Kubeconfig, URL and InCluster is set.
type Cluster struct {
	ID string `yaml:"id"` // letters, digits, "-", "_" and "."

	Kubeconfig string `yaml:"kubeconfig"` // a file
	Context    string `yaml:"context"`    // a context in the file; empty: the current one

	URL           string `yaml:"url"` // https://HOST:PORT
	TokenFile     string `yaml:"token_file"`
	CAFile        string `yaml:"ca_file"` // empty: the system's certificate authorities
	SkipTLSVerify bool   `yaml:"skip_tls_verify"`

	InCluster bool `yaml:"in_cluster"` // gpuwhy itself runs in a pod of the cluster

	NodeSelector string `yaml:"node_selector"` // a label selector, as in kubectl; empty: all nodes
	// Pods are the pods with nvidia-smi. The first match on a node is used. Empty: [DefaultPods].
	Pods []Pods `yaml:"pods"`

	Mode         Mode          `yaml:"mode"`          // empty: auto
	Interval     time.Duration `yaml:"interval"`      // time between readings over one stream; 0: 5 s
	ExecInterval time.Duration `yaml:"exec_interval"` // time between execs if each reading is an exec; 0: 30 s
	MaxExecs     int           `yaml:"max_execs"`     // concurrent execs that begin or that read once; 0: 16
	Deadline     time.Duration `yaml:"deadline"`      // for an answer; 0: 20 s
}

// Pods selects one kind of pods.
type Pods struct {
	Namespaces []string          `yaml:"namespaces"`
	Labels     map[string]string `yaml:"labels"`    // all must match; a value that ends in * matches every value with that beginning
	Container  string            `yaml:"container"` // the container with nvidia-smi; empty: the first
}

// A Mode is how nvidia-smi is executed.
type Mode string

// The modes.
const (
	Auto Mode = "auto" // Loop, or Once for a while if streams don't hold
	Loop Mode = "loop" // one stream per node, for as long as it lasts
	Once Mode = "once" // one exec per reading
)

var operator = []string{"gpu-operator", "nvidia-gpu-operator"}

// DefaultPods are the pods of NVIDIA's operator, of its device plugin and exporter if the driver belongs to the machine, and of GKE.
// OpenShift appends a version to the names.
var DefaultPods = []Pods{
	{operator, map[string]string{"app": "nvidia-driver-daemonset*"}, "nvidia-driver-ctr"},
	{operator, map[string]string{"app.kubernetes.io/component": "nvidia-driver"}, "nvidia-driver-ctr"},
	{operator, map[string]string{"app": "nvidia-vgpu-manager-daemonset*"}, "nvidia-vgpu-manager-ctr"},
	{operator, map[string]string{"app": "nvidia-device-plugin-daemonset*"}, "nvidia-device-plugin"},
	{operator, map[string]string{"app": "nvidia-dcgm-exporter*"}, "nvidia-dcgm-exporter"},
	{[]string{"kube-system"}, map[string]string{"k8s-app": "nvidia-driver-installer"}, ""},
	{[]string{"kube-system"}, map[string]string{"k8s-app": "nvidia-gpu-device-plugin"}, "nvidia-gpu-device-plugin"},
}

const (
	mostClusters = 256
	mostPods     = 64 // kinds
	mostExecs    = 1024
)

var (
	goodID      = lazy.Pattern(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	goodName    = lazy.Pattern(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	goodLabel   = lazy.Pattern(`^[-A-Za-z0-9_./]{1,316}$`)
	goodValue   = lazy.Pattern(`^[-A-Za-z0-9_.]{0,63}\*?$`)
	unknownKey  = lazy.Pattern(`^field (\S+) not found in type \S+$`)
	unfitting   = lazy.Pattern("^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.*)$")
	linePattern = lazy.Pattern(`^(?:yaml: )?line (\d+): (.*)$`)
)

// Parse parses a clusters file. The error has one line for each mistake, with its line in the file: "line 3: …".
func Parse(text []byte) (*File, error) {
	var file File
	var root yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, inWords(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file must have exactly one YAML document")
	}
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, inWords(err)
	}
	if len(file.Clusters) == 0 {
		return nil, errors.New("line 1: there is no cluster: begin with \"clusters:\" and list them below it")
	}
	if len(file.Clusters) > mostClusters {
		return nil, fmt.Errorf("there are %d clusters, but at most %d are allowed", len(file.Clusters), mostClusters)
	}
	var errs []error
	lines := map[string]int{}
	for i := range file.Clusters {
		c := &file.Clusters[i]
		where := place(&root, i)
		for _, wrong := range c.wrong() {
			errs = append(errs, fmt.Errorf("line %d: %s: %s", where(wrong.key), wrong.key, wrong.what))
		}
		if other, there := lines[c.ID]; there && c.ID != "" {
			errs = append(errs, fmt.Errorf("line %d: id: cluster %q is already in line %d", where("id"), c.ID, other))
		}
		lines[c.ID] = where("id")
		c.setDefaults()
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &file, nil
}

// place returns a function that finds the line of a cluster's key; for a missing key it is the cluster's line.
func place(root *yaml.Node, i int) func(key string) int {
	value := func(node *yaml.Node, key string) (k, v *yaml.Node) {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		for j := 0; j+1 < len(node.Content); j += 2 {
			if node.Content[j].Value == key {
				return node.Content[j], node.Content[j+1]
			}
		}
		return nil, nil
	}
	_, list := value(root.Content[0], "clusters")
	for list.Kind == yaml.AliasNode {
		list = list.Alias
	}
	cluster := list.Content[i]
	return func(key string) int {
		if k, _ := value(cluster, key); k != nil {
			return k.Line
		}
		return cluster.Line
	}
}

type wrong struct{ key, what string }

// wrong returns the mistakes in a cluster, by key.
func (c *Cluster) wrong() (all []wrong) {
	say := func(is bool, key, what string) {
		if is {
			all = append(all, wrong{key, what})
		}
	}
	say(c.ID == "", "id", "a cluster needs one, for example \"lab\"")
	say(c.ID != "" && !goodID().MatchString(c.ID), "id", "must have only letters, digits and -_., at most 63, and begin and end with a letter or a digit")
	say(c.ID == "local", "id", "\"local\" stands for the machine that gpuwhy runs on")
	ways := 0
	for _, set := range []bool{c.Kubeconfig != "", c.URL != "", c.InCluster} {
		if set {
			ways++
		}
	}
	say(ways != 1, "id", "a cluster needs one of kubeconfig, url and in_cluster")
	say(c.Context != "" && c.Kubeconfig == "", "context", "has no effect without kubeconfig")
	for key, set := range map[string]bool{"token_file": c.TokenFile != "", "ca_file": c.CAFile != "", "skip_tls_verify": c.SkipTLSVerify} {
		say(set && c.URL == "", key, "has no effect without url")
	}
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		say(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "", "url",
			"must look like https://10.0.0.1:6443")
	}
	say(c.SkipTLSVerify && c.CAFile != "", "skip_tls_verify", "has no effect with ca_file: leave one of them out")
	say(len(c.NodeSelector) > 1024 || strings.ContainsFunc(c.NodeSelector, func(r rune) bool { return r < ' ' }), "node_selector", "must look like gpu=yes,zone!=b")
	say(!slices.Contains([]Mode{"", Auto, Loop, Once}, c.Mode), "mode", "must be auto, loop or once")
	say(c.Interval != 0 && (c.Interval < time.Second || c.Interval > time.Hour), "interval", "must be from 1s to 1h")
	say(c.ExecInterval != 0 && (c.ExecInterval < time.Second || c.ExecInterval > time.Hour), "exec_interval", "must be from 1s to 1h")
	say(c.Deadline != 0 && (c.Deadline < time.Second || c.Deadline > 5*time.Minute), "deadline", "must be from 1s to 5m")
	say(c.MaxExecs < 0 || c.MaxExecs > mostExecs, "max_execs", fmt.Sprintf("must be from 1 to %d", mostExecs))
	say(len(c.Pods) > mostPods, "pods", fmt.Sprintf("at most %d kinds are allowed", mostPods))
	for _, p := range c.Pods {
		say(len(p.Namespaces) == 0 || len(p.Labels) == 0, "pods", "each kind needs namespaces and labels")
		say(len(p.Namespaces) > mostPods || len(p.Labels) > mostPods, "pods", fmt.Sprintf("at most %d namespaces and labels are allowed", mostPods))
		for _, n := range p.Namespaces {
			say(!goodName().MatchString(n), "pods", fmt.Sprintf("%.80q is not a namespace", n))
		}
		for k, v := range p.Labels {
			say(!goodLabel().MatchString(k) || !goodValue().MatchString(v), "pods", fmt.Sprintf("%.80q: %.80q is not a label", k, v))
		}
		say(p.Container != "" && !goodName().MatchString(p.Container), "pods", fmt.Sprintf("%.80q is not a container", p.Container))
	}
	slices.SortStableFunc(all, func(a, b wrong) int { return cmp.Compare(a.key, b.key) }) // maps have no order
	return all
}

func (c *Cluster) setDefaults() {
	c.Mode = cmp.Or(c.Mode, Auto)
	c.Interval = cmp.Or(c.Interval, 5*time.Second)
	c.ExecInterval = cmp.Or(c.ExecInterval, 30*time.Second)
	c.MaxExecs = cmp.Or(c.MaxExecs, 16)
	c.Deadline = cmp.Or(c.Deadline, 20*time.Second)
	if len(c.Pods) == 0 {
		c.Pods = DefaultPods
	}
}

// inWords returns an error of the YAML package without Go's types.
func inWords(err error) error {
	texts := []string{err.Error()}
	if many, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = many.Errors
	}
	var errs []error
	for _, text := range texts {
		line, what := "", strings.TrimPrefix(text, "yaml: ")
		if m := linePattern().FindStringSubmatch(text); m != nil {
			line, what = "line "+m[1]+": ", m[2]
		}
		if m := unknownKey().FindStringSubmatch(what); m != nil {
			what = fmt.Sprintf("unknown key %q", m[1])
		} else if m := unfitting().FindStringSubmatch(what); m != nil {
			what = map[string]string{
				"bool": "must be true or false", "int": "must be a whole number", "time.Duration": "must be a duration, for example 30s or 5m",
				"string": "must be text", "[]string": "must be a list of text values", "kube.Mode": "must be text",
			}[m[3]]
			what = cmp.Or(what, "does not belong here: see the example in the guide, at /guide/fleet")
			if m[2] != "" {
				what = fmt.Sprintf("%q %s", m[2], what)
			}
		}
		errs = append(errs, errors.New(line+what))
	}
	return errors.Join(errs...)
}
