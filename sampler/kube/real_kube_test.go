//go:build kube

package kube

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

var programs = flag.String("programs", "", "the folder with kube-apiserver, etcd and kubelet")

// A realServer is a kube-apiserver with etcd, and one kubelet for all nodes.
type realServer struct {
	t      *testing.T
	dir    string
	url    string
	etcd   string // its URL
	end    func() // of the API server
	port   int    // of the kubelet
	admin  *api
	ca     *x509.Certificate
	signer *ecdsa.PrivateKey
}

// startServer starts all three. The API server's audit file records the requests for pods/exec.
func startServer(t *testing.T) *realServer {
	t.Helper()
	if *programs == "" {
		t.Skip("make test-kube builds what this needs")
	}
	s := &realServer{t: t, dir: t.TempDir()}
	s.authority()
	s.certificate("server")
	s.certificate("kubelet")
	s.certificate("client")
	write(t, s.file("tokens"), "admin,admin,admin,system:masters\n")
	write(t, s.file("admin"), "admin")
	write(t, s.file("policy"), `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseComplete"], "rules": [
		{"level": "Metadata", "resources": [{"group": "", "resources": ["pods/exec"]}]}, {"level": "None"}]}`)

	free := freePorts(t, 3)
	etcd := fmt.Sprintf("http://127.0.0.1:%d", free[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", free[1])
	s.run("etcd", "--data-dir", s.file("etcd"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)

	line := make([]byte, 16)
	out, _ := s.run("kubelet", "--containers", s.file("containers"), "--cert", s.file("kubelet.crt"), "--key", s.file("kubelet.key"), "--ca", s.file("ca.crt"))
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(line[:n]), &s.port); err != nil {
		t.Fatal(err)
	}

	s.url, s.etcd = fmt.Sprintf("https://127.0.0.1:%d", free[2]), etcd
	s.admin, err = newAPI(&Cluster{URL: s.url, CAFile: s.file("ca.crt"), TokenFile: s.file("admin")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.admin.close)
	s.serve()
	return s
}

// serve starts the API server, and waits until it is ready.
func (s *realServer) serve() {
	s.t.Helper()
	_, s.end = s.run("kube-apiserver", "--etcd-servers", s.etcd, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", s.url[strings.LastIndexByte(s.url, ':')+1:],
		"--tls-cert-file", s.file("server.crt"), "--tls-private-key-file", s.file("server.key"), "--cert-dir", s.dir,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", s.file("server.crt"),
		"--service-account-signing-key-file", s.file("server.key"), "--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none",
		"--token-auth-file", s.file("tokens"), "--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount",
		"--kubelet-client-certificate", s.file("client.crt"), "--kubelet-client-key", s.file("client.key"),
		"--kubelet-certificate-authority", s.file("ca.crt"), "--kubelet-preferred-address-types", "InternalIP",
		"--audit-policy-file", s.file("policy"), "--audit-log-path", s.file("audit"))
	testkit.Until(s.t, "the API server is ready", func() bool {
		resp, err := s.admin.do(s.t.Context(), http.MethodGet, "/readyz", nil, nil)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
}

func (s *realServer) file(name string) string { return filepath.Join(s.dir, name) }

// run starts a program that ends with the test, or earlier; the last one ends first. It returns the program's output.
func (s *realServer) run(name string, args ...string) (out io.Reader, end func()) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(*programs, name), args...) //nolint:gosec // a program of the test
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	s.t.Cleanup(func() {
		end()
		if text := said.Bytes(); s.t.Failed() {
			s.t.Logf("%s said: %s", name, text[max(0, len(text)-4000):])
		}
	})
	return out, end
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports, err := testkit.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

func (s *realServer) authority() {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	s.signer = key
	s.ca = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	s.sign("ca", s.ca, key)
}

// certificate makes a certificate for both sides of a connection on this machine.
func (s *realServer) certificate(name string) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	s.sign(name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: s.ca.NotBefore, NotAfter: s.ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
}

func (s *realServer) sign(name string, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	s.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, s.ca, key.Public(), s.signer)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, s.file(name+".crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(s.t, s.file(name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
}

// An entry is an object of a manifest.
type entry map[string]any

func (e entry) text(field, name string) string {
	in, _ := e[field].(map[string]any)
	text, _ := in[name].(string)
	return text
}

// path returns the object's path on the API server.
func (e entry) path() string {
	version, _ := e["apiVersion"].(string)
	kind, _ := e["kind"].(string)
	path := "/apis/" + version
	if version == "v1" {
		path = "/api/v1"
	}
	if namespace := e.text("metadata", "namespace"); namespace != "" {
		path += "/namespaces/" + namespace
	}
	plural := strings.ToLower(kind) + "s"
	if stem, ends := strings.CutSuffix(plural, "ys"); ends {
		plural = stem + "ies"
	}
	return path + "/" + plural + "/" + e.text("metadata", "name")
}

// apply does what kubectl apply --server-side does. part, the last part of the path, may be "status".
func (s *realServer) apply(e entry, dry bool, part string) error {
	s.t.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		s.t.Fatal(err)
	}
	query := url.Values{"fieldManager": {"test"}, "force": {"true"}, "fieldValidation": {"Strict"}}
	if dry {
		query.Set("dryRun", "All")
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPatch, s.url+e.path()+part+"?"+query.Encode(), bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/apply-patch+yaml")
	resp, err := s.admin.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %d %s", e.path(), resp.StatusCode, said)
	}
	return nil
}

func (s *realServer) put(e entry, part string) {
	s.t.Helper()
	if err := s.apply(e, false, part); err != nil {
		s.t.Fatal(err)
	}
}

func (s *realServer) remove(path string) {
	s.t.Helper()
	var gone any
	if err := s.admin.exchange(s.t.Context(), http.MethodDelete, path, url.Values{"gracePeriodSeconds": {"0"}}, nil, &gone); err != nil {
		s.t.Fatal(err)
	}
}

// manifest returns the objects in a file.
func manifest(t *testing.T, file string) (all []entry) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", file))
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var e map[string]any // an entry here would decode as one at each depth
		if err := documents.Decode(&e); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if e != nil {
			all = append(all, e)
		}
	}
}

func (s *realServer) namespace(name string) {
	s.t.Helper()
	s.put(entry{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}, "")
}

// node adds a node with eight GPUs.
func (s *realServer) node(name string) {
	s.t.Helper()
	object := entry{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name}}
	s.put(object, "")
	object["status"] = map[string]any{
		"capacity":        map[string]any{"cpu": "96", "nvidia.com/gpu": "8"},
		"conditions":      []any{map[string]any{"type": "Ready", "status": "True"}},
		"addresses":       []any{map[string]any{"type": "InternalIP", "address": "127.0.0.1"}},
		"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": s.port}},
	}
	s.put(object, "/status")
}

