//go:build !race

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// Two machines, and what only one of them has: its names, the UUID of its GPU, its cluster and its processes.
const (
	seenNode, hiddenNode = "here", "elsewhere-7"
	seenGPU, hiddenGPU   = "GPU-aaaa0000-0000-4000-8000-000000000001", "GPU-bbbb0000-0000-4000-8000-000000000002"
	ownName              = "ownname-9" // of the program, whose machine is a third one
	unknownGPU           = "GPU-cccc0000-0000-4000-8000-000000000003"
)

var hidden = []string{hiddenNode, hiddenGPU, "farcluster", "farjob", "faruser", ownName}

// shared is a program with these machines, with an alert, a silence, minutes and a past on each.
func shared(t *testing.T) *App { return sharing(t, seenNode, hiddenNode) }

// sharing is such a program with some of the machines.
func sharing(t *testing.T, nodes ...string) *App {
	t.Helper()
	machines, err := sim.Nodes("fleet:16", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var inputs []*reading.Inputs
	for _, m := range machines {
		inputs = append(inputs, &reading.Inputs{Node: m.Node(), Origin: "simulate:fleet:16", Sources: []sampler.Source{m}})
	}
	now := time.Now().UTC()
	accounts, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{
		Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Node: ownName, Interval: time.Second, Deadline: time.Second, MaxViewers: 9,
		AlertUtilization: 50, History: &past.Options{Store: remembered(t, now, nodes), ReadOnly: true},
		Access: &access.Options{Ledger: accounts, PlainSignIn: true},
	}
	a, err := New(opt, inputs, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	for i := 40; i >= 0; i-- { // as long as the rule waits
		both := []*insight.Moment{
			happening(seenNode, seenGPU, "nearjob", "nearuser", insight.Place{Cluster: "nearcluster", Labels: map[string]string{"rack": "r12"}}, now.Add(-time.Duration(i)*10*time.Second)),
			happening(hiddenNode, hiddenGPU, "farjob", "faruser", insight.Place{Cluster: "farcluster", Labels: map[string]string{"rack": "r99"}}, now.Add(-time.Duration(i)*10*time.Second)),
		}
		a.Take(slices.DeleteFunc(both, func(m *insight.Moment) bool { return !slices.Contains(nodes, m.Snapshot.Node) }))
	}
	for node, uuid := range map[string]string{seenNode: seenGPU, hiddenNode: hiddenGPU} {
		if !slices.Contains(nodes, node) {
			continue
		}
		ask := contract.SilenceRequest{Node: node, GPUUUID: uuid, Duration: 3600}
		if _, err := a.desk.Run(t.Context(), action.Call{Action: "silenceAlerts", Principal: auth.LocalOwner(), Args: ask}); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func happening(node, uuid, job, user string, place insight.Place, at time.Time) *insight.Moment {
	s := fixture.H100s(1)
	s.Node, s.Time = node, at
	d := &s.Devices[0]
	d.Node, d.UUID, d.SampledAt, d.Utilization.GPU = node, uuid, at, gpu.Of[gpu.Percent](99)
	p := gpu.Process{PID: 7, Type: gpu.TypeCompute, Memory: gpu.Of[gpu.Bytes](1 << 30), SM: gpu.Of[gpu.Percent](99)}
	p.Facts = gpu.ProcessFacts{
		Name: gpu.Of(job), User: gpu.Of(user), Program: gpu.Of(job), Command: gpu.Absent[string](gpu.NotPermitted), Exists: gpu.Of(true),
		Private: job + " --of " + user + " --whole",
	}
	d.Processes = gpu.Of([]gpu.Process{p})
	s.Host = nil
	return insight.Of(s).At(place, insight.Link{})
}

// remembered has an hour of some of both.
func remembered(t *testing.T, now time.Time, nodes []string) store.Store {
	t.Helper()
	b := &store.Batch{}
	power := store.DeviceColumns.Find("power_draw")
	for node, of := range map[string][3]string{seenNode: {seenGPU, "nearjob", "nearuser"}, hiddenNode: {hiddenGPU, "farjob", "faruser"}} {
		if !slices.Contains(nodes, node) {
			continue
		}
		key := store.Key{Node: node, UUID: of[0]}
		b.Devices = append(b.Devices, store.Device{Node: node, UUID: of[0], Name: "H100", Index: 0}, store.Device{Node: node})
		for ago := time.Hour; ago > 0; ago -= 5 * time.Second {
			r := store.Row{Key: key, Time: now.Add(-ago).Truncate(time.Second), Readings: 1, Values: make([]store.Value, len(store.DeviceColumns))}
			r.Values[power] = store.Value{Least: 200, Mean: 200, Most: 200, Count: 1}
			b.Rows = append(b.Rows, r)
		}
		m := store.Row{Key: store.Key{Node: node}, Time: now.Add(-time.Minute), Readings: 1, Values: make([]store.Value, len(store.MachineColumns))}
		m.Values[0] = store.Value{Least: 7, Mean: 7, Most: 7, Count: 1}
		b.Rows = append(b.Rows, m)
		s := store.Session{User: of[2], Program: of[1], Command: of[1] + " --kept", From: now.Add(-time.Hour), To: now, Outcome: store.Open, Seen: time.Hour, Busy: time.Hour}
		s.Key, s.PID = key, 7
		b.Sessions = append(b.Sessions, s)
		b.Causes = append(b.Causes, store.Cause{Key: key, ID: "work " + node, Kind: "work", From: s.From, To: s.To})
		b.Events = append(b.Events, store.Event{ID: "1" + node, Key: key, Kind: "xid", Time: now.Add(-time.Minute), Text: "XID 31 of " + of[1]},
			store.Event{ID: "2" + node, Key: store.Key{Node: node}, Kind: "started", Time: s.From, Text: "started " + node})
		frame := happening(node, of[0], of[1], of[2], insight.Place{}, now.Add(-time.Minute)).Snapshot
		record, err := gpu.MarshalRecord(frame)
		if err != nil {
			t.Fatal(err)
		}
		b.Frames = append(b.Frames, store.Frame{Node: node, Time: frame.Time, Snapshot: record})
	}
	m := storetest.NewModel()
	if err := m.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return m
}

// signedIn adds an account and signs in to it. It returns the cookies.
func signedIn(t *testing.T, a *App, ask contract.UserRequest) http.Header {
	t.Helper()
	ask.Password = "seven wet otters in a tub"
	if _, err := a.desk.Run(t.Context(), action.Call{Action: "addUser", Principal: auth.LocalOwner(), Args: ask}); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"name": {ask.Name}, "password": {ask.Password}}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:0/sign-in", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	sent := http.Header{}
	for _, c := range w.Result().Cookies() {
		sent.Add("Cookie", c.Name+"="+c.Value)
	}
	if w.Code != http.StatusSeeOther || len(sent) == 0 {
		t.Fatalf("%s does not sign in: %d %s", ask.Name, w.Code, w.Body)
	}
	return sent
}

// told is an answer with the headers that may name something.
func told(w *httptest.ResponseRecorder) string {
	said := w.Body.String()
	for _, name := range slices.Sorted(maps.Keys(w.Header())) {
		if !slices.Contains([]string{"Date", "Etag", "Content-Length", "Content-Security-Policy"}, name) {
			said += "\n" + name + ": " + strings.Join(w.Header()[name], ", ")
		}
	}
	return said
}

// sends answers requests with headers, such as cookies.
func sends(t *testing.T, a *App, header http.Header) func(method, path, body string) (int, string) {
	return func(method, path, body string) (int, string) {
		t.Helper()
		r := httptest.NewRequest(method, "http://127.0.0.1:0"+path, strings.NewReader(body))
		r.Header = header.Clone()
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		return w.Code, told(w)
	}
}

// asks answers requests of a principal.
func asks(t *testing.T, a *App, who auth.Principal) func(method, path, body string) (int, string) {
	return func(method, path, body string) (int, string) {
		t.Helper()
		r := httptest.NewRequest(method, "http://127.0.0.1:0"+path, strings.NewReader(body))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), &who)))
		return w.Code, told(w)
	}
}

