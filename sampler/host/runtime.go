package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// namesFor is how long an answer is kept: a container may be renamed.
const namesFor = 10 * time.Minute

// A names knows the names of containers, by asking their runtimes over unix sockets: with GET Docker's API, which Podman also has; with
// gRPC the container runtime interface (CRI) of containerd and CRI-O, and containerd's own API. It also reads containerd's files.
type names = asker[containerKey, answer]

// A containerKey is what a control group says about a container.
type containerKey struct {
	id, runtime, parent string
	owner               int
	pod                 bool
}

// An answer is what a runtime knows about a container and its pod.
type answer struct {
	name, image                      gpu.Reading[string]
	podNamespace, podName, podMember gpu.Reading[string]
}

// nameContainer sets the names of the container and the pod, as far as known.
func (r *Reader) nameContainer(f *gpu.ProcessFacts, p *place, now time.Time) {
	c := p.container
	if c.None() {
		return
	}
	if c.Runtime == gpu.RuntimeLXC || c.Runtime == gpu.RuntimeNspawn {
		c.Name, c.Image = gpu.Of(c.ID), gpu.Absent[string](gpu.NotSupported)
		f.Container = gpu.Of(c)
		return
	}
	k := r.names.lookUp(containerKey{c.ID, c.Runtime, p.parent, p.owner, !p.pod.None()}, now)
	a := k.value
	if k.asked.IsZero() {
		none := gpu.Absent[string](k.quality)
		a = answer{none, none, none, none, none}
	}
	c.Name, c.Image = a.name, a.image
	f.Container = gpu.Of(c)
	if pod := p.pod; !pod.None() {
		pod.Namespace, pod.Name, pod.Container = a.podNamespace, a.podName, a.podMember
		f.Pod = gpu.Of(pod)
	}
}

// The sockets of the machine's runtimes, below the root. K3s, RKE2, k0s and MicroK8s have their own containerd.
var (
	dockerSockets     = []string{"run/docker.sock", "var/run/docker.sock"}
	podmanSockets     = []string{"run/podman/podman.sock"}
	crioSockets       = []string{"run/crio/crio.sock", "var/run/crio/crio.sock"}
	containerdSockets = []string{
		"run/containerd/containerd.sock", "run/k3s/containerd/containerd.sock",
		"run/k0s/containerd.sock", "var/snap/microk8s/common/run/containerd.sock",
	}
)

func (c *containerKey) ways(root string) []way[answer] {
	var out []way[answer]
	add := func(kind string, ask func(context.Context, string, *containerKey) (answer, error), paths ...string) {
		for _, p := range paths {
			p = root + "/" + p
			out = append(out, way[answer]{kind + " " + p, p, func(ctx context.Context, path string) (answer, error) {
				a, err := answer{}, ownSocket(path, c.owner)
				if err == nil {
					a, err = ask(ctx, path, c)
				}
				if errors.Is(err, fs.ErrNotExist) { // gone, with its containers
					err = errUnknown
				}
				return a, err
			}})
		}
	}
	is := func(runtime string) bool { return c.runtime == runtime || c.runtime == "" }
	// The machine's runtimes are not asked: users can give their control groups the name of somebody else's container.
	if c.owner >= 0 {
		own := "run/user/" + strconv.Itoa(c.owner)
		if c.runtime != gpu.RuntimePodman {
			add("Docker's API", askDocker, own+"/docker.sock")
		}
		add("Podman's API", askDocker, own+"/podman/podman.sock")
		return out
	}
	if is(gpu.RuntimeContainerd) {
		if c.pod {
			add("CRI", askCRI, containerdSockets...)
		} else {
			add("containerd's API", askContainerd, containerdSockets...)
		}
		for _, state := range []string{"/run/containerd", "/run/k3s/containerd"} {
			for _, namespace := range c.namespaces() { // the folder with containerd's files of containers
				folder := root + state + "/io.containerd.runtime.v2.task/" + namespace
				out = append(out, way[answer]{"bundles in " + folder, folder + "/" + c.id + "/config.json", readBundle})
			}
		}
	}
	if is(gpu.RuntimeDocker) || c.parent == dockersNamespace {
		add("Docker's API", askDocker, dockerSockets...)
	}
	if is(gpu.RuntimePodman) {
		add("Podman's API", askDocker, podmanSockets...)
	}
	if is(gpu.RuntimeCRIO) {
		add("CRI", askCRI, crioSockets...)
	}
	return out
}

