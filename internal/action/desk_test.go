package action_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A book is an audit that may refuse, and a fleet of one other node.
type book struct {
	lines  []string
	denied []string
	came   action.Outcome // of the last call
	refuse error
	asked  []action.Question
	answer error
}

func (b *book) Begin(_ context.Context, r *action.Record) (func(action.Outcome), error) {
	b.lines = append(b.lines, r.Principal.Name+" "+r.Action+" "+r.Target)
	return func(o action.Outcome) {
		b.came = o
		if o.Err != nil {
			b.lines = append(b.lines, "not done")
		}
	}, b.refuse
}

func (b *book) Denied(_ context.Context, r *action.Record, why error) {
	b.denied = append(b.denied, fmt.Sprint(r.Principal.Name, " ", r.Action, " ", r.Target, ": ", why))
}

func (b *book) Awake() []string { return []string{"far"} }

func (b *book) Has(node string) bool { return node == "far" }

func (b *book) Ask(_ context.Context, _ string, q *action.Question) (any, error) {
	b.asked = append(b.asked, *q)
	return json.RawMessage(`"there"`), b.answer
}

type how struct {
	Hard bool `json:"hard"`
}

var busy = &action.Refusal{Code: "busy", Status: 409, What: "it is busy", Try: "wait"}

// nudging has an action on a node, and one that declares no access.
func nudging(b *book) *action.Desk {
	d := action.NewDesk(b,
		action.Action{
			ID: "nudge", Needs: auth.Operate, Target: action.Node, Remote: true, Node: func(c *action.Call) string { return c.Target },
			Func: action.Takes(func(_ context.Context, _ *action.Call, args how) (any, error) {
				if args.Hard {
					return nil, busy
				}
				return "here", nil
			}),
			Doc: action.Doc{Refuses: []action.Refused{{Refusal: busy}}},
		},
		action.Action{ID: "open", Remote: true, Func: action.Takes(func(context.Context, *action.Call, struct{}) (any, error) { return "open", nil })},
		action.Action{ID: "own", Needs: auth.Read, Func: action.Takes(func(context.Context, *action.Call, struct{}) (any, error) { return "own", nil })},
	)
	d.Join(b)
	return d
}

// Of all principals and actions, one is done only if the principal has the access that the action declares, and only what is done is recorded.
func TestAccess(t *testing.T) {
	for access := auth.Access(-1); access <= auth.Administer; access++ {
		for id, needs := range map[string]auth.Access{"nudge": auth.Operate, "own": auth.Read, "open": auth.Administer + 1} { // to nobody
			b := &book{}
			d := nudging(b)
			who := auth.Principal{Name: "ann", Access: access, Audience: auth.Everything}
			_, err := d.Run(t.Context(), action.Call{Action: id, Principal: who, Target: "near"})
			if allowed := access >= needs; allowed != (err == nil) || !allowed && !errors.Is(err, action.Denied) || len(b.lines) > 0 != allowed || len(b.denied) > 0 == allowed {
				t.Errorf("%s with access %d: %v, recorded %q, denied %q", id, access, err, b.lines, b.denied)
			}
			_, err = d.Answer(t.Context(), "near", &action.Question{Ask: id}, who)
			if allowed := access >= needs && id != "own"; allowed != (err == nil) {
				t.Errorf("%s for another program with access %d: %v", id, access, err)
			}
		}
	}
}