// routes are the addresses with a GET of all rooms, with parameters filled in: paths without the hidden machine, of which the first are one
// for each route, and pairs that name it and something that nobody has.
func routes(a *App) (plain []string, first int, pairs [][2]string) {
	// What parameters of a name are tried with; %, $ and ^ are a node, a GPU and a cluster.
	values := map[string][]string{
		"format": {"csv"}, "by": {"node", "process&format=csv"}, "metric": {"power_draw", "cpu_utilization"}, "gpu": {seenGPU, "$", "%"}, "node": {seenNode, "%"},
		"time": {"now", "now&node=%"}, "tier": {"raw"}, "node_name": {"%"}, "cluster_id": {"nearcluster", "^"}, "compare": {"yesterday", "gpu+$"}, "at": {"now"},
		"tab": {"history", "silenced", "rules"}, "group": {"node"},
	}
	ofPages := map[string][]string{"/past": {"gpu", "node", "compare", "at"}, "/alerts": {"tab", "group"}, "/{$}": {"gpu"}, "/picture.svg": {"gpu"}}
	fill := func(path, id, node, cluster string) string {
		return strings.NewReplacer("{$}", "", "{path...}", "icon.svg", "{id}", id, "{cluster}", cluster, "{node}", node).Replace(path)
	}
	add := func(path string) {
		without := strings.NewReplacer("%", "nowhere-00", "$", unknownGPU, "^", "nocluster").Replace(path)
		if without == path {
			plain = append(plain, path)
			return
		}
		pairs = append(pairs, [2]string{strings.NewReplacer("%", hiddenNode, "$", hiddenGPU, "^", "farcluster").Replace(path), without})
	}
	var more []string
	for p := range offers[part.Server](a) {
		for _, r := range p.Routes() {
			if r.Method != http.MethodGet {
				continue
			}
			own := fill(r.Path, seenGPU, seenNode, "nearcluster")
			add(own)
			more = append(more, "/node/"+seenNode+own, "/node/%"+own)
			if of := fill(r.Path, "$", "%", "^"); of != own {
				more = append(more, of, fill(r.Path, "0", "%", "nearcluster"))
			}
			names := ofPages[r.Path]
			if r.Doc != nil {
				for _, param := range r.Doc.Params {
					if param.In == "query" {
						names = append(names, param.Name)
					}
				}
			}
			for _, name := range names {
				for _, value := range values[name] {
					more = append(more, own+"?"+name+"="+value)
				}
			}
		}
	}
	first = len(plain)
	for _, path := range more {
		add(path)
	}
	return plain, first, pairs
}

