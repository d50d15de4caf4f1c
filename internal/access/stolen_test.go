package access

import (
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// roomWith returns a room whose accounts are in a file.
func roomWith(t *testing.T, file string) *Room {
	t.Helper()
	l, err := ledger.OpenFile(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{
		Host: part.Host{Log: slog.New(slog.DiscardHandler)}, Options: Options{Ledger: l}, Address: serve.Address{Listen: "localhost:8003"},
		Audit: l.Append, Revoke: func(func(auth.Principal) bool) {},
	})
}

func ofLink(t *testing.T, address string, err error) string {
	t.Helper()
	u, parsing := url.Parse(address)
	if err != nil || parsing != nil || u.Query().Get("link") == "" {
		t.Fatal(address, err)
	}
	return u.Query().Get("link")
}

// Whoever steals the state directory has no password, session, token, code or link, and nothing in it lets anybody in.
func TestStolenStateDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "access.db")
	r := roomWith(t, file)
	request := httptest.NewRequest(http.MethodPost, "/", nil)
	ctx := t.Context()
	const password, wrong = "correct horse battery 7", "my password elsewhere 3"
	secrets := map[string]string{"the password": password, "a wrong password": wrong}

	address, err := r.SetupLink(ctx)
	secrets["the link of the first administrator"] = ofLink(t, address, err)
	ann, err := r.setUp(request, secrets["the link of the first administrator"], "ann", password)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.signIn(request, "ann", wrong); err == nil {
		t.Error("a wrong password is right")
	}
	if _, err := r.signIn(request, wrong, password); err == nil { // a person has typed the password in the wrong field
		t.Error("a wrong name is right")
	}
	if _, err := r.signIn(request, "ann", password); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if err := r.beginSession(w, request, ann.ID, auth.Password); err != nil {
		t.Fatal(err)
	}
	for _, c := range w.Result().Cookies() {
		secrets["the cookie "+c.Name] = c.Value
	}
	list, err := r.newCodes(request, ann.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range list {
		secrets["the recovery code "+code] = code
		secrets["the recovery code "+code+" without dashes"] = strings.ReplaceAll(code, "-", "")
	}
	who := ann.Value.principal(ann.ID, auth.Password, "", "")
	made, err := r.addToken(ctx, &action.Call{Action: "addToken", Principal: who}, contract.TokenRequest{Title: "script", Access: "read"})
	token, ok := made.(contract.AddedToken)
	if err != nil || !ok || token.Value == "" {
		t.Fatal(made, err)
	}
	secrets["the token"] = token.Value
	address, err = r.resetLink(ctx, ann.ID)
	secrets["the link of a new password"] = ofLink(t, address, err)
	if len(secrets) < 8+2*recoveryCodes-1 {
		t.Errorf("only %d secrets are tested", len(secrets))
	}

	// The directory is stolen while gpuwhy runs, and once it has ended.
	for _, when := range []string{"running", "ended"} {
		for name, content := range contents(t, dir) {
			for what, secret := range secrets {
				raw, _ := base64.RawURLEncoding.DecodeString(secret)
				for _, form := range []string{secret, string(raw), hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret)} {
					if len(form) >= 8 && strings.Contains(strings.ToLower(content), strings.ToLower(form)) {
						t.Errorf("%s: %s has %s", when, name, what)
					}
				}
			}
		}
		if when == "running" {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}

	// Nothing that is in there lets anybody in elsewhere.
	stolen := filepath.Join(t.TempDir(), "access.db")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(stolen, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	thief := roomWith(t, stolen)
	defer func() {
		if err := thief.Close(); err != nil {
			t.Error(err)
		}
	}()
	try := func(value string) {
		t.Helper()
		for _, name := range []string{thief.cookie(request, ""), thief.cookie(request, "-device")} {
			with := httptest.NewRequest(http.MethodGet, "/", nil)
			with.AddCookie(&http.Cookie{Name: name, Value: value})
			if who, err := thief.Identify(httptest.NewRecorder(), with); err != nil || who != (auth.Principal{}) {
				t.Errorf("the cookie %s lets in %+v, %v", name, who, err)
			}
		}
		for _, token := range []string{value, tokenPrefix + value, summed(tokenPrefix + (strings.ToUpper(value) + strings.Repeat("A", 52))[:52])} {
			with := httptest.NewRequest(http.MethodGet, "/", nil)
			with.Header.Set("Authorization", "Bearer "+token)
			if who, err := thief.Identify(httptest.NewRecorder(), with); err == nil || who != (auth.Principal{}) {
				t.Errorf("the token %s lets in %+v, %v", token, who, err)
			}
		}
		for _, setup := range []bool{true, false} {
			if link, err := thief.link(ctx, value, setup); err == nil {
				t.Errorf("the link %s is %+v", value, link)
			}
		}
	}
	for _, kind := range []string{users.kind, sessions.kind, devices.kind, links.kind, tokens.kind, codes.kind, passkeys.kind} {
		items, err := thief.ledger.List(ctx, kind, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(items) == 0 && kind != passkeys.kind {
			t.Errorf("there is no %s", kind)
		}
		for _, it := range items {
			try(it.ID)
			for _, value := range strings.FieldsFunc(string(it.Doc), func(c rune) bool { return strings.ContainsRune(`{}[]":,`, c) }) {
				try(value)
			}
		}
	}
	hash := ann.Value.Password
	if _, err := thief.signIn(request, "ann", hash); err == nil {
		t.Error("the hash of a password is a password")
	}
}

// contents are the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	return all
}
