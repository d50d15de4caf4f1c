//go:build !race

package static_test

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

const passphrase = "correct horse battery staple"

// closedSite is a site that people have to sign in to, at localhost, and the address of its page to make the first administrator.
func closedSite(t *testing.T) (s *site, setup string) {
	t.Helper()
	s = newSite(t)
	l, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.opt.Clock, s.opt.Access = clock.Clock{}, &access.Options{Ledger: l} // the ledger has the machine's time
	s.begin()
	t.Cleanup(func() {
		if err := s.App.Close(); err != nil {
			t.Error(err)
		}
	})
	link, err := app.Find[*access.Room](s.App).SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	s.publish(s.example("one"))
	return s, strings.TrimSuffix(s.URL, base) + link
}

// typed has somebody type into a form, and send it.
func typed(tab *browser.Tab, fields ...string) {
	for i := 0; i < len(fields); i += 2 {
		tab.Do(chromedp.SendKeys(`form.sheet [name="`+fields[i]+`"]`, fields[i+1]))
	}
	tab.Do(chromedp.Click("form.sheet button"))
}

// Somebody makes the first account, adds a passkey, signs out, is led to the page to sign in, and comes back with the passkey to where they wanted
// to go: by the button, or as the browser suggests it in the field of the name. The answer of the passkey is worth nothing a second time. When the session ends, the open page leads to the page to sign in, and back.
func TestPasskey(t *testing.T) {
	s, setup := closedSite(t)
	tab := browser.Open(t, 1280, 900)
	browser.Call(tab, webauthn.Enable, webauthn.EnableParams{})
	browser.Call(tab, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: "internal", HasResidentKey: true, HasUserVerification: true, IsUserVerified: true,
		AutomaticPresenceSimulation: true,
	}})
	// Keeps what the page sends.
	tab.Before(`{ const send = window.fetch; window.fetch = (to, o) => { if (String(to).includes("sign-in/passkey?")) sessionStorage.setItem("sent", o.body); return send(to, o); }; }`)
	// The browser suggests passkeys once the test says so, and the test chooses one: it can't click at what browsers suggest.
	tab.Before(`{
		PublicKeyCredential.isConditionalMediationAvailable = async () => sessionStorage.getItem("suggests") !== null;
		const get = navigator.credentials.get.bind(navigator.credentials);
		navigator.credentials.get = ({ mediation, signal, ...how }) => {
			if (mediation !== "conditional") { sessionStorage.setItem("aborted", String(window.suggestion?.aborted)); return get(how); }
			window.suggestion = signal;
			return new Promise((yes, no) => { signal.onabort = () => no(signal.reason); window.choose = () => { get(how).then(yes, no); return 0; }; });
		};
	}`)
	tab.Visit(setup)
	typed(tab, "name", "ann", "password", passphrase)
	tab.Until(`location.pathname.endsWith("/account") && document.getElementById("notice")?.textContent.includes("signed in")`)
	tab.Do(chromedp.SendKeys("#add-passkey [name=title]", "laptop"), chromedp.Click("#add-passkey button"))
	tab.Until(`document.querySelector("#passkeys li b")?.textContent === "laptop"`)
	tab.Do(chromedp.Click(".account-out button"))
	tab.Until(`location.pathname.endsWith("/sign-in") && document.getElementById("notice").textContent.includes("signed out")`)

	tab.Visit(s.URL + "alerts?tab=rules")
	tab.Until(`location.pathname.endsWith("/sign-in") && document.querySelector("#passkey button")?.checkVisibility()`)
	tab.Do(chromedp.Click("#passkey button"))
	tab.Until(`location.pathname.endsWith("/alerts") && location.search === "?tab=rules" && document.querySelector(".account-link")?.textContent === "Account"`)
	tab.Until(`document.getElementById("state").dataset.state !== "still"`)
	replayed := browser.Ask[int](tab, `fetch("`+base+`sign-in/passkey", { method: "POST", body: sessionStorage.getItem("sent"), headers: { Accept: "application/json" } }).then((a) => a.status)`)
	if replayed != http.StatusBadRequest {
		t.Errorf("the same answer of the passkey gets %d", replayed)
	}
	// With another challenge it is no answer, either.
	replayed = browser.Ask[int](tab, `fetch("`+base+`sign-in/passkey/begin", { method: "POST" }).then(() => fetch("`+base+`sign-in/passkey", { method: "POST", body: sessionStorage.getItem("sent") })).then((a) => a.status)`)
	if replayed != http.StatusUnauthorized {
		t.Errorf("the answer to another challenge gets %d", replayed)
	}

	tab.Until(`["live", "silent"].includes(document.getElementById("state").dataset.state)`) // its socket is open
	browser.Ask[int](tab, `fetch("`+base+`sign-out", { method: "POST" }).then((a) => a.status)`)
	tab.Until(`location.pathname.endsWith("/sign-in") && new URLSearchParams(location.search).get("to") === "/alerts?tab=rules"`)
	typed(tab, "name", "ann", "password", passphrase)
	tab.Until(`location.pathname.endsWith("/alerts") && location.search === "?tab=rules"`)

	browser.Ask[int](tab, `sessionStorage.setItem("suggests", "yes") ?? 0`)
	for _, chooses := range []bool{true, false} {
		tab.Until(`["live", "silent"].includes(document.getElementById("state").dataset.state)`)
		browser.Ask[int](tab, `fetch("`+base+`sign-out", { method: "POST" }).then((a) => a.status)`)
		tab.Until(`location.pathname.endsWith("/sign-in") && window.suggestion !== undefined && document.querySelector("[name=name]").autocomplete === "username webauthn"`)
		if chooses {
			browser.Ask[int](tab, `window.choose()`)
		} else { // the button still works
			tab.Do(chromedp.Click("#passkey button"))
		}
		tab.Until(`location.pathname.endsWith("/alerts") && location.search === "?tab=rules"`)
	}
	if browser.Ask[string](tab, `sessionStorage.getItem("aborted")`) != "true" {
		t.Error("the browser still suggests passkeys while somebody uses the button")
	}
	browser.Ask[int](tab, `sessionStorage.removeItem("suggests") ?? 0`)

	// A passkey whose counter goes back was copied.
	l := s.opt.Access.Ledger
	keys, err := l.List(t.Context(), "passkey", "")
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	key := keys[0]
	counted := regexp.MustCompile(`"signCount":\d+`)
	if !counted.Match(key.Doc) {
		t.Fatalf("the passkey has no counter: %s", key.Doc)
	}
	key.Doc = counted.ReplaceAll(key.Doc, []byte(`"signCount":1000000`))
	if err := l.Apply(t.Context(), ledger.Change{Item: key, Was: key.Version}); err != nil {
		t.Fatal(err)
	}
	tab.Visit(s.URL + "sign-in")
	tab.Do(chromedp.Click("#passkey button"))
	tab.Until(`document.getElementById("passkey-says").textContent.includes("was not accepted")`)
	if list, err := l.Entries(t.Context(), ledger.Query{Action: "signIn", Result: "refused"}); err != nil || len(list) == 0 || !strings.Contains(list[0].Detail, "counter") || list[0].Principal != "ann" {
		t.Errorf("the audit has %+v, %v", list, err)
	}
	tab.Quiet("status of 400", "status of 401")
}