// Who may see none of the machines is told so, and whom to ask, and not to wait for a reading.
func TestNoMachineSeen(t *testing.T) {
	a := shared(t)
	ask := asks(t, a, auth.Principal{Name: "ann", Access: auth.Read, Audience: auth.NewAudience("node:none", auth.Shown)})
	const says, try = "o machine that you may see is known here now", "sk the person who runs gpuwhy which machines your account or token is for"
	for path, want := range map[string]int{"/api/gpu/why": http.StatusOK, "/api/gpu/summary": http.StatusOK, "/gpu/metrics": http.StatusForbidden} {
		status, body := ask(http.MethodGet, path, "")
		if status != want || !strings.Contains(body, says) || !strings.Contains(body, try) || strings.Contains(body, "irst reading is still") || strings.Contains(body, `"starting"`) {
			t.Errorf("GET %s: %d %.2000s", path, status, body)
		}
	}
}

// Who may see one machine learns nothing of the other one at any address: not even that it exists.
func TestLimitedSight(t *testing.T) {
	a := shared(t)
	plain, first, pairs := routes(a)
	tells := map[string]bool{}
	owner := asks(t, a, auth.LocalOwner())
	for _, path := range plain {
		if _, body := owner(http.MethodGet, path, ""); strings.Contains(body, hiddenNode) || strings.Contains(body, hiddenGPU) {
			path, _, _ = strings.Cut(path, "?")
			tells[path] = true
		}
	}
	if len(tells) < 20 {
		t.Errorf("who sees all is told of the machine at %d addresses alone: %v", len(tells), tells)
	}
	type viewer struct {
		name string
		ask  func(method, path, body string) (int, string)
		all  bool // at all addresses, and not only once for each route
	}
	viewers := []viewer{
		{"stranger", asks(t, a, auth.Principal{}), false},
		{"principal of none", asks(t, a, auth.Principal{Name: "ann", Access: auth.Read, Audience: auth.NewAudience("node:none", auth.Shown)}), false},
	}
	blind := len(viewers)
	for _, scope := range []auth.Scope{"node:" + seenNode, "cluster:nearcluster", "label:rack=r12", "node:none,label:rack=r12"} {
		who := auth.Principal{Name: "ann", Access: auth.Read, Audience: auth.NewAudience(scope, auth.Shown), Scope: scope}
		viewers = append(viewers, viewer{"principal of " + string(scope), asks(t, a, who), scope == "label:rack=r12"})
	}
	// Accounts come through the front door, with a cookie or with a token of theirs.
	for _, role := range []string{"viewer", "operator", "administrator"} {
		cookies := signedIn(t, a, contract.UserRequest{Name: role, Role: role, Sees: "node:none,label:rack=r12", Unix: "nearuser"})
		viewers = append(viewers, viewer{role, sends(t, a, cookies), role == "viewer"})
		status, body := sends(t, a, cookies)(http.MethodPost, "/api/tokens", `{"title":"t"}`)
		var made contract.AddedToken
		if err := json.NewDecoder(strings.NewReader(body)).Decode(&made); err != nil || status != http.StatusCreated {
			t.Fatalf("%s makes no token: %d %s", role, status, body)
		}
		viewers = append(viewers, viewer{"token of " + role, sends(t, a, http.Header{"Authorization": {"Bearer " + made.Value}}), false})
	}
	for i, v := range viewers {
		scope, ask := v.name, v.ask
		near, plain := 0, plain
		if !v.all {
			plain = plain[:first]
		}
		for _, path := range plain {
			status, body := ask(http.MethodGet, path, "")
			if status == http.StatusOK && strings.Contains(body, seenGPU) {
				near++
			}
			for _, text := range hidden {
				if i := strings.Index(body, text); i >= 0 {
					t.Errorf("%s: GET %s has %q: …%s…", scope, path, text, body[max(0, i-80):min(len(body), i+80)])
				}
			}
		}
		if near < 15 && i >= blind {
			t.Errorf("%s: %d of %d addresses tell of what may be seen", scope, near, len(plain))
		}
		if !v.all {
			continue
		}
		for _, pair := range pairs {
			status, body := ask(http.MethodGet, pair[0], "")
			want, other := ask(http.MethodGet, pair[1], "")
			if status != want {
				t.Errorf("%s: GET %s: status %d, and of what does not exist %d: %s", scope, pair[0], status, want, other)
			}
			echo := strings.NewReplacer(hiddenNode, "", hiddenGPU, "", strings.ToUpper(hiddenGPU), "", "farcluster", "").Replace(body)
			for _, text := range []string{"farjob", "faruser"} {
				if strings.Contains(echo, text) {
					t.Errorf("%s: GET %s has %q", scope, pair[0], text)
				}
			}
			if status == http.StatusOK {
				continue
			}
			same := strings.NewReplacer(hiddenNode, "nowhere-00", hiddenGPU, unknownGPU, strings.ToLower(hiddenGPU), strings.ToLower(unknownGPU), "farcluster", "nocluster").Replace(body)
			if times.ReplaceAllString(same, "") != times.ReplaceAllString(other, "") {
				t.Errorf("%s: GET %s:\n%s\nand of what does not exist:\n%s", scope, pair[0], same, other)
			}
		}
	}
	// What is counted is what may be seen: as where the other machine does not exist.
	alone := sharing(t, seenNode)
	who := auth.Principal{Name: "ann", Access: auth.Read, Audience: auth.NewAudience("label:rack=r12", auth.Shown)}
	here, there, counted := asks(t, a, who), asks(t, alone, who), 0
	for _, path := range plain[:first] {
		_, body := here(http.MethodGet, path, "")
		_, other := there(http.MethodGet, path, "")
		got, want := counts.FindAllString(body, -1), counts.FindAllString(other, -1)
		if counted += len(got); !slices.Equal(got, want) {
			t.Errorf("GET %s counts %q, and without the other machine %q", path, got, want)
		}
	}
	if counted < 20 {
		t.Errorf("there are %d counts", counted)
	}
	// The zero audience sees nothing at all.
	ask := asks(t, a, auth.Principal{Name: "nobody", Access: auth.Administer})
	for _, path := range plain[:first] {
		if _, body := ask(http.MethodGet, path, ""); strings.Contains(strings.ReplaceAll(body, path, ""), hiddenNode) || strings.Contains(body, "nearjob") {
			t.Errorf("GET %s tells of machines to whose audience is none", path)
		}
	}
}

