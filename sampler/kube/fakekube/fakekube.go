// Package fakekube is a Kubernetes API server for tests. It has lists, watches, the right to execute, and exec over WebSocket as client-go
// speaks it. Exec runs real programs on this machine, with a PATH that the test sets.
package fakekube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A Server is an API server. Several goroutines may call its methods.
type Server struct {
	tb testing.TB
	*httptest.Server

	mu      sync.Mutex
	version int
	objects map[string]object // by kind, namespace and name
	events  []event
	since   int // older versions are gone
	changed chan struct{}
	tokens  []string // valid tokens; none: all are valid
	denied  map[string]bool
	away    bool
	mute    bool          // exec opens, but executes nothing
	held    chan struct{} // exec waits until this is closed; nil: it does not wait
	noInput bool          // exec has no standard input
	breaks  bool          // an exec ends when its input receives something
	folders map[string]string
	conns   map[int]func() // ends an exec
	counts  Counts
	now     int // running execs
	serial  int

	execs sync.WaitGroup // execs and their commands
}

// Counts are the requests that the server received.
type Counts struct {
	Execs, Most           int // in total, and at the same time
	Running               int // running now
	Lists, Watches        int
	Unauthorized, Spdy    int
	Commands              int // begun
	Ended                 int // ended
	Streams, StreamsEnded int
}

type object struct {
	kind string // "nodes" or "pods"
	body map[string]any
}

type event struct {
	version int
	kind    string
	what    string // ADDED, MODIFIED, DELETED
	body    map[string]any
}

// New starts a server that ends with the test.
func New(tb testing.TB) *Server {
	s := Unstarted(tb)
	s.Start()
	return s
}

// Unstarted returns a server that the test starts itself, for example with TLS. When the test ends, the server waits for its commands; only
// then are the test's folders removed, even those that it makes later.
func Unstarted(tb testing.TB) *Server {
	_ = tb.TempDir() // registers the removal of folders first, so that it runs last
	s := &Server{
		tb: tb, version: 100, objects: map[string]object{}, changed: make(chan struct{}), denied: map[string]bool{},
		folders: map[string]string{}, conns: map[int]func(){},
	}
	s.Server = httptest.NewUnstartedServer(s.handler())
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		s.Cut()
		ended := make(chan struct{})
		go func() { s.execs.Wait(); close(ended) }()
		testkit.Receive(tb, "fakekube: all execs and their commands end", ended, func() any { return s.Counts() })
	})
	return s
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) { s.collection(w, r, "nodes", "") })
	mux.HandleFunc("GET /api/v1/nodes/{node}", s.one)
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) { s.collection(w, r, "pods", "") })
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		s.collection(w, r, "pods", r.PathValue("namespace"))
	})
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{pod}/exec", s.exec)
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", s.review)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		away := s.away
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), "Bearer ")
		known := len(s.tokens) == 0 || slices.Contains(s.tokens, token)
		if !known {
			s.counts.Unauthorized++
		}
		s.mu.Unlock()
		switch {
		case away:
			panic(http.ErrAbortHandler)
		case !known:
			refuse(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status(code, reason, message))
}

func status(code int, reason, message string) map[string]any {
	return map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": message, "reason": reason, "code": code,
	}
}

// Node adds or replaces a node. A nil change leaves a ready node with eight GPUs.
func (s *Server) Node(name string, change ...func(map[string]any)) {
	body := map[string]any{
		"kind": "Node", "apiVersion": "v1",
		"metadata": map[string]any{"name": name, "uid": "uid-" + name, "labels": map[string]any{"kubernetes.io/hostname": name}},
		"spec":     map[string]any{},
		"status": map[string]any{
			"capacity":   map[string]any{"cpu": "96", "nvidia.com/gpu": "8"},
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
			"nodeInfo":   map[string]any{"bootID": "boot-" + name, "kernelVersion": "6.8.0", "osImage": "Ubuntu 24.04 LTS"},
		},
	}
	for _, c := range change {
		c(body)
	}
	s.put("nodes", "", name, body)
}

// Ready sets whether a node is ready.
func Ready(yes bool) func(map[string]any) {
	return func(body map[string]any) {
		c := map[string]any{"type": "Ready", "status": "True"}
		if !yes {
			c = map[string]any{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "container runtime is down"}
		}
		body["status"].(map[string]any)["conditions"] = []any{c}
	}
}

// Capacity sets what a node offers.
func Capacity(amounts map[string]any) func(map[string]any) {
	return func(body map[string]any) { body["status"].(map[string]any)["capacity"] = amounts }
}