func TestRun(t *testing.T) {
	ann := auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything}
	call := func(target string, args any) action.Call {
		return action.Call{Action: "nudge", Principal: ann, Target: target, Args: args}
	}
	b := &book{}
	d := nudging(b)
	if got, err := d.Run(t.Context(), call("near", how{})); got != "here" || err != nil || len(b.asked) != 0 {
		t.Errorf("here: %v, %v", got, err)
	}
	if _, err := d.Run(t.Context(), call("near", how{Hard: true})); !errors.Is(err, busy) || strings.Join(b.lines, ", ") != "ann nudge near, ann nudge near, not done" {
		t.Errorf("refused: %v, recorded %q", err, b.lines)
	}
	if _, err := d.Run(t.Context(), call("near", 7)); err == nil {
		t.Error("arguments of another type are taken")
	}
	got, err := d.Run(t.Context(), call("far", how{Hard: true}))
	if text, ok := got.(json.RawMessage); err != nil || !ok || string(text) != `"there"` {
		t.Errorf("elsewhere: %v, %v", got, err)
	}
	if q, err := json.Marshal(b.asked[0]); err != nil || string(q) != `{"ask":"nudge","order":{"hard":true},"target":"far","by":{"name":"ann","access":"operate","audience":"everything"}}` {
		t.Errorf("the question is %s, %v", q, err)
	}
	// What another program asks for is done here, and not asked on.
	if got, err := d.Answer(t.Context(), "far", &action.Question{Ask: "nudge", Target: "far"}, ann); got != "here" || err != nil || len(b.asked) != 1 {
		t.Errorf("asked: %v, %v", got, err)
	}
	for _, order := range []string{"[]", "7", "{"} {
		if _, err := d.Answer(t.Context(), "far", &action.Question{Ask: "nudge", Order: json.RawMessage(order)}, ann); err == nil {
			t.Errorf("the order %s is taken", order)
		}
	}
	for sent, want := range map[*action.Refusal]*action.Refusal{
		{Code: "busy"}:   busy,
		{Code: "denied"}: action.Denied,
		{Code: "denied", What: "the clocks differ", Try: "set both"}:   {Code: "denied", Status: 403, What: "the clocks differ", Try: "set both"},
		{Code: "denied", What: "not today"}:                            {Code: "denied", Status: 403, What: "not today", Try: action.Denied.Try},
		{Code: "unsigned"}:                                             action.Unsigned,
		{Code: "invalid", Field: "hard", What: "must be true"}:         {Code: "invalid", Status: 422, Field: "hard", What: "must be true"},
		{Code: "of a later version", What: "it can't be", Try: "wait"}: {Code: "of a later version", Status: 409, What: "it can't be", Try: "wait"},
	} {
		b.answer = sent
		_, err := d.Run(t.Context(), call("far", nil))
		if got, ok := errors.AsType[*action.Refusal](err); !ok || *got != *want {
			t.Errorf("%+v is here %+v", sent, got)
		}
	}
	b.refuse, b.answer = errors.New("the disk is full"), nil
	before := len(b.asked)
	for _, target := range []string{"near", "far"} {
		got, err := d.Run(t.Context(), call(target, how{}))
		if r, ok := errors.AsType[*action.Refusal](err); !ok || r.Status != 503 || got != nil || len(b.asked) != before {
			t.Errorf("without a record: %v, %v", got, err)
		}
	}
	b.refuse = &gpu.Advice{What: "the disk is full", Try: "make room"}
	if _, err := d.Run(t.Context(), call("near", how{})); !strings.Contains(err.Error(), "recorded: the disk is full") {
		t.Errorf("the reason is not told: %v", err)
	}
	if _, err := d.Run(t.Context(), action.Call{Action: "none", Principal: ann}); !errors.Is(err, action.ErrUnknown) {
		t.Error(err)
	}
	for range (*action.Desk)(nil).Actions() {
		t.Error("no desk has an action")
	}
}

// The log says who did what; what only looks, at level debug.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	l := action.Log{Logger: slog.New(slog.NewTextHandler(&out, nil))}
	for needs := auth.Read; needs <= auth.Operate; needs++ {
		end, err := l.Begin(t.Context(), &action.Record{Action: "nudge", Needs: needs, Principal: auth.Principal{Name: "ann"}, Target: "a\nb", Node: "n", Asked: true})
		if err != nil {
			t.Fatal(err)
		}
		end(action.Outcome{})
		end(action.Outcome{Err: errors.New("no")})
		end(action.Outcome{Err: fmt.Errorf("it is %w", busy)}) // a refusal
	}
	text := out.String()
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, `msg=done action=nudge by=ann target="a\nb" node=n asked="by a hub"`) || !strings.Contains(text, `msg="not done"`) || !strings.Contains(text, "err=no") {
		t.Errorf("%s", text)
	}
}

// The record has what an action changed, also if it failed then, and that it ended in a panic.
func TestOutcome(t *testing.T) {
	ann := auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything}
	b := &book{}
	d := action.NewDesk(b, action.Action{ID: "turn", Needs: auth.Operate, Func: action.Takes(func(_ context.Context, c *action.Call, args how) (any, error) {
		c.Note(1, 2)
		if args.Hard {
			panic("hard")
		}
		return nil, busy
	})})
	if _, err := d.Run(t.Context(), action.Call{Action: "turn", Principal: ann}); !errors.Is(err, busy) || b.came.Before != 1 || b.came.After != 2 || !errors.Is(b.came.Err, busy) {
		t.Errorf("%v, recorded %+v", err, b.came)
	}
	func() {
		defer func() {
			if recover() == nil || b.came.Err == nil {
				t.Errorf("after a panic: recorded %+v", b.came)
			}
		}()
		_, _ = d.Run(t.Context(), action.Call{Action: "turn", Principal: ann, Args: how{Hard: true}})
	}()
}