// counts are how answers tell how many there are of something.
var counts = regexp.MustCompile(`"[a-z_]*count[a-z_]*":\d+|\b\d+[\s\x{a0}]+(?:GPU|machine|node|alert|process|silence)[a-z]*`)

// times are what answers to two requests differ by.
var times = regexp.MustCompile(`\d+(\.\d+)?`)

// The socket tells of the machines that one may see: in its greeting, updates, patches, events, replies and pages.
func TestLimitedSocket(t *testing.T) {
	a := shared(t)
	limited := signedIn(t, a, contract.UserRequest{Name: "ann", Role: "operator", Sees: "label:rack=r12"})
	for _, who := range []struct {
		auth.Principal
		cookies http.Header // the principal comes with these; nil: it is there already
	}{
		{auth.Principal{Name: "ann", Access: auth.Read, Audience: auth.NewAudience("label:rack=r12", auth.Shown)}, nil},
		{auth.Principal{Name: "ann"}, limited},
		{auth.LocalOwner(), nil},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if who.cookies == nil {
				r = r.WithContext(auth.NewContext(r.Context(), &who.Principal))
			}
			a.Handler().ServeHTTP(w, r)
		}))
		defer server.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, query := range []string{"", "?page=", "?page=alerts", "?page=nodes", "?page=processes"} {
			conn, _, err := websocket.Dial(ctx, server.URL+"/ws"+query, &websocket.DialOptions{HTTPClient: server.Client(), HTTPHeader: who.cookies}) //nolint:bodyclose // Dial says that nobody needs to
			if err != nil {
				t.Fatal(err)
			}
			conn.SetReadLimit(-1)
			var all strings.Builder
			read := func(until func(string) bool) {
				t.Helper()
				for {
					_, text, err := conn.Read(ctx)
					if err != nil {
						t.Fatalf("%s %s: %v after %.2000s", who.Name, query, err, all.String())
					}
					all.Write(text)
					if until(string(text)) {
						return
					}
				}
			}
			if query != "" {
				read(func(text string) bool { return strings.Contains(text, `"event":"page"`) })
			} else {
				is := func(event string) func(string) bool {
					return func(text string) bool { return strings.HasPrefix(text, `{"event":"`+event+`"`) }
				}
				read(is("gpu_status"))
				read(func(text string) bool { return is("gpu_status_update")(text) && strings.Contains(text, seenGPU) })
				for _, delta := range []string{"false", "true"} {
					ask := fmt.Sprintf(`{"event":"subscribe","data":{"nodes":[%q,%q],"delta":%s}}`, hiddenNode, seenNode, delta)
					if err := conn.Write(ctx, websocket.MessageText, []byte(ask)); err != nil {
						t.Fatal(err)
					}
					read(is("subscribed"))
					now := time.Now().UTC()
					a.Take([]*insight.Moment{happening(hiddenNode, hiddenGPU, "farjob", "faruser", insight.Place{Labels: map[string]string{"rack": "r99"}}, now)})
					a.Take([]*insight.Moment{happening(seenNode, seenGPU, "nearjob", "nearuser", insight.Place{Labels: map[string]string{"rack": "r12"}}, now)})
					read(func(text string) bool { return strings.Contains(text, seenGPU) })
				}
			}
			text := strings.ReplaceAll(all.String(), fmt.Sprintf(`"nodes":[%q,`, hiddenNode), "") // the filter, told back
			told := slices.ContainsFunc(hidden, func(name string) bool { return strings.Contains(text, name) })
			if told != (who.Name != "ann") {
				t.Errorf("ws%s tells %s of the other machine: %t", query, who.Name, told)
			}
			_ = conn.CloseNow()
		}
	}
}

