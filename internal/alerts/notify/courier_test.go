package notify

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
)

// marked is an alert that somebody has acknowledged or silenced, or not any more.
func marked(id string, acknowledged bool, silenced time.Duration) alert.Change {
	c := change(id, alert.Marked)
	c.Tell = false
	if acknowledged {
		c.Acknowledged = &alert.Acknowledgment{By: "ann"}
	}
	if silenced > 0 {
		c.SilencedUntil = c.Time.Add(silenced)
	}
	return c
}

// An alert that somebody has acknowledged or silenced is in no later message: not in one that waits, in no retry, and in no retry
// of a message that was under way. Its end is not told to who was not told of its beginning.
func TestAcknowledgedIsNotSentAgain(t *testing.T) {
	for name, hush := range map[string]func(string) alert.Change{
		"acknowledged": func(id string) alert.Change { return marked(id, true, 0) },
		"silenced":     func(id string) alert.Change { return marked(id, false, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			inSync(t, func(t *testing.T) {
				free := make(chan error)
				line := &wire{fail: func(int, string) error { return <-free }}
				wires := map[Secret]*wire{urlOf("ops"): line}
				r := newRig(t, config("ops"), wires, nil)
				r.tell(change("waits", alert.Fired))
				r.tell(hush("waits"))
				time.Sleep(time.Minute)
				if n := len(line.all()); n != 0 {
					t.Errorf("%d messages about what was hushed before they were sent", n)
				}
				r.tell(change("tried", alert.Fired), change("other", alert.Fired))
				time.Sleep(15 * time.Second) // under way
				r.tell(hush("tried"))
				if text := string(kept(t, r)); strings.Contains(text, `"id":"tried","news"`) {
					t.Errorf("it would be sent after a crash: %s", text)
				}
				free <- &failure{text: "no"}
				time.Sleep(10 * time.Second)
				free <- &failure{text: "no"}
				line.now(nil)
				time.Sleep(time.Minute)
				all := line.all()
				if len(all) < 3 || !strings.Contains(all[0].body, "<tried fired>") {
					t.Fatalf("messages: %+v", all)
				}
				for _, m := range all[1:] {
					if strings.Contains(m.body, "tried") || !strings.Contains(m.body, "<other fired>") {
						t.Errorf("a retry says %q", m.body)
					}
				}
				r.tell(change("tried", alert.Over), change("waits", alert.Over), change("other", alert.Over))
				time.Sleep(2 * time.Minute)
				last := line.all()[len(line.all())-1].body
				if strings.Contains(last, "tried") || strings.Contains(last, "waits") || !strings.Contains(last, "<other over>") {
					t.Errorf("the end says %q", last)
				}
				r.stop()
			})
		})
	}
}

// Whoever was told and has acknowledged gets the end, and an acknowledgment that was taken back hushes nothing.
func TestAcknowledgedAfterTheMessage(t *testing.T) {
	inSync(t, func(t *testing.T) {
		r := newRig(t, config("ops"), nil, nil)
		defer r.stop()
		r.tell(change("told", alert.Fired))
		time.Sleep(time.Minute)
		r.tell(marked("told", true, 0))
		r.tell(change("back", alert.Fired), marked("back", false, 0))
		time.Sleep(2 * time.Minute)
		r.tell(change("told", alert.Over))
		time.Sleep(2 * time.Minute)
		var all strings.Builder
		for _, m := range r.wire(urlOf("ops")).all() {
			all.WriteString(m.body + "\n")
		}
		for _, want := range []string{"<told fired>", "<back fired>", "<told over>"} {
			if strings.Count(all.String(), want) != 1 {
				t.Errorf("%q is not there once: %s", want, all.String())
			}
		}
	})
}

// A receiver that works before it answers gets a message once. One that never answers does not get it again at once.
func TestSlowReceiverGetsOneMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		takes    time.Duration
		messages int // within ten minutes
	}{"20 s": {20 * time.Second, 1}, "100 s": {100 * time.Second, 1}, "for ever": {24 * time.Hour, 2}} {
		t.Run(name, func(t *testing.T) {
			inSync(t, func(t *testing.T) {
				line := &wire{fail: func(int, string) error { time.Sleep(tt.takes); return nil }}
				r := newRig(t, config("ops"), map[Secret]*wire{urlOf("ops"): line}, nil)
				r.tell(change("a", alert.Fired))
				time.Sleep(12 * time.Minute)
				if n := len(line.all()); n > tt.messages {
					t.Errorf("%d messages", n)
				}
				r.stop()
				time.Sleep(25 * time.Hour) // until those that answer late have ended
			})
		})
	}
}

