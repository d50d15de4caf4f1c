package notify

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
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

// patient is a courier that gives servers as long as a busy machine needs.
func patient() courier {
	c := newCourier()
	c.Timeout = testkit.Patience
	return c
}

// client brings each request to a receiver, whatever its host, without TLS.
func (r *receiver) client() *http.Client {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, r.host())
	}
	c := patient().Client
	c.Transport = &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true}
	return c
}

func (r *receiver) send(s Secret) error {
	return courier{r.client()}.send(context.Background(), s, letter{"GPU 0 ist zu heiß", "It is hot.\nVery.", ""})
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
		{"401", answering(401, `{"ok":false,"error_code":401,"description":"Unauthorized","error":"Unauthorized","errorCode":401,"code":40101,"errcode":"401"}`), true, "it denied access"},
		{"404", answering(404, ""), true, ""},
		{"redirect", func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/login" {
				_, _ = io.WriteString(w, "ok")
				return
			}
			http.Redirect(w, r, "/login", http.StatusFound)
		}, false, "redirects"},
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
				err := r.send(Secret(address(r.host())))
				f, ok := err.(*failure) //nolint:errorlint // as its caller sees it
				if !ok {
					t.Fatalf("the error is %v", err)
				}
				if strings.Contains(f.text, "S3cr3tT0k3n") || strings.Contains(f.text, r.host()) {
					t.Errorf("the address is in %q", f.text)
				}
				if !strings.Contains(f.text, test.want) {
					t.Errorf("it says %q, want %q", f.text, test.want)
				}
				if f.permanent != test.permanent {
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
	ports, err := testkit.FreePorts(1) // which no other program listens on meanwhile
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{Server: &httptest.Server{URL: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}}
	for _, address := range []string{
		"generic://" + r.host() + "/x?disabletls=yes", "discord://token@123456789", "zulip://bot@zulip.example.org:key@zulip.example.org/?stream=gpus",
		"telegram://110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw-@telegram?chats=42", "gotify://" + r.host() + "/A-very-good.one?disabletls=yes",
	} {
		err := r.send(Secret(address))
		if err == nil {
			t.Errorf("%s: no error", address)
			continue
		}
		if !strings.Contains(err.Error(), "nothing is listening there") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// An answer of another server is not taken for one of Telegram's.
func TestTelegramIsHonest(t *testing.T) {
	for _, body := range []string{"", "<html>Log in</html>", "{}", `{"ok":false}`, `[]`} {
		r := newReceiver(t, answering(200, body))
		if err := r.send("telegram://110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw-@telegram?chats=42"); err == nil {
			t.Errorf("%q is taken as a success", body)
		}
	}
}

// A server that is silent, or sends without end, does not hold the sender.
func TestExchangeEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	held := make(chan struct{})
	r := newReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			cancel(context.DeadlineExceeded) // its time is over
			<-r.Context().Done()
			close(held)
			return
		}
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, strings.Repeat("x", 4096))
		}
	})
	s := Secret("generic://" + r.host() + "/?disabletls=yes")
	if err := patient().send(ctx, s, letter{"a", "b", ""}); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("silent: %v", err)
	}
	testkit.Receive(t, "the end of the request", held)
	if err := patient().send(t.Context(), s, letter{"a", "b", ""}); err != nil {
		t.Errorf("without end: %v", err)
	}
	if newCourier().Timeout != exchangeTime {
		t.Errorf("the exchange may take %v", newCourier().Timeout)
	}
}

// mailbox is a mail server that takes mail, and answers a recipient with a reply.
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
			takeMail(c, reply, nil, out)
		}
	})
	return ln.Addr().String(), out
}