// Whose command lines are whole: at no address anybody's but the viewer's own, and nobody's for others.
func TestCommandLines(t *testing.T) {
	a := shared(t)
	plain, first, _ := routes(a)
	plain = plain[:first]
	for commands, want := range map[auth.Commands][2]bool{
		auth.Shown: {false, false}, auth.Names: {false, false}, auth.CommandsOf("nearuser"): {true, false}, auth.CommandsOf(""): {false, false}, auth.Entire: {true, true},
	} {
		ask := asks(t, a, auth.Principal{Name: "ann", Access: auth.Read, Audience: auth.NewAudience("", commands)})
		var near, far []string
		for _, path := range plain {
			_, body := ask(http.MethodGet, path, "")
			body = html.UnescapeString(body)
			if strings.Contains(body, "nearuser --whole") {
				near = append(near, path)
			}
			if strings.Contains(body, "faruser --whole") {
				far = append(far, path)
			}
			kept := func(job string) bool { return strings.Contains(body, job+" --kept") }
			if commands != auth.Shown && (kept("nearjob") && !commands.Whole("nearuser") || kept("farjob") && !commands.Whole("faruser")) {
				t.Errorf("%s: GET %s has a stored command line", commands, path)
			}
		}
		if len(near) > 2 != want[0] || len(far) > 2 != want[1] || !want[0] && len(near) > 0 || !want[1] && len(far) > 0 {
			t.Errorf("%s: whole command lines of nearuser at %d addresses, of faruser at %d: %.300v", commands, len(near), len(far), slices.Concat(near, far))
		}
	}
}