// What a target has not had yet does not wait for what it may have had.
func TestNewsAfterSilence(t *testing.T) {
	inSync(t, func(t *testing.T) {
		line := &wire{fail: func(int, string) error { return silent(time.Minute) }}
		r := newRig(t, config("ops"), map[Secret]*wire{urlOf("ops"): line}, nil)
		defer r.stop()
		r.tell(change("a", alert.Fired))
		time.Sleep(4 * time.Minute)
		if n := len(line.all()); n != 1 {
			t.Errorf("%d messages", n)
		}
		line.now(nil)
		r.tell(change("b", alert.Fired))
		time.Sleep(30 * time.Second)
		if all := line.all(); len(all) != 2 || !strings.Contains(all[1].body, "<b fired>") {
			t.Errorf("messages: %+v", all)
		}
	})
}

// A request that a server got whole and does not answer may have been taken: it is not repeated soon. The same where a proxy lost
// its patience.
func TestUnansweredIsNotRepeatedSoon(t *testing.T) {
	held := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := newCourier()
	c.Timeout = time.Second // of what never comes
	late := newReceiver(t, answering(http.StatusGatewayTimeout, ""))
	for _, tt := range []struct {
		receiver *receiver
		courier  courier
		says     string
	}{{held, c, "no answer for 1s; the message may or may not have arrived"}, {late, patient(), "its server reported an error"}} {
		err := tt.courier.send(t.Context(), Secret("generic://"+tt.receiver.host()+"/?disabletls=yes"), letter{"a", "b", ""})
		f, ok := errors.AsType[*failure](err)
		if !ok || !strings.Contains(f.text, tt.says) || !f.unsure || f.permanent {
			t.Errorf("%+v, want %q", f, tt.says)
		}
	}
	if newCourier().Timeout < time.Minute {
		t.Errorf("a receiver has %v", newCourier().Timeout)
	}
}

// Nor is one repeated soon whose connection a proxy cut after a while, or whose answer began and did not end. What ends the
// connection at once did not take the message.
func TestCutIsNotRepeatedSoon(t *testing.T) {
	t.Parallel()
	const timeout = 30 * time.Second
	cut := func(after time.Duration) *receiver {
		return newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(after):
			}
			panic(http.ErrAbortHandler)
		})
	}
	begun := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	c := newCourier()
	c.Timeout = timeout
	for name, tt := range map[string]struct {
		receiver *receiver
		unsure   bool
	}{"cut late": {cut(2 * timeout / shareOfCut), true}, "cut at once": {cut(0), false}, "an answer that breaks off": {begun, true}, "524": {newReceiver(t, answering(524, "")), true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.send(t.Context(), Secret("ntfy://"+tt.receiver.host()+"/topic?disabletls=yes"), letter{"a", "b", ""})
			f, ok := errors.AsType[*failure](err)
			if !ok || f.unsure != tt.unsure || f.permanent {
				t.Errorf("%v: %+v", err, f)
			}
		})
	}
}

// A message is as loud as its worst alert, unless the address says how loud.
func TestUrgency(t *testing.T) {
	events := func(all ...string) (out []Event) {
		for i := 0; i < len(all); i += 2 {
			out = append(out, Event{Severity: all[i], News: all[i+1]})
		}
		return out
	}
	for want, events := range map[string][]Event{
		"critical": events("info", fired, "critical", repeated, "warning", fired), "warning": events("critical", over, "warning", fired),
		"info": events("info", fired), over: events("critical", over, "warning", brief),
	} {
		if got := urgency(events); got != want {
			t.Errorf("%+v is %q, want %q", events, got, want)
		}
	}
	for _, tt := range []struct{ address, urgency, header, want string }{
		{"ntfy://ntfy.sh/t", "critical", "Priority", "Max"}, {"ntfy://ntfy.sh/t", "warning", "Priority", "High"}, {"ntfy://ntfy.sh/t", "info", "Priority", "Default"},
		{"ntfy://ntfy.sh/t", over, "Priority", "Default"}, {"ntfy://ntfy.sh/t?priority=low", "critical", "Priority", "Low"}, {"ntfy://ntfy.sh/t", "", "Priority", "Default"},
		{"discord://t@1", "critical", "", `"color":14232864`}, {"discord://t@1", "warning", "", `"color":16224265`}, {"discord://t@1", "info", "", `"color":3051770`},
		{"discord://t@1", over, "", `"color":1226602`}, {"discord://t@1?color=0xff", "critical", "", `"color":255`},
		{"gotify://h/AS3cr3tT0k3n.AA", "critical", "", `"priority":8`}, {"pagerduty:///eb243592faa24ba2a5511afdf565c889", "critical", "", `"severity":"critical"`},
	} {
		got := newReceiver(t, answering(http.StatusOK, `{"ok":true}`))
		var header http.Header
		inner := got.answer
		got.answer = func(n int, w http.ResponseWriter, r *http.Request) { header = r.Header.Clone(); inner(n, w, r) }
		if err := (courier{got.client()}).send(t.Context(), Secret(tt.address), letter{"a", "b", tt.urgency}); err != nil {
			t.Errorf("%s: %v", tt.address, err)
			continue
		}
		if tt.header != "" && header.Get(tt.header) != tt.want || tt.header == "" && !strings.Contains(got.received()[0].body, tt.want) {
			t.Errorf("%s, %s: %v %s, want %s", tt.address, tt.urgency, header, got.received()[0].body, tt.want)
		}
	}
}