// takeMail speaks with one client. With a TLS configuration it offers STARTTLS.
func takeMail(c net.Conn, reply string, startTLS *tls.Config, out chan<- string) {
	defer func() { c.Close() }()
	lines := bufio.NewScanner(c)
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 here")
	var mail strings.Builder
	for data := false; lines.Scan(); {
		switch line := lines.Text(); {
		case data && line == ".":
			data = false
			out <- mail.String()
			mail.Reset()
			say("250 ok")
		case data:
			mail.WriteString(line + "\n")
		case strings.HasPrefix(line, "EHLO") && startTLS != nil:
			say("250-here\r\n250 STARTTLS")
		case strings.HasPrefix(line, "STARTTLS"):
			say("220 go on")
			c, startTLS = tls.Server(c, startTLS), nil
			lines = bufio.NewScanner(c)
			mail.WriteString("Secure\n")
		case strings.HasPrefix(line, "EHLO"):
			say("250-here\r\n250 AUTH PLAIN")
		case strings.HasPrefix(line, "AUTH PLAIN "):
			text, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(line, "AUTH PLAIN "))
			mail.WriteString("Authenticated: " + strings.ReplaceAll(string(text), "\x00", "/") + "\n")
			say("235 ok")
		case strings.HasPrefix(line, "DATA"):
			data = true
			say("354 go on")
		case strings.HasPrefix(line, "RCPT"):
			mail.WriteString(line + "\n")
			say(reply)
		case strings.HasPrefix(line, "QUIT"):
			return // without a word: the mail was taken all the same
		default:
			say("250 ok")
		}
	}
}

// mailTo gives the server as long as a busy machine needs, if the address does not say how long.
func mailTo(ctx context.Context, s Secret) error {
	if !strings.Contains(string(s), "timeout=") {
		s += Secret("&timeout=" + testkit.Patience.String())
	}
	return courier{}.send(ctx, s, letter{"GPU 0 ist zu heiß", "It is hot.\n.\nSubject: no header", ""})
}

func TestMail(t *testing.T) {
	address, mails := mailbox(t, "250 ok")
	s := Secret("smtp://" + address + "/?from=gpus@example.org&to=ops@example.org&usestarttls=no")
	if err := s.plain(); err != nil {
		t.Fatal(err)
	}
	if err := mailTo(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	header, body, ok := strings.Cut(<-mails, "\n\n")
	if !ok || strings.Count(header, "Subject:") != 1 || !strings.Contains(header, "Subject: =?UTF-8?q?GPU_0_ist_zu_hei=C3=9F?=") ||
		!strings.Contains(header, "From: <gpus@example.org>") || !strings.Contains(header, "To: <ops@example.org>") {
		t.Errorf("the header is %q", header)
	}
	if !strings.Contains(body, "It is hot.\n..\nSubject: no header") {
		t.Errorf("the body is %q", body)
	}
	address, _ = mailbox(t, "550 no such user")
	err := mailTo(t.Context(), Secret("smtp://"+address+"/?from=gpus@example.org&to=ops@example.org&usestarttls=no"))
	if f, ok := err.(*failure); !ok || !f.permanent || !strings.Contains(f.text, "no such user") || strings.Contains(f.text, "ops@") { //nolint:errorlint // as its caller sees it
		t.Errorf("the error is %v", err)
	}
}

// Each recipient has a mail alone; a password, a name and HTML are used.
func TestMailOptions(t *testing.T) {
	address, mails := mailbox(t, "250 ok")
	if err := mailTo(t.Context(), Secret("smtp://me:pass%20word@"+address+"/?from=gpus+x@example.org&fromname=The+GPUs&to=ops@example.org,night@example.org&usehtml=yes&clienthost=auto")); err != nil {
		t.Fatal(err)
	}
	for i, recipient := range []string{"ops@example.org", "night@example.org"} {
		mail := <-mails
		for _, want := range []string{"RCPT TO:<" + recipient + ">", "To: <" + recipient + ">", `From: "The GPUs" <gpus+x@example.org>`, "multipart/alternative", "<pre>It is hot.", "text/plain"} {
			if !strings.Contains(mail, want) {
				t.Errorf("%q is not in %s", want, mail)
			}
		}
		if strings.Count(mail, "RCPT") != 1 || i == 0 && !strings.Contains(mail, "Authenticated: /me/pass word") {
			t.Errorf("mail %d is %s", i, mail)
		}
	}
}

// TLS is used from the start, or where the server offers it, and its certificate
// is checked.
func TestMailTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	certificates := &tls.Config{Certificates: server.TLS.Certificates}
	for _, test := range []struct {
		name, options string
		implicit      bool
		starts        *tls.Config
		want          string // part of the failure; empty: the mail arrives
	}{
		{"implicit", "&encryption=implicittls&skiptlsverify=yes", true, nil, ""},
		{"implicit, not trusted", "&encryption=ImplicitTLS", true, nil, "its certificate is not trusted"},
		{"STARTTLS", "&skiptlsverify=yes", false, certificates, ""},
		{"STARTTLS, not trusted", "", false, certificates, "its certificate is not trusted"},
		{"STARTTLS, not used", "&starttls=no", false, certificates, ""},
		{"STARTTLS, missing", "&requirestarttls=yes", false, nil, "sending failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			mails := make(chan string, 1)
			var done sync.WaitGroup
			defer done.Wait()
			done.Go(func() {
				c, err := ln.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				if test.implicit {
					c = tls.Server(c, certificates)
				}
				takeMail(c, "250 ok", test.starts, mails)
			})
			err = mailTo(t.Context(), Secret("smtp://"+ln.Addr().String()+"/?from=gpus@example.org&to=ops@example.org"+test.options))
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if mail := <-mails; strings.Contains(mail, "Secure") != (test.name == "STARTTLS") {
				t.Errorf("the mail is %s", mail)
			}
		})
	}
}