// Whose command lines each role sees: live, in the past, and of a machine that another program reads, which sends what it shows to everybody.
func TestCommandLinesOfRoles(t *testing.T) {
	a := shared(t)
	sent := happening("afar", "GPU-dddd0000-0000-4000-8000-000000000004", "hubjob", "nearuser", insight.Place{}, time.Now().UTC()).Snapshot
	other := sent.Devices[0].Processes.Or(nil)[0]
	other.PID, other.Facts.User, other.Facts.Private = 8, gpu.Of("hubuser"), "hubjob --of hubuser --whole"
	sent.Devices[0].Processes = gpu.Of([]gpu.Process{sent.Devices[0].Processes.Or(nil)[0], other})
	for i := range sent.Devices[0].Processes.Or(nil) {
		f := &sent.Devices[0].Processes.Or(nil)[i].Facts
		f.Command = gpu.Of("hubjob of " + f.User.Or("") + " --shown")
	}
	text, err := gpu.MarshalRecord(sent)
	if err != nil {
		t.Fatal(err)
	}
	arrived, err := gpu.UnmarshalRecord(text)
	if err != nil {
		t.Fatal(err)
	}
	a.Take([]*insight.Moment{insight.Of(arrived).At(insight.Place{}, insight.Link{Remote: true})})
	// What is looked for: somebody's own, and that of others; live, in the past, and at a hub.
	texts := []string{"nearuser --whole", "faruser --whole", "nearjob --kept", "farjob --kept", "nearuser --shown", "hubuser --shown"}
	own, names, shown, entire := []int{1, 0, 1, 0, 1, 0}, []int{0, 0, 0, 0, 0, 0}, []int{0, 0, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1, 1}
	plain, first, _ := routes(a)
	var tell []string // the addresses that tell of command lines; TestCommandLines asks at all
	everything := asks(t, a, auth.Principal{Name: "ann", Access: auth.Read, Audience: auth.NewAudience("", auth.Entire)})
	for _, path := range append(plain[:first:first], "/api/gpu/metrics?node=afar") {
		if _, body := everything(http.MethodGet, path, ""); slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(html.UnescapeString(body), text) }) {
			tell = append(tell, path)
		}
	}
	sees := func(name string, ask func(method, path, body string) (int, string), want []int) {
		t.Helper()
		got := make([]int, len(texts))
		for _, path := range tell {
			_, body := ask(http.MethodGet, path, "")
			body = html.UnescapeString(body)
			for i, text := range texts {
				if strings.Contains(body, text) {
					got[i] = 1
				}
			}
			if strings.Contains(body, "hubuser --whole") {
				t.Errorf("%s: GET %s has a command line that its machine does not send", name, path)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s sees %v of %v, want %v", name, got, texts, want)
		}
	}
	for _, tt := range []struct {
		role, unix string
		want       []int
	}{
		{"viewer", "", names}, {"viewer", "nearuser", own}, {"operator", "", names}, {"operator", "nearuser", own}, {"administrator", "nearuser", shown},
	} {
		name := tt.role + "-" + tt.unix + "-"
		cookies := signedIn(t, a, contract.UserRequest{Name: name, Role: tt.role, Unix: tt.unix})
		ask := sends(t, a, cookies)
		sees(name, ask, tt.want)
		if tt.role == "operator" { // what an action answers is cut likewise
			for _, x := range Find[*alerts.Room](a).Book.Standing() {
				status, body := ask(http.MethodPost, "/api/alerts/"+url.PathEscape(x.ID)+"/acknowledge", "")
				_, all := ask(http.MethodPost, "/api/alerts/acknowledge", fmt.Sprintf(`{"alert_ids":[%q]}`, x.ID))
				whole := x.Device.Node == seenNode && tt.unix == "nearuser"
				if status != http.StatusOK || strings.Contains(body, "--whole") != whole || strings.Contains(all, "--whole") != whole {
					t.Errorf("%s acknowledges: %d %s\n%s", name, status, body, all)
				}
			}
		}
		status, body := ask(http.MethodPost, "/api/commands/show", "")
		if tt.role != "administrator" {
			if status != http.StatusForbidden {
				t.Errorf("%s shows command lines: %d %s", name, status, body)
			}
			continue
		}
		if _, page := ask(http.MethodGet, "/processes", ""); status != http.StatusOK || !strings.Contains(page, "Hide command lines") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		sees(name+" who shows them", ask, entire)
		second := signedIn(t, a, contract.UserRequest{Name: "second", Role: "administrator"})
		sees("another administrator", sends(t, a, second), shown)
		if _, body := ask(http.MethodGet, "/api/audit?action=showCommands&result=done", ""); strings.Count(body, `"showCommands"`) != 1 || !strings.Contains(body, `"until"`) {
			t.Errorf("the audit has %s", body)
		}
		if status, body := ask(http.MethodPost, "/api/commands/hide", ""); status != http.StatusNoContent {
			t.Errorf("%d %s", status, body)
		}
		sees(name+" who hides them", ask, shown)
	}
}