// Pod adds or replaces a running pod of the operator's driver. Commands executed in it find programs in the folder.
func (s *Server) Pod(namespace, name, node, folder string, change ...func(map[string]any)) {
	body := map[string]any{
		"kind": "Pod", "apiVersion": "v1",
		"metadata": map[string]any{
			"name": name, "namespace": namespace, "uid": "uid-" + name, "labels": map[string]any{"app": "nvidia-driver-daemonset"},
		},
		"spec": map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": "nvidia-driver-ctr"}}},
		"status": map[string]any{
			"phase": "Running",
			"containerStatuses": []any{map[string]any{
				"name": "nvidia-driver-ctr", "ready": true, "restartCount": 0, "state": map[string]any{"running": map[string]any{}},
			}},
		},
	}
	for _, c := range change {
		c(body)
	}
	s.mu.Lock()
	s.folders[namespace+"/"+name] = folder
	s.mu.Unlock()
	s.put("pods", namespace, name, body)
}

// Labels sets a pod's labels.
func Labels(labels map[string]any) func(map[string]any) {
	return func(body map[string]any) { body["metadata"].(map[string]any)["labels"] = labels }
}

// Container names a pod's container, and sets its state.
func Container(name string, ready bool, restarts int, state string) func(map[string]any) {
	return func(body map[string]any) {
		body["spec"].(map[string]any)["containers"] = []any{map[string]any{"name": name}}
		body["status"].(map[string]any)["containerStatuses"] = []any{map[string]any{
			"name": name, "ready": ready, "restartCount": restarts, "state": map[string]any{state: map[string]any{"reason": "CrashLoopBackOff"}},
		}}
	}
}

func key(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

func (s *Server) put(kind, namespace, name string, body map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := "ADDED"
	if _, there := s.objects[key(kind, namespace, name)]; there {
		what = "MODIFIED"
	}
	s.note(kind, what, body)
	s.objects[key(kind, namespace, name)] = object{kind, body}
}

// note numbers a change. The caller holds the lock.
func (s *Server) note(kind, what string, body map[string]any) {
	s.version++
	body["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
	s.events = append(s.events, event{version: s.version, kind: kind, what: what, body: body})
	close(s.changed)
	s.changed = make(chan struct{})
}

// Remove removes a node (with an empty namespace) or a pod.
func (s *Server) Remove(kind, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, there := s.objects[key(kind, namespace, name)]; there {
		delete(s.objects, key(kind, namespace, name))
		body := maps.Clone(o.body)
		body["metadata"] = maps.Clone(o.body["metadata"].(map[string]any))
		s.note(kind, "DELETED", body)
	}
}

// Compact forgets all changes: a watch from an earlier version is told that it is gone.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = s.version
	s.events = nil
	close(s.changed)
	s.changed = make(chan struct{})
}

// Deny forbids a request, or allows it again: "list nodes", "get pods/exec", "create pods/exec".
func (s *Server) Deny(what string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[what] = yes
}

// Tokens sets the only valid tokens from now on.
func (s *Server) Tokens(good ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = good
}

// Away makes the server close each connection without an answer, including open ones.
func (s *Server) Away(yes bool) {
	s.mu.Lock()
	s.away = yes
	s.mu.Unlock()
	if yes {
		s.Cut()
		s.CloseClientConnections()
	}
}

// Mute makes exec open and do nothing.
func (s *Server) Mute(yes bool) { s.set(func() { s.mute = yes }) }

// Hold makes each exec that begins from now on wait. They all continue when release is called.
func (s *Server) Hold() (release func()) {
	held := make(chan struct{})
	s.set(func() { s.held = held })
	return func() { s.set(func() { s.held = nil }); close(held) }
}

// NoInput takes away the standard input of executed commands.
func (s *Server) NoInput(yes bool) { s.set(func() { s.noInput = yes }) }

// Breaks ends each exec when its standard input receives something.
func (s *Server) Breaks(yes bool) { s.set(func() { s.breaks = yes }) }

func (s *Server) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// Cut ends all execs.
func (s *Server) Cut() {
	s.mu.Lock()
	var all []func()
	for _, end := range s.conns {
		all = append(all, end)
	}
	s.mu.Unlock()
	for _, end := range all {
		end()
	}
}

// Counts returns the counts so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Running = s.now
	return c
}

// Forget resets the counts.
func (s *Server) Forget() { s.set(func() { s.counts = Counts{Most: s.now} }) }