const (
	kubernetesNamespace = "k8s.io"
	dockersNamespace    = "moby"
	defaultNamespace    = "default"
)

var namespaceName = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,75}$`)

// namespaces returns the containerd namespaces that may have the container: the one that its control group names, otherwise the usual ones.
func (c *containerKey) namespaces() []string {
	switch {
	case c.pod:
		return []string{kubernetesNamespace}
	case namespaceName().MatchString(c.parent) && !strings.HasSuffix(c.parent, ".slice"):
		return []string{c.parent}
	default:
		return []string{defaultNamespace, kubernetesNamespace, dockersNamespace}
	}
}

// ownSocket checks that a path is the user's own socket, and not a link to another. It accepts everything for a negative uid.
func ownSocket(path string, uid int) error {
	if uid < 0 {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if owner, ok := ownerOf(info); info.Mode().Type() != fs.ModeSocket || !ok || owner != uid {
		return fmt.Errorf("%s is no socket of user %d", path, uid)
	}
	return nil
}

// askDocker asks Docker's API: GET /containers/{id}/json.
func askDocker(ctx context.Context, socket string, c *containerKey) (answer, error) {
	var got struct {
		Name   string
		Config struct {
			Image  string
			Labels map[string]string
		}
	}
	if err := get(ctx, socket, "/containers/"+c.id+"/json", &got); err != nil {
		return answer{}, err
	}
	return newAnswer(strings.TrimPrefix(got.Name, "/"), got.Config.Image, got.Config.Labels), nil
}

// readBundle reads only the annotations that containerd gave the container.
func readBundle(_ context.Context, path string) (answer, error) {
	file, err := os.Open(path)
	if err != nil {
		return answer{}, err
	}
	defer file.Close()
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := decode(file, path, &spec); err != nil {
		return answer{}, err
	}
	a := spec.Annotations
	const cri = "io.kubernetes.cri."
	return newAnswer(cmp.Or(a[cri+"container-name"], a["nerdctl/name"]), a[cri+"image-name"], map[string]string{
		podNamespaceLabel: a[cri+"sandbox-namespace"],
		podNameLabel:      a[cri+"sandbox-name"],
		podMemberLabel:    a[cri+"container-name"],
	}), nil
}

// decode reads JSON; path is where it came from.
func decode(body io.Reader, path string, into any) error {
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// The labels that the kubelet puts on its containers.
const (
	podNamespaceLabel = "io.kubernetes.pod.namespace"
	podNameLabel      = "io.kubernetes.pod.name"
	podMemberLabel    = "io.kubernetes.container.name"
)

// newAnswer returns an answer with the kubelet's name for the container if it has one, since that is shorter than the runtime's name.
func newAnswer(name, image string, labels map[string]string) answer {
	return answer{
		name: said(cmp.Or(labels[podMemberLabel], name)), image: said(image),
		podNamespace: said(labels[podNamespaceLabel]), podName: said(labels[podNameLabel]), podMember: said(labels[podMemberLabel]),
	}
}

func said(text string) gpu.Reading[string] {
	if text == "" {
		return gpu.Reading[string]{}
	}
	return gpu.Of(short(text))
}

// get sends a request over a unix socket, and decodes the JSON of the answer.
func get(ctx context.Context, socket, path string, into any) error {
	client := http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return decode(resp.Body, socket, into)
	case http.StatusNotFound:
		return errUnknown
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s: %s: %w", socket, resp.Status, fs.ErrPermission)
	}
	return fmt.Errorf("%s: %s", socket, resp.Status)
}