// Who may act on one machine acts on that alone, whatever the door and the arguments are.
func TestActingWithinAScope(t *testing.T) {
	a := shared(t)
	book := Find[*alerts.Room](a).Book
	of := func(node string) (id string) {
		for _, s := range book.Standing() {
			if s.Device.Node == node {
				id = s.ID
			}
		}
		if id == "" {
			t.Fatalf("%s has no alert", node)
		}
		return id
	}
	silenceOf := func(node string) string {
		for _, x := range book.Silences(time.Now()) {
			if x.Covers(node) {
				return x.ID
			}
		}
		t.Fatalf("%s has no silence", node)
		return ""
	}
	operator := auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything, Scope: "label:rack=r12"}
	limited := operator
	limited.Audience = auth.NewAudience("label:rack=r12", auth.Shown)
	near, far := of(seenNode), of(hiddenNode)
	for _, tt := range []struct {
		method, path, body string
		status, limited    int // of who sees all, and of who sees only what he may act on
	}{
		{"POST", "/api/alerts/" + near + "/acknowledge", "", 200, 200},
		{"POST", "/api/alerts/" + far + "/acknowledge", "", 403, 404},
		{"POST", "/node/" + seenNode + "/api/alerts/" + far + "/acknowledge", "", 403, 404},
		{"DELETE", "/api/alerts/" + far + "/acknowledge", "", 403, 404},
		{"POST", "/api/alerts/" + far + "/unacknowledge", "", 403, 404},
		{"DELETE", "/api/alerts/" + far, "", 403, 404},
		{"POST", "/api/alerts/" + far + "/silence", `{"duration_seconds":60}`, 403, 404},
		{"POST", "/api/alerts/" + near + "/silence", `{"duration_seconds":60}`, 201, 201},
		{"POST", "/api/alerts/acknowledge", fmt.Sprintf(`{"alert_ids":[%q,%q]}`, near, far), 403, 200}, // the other one is over for him
		{"POST", "/api/alerts/silence", fmt.Sprintf(`{"alert_ids":[%q,%q],"duration_seconds":60}`, near, far), 403, 201},
		{"POST", "/api/alerts/acknowledge", fmt.Sprintf(`{"alert_ids":[%q]}`, far), 403, 404},
		{"POST", "/api/silences", `{"duration_seconds":60}`, 403, 403},
		{"POST", "/api/silences", `{"duration_seconds":60,"rule":"hot"}`, 403, 403},
		{"POST", "/api/silences", `{"duration_seconds":60,"node":"*"}`, 403, 403},
		{"POST", "/api/silences", `{"duration_seconds":60,"node":"here*"}`, 403, 403},
		{"POST", "/api/silences", `{"duration_seconds":60,"node":"` + hiddenNode + `"}`, 403, 403},
		{"POST", "/api/silences", `{"duration_seconds":60,"gpu_uuid":"` + hiddenGPU + `"}`, 403, 403},
		{"POST", "/api/silences", `{"duration_seconds":60,"node":"` + seenNode + `"}`, 201, 201},
		{"POST", "/api/silences", `{"duration_seconds":60,"gpu_uuid":"` + seenGPU + `"}`, 201, 201}, // on its machine alone
		{"POST", "/node/" + seenNode + "/api/silences", `{"duration_seconds":60}`, 201, 201},
		{"DELETE", "/api/silences/" + silenceOf(hiddenNode), "", 403, 404},
		{"DELETE", "/api/silences/" + silenceOf(seenNode), "", 204, 0},
		{"POST", "/api/targets/phone/test", "", 403, 403},
	} {
		for _, who := range []auth.Principal{operator, limited} {
			want := tt.status
			if who.Audience != auth.Everything {
				want = tt.limited
			}
			if want == 0 {
				continue
			}
			status, body := asks(t, a, who)(tt.method, tt.path, tt.body)
			if status != want {
				t.Errorf("%s %s %s: status %d, want %d: %s", tt.method, tt.path, tt.body, status, want, body)
			}
			if status == 403 && who.Audience == auth.Everything && !strings.Contains(body, "you may do this on label rack=r12 only") {
				t.Errorf("%s %s: the refusal does not say what is missing: %s", tt.method, tt.path, body)
			}
			if who.Audience != auth.Everything && strings.Contains(strings.NewReplacer(tt.path, "", tt.body, "").Replace(body), hiddenGPU) {
				t.Errorf("%s %s tells of what may not be seen: %s", tt.method, tt.path, body)
			}
		}
	}
	if silenced := book.Silences(time.Now()); slices.ContainsFunc(silenced, func(x alert.Silence) bool { return x.By == "ann" && x.Node != seenNode }) {
		t.Errorf("a silence reaches further: %+v", silenced)
	}
}

// The list of machines says on which of them whoever asks may act, and has none that they may not see.
func TestMachinesSayWhoMayActOnThem(t *testing.T) {
	a := shared(t)
	operator := auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything, Scope: "label:rack=r12"}
	reader, limited, all := operator, operator, operator
	reader.Access, reader.Scope, all.Scope = auth.Read, "", ""
	limited.Audience = auth.NewAudience("label:rack=r12", auth.Shown)
	for _, tt := range []struct {
		who  auth.Principal
		want map[string]bool
	}{
		{operator, map[string]bool{seenNode: true, hiddenNode: false}}, {reader, map[string]bool{seenNode: false, hiddenNode: false}},
		{limited, map[string]bool{seenNode: true}}, {all, map[string]bool{seenNode: true, hiddenNode: true}},
	} {
		_, body := asks(t, a, tt.who)(http.MethodGet, "/api/machines", "")
		var list contract.Machines
		if err := json.NewDecoder(strings.NewReader(body)).Decode(&list); err != nil { // headers follow
			t.Fatalf("%v: %s", err, body)
		}
		got := map[string]bool{}
		for _, m := range list.Machines {
			got[m.Node] = m.MayOperate
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%v %q may act on %v, want %v", tt.who.Access, tt.who.Scope, got, tt.want)
		}
	}
}

