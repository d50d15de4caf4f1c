package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// A program is one of a fleet: its room, and the desk that the room's actions are done at.
type program struct {
	*Room
	desk *action.Desk
}

func newProgram(t *testing.T, engine *alert.Engine) *program {
	t.Helper()
	r := &Room{Book: alert.Share(engine), Newest: func() *insight.Fleet { return insight.NewFleet() }, Now: func() time.Time { return start }}
	return &program{r, action.NewDesk(action.Log{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, r.Actions()...)}
}

// A fleet has the programs of nodes; a question goes to them as bytes.
type fleet struct {
	t     *testing.T
	nodes map[string]*program
	mu    sync.Mutex
	asked []string // in order
}

func (f *fleet) Awake() []string { return slices.Collect(maps.Keys(f.nodes)) }

func (f *fleet) Has(node string) bool { return f.nodes[node] != nil }

func (f *fleet) Ask(ctx context.Context, node string, q *action.Question) (any, error) {
	text, err := json.Marshal(q)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.asked = append(f.asked, string(text))
	f.mu.Unlock()
	if f.nodes[node] == nil {
		return nil, errors.New(node + " does not answer")
	}
	var came action.Question
	if err := json.Unmarshal(text, &came); err != nil {
		f.t.Fatal(err)
	}
	return f.nodes[node].desk.Answer(ctx, node, &came, *came.Asker)
}

// newHub is a program that shows two others, on each of which an alert stands.
func newHub(t *testing.T) (*program, *fleet) {
	t.Helper()
	h, f := newProgram(t, alert.New([]alert.Rule{alert.Default("node_silent", alert.NodeSilent)})), &fleet{t: t, nodes: map[string]*program{}}
	h.desk.Join(f)
	for _, node := range []string{"one", "two"} {
		e := alert.New([]alert.Rule{{Name: "busy", Watch: alert.Utilization, Threshold: 50, Severity: alert.Info, Enabled: true}})
		s := fixture.Workstation()
		s.Node, s.Time, s.Devices = node, start, s.Devices[:1]
		s.Devices[0].Node, s.Devices[0].UUID, s.Devices[0].Utilization.GPU = node, "GPU-of-"+node, gpu.Of[gpu.Percent](99)
		e.Observe(insight.Of(s))
		if len(e.Standing()) != 1 {
			t.Fatalf("%d alerts stand", len(e.Standing()))
		}
		f.nodes[node] = newProgram(t, e)
	}
	f.report(h)
	return h, f
}

// report has the programs of nodes tell the hub what stands.
func (f *fleet) report(h *program) {
	for node, p := range f.nodes {
		h.Book.Take(node, p.Book.Report(node, start))
	}
}

// do has ann do something.
func (p *program) do(id, target string, args any) (any, error) {
	return p.desk.Run(context.Background(), action.Call{Action: id, Principal: ann, Target: target, Args: args})
}

var ann = auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything}

func TestAlertOfAnotherProgram(t *testing.T) {
	h, f := newHub(t)
	other := h.Book.Others()[0]
	engine := f.nodes[other.Device.Node].Book.Engine
	got, err := h.do("acknowledgeAlert", other.ID, contract.Note{Comment: "mine"})
	if a, ok := got.(contract.Alert); err != nil || !ok || a.Acknowledged == nil || a.Acknowledged.By != "ann" || engine.Standing()[0].Acknowledged.Comment != "mine" {
		t.Fatalf("%+v, %v", got, err)
	}
	const question = `{"ask":"alert","order":{"acknowledge":"` // as the first version that could ask wrote it
	if text := f.asked[0]; len(text) < len(question) || text[:len(question)] != question {
		t.Errorf("asked is %s", text)
	}
	f.report(h)
	if got, err := h.do("withdrawAcknowledgment", other.ID, nil); err != nil || got.(contract.Alert).Acknowledged != nil || engine.Standing()[0].Acknowledged != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, tt := range []struct {
		id, target string
		want       *action.Refusal
	}{
		{"acknowledgeAlert", "none", unknown}, {"dismissAlert", other.ID, reported}, {"dismissAlert", "none", unknown}, {"endSilence", "none", unknown},
	} {
		if _, err := h.do(tt.id, tt.target, nil); !errors.Is(err, tt.want) {
			t.Errorf("%s of %s: %v", tt.id, tt.target, err)
		}
	}
	ids := []string{h.Book.Others()[0].ID, "over", h.Book.Others()[1].ID}
	if got, err := h.do("acknowledgeAlerts", "", contract.NoteOfSeveral{IDs: ids}); err != nil || len(got.(contract.SeveralAlerts).Alerts) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for node, p := range f.nodes {
		if ack := p.Book.Engine.Standing()[0].Acknowledged; ack == nil || ack.By != "ann" {
			t.Errorf("%s: acknowledged by %+v", node, ack)
		}
	}
	asked := len(f.asked)
	for _, node := range []string{"one", "two"} { // one of them lies
		h.Book.Take(node, &alert.Report{Standing: []alert.Alert{{ID: other.ID, Device: gpu.Identity{Node: node}}}})
	}
	if _, err := h.do("acknowledgeAlert", other.ID, nil); !errors.Is(err, unknown) || len(f.asked) != asked {
		t.Errorf("an alert of two machines: %v, %q", err, f.asked[asked:])
	}
}