func (s *Server) allowed(w http.ResponseWriter, what string) bool {
	s.mu.Lock()
	no := s.denied[what]
	s.mu.Unlock()
	if no {
		refuse(w, http.StatusForbidden, "Forbidden", "it is forbidden: User \"gpuwhy\" cannot "+what)
	}
	return !no
}

func (s *Server) review(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Spec struct {
			Attributes struct {
				Verb, Resource, Subresource string
			} `json:"resourceAttributes"`
		} `json:"spec"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	a := ask.Spec.Attributes
	s.mu.Lock()
	no := s.denied[a.Verb+" "+a.Resource+"/"+a.Subresource]
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"allowed": !no}})
}

// one answers with a node.
func (s *Server) one(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(w, "get nodes") {
		return
	}
	s.mu.Lock()
	o, there := s.objects[key("nodes", "", r.PathValue("node"))]
	s.mu.Unlock()
	if !there {
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("nodes %q not found", r.PathValue("node")))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o.body)
}

func (s *Server) collection(w http.ResponseWriter, r *http.Request, kind, namespace string) {
	q := r.URL.Query()
	if q.Get("watch") != "" {
		if s.allowed(w, "watch "+kind) {
			s.watch(w, r, kind, namespace)
		}
		return
	}
	if !s.allowed(w, "list "+kind) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Lists++
	var names []string
	for k, o := range s.objects {
		if o.kind == kind && selected(o.body, namespace, q.Get("labelSelector"), q.Get("fieldSelector")) {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	limit, _ := strconv.Atoi(q.Get("limit"))
	if after := q.Get("continue"); after != "" {
		names = slices.DeleteFunc(names, func(n string) bool { return n <= after })
	}
	m := map[string]any{"resourceVersion": strconv.Itoa(s.version)}
	if limit > 0 && len(names) > limit {
		names = names[:limit]
		m["continue"] = names[limit-1]
	}
	items := []any{}
	for _, n := range names {
		items = append(items, s.objects[n].body)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": m, "items": items})
}

// selected understands the label selectors "key in (a,b)" and "key=value", and spec.nodeName.
func selected(body map[string]any, namespace, labels, fields string) bool {
	m := body["metadata"].(map[string]any)
	if namespace != "" && m["namespace"] != namespace {
		return false
	}
	if name, ok := strings.CutPrefix(fields, "spec.nodeName="); ok && body["spec"].(map[string]any)["nodeName"] != name {
		return false
	}
	if labels == "" {
		return true
	}
	own, _ := m["labels"].(map[string]any)
	name, list, in := strings.Cut(labels, " in (")
	if !in {
		name, list, _ = strings.Cut(labels, "=")
	}
	v, _ := own[name].(string)
	return slices.Contains(strings.Split(strings.TrimSuffix(list, ")"), ","), v)
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, kind, namespace string) {
	q := r.URL.Query()
	known, err := strconv.Atoi(q.Get("resourceVersion"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	s.set(func() { s.counts.Watches++ })
	out := json.NewEncoder(w)
	flush := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	_ = flush.Flush()
	for {
		s.mu.Lock()
		gone := known < s.since
		var send []event
		for _, e := range s.events {
			if e.version > known && e.kind == kind && selected(e.body, namespace, q.Get("labelSelector"), q.Get("fieldSelector")) {
				send = append(send, e)
			}
		}
		version, changed := s.version, s.changed
		var text [][]byte
		for _, e := range send {
			line, _ := json.Marshal(map[string]any{"type": e.what, "object": e.body})
			text = append(text, line)
		}
		s.mu.Unlock()
		if gone {
			_ = out.Encode(map[string]any{"type": "ERROR", "object": status(http.StatusGone, "Expired", "too old resource version")})
			return
		}
		for _, line := range text {
			_, _ = w.Write(append(line, '\n'))
		}
		if known = version; q.Get("allowWatchBookmarks") != "" {
			_ = out.Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(version)}}})
		}
		if flush.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

const (
	stdin  = 0
	stdout = 1
	stderr = 2
	failed = 3
	closed = 255
)

// exec is a kubelet's end of an exec.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	s.execs.Add(1)
	defer s.execs.Done()
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create"}[r.Method]
	// As in servers from 1.35 on, a WebSocket needs both rights.
	if !s.allowed(w, verb+" pods/exec") || !s.allowed(w, "create pods/exec") {
		return
	}
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Upgrade")), "spdy") {
		s.set(func() { s.counts.Spdy++ })
		refuse(w, http.StatusBadRequest, "BadRequest", "this server does not speak SPDY")
		return
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	s.mu.Lock()
	o, there := s.objects[key("pods", namespace, name)]
	folder := s.folders[namespace+"/"+name]
	s.mu.Unlock()
	if !there {
		refuse(w, http.StatusNotFound, "NotFound", "pods \""+name+"\" not found")
		return
	}
	q := r.URL.Query()
	if !slices.ContainsFunc(o.body["spec"].(map[string]any)["containers"].([]any), func(c any) bool {
		return c.(map[string]any)["name"] == q.Get("container")
	}) {
		refuse(w, http.StatusBadRequest, "BadRequest", "container "+q.Get("container")+" is not valid for pod "+name)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"v5.channel.k8s.io"}, InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(16 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	s.serial++
	id := s.serial
	s.conns[id] = func() {
		cancel()
		_ = conn.CloseNow()
	}
	s.counts.Execs++
	s.counts.Streams++
	s.now++
	s.counts.Most = max(s.counts.Most, s.now)
	mute, held, input := s.mute, s.held, inputKind{none: s.noInput || q.Get("stdin") == "", breaks: s.breaks}
	s.mu.Unlock()
	defer s.set(func() {
		delete(s.conns, id)
		s.counts.StreamsEnded++
	})
	// An exec is over once its end has been sent, whatever the connection still accepts.
	over := sync.OnceFunc(func() { s.set(func() { s.now-- }) })
	defer over()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return
		}
	}
	if mute {
		for {
			if _, _, err := conn.Read(ctx); err != nil {
				return
			}
		}
	}
	s.command(ctx, conn, q["command"], folder, input, over)
}

// An inputKind is the kind of an exec's standard input.
type inputKind struct{ none, breaks bool }

// command runs a command on this machine. As in a container, it continues when the connection ends: only its standard input reaches its
// end.
func (s *Server) command(ctx context.Context, conn *websocket.Conn, command []string, folder string, input inputKind, over func()) {
	path := folder + ":" + os.Getenv("PATH")
	program, err := lookUp(command[0], path)
	if err != nil {
		s.end(ctx, conn, status(http.StatusInternalServerError, "InternalError",
			fmt.Sprintf("error executing command in container: exec: %q: executable file not found in $PATH", command[0])))
		return
	}
	cmd := exec.Command(program, command[1:]...) //nolint:gosec // it is a test's, and may outlive the connection
	cmd.Env = []string{"PATH=" + path, "HOME=/"}
	in, err := cmd.StdinPipe()
	if err != nil {
		s.tb.Errorf("fakekube: %v", err)
		return
	}
	cmd.Stdout, cmd.Stderr = &channel{ctx, conn, stdout}, &channel{ctx, conn, stderr}
	if err := cmd.Start(); err != nil {
		s.tb.Errorf("fakekube: %v", err)
		return
	}
	s.set(func() { s.counts.Commands++ })
	if input.none {
		_ = in.Close()
	}
	var reads sync.WaitGroup
	reads.Go(func() {
		defer in.Close()
		for {
			_, text, err := conn.Read(ctx)
			if err != nil || len(text) == 2 && text[0] == closed && text[1] == stdin {
				if err == nil {
					_ = in.Close()
					continue
				}
				return
			}
			if len(text) > 0 && text[0] == stdin {
				if input.breaks {
					_ = conn.CloseNow()
					return
				}
				_, _ = in.Write(text[1:])
			}
		}
	})
	err = cmd.Wait()
	s.set(func() { s.counts.Ended++ })
	over()
	result := map[string]any{"status": "Success"}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		result = status(0, "NonZeroExitCode", "command terminated with non-zero exit code")
		result["details"] = map[string]any{"causes": []any{map[string]any{"reason": "ExitCode", "message": strconv.Itoa(exit.ExitCode())}}}
	}
	s.end(ctx, conn, result)
	reads.Wait()
}

func lookUp(program, path string) (string, error) {
	for dir := range strings.SplitSeq(path, ":") {
		file := dir + "/" + program
		if info, err := os.Stat(file); err == nil && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", exec.ErrNotFound
}

func (s *Server) end(ctx context.Context, conn *websocket.Conn, result map[string]any) {
	text, _ := json.Marshal(result)
	_ = conn.Write(ctx, websocket.MessageBinary, append([]byte{failed}, text...))
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// A channel is one of a stream's channels.
type channel struct {
	ctx  context.Context //nolint:containedctx // of the exec
	conn *websocket.Conn
	id   byte
}

var _ io.Writer = (*channel)(nil)

// Write sends. Like a pipe without a reader, it loses later writes and ends the writer.
func (c *channel) Write(b []byte) (int, error) {
	if err := c.conn.Write(c.ctx, websocket.MessageBinary, append([]byte{c.id}, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}