// A mail server that falls silent holds nobody for longer than its message may take.
func TestSilentMailServer(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ended := make(chan error, 1)
	greeted, cancel := context.WithCancelCause(t.Context())
	go func() {
		c, err := ln.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "220 here\r\n")
		_, _ = bufio.NewReader(c).ReadString('\n')
		cancel(errSilent)
		_, err = io.Copy(io.Discard, c)
		ended <- err
	}()
	err = mailTo(greeted, Secret("smtp://"+ln.Addr().String()+"/?from=gpus@example.org&to=ops@example.org&timeout=1h"))
	if err != errSilent { //nolint:errorlint // as its caller sees it
		t.Errorf("the error is %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the connection ends with %v", err)
	}
}

// A server that asks for time gets it, within a bound.
func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		header, body string
		want         time.Duration
	}{
		{"", "", 0}, {"120", "", 2 * time.Minute}, {"99999", "", longestRefuse}, {"-5", "", 0}, {"soon", "", 0},
		{time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat), "", longestRefuse},
		{"", `{"retry_after":1.5}`, 1500 * time.Millisecond}, {"", `{"ok":false,"parameters":{"retry_after":42}}`, 42 * time.Second},
	} {
		r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			if test.header != "" {
				w.Header().Set("Retry-After", test.header)
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, test.body)
		})
		err := r.send(Secret("generic://" + r.host() + "/?disabletls=yes"))
		if f, ok := errors.AsType[*failure](err); !ok || f.after != test.want {
			t.Errorf("%q, %q: %+v, want %v", test.header, test.body, err, test.want)
		}
	}
	var q queue
	q.add(Event{ID: "a"}, time.Now())
	q.take()
	now := time.Now()
	q.failed(now, &failure{after: 7 * time.Minute})
	if got := q.Retry.Sub(now); got != 7*time.Minute {
		t.Errorf("the next try is after %v", got)
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
	if got := scrub("generic://127.0.0.1/a%ffbcdef-ghi?@x=%fe%fe%fe", "the key bcdef-ghi"); strings.Contains(got, "cdef") {
		t.Errorf("it says %q", got)
	}
	if !bytes.Contains([]byte(scrub("x", "sending failed")), []byte("sending failed")) {
		t.Error("nothing is left")
	}
}