const podPath = "/api/v1/namespaces/gpu-operator/pods/"

// pod adds a running driver pod. Commands executed in it find programs in the folder.
func (s *realServer) pod(name, node, folder string) {
	s.t.Helper()
	container := s.file(filepath.Join("containers", "gpu-operator", name, "nvidia-driver-ctr"))
	if err := os.MkdirAll(filepath.Dir(container), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink(folder, container); err != nil && !errors.Is(err, os.ErrExist) {
		s.t.Fatal(err)
	}
	object := entry{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": "gpu-operator", "labels": map[string]any{"app": "nvidia-driver-daemonset"}},
		"spec":     map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": "nvidia-driver-ctr", "image": "driver"}}},
	}
	s.put(object, "")
	delete(object, "spec")
	object["status"] = map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{
		"name": "nvidia-driver-ctr", "ready": true, "restartCount": 0, "image": "driver", "imageID": "driver",
		"state": map[string]any{"running": map[string]any{}},
	}}}
	s.put(object, "/status")
}

// verbs sets which verbs on pods/exec an account has, in the manifest's role.
func (s *realServer) verbs(role entry, verbs ...any) {
	s.t.Helper()
	changed := false
	for _, rule := range role["rules"].([]any) {
		if rule := rule.(map[string]any); fmt.Sprint(rule["resources"]) == "[pods/exec]" {
			rule["verbs"], changed = verbs, true
		}
	}
	if !changed {
		s.t.Fatal("the role has no rule for pods/exec")
	}
	s.put(role, "")
}