// Everything but passkeys works where no script runs, on a phone and by keyboard.
func TestSignInWithoutScripts(t *testing.T) {
	s, setup := closedSite(t)
	tab := browser.Open(t, 360, 740)
	browser.Call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	tab.Visit(setup)
	tab.Do(chromedp.SendKeys(`[name="name"]`, "ann\t"), chromedp.SendKeys(`[name="password"]`, passphrase+"\r"))
	shows := func(condition string) {
		t.Helper()
		tab.Until(condition)
	}
	shows(`location.pathname.endsWith("/account")`)
	if browser.Ask[bool](tab, `document.getElementById("add-passkey").checkVisibility()`) {
		t.Error("a passkey can be added without a script")
	}
	tab.Do(chromedp.Click(`[action$="account/codes"] button`))
	shows(`document.querySelectorAll("#new-codes code").length === 10`)
	code := browser.Ask[string](tab, `document.querySelector("#new-codes code").textContent`)
	tab.Do(chromedp.Click(".account-out button"))
	shows(`location.pathname.endsWith("/sign-in")`)
	tab.Do(chromedp.SendKeys(`[name="name"]`, "ann"), chromedp.SendKeys(`[name="password"]`, "wrong\r"))
	shows(`document.getElementById("trouble")?.textContent.includes("wrong") && document.querySelector("[name=name]").value === "ann"`)
	tab.Do(chromedp.Click(`[href$="sign-in/code"]`))
	shows(`location.pathname.endsWith("/sign-in/code")`)
	tab.Do(chromedp.SendKeys(`[name="name"]`, "ann"), chromedp.SendKeys(`[name="code"]`, code+"\r"))
	shows(`location.pathname.endsWith("/account") && document.getElementById("notice").textContent.includes("recovery code")`)
	tab.Visit(s.URL)
	shows(`document.querySelector("#more a[href$='account']") !== null && document.getElementById("gpus") !== null`)
}

// A program signs in with a form, and keeps the cookie.
func TestSignInByProgram(t *testing.T) {
	s, setup := closedSite(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	status := func(answer *http.Response, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode >= 400 {
			var problem struct{ Detail string }
			if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil || problem.Detail == "" {
				t.Errorf("%s: %v", answer.Request.URL.Path, err)
			}
		}
		return answer.StatusCode
	}
	link, err := url.Parse(setup)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what string
		got  int
		want int
	}{
		{"before", status(c.Get(s.URL + "api/gpu/metrics")), http.StatusUnauthorized},
		{"a file of the page", status(c.Get(s.URL + "favicon.ico")), http.StatusOK},
		{"setup", status(c.PostForm(s.URL+"setup", url.Values{"link": {link.Query().Get("link")}, "name": {"ann"}, "password": {passphrase}})), http.StatusSeeOther},
		{"signed in", status(c.Get(s.URL + "api/gpu/metrics")), http.StatusOK},
		{"the manifest", status(c.Get(s.URL + "manifest.webmanifest")), http.StatusOK},
		{"signing out", status(c.PostForm(s.URL+"sign-out", nil)), http.StatusSeeOther},
		{"after", status(c.Get(s.URL + "api/gpu/metrics")), http.StatusUnauthorized},
		{"a wrong password", status(c.PostForm(s.URL+"sign-in", url.Values{"name": {"ann"}, "password": {"x"}})), http.StatusUnauthorized},
		{"signing in", status(c.PostForm(s.URL+"sign-in", url.Values{"name": {"ann"}, "password": {passphrase}})), http.StatusSeeOther},
		{"again", status(c.Get(s.URL + "api/gpu/metrics")), http.StatusOK},
	} {
		if step.got != step.want {
			t.Errorf("%s: %d, want %d", step.what, step.got, step.want)
		}
	}
}
