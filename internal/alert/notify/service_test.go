package notify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// A receiver is what messages are sent to: it remembers requests, and answers
// as it is told.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []received
	answer func(n int, w http.ResponseWriter, r *http.Request) // of request n, from 1
}

type received struct {
	host, path, title, body string
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	r.got = append(r.got, received{q.Host, q.URL.RequestURI(), q.Header.Get("Title"), string(body)})
	n := len(r.got)
	r.mu.Unlock()
	r.answer(n, w, q)
}

func (r *receiver) received() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

func (r *receiver) host() string { return strings.TrimPrefix(r.URL, "http://") }

func answering(status int, body string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// takeOver brings each request of shoutrrr's to a receiver, whatever its host,
// without TLS.
func takeOver(t *testing.T, r *receiver) {
	t.Helper()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, r.host())
	}
	before := outgoing.base
	outgoing.base = &http.Transport{DialContext: dial, DialTLSContext: dial}
	t.Cleanup(func() { outgoing.base = before })
}

func send(s Secret) error { return newCourier(s).send("GPU 0 ist zu heiß", "It is hot.\nVery.") }

// services that send to any host, and those that send to one.
func TestServices(t *testing.T) {
	for _, test := range []struct {
		name   string
		url    func(host string) string
		answer string
		host   string   // that is asked; empty: the receiver
		want   []string // parts of what comes
	}{
		{"generic", func(h string) string { return "generic://" + h + "/hook?disabletls=yes" }, "", "", []string{"GPU 0 ist zu heiß\nIt is hot.\nVery."}},
		{"generic with JSON", func(h string) string { return "generic+http://" + h + "/hook?template=json" }, "", "", []string{`"message":"It is hot.\nVery."`, `"title":"GPU 0 ist zu heiß"`}},
		{"ntfy", func(h string) string { return "ntfy://" + h + "/gpus?disabletls=yes" }, "{}", "", []string{"/gpus", "It is hot.\nVery.", "GPU 0 ist zu heiß"}},
		{"ntfy, unverified", func(h string) string {
			return "ntfy://u:p@" + h + "/gpus?scheme=http&disabletlsverification=yes"
		}, "{}", "", []string{"It is hot"}},
		{"gotify", func(h string) string { return "gotify://" + h + "/A-very-good.one?disabletls=yes" }, "{}", "", []string{"It is hot.", "zu heiß"}},
		{"mattermost", func(h string) string { return "mattermost://" + h + "/token?disabletls=yes" }, "", "", []string{`GPU 0 ist zu heiß\nIt is hot.`}},
		{"slack", func(string) string { return "slack://hook:T00000000-B00000000-abcdefghijklmnopqrstuvwx@webhook" }, "ok", "hooks.slack.com", []string{"zu heiß", "It is hot.", "Very."}},
		{"slack bot", func(string) string {
			return "slack://xoxb:123456789012-1234567890123-4mt0t4l1YL3g1T5L4cK70k3N@C001CH4NN3L"
		}, `{"ok":true}`, "slack.com", []string{"It is hot."}},
		{"discord", func(string) string { return "discord://token@123456789" }, "", "discord.com", []string{`"title":"GPU 0 ist zu heiß"`, "It is hot."}},
		{"telegram", func(string) string {
			return "telegram://110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw-@telegram?chats=42"
		}, `{"ok":true,"result":{}}`, "api.telegram.org", []string{"GPU 0 ist zu heiß", "It is hot."}},
		{"teams", func(string) string {
			return "teams://11111111-4444-4444-8444-cccccccccccc@22222222-4444-4444-8444-cccccccccccc/33333333012222222222333333333344/44444444-4444-4444-8444-cccccccccccc/V2ESyij_gAljSoUQHvZoZYzlpAoAXExyOl26dlf1xHEx05?host=test.webhook.office.com"
		}, "1", "test.webhook.office.com", []string{"zu heiß", "It is hot."}},
		{"pushover", func(string) string { return "pushover://shoutrrr:token@user/" }, "", "api.pushover.net", []string{"It+is+hot"}},
		{"zulip", func(string) string { return "zulip://bot@zulip.example.org:key@zulip.example.org/?stream=gpus" }, "", "zulip.example.org", []string{"It+is+hot"}},
		{"matrix", func(h string) string { return "matrix://:token@" + h + "/?rooms=!r:x&disabletls=yes" }, `{"room_id":"!r:x","joined_rooms":["!r:x"]}`, "", []string{"It is hot."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReceiver(t, answering(http.StatusOK, test.answer))
			takeOver(t, r)
			s := Secret(test.url(r.host()))
			if err := s.usable(); err != nil {
				t.Fatal(err)
			}
			if got := r.received(); len(got) != 0 {
				t.Fatalf("looking at the address asked %v", got)
			}
			if err := send(s); err != nil {
				t.Fatal(err)
			}
			got := r.received()
			if len(got) == 0 {
				t.Fatal("nothing came")
			}
			last := got[len(got)-1]
			if test.host != "" && last.host != test.host {
				t.Errorf("%s was asked, want %s", last.host, test.host)
			}
			text := last.path + " " + last.title + " " + last.body
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %q", want, text)
				}
			}
		})
	}
}

