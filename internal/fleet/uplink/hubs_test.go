package uplink

import (
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/fleet/talk"
)

func keyOf(seed byte) ed25519.PrivateKey {
	s := make([]byte, ed25519.SeedSize)
	s[0] = seed
	return ed25519.NewKeyFromSeed(s)
}

// hubsAt are those of a machine at a time that a test sets.
func hubsAt(t *testing.T, now *time.Time, allow Allow) *Hubs {
	t.Helper()
	return NewHubs(allow, clock.Of(func() time.Time { return *now }, func() time.Duration { return 0 }), slog.New(slog.NewTextHandler(t.Output(), nil)), nil)
}

// What a hub may ask for is what its signature, its key, the time and the machine's own settings allow, and never more than who asks there may do.
func TestWhatHubsMayAsk(t *testing.T) {
	start := time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)
	q := &action.Question{Ask: "alert", Target: "a1", Asker: &auth.Principal{Name: "ann", Access: auth.Administer, Audience: auth.Everything, Scope: "node:gpu-1", Key: "of her session"}}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	lab := &talk.Signer{Name: "lab", Key: keyOf(1)}
	for name, tt := range map[string]struct {
		allow   []string
		hub     *talk.Signer
		node    string
		skew    time.Duration // of the hub's clock
		change  func(headers map[string][]string)
		text    string
		want    auth.Access
		refusal string // a part of it; empty: none
	}{
		"signed":                     {want: auth.Operate, refusal: "allows the hub \"lab\" less"}, // she is an administrator there, and nobody is one here
		"not signed":                 {hub: &talk.Signer{Name: "lab"}, want: auth.Read, refusal: "too old to sign"},
		"reads alone":                {allow: []string{"read"}, want: auth.Read, refusal: "allows the hub \"lab\" less"},
		"named":                      {allow: []string{"lab"}, want: auth.Operate, refusal: "less"},
		"named to read":              {allow: []string{"lab=read"}, want: auth.Read, refusal: "less"},
		"another is named":           {allow: []string{"other"}, want: 0, refusal: "less"},
		"another is named, all read": {allow: []string{"other", "read"}, want: auth.Read, refusal: "less"},
		"named, and not signed":      {allow: []string{"lab"}, hub: &talk.Signer{Name: "lab"}, want: 0, refusal: "too old to sign"},
		"of another machine":         {node: "gpu-2", want: auth.Read, refusal: "not valid"},
		"of another question":        {text: `{"ask":"alert","target":"a2"}`, want: auth.Read, refusal: "not valid"},
		"of a hub with its name":     {hub: &talk.Signer{Name: "lab", Key: keyOf(2)}, want: auth.Read, refusal: "another key"},
		"of the past":                {skew: -6 * time.Minute, want: auth.Read, refusal: "5 minutes apart"},
		"of the future":              {skew: 6 * time.Minute, want: auth.Read, refusal: "5 minutes apart"},
		"from before the start":      {skew: -2 * time.Minute, want: auth.Read, refusal: "before this gpuwhy started"},
		"without its time":           {change: func(h map[string][]string) { delete(h, "Gpuwhy-Time") }, want: auth.Read, refusal: "not valid"},
		"with another name":          {change: func(h map[string][]string) { h["Gpuwhy-Hub"] = []string{"b3RoZXI="} }, want: auth.Read, refusal: "not valid"},
		"with another key":           {change: func(h map[string][]string) { h["Gpuwhy-Key"] = []string{strings.Repeat("A", 43) + "="} }, want: auth.Read, refusal: "not valid"},
		"twice":                      {change: func(h map[string][]string) { h["Gpuwhy-Nonce"] = append(h["Gpuwhy-Nonce"], "another") }, want: auth.Read, refusal: "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			allow, err := ParseAllow(tt.allow)
			if err != nil {
				t.Fatal(err)
			}
			h := hubsAt(t, &now, allow)
			if err := h.Learn(lab.Name, lab.Public()); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Minute)
			hub, node, asked := lab, "gpu-1", text
			if tt.hub != nil {
				hub = tt.hub
			}
			if tt.node != "" {
				node = tt.node
			}
			headers := hub.Sign(node, text, now.Add(tt.skew))
			if tt.change != nil {
				tt.change(headers)
			}
			if tt.text != "" {
				asked = []byte(tt.text)
			}
			who, refusal := h.Asker("gpu-1", q, headers, asked)
			if who.Access != tt.want || who.Name != "ann" || who.Scope != "node:gpu-1" || who.Way != auth.Hub || who.Key != "" {
				t.Errorf("the asker is %+v, want access %d", who, tt.want)
			}
			if (refusal == nil) != (tt.refusal == "") || refusal != nil && !strings.Contains(refusal.What, tt.refusal) {
				t.Errorf("refused with %v, want %q", refusal, tt.refusal)
			}
		})
	}
}