// token returns a file with a token of the manifest's account.
func (s *realServer) token() string {
	s.t.Helper()
	var said struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	ask := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}}
	if err := s.admin.exchange(s.t.Context(), http.MethodPost, "/api/v1/namespaces/gpuwhy/serviceaccounts/gpuwhy-agentless/token", nil, ask, &said); err != nil {
		s.t.Fatal(err)
	}
	file := s.file("token")
	write(s.t, file, said.Status.Token)
	return file
}

// streams returns how many execs were allowed with a method, as the API server has audited: "get" is a WebSocket, "create" SPDY.
func (s *realServer) streams(verb string) (n int) {
	s.t.Helper()
	text, err := os.ReadFile(s.file("audit"))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e struct {
			Verb           string
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal(line, &e) == nil && e.Verb == verb && e.ResponseStatus.Code == http.StatusSwitchingProtocols {
			n++
		}
	}
	return n
}

func (s *realServer) watch(t *testing.T, token, more string) *fleet {
	t.Helper()
	return watch(t, parsed(t, s.url, "ca_file: "+s.file("ca.crt")+"\ntoken_file: "+token+"\n"+more))
}

// fakekube behaves as a real API server does: who may do what, watches, and exec through its stream translator.
func TestRealServer(t *testing.T) {
	s := startServer(t)
	s.namespace("gpu-operator")
	s.namespace("gpuwhy")

	t.Run("manifests", func(t *testing.T) {
		for _, file := range []string{"gpuwhy.yaml", "agentless.yaml", "agentless-rbac.yaml"} {
			for _, e := range manifest(t, file) {
				if err := s.apply(e, true, ""); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				e["nonsense"] = true
				if err := s.apply(e, true, ""); err == nil {
					t.Errorf("%s: %s is taken with a field that there is not", file, e.path())
				}
			}
		}
	})

	rights := manifest(t, "agentless-rbac.yaml")
	var role entry
	for _, e := range rights {
		if e["kind"] == "ServiceAccount" {
			s.put(e, "")
		}
		if e["kind"] == "Role" {
			role = e
		}
	}
	token := s.token()
	m, folder := machine(t, "rtx4090-550")

	t.Run("comes and goes", func(t *testing.T) {
		f := s.watch(t, token, "")
		state := f.is(Forbidden)
		if !strings.Contains(state.Advice.Try, "agentless-rbac.yaml") {
			t.Errorf("%+v", state.Advice)
		}
		t.Log(state.Advice.What, state.Advice.Try)
		for _, e := range rights {
			s.put(e, "")
		}
		f.is(NoGPUNodes)
		s.node("gpu-1")
		f.is(NoOperator)
		s.pod("driver-1", "gpu-1", folder)
		f.is(OK)
		snap := f.well("gpu-1")
		if d := snap.Devices[0]; d.Source != gpu.SourceKubernetes || d.Name != "NVIDIA GeForce RTX 4090" {
			t.Errorf("%s of %s", d.Name, d.Source)
		}
		s.remove(podPath + "driver-1")
		if a := f.says("gpu-1", "no driver pod runs on node gpu-1"); !errors.Is(a, gpu.ErrNoDriver) {
			t.Error(a)
		}
		s.pod("driver-1", "gpu-1", folder)
		f.well("gpu-1")
		s.remove("/api/v1/nodes/gpu-1")
		f.until("it leaves", func() bool { _, there := f.node("gpu-1"); return !there })
		f.until("its commands end", func() bool { return len(m.Running()) == 0 })
		s.node("gpu-1")
		f.well("gpu-1")
	})

	for _, mode := range []Mode{Loop, Once} {
		t.Run(string(mode), func(t *testing.T) {
			s.reads(t, m, token, mode, "get")
		})
	}
	t.Run("no get", func(t *testing.T) {
		s.verbs(role, "create")
		s.reads(t, m, token, Once, "create")
	})
	t.Run("no create", func(t *testing.T) {
		s.verbs(role, "get")
		s.refuses(t, token, "the right to create on pods/exec")
	})
	t.Run("neither", func(t *testing.T) {
		s.verbs(role, "list")
		s.refuses(t, token, "the right to get and create on pods/exec")
	})
	s.verbs(role, "get", "create")
	t.Run("without pods of all namespaces", func(t *testing.T) {
		for _, e := range rights {
			if rules, _ := e["rules"].([]any); e["kind"] == "ClusterRole" {
				if fmt.Sprint(rules[1].(map[string]any)["resources"]) != "[pods]" {
					t.Fatal("the second rule is not that for pods")
				}
				less := maps.Clone(e)
				less["rules"] = rules[:1]
				s.put(less, "")
				defer s.put(e, "")
			}
		}
		f := s.watch(t, token, "")
		f.is(OK)
		f.well("gpu-1")
	})

	t.Run("gone", func(t *testing.T) {
		cfg := &parsed(t, s.url, "ca_file: "+s.file("ca.crt")+"\ntoken_file: "+token+"\n").Clusters[0]
		goneAdvice(t, cfg, target{namespace: "gpu-operator", pod: "driver-2", container: "nvidia-driver-ctr"})
		// The pod exists, but its container does not.
		container := s.file(filepath.Join("containers", "gpu-operator", "driver-1", "nvidia-driver-ctr"))
		if err := os.Remove(container); err != nil {
			t.Fatal(err)
		}
		goneAdvice(t, cfg, target{namespace: "gpu-operator", pod: "driver-1", container: "nvidia-driver-ctr"})
		if err := os.Symlink(folder, container); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("the chart's rights", func(t *testing.T) {
		s.remove("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/gpuwhy-agentless")
		s.remove("/apis/rbac.authorization.k8s.io/v1/namespaces/gpu-operator/rolebindings/gpuwhy-agentless")
		f := s.watch(t, token, "")
		f.is(Forbidden)
		for _, e := range manifest(t, "agentless.yaml") {
			s.put(e, "")
		}
		f.is(OK)
		f.well("gpu-1")
	})
	t.Run("away", func(t *testing.T) {
		f := s.watch(t, token, "")
		f.well("gpu-1")
		s.end()
		f.is(Unreachable)
		_ = f.says("gpu-1", "can't be")
		f.until("its commands end", func() bool { return len(m.Running()) == 0 })
		s.serve()
		f.is(OK)
		f.well("gpu-1")
	})
	t.Run("unknown", func(t *testing.T) {
		bad := filepath.Join(t.TempDir(), "token")
		write(t, bad, "nobody")
		f := s.watch(t, bad, "mode: once\n")
		state := f.is(Unauthenticated)
		t.Log(state.Advice.What, state.Advice.Try)
		good, err := os.ReadFile(token)
		if err != nil {
			t.Fatal(err)
		}
		write(t, bad, string(good))
		f.is(OK)
		f.well("gpu-1")
	})
}

// reads reads the node twice, through streams that were opened with only one verb.
func (s *realServer) reads(t *testing.T, m *fakesmi.Machine, token string, mode Mode, verb string) {
	t.Helper()
	other := map[string]string{"get": "create", "create": "get"}[verb]
	before, not := s.streams(verb), s.streams(other)
	f := s.watch(t, token, "mode: "+string(mode)+"\n")
	was := f.well("gpu-1").Devices[0].Thermal.GPU.Or(0)
	m.Set(m.Addresses()[0], "temperature.gpu", fmt.Sprint(was+7))
	f.reads("gpu-1", "another temperature", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && len(snap.Devices) > 0 && snap.Devices[0].Thermal.GPU.Or(0) == was+7
	})
	f.end()
	if s.streams(verb) == before || s.streams(other) != not {
		t.Errorf("%d streams with %s, %d with %s", s.streams(verb)-before, verb, s.streams(other)-not, other)
	}
	f.until("nothing is left in the container", func() bool { return len(m.Running()) == 0 })
}

func (s *realServer) refuses(t *testing.T, token, says string) {
	t.Helper()
	f := s.watch(t, token, "")
	a := f.says("gpu-1", says)
	if !errors.Is(a, gpu.ErrNotPermitted) {
		t.Errorf("%v is no %v", a, gpu.ErrNotPermitted)
	}
	t.Log(a.Text())
	f.end()
}