// Everything that fails is a failure, tells a person what to do, and nothing of
// the address.
func TestFailures(t *testing.T) {
	const token = "S3cr3tT0k3nAAAAAAAAAAAAAAAA"
	all := map[string]func(host string) string{
		"generic": func(h string) string {
			return "generic://" + h + "/" + token + "?disabletls=yes&@authorization=" + token
		},
		"ntfy":    func(h string) string { return "ntfy://user:" + token + "@" + h + "/topic" + token + "?disabletls=yes" },
		"gotify":  func(h string) string { return "gotify://" + h + "/AS3cr3tT0k3n.AA?disabletls=yes" },
		"slack":   func(string) string { return "slack://hook:T00000000-B00000000-S3cr3tT0k3nAAAAAAAAAAAAA@webhook" },
		"discord": func(string) string { return "discord://" + token + "@123456789" },
		"telegram": func(string) string {
			return "telegram://110201543:AAS3cr3tT0k3nAAAAAAAAAAAAAAAAAAAAAAA@telegram?chats=42"
		},
		"zulip": func(string) string {
			return "zulip://bot@zulip.example.org:" + token + "@zulip.example.org/?stream=gpus"
		},
		"pushover": func(string) string { return "pushover://shoutrrr:" + token + "@user" + token + "/" },
		"matrix":   func(h string) string { return "matrix://:" + token + "@" + h + "/?rooms=!r:x&disabletls=yes" },
	}
	for _, test := range []struct {
		name      string
		answer    func(int, http.ResponseWriter, *http.Request)
		permanent bool
		want      string // part of what is said; empty: anything
	}{
		{"500", answering(500, "oops "+token), false, ""},
		{"429", answering(429, `{"ok":false,"description":"Too Many Requests: retry after 5","errorCode":429,"code":42901}`), false, "too many messages"},
		{"401", answering(401, `{"ok":false,"error_code":401,"description":"Unauthorized","error":"Unauthorized","errorCode":401,"code":40101,"errcode":"401"}`), true, "refuses us"},
		{"404", answering(404, ""), true, ""},
		{"redirect", func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/login" {
				_, _ = io.WriteString(w, "ok")
				return
			}
			http.Redirect(w, r, "/login", http.StatusFound)
		}, false, "elsewhere"},
		{"closed", func(_ int, w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
		}, false, "closed the connection"},
	} {
		for service, address := range all {
			t.Run(test.name+"/"+service, func(t *testing.T) {
				r := newReceiver(t, test.answer)
				takeOver(t, r)
				err := send(Secret(address(r.host())))
				f, ok := err.(*failure) //nolint:errorlint // as its caller sees it
				if !ok {
					t.Fatalf("the error is %v", err)
				}
				if strings.Contains(f.text, "S3cr3tT0k3n") || strings.Contains(f.text, r.host()) {
					t.Errorf("the address is in %q", f.text)
				}
				if service == "zulip" && test.name != "401" && test.name != "404" || service == "matrix" || service == "slack" {
					return // these don't hand on what came
				}
				if !strings.Contains(f.text, test.want) {
					t.Errorf("it says %q, want %q", f.text, test.want)
				}
				if f.permanent != test.permanent && (test.name != "404" || service != "telegram") {
					t.Errorf("permanent is %v in %q", f.permanent, f.text)
				}
				if n := len(r.received()); n != 1 {
					t.Errorf("it was tried %d times", n)
				}
			})
		}
	}
}

func TestNobodyListens(t *testing.T) {
	r := newReceiver(t, answering(200, "ok"))
	r.Close()
	takeOver(t, r)
	for _, address := range []string{
		"generic://" + r.host() + "/x?disabletls=yes", "discord://token@123456789", "zulip://bot@zulip.example.org:key@zulip.example.org/?stream=gpus",
		"telegram://110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw-@telegram?chats=42", "gotify://" + r.host() + "/A-very-good.one?disabletls=yes",
	} {
		err := send(Secret(address))
		if err == nil {
			t.Errorf("%s: no error", address)
			continue
		}
		if !strings.HasPrefix(address, "zulip") && !strings.Contains(err.Error(), "nobody listens there") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Telegram's service says nothing of answers that are none.
func TestTelegramIsHonest(t *testing.T) {
	for _, body := range []string{"", "<html>Log in</html>", "{}", `{"ok":false}`, `[]`} {
		r := newReceiver(t, answering(200, body))
		takeOver(t, r)
		if err := send("telegram://110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw-@telegram?chats=42"); err == nil {
			t.Errorf("%q is taken as a success", body)
		}
	}
}

// A server that says nothing does not hold the sender for longer than the
// exchange may take.
func TestGuardEndsAnExchange(t *testing.T) {
	held := make(chan struct{})
	r := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(held) })
	takeOver(t, r)
	g := &guard{base: outgoing.base, all: true}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := g.RoundTrip(q); err == nil {
		answer.Body.Close()
		t.Error("no error")
	}
	<-held
	// The guard's own limit, on a transport that shows it.
	seen := time.Duration(0)
	g.base = roundTrip(func(q *http.Request) (*http.Response, error) {
		deadline, _ := q.Context().Deadline()
		seen = time.Until(deadline)
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", 2*mostAnswer)))}, nil
	})
	answer, err := g.RoundTrip(q.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || len(body) != mostAnswer {
		t.Errorf("%d bytes were read, %v", len(body), err)
	}
	if answer.Body.Close() != nil || seen <= 0 || seen > exchangeTime {
		t.Errorf("the exchange may take %v", seen)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What others send is not touched.
func TestGuardLeavesOthersAlone(t *testing.T) {
	r := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			_, _ = io.WriteString(w, "here")
			return
		}
		http.Redirect(w, r, "/there", http.StatusFound)
	})
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "here" {
		t.Errorf("the answer is %q, %v", body, err)
	}
}