func TestSilencesOfOtherPrograms(t *testing.T) {
	h, f := newHub(t)
	const seconds = 3600
	all := contract.SilenceRequest{Comment: "maintenance", Duration: seconds}
	silence := func(ask contract.SilenceRequest) string {
		t.Helper()
		made, err := h.do("silenceAlerts", "", ask)
		if err != nil {
			t.Fatal(err)
		}
		if x := made.(contract.Silence); x.By != "ann" || x.Comment != ask.Comment {
			t.Errorf("%+v", x)
		}
		return made.(contract.Silence).ID
	}
	inForce := func() (n []int) {
		for _, b := range []*program{h, f.nodes["one"], f.nodes["two"]} {
			n = append(n, len(b.Book.Engine.Silences(start)))
		}
		return n
	}
	first := silence(all)
	if got := inForce(); !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("%d", got)
	}
	f.report(h)
	for _, node := range []string{"one", "two"} { // by the ID that any of them gave it
		if _, err := h.do("endSilence", f.nodes[node].Book.Engine.Silences(start)[0].ID, nil); err != nil {
			t.Fatal(err)
		}
		f.report(h)
		if got := inForce(); !slices.Equal(got, []int{0, 0, 0}) {
			t.Errorf("%d", got)
		}
		silence(all)
		f.report(h)
	}
	if _, err := h.do("endSilence", first, nil); !errors.Is(err, unknown) {
		t.Errorf("a silence that is over: %v", err)
	}
	if _, err := h.do("endSilence", h.Book.Silences(start)[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	f.report(h)
	silence(all) // the report of a node may lack it still
	h.Book.Take("two", f.nodes["two"].Book.Report("two", start))
	if _, err := h.do("endSilence", f.nodes["two"].Book.Engine.Silences(start)[0].ID, nil); err != nil || !slices.Equal(inForce(), []int{0, 0, 0}) {
		t.Errorf("a silence that one node has not reported yet: %d, %v", inForce(), err)
	}
	f.report(h)
	silence(contract.SilenceRequest{Node: "two", Duration: seconds})
	if got := inForce(); !slices.Equal(got, []int{0, 0, 1}) {
		t.Errorf("%d", got)
	}
	for _, ask := range []contract.SilenceRequest{{}, {Duration: 1e9}, {Rule: "[", Duration: seconds}} {
		_, err := h.do("silenceAlerts", "", ask)
		if r, ok := errors.AsType[*action.Refusal](err); !ok || r.Status != 422 {
			t.Errorf("%+v: %v", ask, err)
		}
	}
	h.Book.Take("gone", &alert.Report{Standing: []alert.Alert{{ID: "x", Device: gpu.Identity{Node: "gone"}}}})
	if _, err := h.do("silenceAlerts", "", contract.SilenceRequest{Node: "gone", Duration: seconds}); err == nil {
		t.Error("a silence that the node did not hear of is in force")
	}
	id := silence(all)
	f.report(h)
	if _, err := h.do("endSilence", id, nil); err != nil {
		t.Errorf("a node that never had it and does not answer holds up the end of a silence: %v", err)
	}
	h.Book.Take("gone", &alert.Report{Silences: []alert.Silence{{ID: "of gone", Until: start.Add(time.Hour)}}})
	if _, err := h.do("endSilence", "of gone", nil); err == nil {
		t.Error("a silence ended at a node that does not answer")
	}
}

// Whatever the action and whoever asks: who lacks the access changes nothing.
func TestNobodyActsWithoutAccess(t *testing.T) {
	h, f := newHub(t)
	id := h.Book.Others()[0].ID
	for a := range h.desk.Actions() {
		for _, who := range []auth.Principal{{}, {Name: "ann"}, {Name: "ann", Access: auth.Read, Audience: auth.Everything}, {Access: -1}} {
			if _, err := h.desk.Run(t.Context(), action.Call{Action: a.ID, Principal: who, Target: id}); !errors.Is(err, action.Denied) {
				t.Errorf("%s by %+v: %v", a.ID, who, err)
			}
			order := json.RawMessage(`{"acknowledge":"` + id + `","by":{"by":"ann"}}`)
			if _, err := h.desk.Answer(t.Context(), "one", &action.Question{Ask: a.ID, Order: order}, who); err == nil || a.Remote && !errors.Is(err, action.Denied) {
				t.Errorf("%s for another program by %+v: %v", a.ID, who, err)
			}
		}
		if a.Needs != auth.Operate {
			t.Errorf("%s needs access %d", a.ID, a.Needs)
		}
	}
	if len(f.asked) != 0 {
		t.Errorf("asked: %q", f.asked)
	}
}