// No action beyond reading is done for somebody whose role holds on no machine that there is: a new action has to say what it reaches.
func TestEveryActionKeepsToTheScope(t *testing.T) {
	a := shared(t)
	for declared := range a.desk.Actions() {
		if declared.Needs <= auth.Read {
			continue
		}
		who := auth.Principal{Name: "ann", Access: auth.Administer, Audience: auth.Everything, Scope: "node:none"}
		for _, target := range []string{"none", seenNode} {
			_, err := a.desk.Run(t.Context(), action.Call{Action: declared.ID, Principal: who, Target: target})
			if _, refused := err.(*action.Refusal); !refused { //nolint:errorlint // it is what is returned
				t.Errorf("%s on %s: %v", declared.ID, target, err)
			}
		}
	}
}

var (
	forms   = regexp.MustCompile(`(?s)<form[^>]*method="post".*?</form>`)
	targets = regexp.MustCompile(`(?:form)?action="([^"]+)"`)
	chosen  = regexp.MustCompile(`name="alert_ids" value="([^"]+)"`)
)

// No page has a form for something that who looks may not do.
func TestNoButtonsForOthers(t *testing.T) {
	a := shared(t)
	nodes := map[string]string{}
	for _, s := range Find[*alerts.Room](a).Book.Standing() {
		nodes[s.ID] = s.Device.Node
	}
	for _, x := range Find[*alerts.Room](a).Book.Silences(time.Now()) {
		nodes[x.ID], _ = x.One()
	}
	mux := http.NewServeMux()
	declared := map[string]*action.Action{}
	for act := range a.desk.Actions() {
		for _, pattern := range []string{act.HTTP, act.Form.HTTP} {
			if strings.HasPrefix(pattern, "POST ") {
				mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
				declared[pattern] = act
			}
		}
	}
	plain, first, _ := routes(a)
	plain = append(plain[:first:first], "/alerts?tab=silenced", "/alerts?only=info", "/alerts?only=info&group=node", "/node/"+seenNode+"/alerts")
	drawn := map[string]int{}
	for name, who := range map[string]auth.Principal{
		"viewer":           {Access: auth.Read, Audience: auth.Everything},
		"operator":         {Access: auth.Operate, Audience: auth.Everything},
		"operator of r12":  {Access: auth.Operate, Audience: auth.Everything, Scope: "label:rack=r12"},
		"operator nowhere": {Access: auth.Operate, Audience: auth.Everything, Scope: "node:none"},
		"administrator":    auth.LocalOwner(),
	} {
		for _, path := range plain {
			status, page := asks(t, a, who)(http.MethodGet, path, "")
			if status != http.StatusOK {
				continue
			}
			for _, form := range forms.FindAllString(page, -1) {
				for _, m := range targets.FindAllStringSubmatch(form, -1) {
					to, err := url.Parse(html.UnescapeString(m[1]))
					if err != nil {
						t.Fatal(err)
					}
					of := strings.TrimPrefix(to.EscapedPath(), "/node/"+seenNode)
					r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+of, nil)
					_, pattern := mux.Handler(r)
					act := declared[pattern]
					if act == nil { // of another room: sign-in and the like are tested there
						continue
					}
					drawn[name]++
					if !who.May(act.Needs) {
						t.Errorf("%s: %s has a form for %s", name, path, m[1])
					}
					ids := []string{strings.Split(of+"////", "/")[3]}
					for _, id := range chosen.FindAllStringSubmatch(form, -1) {
						ids = append(ids, html.UnescapeString(id[1]))
					}
					for _, id := range ids {
						id, _ = url.PathUnescape(id)
						if node := nodes[id]; node != "" && !who.MayOn(act.Needs, a.Hub.Newest().Machine(node)) {
							t.Errorf("%s: %s has a form for %s of %s", name, path, m[1], node)
						}
					}
				}
			}
		}
	}
	if drawn["operator"] < 12 || drawn["operator of r12"] == 0 || drawn["operator of r12"] >= drawn["operator"] || drawn["viewer"] > 0 || drawn["operator nowhere"] > 0 {
		t.Errorf("forms: %v", drawn)
	}
}