// mailbox is a mail server that takes one mail on each connection.
func mailbox(t *testing.T, reply string) (address string, mails <-chan string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 10)
	var done sync.WaitGroup
	t.Cleanup(func() { ln.Close(); done.Wait() })
	done.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			takeMail(c, reply, out)
		}
	})
	return ln.Addr().String(), out
}

func takeMail(c net.Conn, reply string, out chan<- string) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 here")
	var mail strings.Builder
	for data := false; lines.Scan(); {
		switch line := lines.Text(); {
		case data && line == ".":
			data = false
			out <- mail.String()
			say("250 ok")
		case data:
			mail.WriteString(line + "\n")
		case strings.HasPrefix(line, "DATA"):
			data = true
			say("354 go on")
		case strings.HasPrefix(line, "RCPT"):
			say(reply)
		case strings.HasPrefix(line, "QUIT"):
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func TestMail(t *testing.T) {
	address, mails := mailbox(t, "250 ok")
	s := Secret("smtp://" + address + "/?from=gpus@example.org&to=ops@example.org&usestarttls=no")
	if err := s.plain(); err != nil {
		t.Fatal(err)
	}
	if err := newCourier(s).send("GPU 0 ist zu heiß", "It is hot.\n.\nSubject: no header"); err != nil {
		t.Fatal(err)
	}
	header, body, ok := strings.Cut(<-mails, "\n\n")
	if !ok || strings.Count(header, "Subject:") != 1 || !strings.Contains(header, "Subject: =?utf-8?q?GPU_0_ist_zu_hei=C3=9F?=") {
		t.Errorf("the header is %q", header)
	}
	if !strings.Contains(body, "It is hot.\n..\nSubject: no header") {
		t.Errorf("the body is %q", body)
	}
	address, _ = mailbox(t, "550 no such user")
	err := newCourier(Secret("smtp://"+address+"/?from=gpus@example.org&to=ops@example.org&usestarttls=no")).send("a", "b")
	if f, ok := err.(*failure); !ok || !f.permanent || !strings.Contains(f.text, "no such user") || strings.Contains(f.text, "ops@") { //nolint:errorlint // as its caller sees it
		t.Errorf("the error is %v", err)
	}
}

// A secret is found in whatever form it is quoted.
func TestScrub(t *testing.T) {
	s := Secret("generic://us%2Fer:pa%20ss+word%21@host.example.org:8443/hooks/T0K%2FEN-abcdefgh?@auth=Bearer%20xyzzy12&disabletls=yes")
	u, err := url.Parse(string(s))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	inJSON, err := json.Marshal(string(s))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(s), u.String(), string(inJSON), "lookup host.example.org: odd", "key pa%20ss+word%21", "key " + password, "at /hooks/T0K/EN-abcdefgh now",
		"header Bearer xyzzy12", strings.ToUpper(string(s)), "host.example.org:8443", "…abcdefgh…", "cut T0K/EN-abcdef", "user us/er",
	} {
		got := scrub(s, "it says "+text)
		for _, secret := range []string{"us/er", "us%2Fer", "ss+word", "host.example", "EN-abcdef", "xyzzy12", "XYZZY12", "EXAMPLE"} {
			if strings.Contains(got, secret) {
				t.Errorf("%q is left in %q of %q", secret, got, text)
			}
		}
	}
	if got := scrub(s, "unexpected status: 503 Service Unavailable\r\n\x1b[31m"); got != "unexpected status: 503 Service Unavailable [31m" {
		t.Errorf("it says %q", got)
	}
	said := "failed to send notification to generic webhook: 503"
	if got := scrub("generic://127.0.0.1:9/hook", said); got != said {
		t.Errorf("it says %q", got)
	}
	if got := scrub("generic://u:abc@127.0.0.1:9/hook", "the key abc, abcd, xabc and (hook)"); got != "the key …, abcd, xabc and (…)" {
		t.Errorf("it says %q", got)
	}
	if got := scrub(s, strings.Repeat("long ", 1000)); len([]rune(got)) > longestSaid {
		t.Errorf("%d characters", len(got))
	}
	if !bytes.Contains([]byte(scrub("x", "it failed")), []byte("it failed")) {
		t.Error("nothing is left")
	}
}