// A question is answered once, and a key stays that of its hub, also after a restart.
func TestReplaysAndPins(t *testing.T) {
	now := time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)
	h := hubsAt(t, &now, DefaultAllow)
	q := &action.Question{Ask: "alert", Asker: &auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything}}
	text := []byte(`{"ask":"alert"}`)
	lab := &talk.Signer{Name: "lab", Key: keyOf(1)}
	headers := lab.Sign("gpu-1", text, now)
	if who, refusal := h.Asker("gpu-1", q, headers, text); refusal != nil || who.Access != auth.Operate || who.Address != "hub lab" {
		t.Fatalf("%+v, %v", who, refusal)
	}
	if who, refusal := h.Asker("gpu-1", q, headers, text); refusal == nil || who.Access != auth.Read || !strings.Contains(refusal.What, "asked before") {
		t.Errorf("again: %+v, %v", who, refusal)
	}
	kept := h.Kept()
	now = now.Add(time.Hour)
	after := hubsAt(t, &now, DefaultAllow)
	if err := after.Restore(kept, now); err != nil {
		t.Fatal(err)
	}
	if who, refusal := after.Asker("gpu-1", q, headers, text); refusal == nil || who.Access != auth.Read {
		t.Errorf("after a restart: %+v, %v", who, refusal)
	}
	thief := &talk.Signer{Name: "lab", Key: keyOf(2)}
	if _, refusal := after.Asker("gpu-1", q, thief.Sign("gpu-1", text, now), text); refusal == nil {
		t.Error("after a restart, another key has the name")
	}
	if err := after.Learn("lab", thief.Public()); err == nil || !maps.EqualFunc(kept, after.Kept(), func(a, b Pin) bool { return string(a.Key) == string(b.Key) }) {
		t.Errorf("an announcement changes a pin: %v", err)
	}
	for i := range mostHubs + 5 {
		now = now.Add(time.Second)
		if err := after.Learn("hub "+time.Duration(i).String(), keyOf(3).Public().(ed25519.PublicKey)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(after.Kept()); n != mostHubs {
		t.Errorf("%d hubs are known", n)
	}
	if err := after.Restore(map[string]Pin{"x": {Key: []byte("short")}}, now); err == nil {
		t.Error("a damaged pin is taken")
	}
	for _, wrong := range []string{"", "lab=all", "=read", "lab=administer"} {
		if _, err := ParseAllow([]string{wrong}); err == nil {
			t.Errorf("--fleet-allow %q is taken", wrong)
		}
	}
}

// Questions that are too old to be answered again are forgotten: a hub that asks each second for days takes no more memory than for minutes.
func TestOldQuestionsAreForgotten(t *testing.T) {
	now := time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)
	h := hubsAt(t, &now, DefaultAllow)
	q := &action.Question{Ask: "alert", Asker: &auth.Principal{Name: "ann", Access: auth.Read, Audience: auth.Everything}}
	text, lab := []byte(`{"ask":"alert"}`), &talk.Signer{Name: "lab", Key: keyOf(1)}
	for range 3 * fewNonces {
		now = now.Add(time.Second)
		headers := lab.Sign("gpu-1", text, now)
		if _, refusal := h.Asker("gpu-1", q, headers, text); refusal != nil {
			t.Fatal(refusal)
		}
		if _, refusal := h.Asker("gpu-1", q, headers, text); refusal == nil {
			t.Fatal("a question is answered twice")
		}
	}
	if n := len(h.nonces); n > fewNonces {
		t.Errorf("%d questions are remembered", n)
	}
}
