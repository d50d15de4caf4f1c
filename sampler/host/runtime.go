package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// namesFor is how long an answer is kept, also if no runtime knows the container. A
// container may get another name.
const namesFor = 10 * time.Minute

// names knows the names of containers, by asking their runtimes. A new container is put
// in a queue, and its name is there some readings later.
//
// It only reads, over the unix sockets of the runtimes: with GET from Docker's API, which
// Podman has too; with gRPC from the container runtime interface (CRI) of containerd and
// CRI-O and from containerd's own API. It also reads the files of containerd's bundles.
type names struct {
	asker
	known   map[namesKey]*named
	queue   []question
	resting map[string]time.Time // ways that are not used until then
}

type namesKey struct {
	id, runtime, parent string
	owner               int
	pod                 bool
}

// named is what is known about a container.
type named struct {
	answer
	due   time.Time // when to ask a runtime again
	asked time.Time // when a reading last asked
}

// An answer is what a runtime knows about a container and its pod.
type answer struct {
	name, image                      gpu.Reading[string]
	podNamespace, podName, podMember gpu.Reading[string]
}

// A question is a container to ask about, with the time of the reading that asked.
type question struct {
	key namesKey
	now time.Time
}

func newNames(root string, log *slog.Logger) *names {
	n := &names{known: map[namesKey]*named{}, resting: map[string]time.Time{}}
	n.open(root, log)
	return n
}

// fill sets the names of the container and the pod, as far as they are known.
func (n *names) fill(f *gpu.ProcessFacts, p *place, now time.Time) {
	if p.container.None() {
		return
	}
	a := n.of(p, now)
	c := p.container
	c.Name, c.Image = a.name, a.image
	f.Container = gpu.Of(c)
	if pod := p.pod; !pod.None() {
		pod.Namespace, pod.Name, pod.Container = a.podNamespace, a.podName, a.podMember
		f.Pod = gpu.Of(pod)
	}
}

// of returns what is known about a container, and asks again if it is time to.
func (n *names) of(p *place, now time.Time) answer {
	if p.container.Runtime == gpu.RuntimeLXC || p.container.Runtime == gpu.RuntimeNspawn {
		return answer{name: gpu.Of(p.container.ID), image: gpu.Absent[string](gpu.NotSupported)}
	}
	key := namesKey{p.container.ID, p.container.Runtime, p.parent, p.owner, !p.pod.None()}
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.known[key]
	if k == nil {
		k = &named{}
		n.known[key] = k
	}
	k.asked = now
	if !now.Before(k.due) && n.ctx.Err() == nil {
		k.due = now.Add(restFor) // until there is an answer
		n.queue = append(n.queue, question{key, now})
		n.start(n.work)
	}
	return k.answer
}

// forget drops containers that no reading has asked about for a while.
func (n *names) forget(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, k := range n.known {
		if now.Sub(k.asked).Abs() > namesFor {
			delete(n.known, key)
		}
	}
}

// work asks until the queue is empty. One question at a time is enough: containers live
// long, and a dead socket costs its deadline once.
func (n *names) work() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) > 0 && n.ctx.Err() == nil {
		q := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		a, final := n.ask(q)
		n.mu.Lock()
		if k := n.known[q.key]; k != nil {
			keep := restFor
			if final {
				keep = namesFor
			}
			// The last answer stays while nobody answers.
			if final || !k.name.Present() {
				k.answer = a
			}
			k.due = q.now.Add(keep)
		}
	}
	n.queue, n.working = nil, nil
}

// errUnknown is the answer of a runtime that does not know a container.
var errUnknown = errors.New("the runtime knows no such container")

// ask asks each runtime that may know the container. The answer is final if one knew it,
// or if all could be asked and none did.
func (n *names) ask(q question) (a answer, final bool) {
	final = true
	quality := gpu.NotReported
	for _, w := range n.ways(&q.key) {
		if n.rests(w.name, q.now) {
			final = false
			continue
		}
		err := ownSocket(w.path, w.owner)
		if err == nil {
			ctx, cancel := context.WithTimeout(n.ctx, n.wait)
			a, err = w.ask(ctx, w.path, &q.key)
			cancel()
		}
		switch {
		case err == nil:
			return a, true
		case errors.Is(err, errUnknown), errors.Is(err, fs.ErrNotExist):
			continue // does not know it, or is not installed
		}
		final, quality = false, max(quality, absence(err))
		n.rest(w.name, q.now, err)
	}
	none := gpu.Absent[string](quality)
	return answer{none, none, none, none, none}, final
}

// A way is one place to ask about a container.
type way struct {
	// name is the unit that is not used for a while after a failure: the service
	// on a socket, or the folder of a file.
	name  string
	path  string // of a socket or a file, below the root
	ask   func(ctx context.Context, path string, k *namesKey) (answer, error)
	owner int // who must own the socket; -1: anybody
}