// The address of a webhook works as its service shows it.
func TestAddressesAsServicesShowThem(t *testing.T) {
	for shown, want := range map[string]string{
		"https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx": "slack://hook:T00000000-B00000000-abcdefghijklmnopqrstuvwx@webhook",
		"https://discord.com/api/webhooks/123456789012345678/TOKEN_x-y":                 "discord://TOKEN_x-y@123456789012345678",
		"https://discordapp.com/api/v10/webhooks/123456789012345678/TOKEN":              "discord://TOKEN@123456789012345678",
		"https://ntfy.sh/my-topic?priority=high":                                        "ntfy://ntfy.sh/my-topic?priority=high",
		"https://chat.googleapis.com/v1/spaces/FOO/messages?key=KEY&token=TOKEN":        "googlechat://chat.googleapis.com/v1/spaces/FOO/messages?key=KEY&token=TOKEN",
		"https://open.feishu.cn/open-apis/bot/v2/hook/TOKEN":                            "lark://open.feishu.cn/TOKEN",
		"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693a91f6-7xxx":            "wecom://693a91f6-7xxx",
		"https://example.webhook.office.com/webhookb2/11111111-4444-4444-8444-cccccccccccc@22222222-4444-4444-8444-cccccccccccc/IncomingWebhook/33333333012222222222333333333344/44444444-4444-4444-8444-cccccccccccc/V2ESyij": "teams+https://example.webhook.office.com/webhookb2/11111111-4444-4444-8444-cccccccccccc@22222222-4444-4444-8444-cccccccccccc/IncomingWebhook/33333333012222222222333333333344/44444444-4444-4444-8444-cccccccccccc/V2ESyij",
		"https://hooks.example.org/services/T0/B0/x":                                    "https://hooks.example.org/services/T0/B0/x", // any other
		"HTTPS://Hooks.Slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwX": "slack://hook:T00000000-B00000000-abcdefghijklmnopqrstuvwX@webhook",
		"https://discord.com/api/webhooks/123/abc-DEF?wait=true":                        "discord://abc-DEF@123",
		"https://discord.com/api/webhooks/123/abc-DEF?wait=true&thread_id=77":           "discord://abc-DEF@123?thread_id=77",
		"https://hooks.slack.com.evil.example/services/T00000000/B00000000/abc":         "https://hooks.slack.com.evil.example/services/T00000000/B00000000/abc",
	} {
		got := Secret(shown).written()
		if string(got) != want {
			t.Errorf("%s is written %s, want %s", shown, string(got), want)
		}
		if err := got.usable(); (err == nil) != (want != shown) {
			t.Errorf("%s: %v", shown, err)
		}
	}
	if err := Secret("https://example.org/hook").usable(); err == nil || !strings.Contains(err.Error(), "write generic+ before https://") {
		t.Errorf("any other: %v", err)
	}
	t.Setenv("NOTIFY_TEST_SLACK", "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx")
	target := Target{Name: "a", URLEnv: "NOTIFY_TEST_SLACK"}
	if _, s, err := target.resolve(); err != nil || s.scheme() != "slack" {
		t.Errorf("%s, %v", s.scheme(), err)
	}
	if err := Secret("https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx").written().plain(); !errors.Is(err, errSecret) {
		t.Errorf("in the file of rules: %v", err)
	}
}