// Where the machine's runtimes listen, below the root. K3s, RKE2, k0s and MicroK8s have
// a containerd of their own.
var (
	dockerSockets     = []string{"run/docker.sock", "var/run/docker.sock"}
	podmanSockets     = []string{"run/podman/podman.sock"}
	crioSockets       = []string{"run/crio/crio.sock", "var/run/crio/crio.sock"}
	containerdSockets = []string{
		"run/containerd/containerd.sock", "run/k3s/containerd/containerd.sock",
		"run/k0s/containerd.sock", "var/snap/microk8s/common/run/containerd.sock",
	}
)

// ways lists where to ask about a container, the likeliest place first.
func (n *names) ways(k *namesKey) []way {
	var out []way
	add := func(kind string, ask func(context.Context, string, *namesKey) (answer, error), paths ...string) {
		for _, p := range paths {
			p = n.root + "/" + p
			out = append(out, way{kind + " " + p, p, ask, k.owner})
		}
	}
	is := func(runtime string) bool { return k.runtime == runtime || k.runtime == "" }
	// Only a user's own runtimes are asked about that user's containers, not
	// the machine's: users can give their control groups the name of somebody
	// else's container.
	if k.owner >= 0 {
		own := "run/user/" + strconv.Itoa(k.owner)
		if k.runtime != gpu.RuntimePodman {
			add("Docker's API", askDocker, own+"/docker.sock")
		}
		add("Podman's API", askDocker, own+"/podman/podman.sock")
		return out
	}
	if is(gpu.RuntimeContainerd) {
		if k.pod {
			add("CRI", askCRI, containerdSockets...)
		} else {
			add("containerd's API", askContainerd, containerdSockets...)
		}
		for _, folder := range k.bundles() {
			folder = n.root + "/" + folder
			out = append(out, way{"bundles in " + folder, folder + "/" + k.id + "/config.json", readBundle, -1})
		}
	}
	if is(gpu.RuntimeDocker) || k.parent == dockersNamespace {
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

var namespaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,75}$`)

// namespaces are those of containerd that the container may be in: the one that its
// control group names, or else the usual ones.
func (k *namesKey) namespaces() []string {
	switch {
	case k.pod:
		return []string{kubernetesNamespace}
	case namespaceName.MatchString(k.parent) && !strings.HasSuffix(k.parent, ".slice"):
		return []string{k.parent}
	default:
		return []string{defaultNamespace, kubernetesNamespace, dockersNamespace}
	}
}

// bundles are the folders where containerd keeps the files of containers.
func (k *namesKey) bundles() []string {
	var out []string
	for _, state := range []string{"run/containerd", "run/k3s/containerd"} {
		for _, namespace := range k.namespaces() {
			out = append(out, state+"/io.containerd.runtime.v2.task/"+namespace)
		}
	}
	return out
}

// rests reports whether a way is not to be used now.
func (n *names) rests(name string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.Before(n.resting[name])
}

// rest stops using a way for a while, and logs it once.
func (n *names) rest(name string, now time.Time, err error) {
	if n.ctx.Err() != nil {
		return // it is we who gave up
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resting[name] = now.Add(restFor)
	n.complain("names of containers", name, err)
}

// ownSocket checks that a path is a socket of the user's own, not for example a link to
// the socket of another service. It accepts everything for a uid below 0.
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
func askDocker(ctx context.Context, socket string, k *namesKey) (answer, error) {
	var c struct {
		Name   string
		Config struct {
			Image  string
			Labels map[string]string
		}
	}
	if err := get(ctx, socket, "/containers/"+k.id+"/json", &c); err != nil {
		return answer{}, err
	}
	return newAnswer(strings.TrimPrefix(c.Name, "/"), c.Config.Image, c.Config.Labels), nil
}

// readBundle reads the annotations that containerd gave the container. The other parts
// of the file, such as the environment, are not used.
func readBundle(_ context.Context, path string, _ *namesKey) (answer, error) {
	file, err := os.Open(path)
	if err != nil {
		return answer{}, err
	}
	defer file.Close()
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.NewDecoder(io.LimitReader(file, maxAnswer)).Decode(&spec); err != nil {
		return answer{}, fmt.Errorf("%s: %w", path, err)
	}
	a := spec.Annotations
	const cri = "io.kubernetes.cri."
	return newAnswer(cmp.Or(a[cri+"container-name"], a["nerdctl/name"]), a[cri+"image-name"], map[string]string{
		podNamespaceLabel: a[cri+"sandbox-namespace"],
		podNameLabel:      a[cri+"sandbox-name"],
		podMemberLabel:    a[cri+"container-name"],
	}), nil
}

// The labels that the kubelet gives its containers.
const (
	podNamespaceLabel = "io.kubernetes.pod.namespace"
	podNameLabel      = "io.kubernetes.pod.name"
	podMemberLabel    = "io.kubernetes.container.name"
)

// newAnswer returns an answer with the kubelet's name for the container if it has one,
// since that is shorter than the name that the runtime knows.
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
	switch {
	case resp.StatusCode == http.StatusOK:
	case resp.StatusCode == http.StatusNotFound:
		return errUnknown
	case slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, resp.StatusCode):
		return fmt.Errorf("%s: %s: %w", socket, resp.Status, fs.ErrPermission)
	default:
		return fmt.Errorf("%s: %s", socket, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", socket, err)
	}
	return nil
}
