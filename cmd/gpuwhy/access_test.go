//go:build !race

package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/part"
)

// settled returns the settings of a command line, or why it is refused.
func settled(args ...string) (*programFlags, error) {
	cmd, err := parse(append([]string{"serve", "--source=simulate:rtx-4090", "--state-dir=none"}, args...), io.Discard, io.Discard)
	if err == nil {
		err = cmd.check()
	}
	if err != nil {
		return nil, err
	}
	return &cmd.(*serveCommand).programFlags, nil
}

// accounts returns a ledger with a user, or without.
func accounts(t *testing.T, users ...string) ledger.Ledger {
	t.Helper()
	l, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for _, doc := range users {
		if err := l.Apply(t.Context(), ledger.Change{Item: ledger.Item{Kind: "user", ID: "1", Name: "ann", Doc: json.RawMessage(doc)}}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	nobody, ann := accounts(t), accounts(t, `{"name":"ann","role":"viewer"}`)
	disabled := accounts(t, `{"name":"ann","role":"administrator","disabled":true}`)
	gone := accounts(t)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	const elsewhere = "--listen=0.0.0.0:8003"
	for _, tt := range []struct {
		args      string
		accounts  ledger.Ledger
		local     bool
		required  bool
		everybody auth.Access
		notice    string
	}{
		{"", nobody, true, false, auth.Read, ""},
		{"--listen=[::1]:1", nobody, true, false, auth.Read, ""},
		{"--listen=127.9.9.9:1", nobody, true, false, auth.Read, ""},
		{"--listen=localhost:1", nobody, true, false, auth.Read, ""},
		{"--listen=[::ffff:127.0.0.1]:1", nobody, true, false, auth.Read, ""},
		{"--listen=unix:/run/gpuwhy/page", nobody, true, false, auth.Read, ""},
		{"", ann, true, false, auth.Read, ""},
		{"--sign-in", nobody, true, true, 0, ""},
		{"--no-sign-in=operator", nobody, true, false, auth.Operate, "acknowledge and silence"},
		{elsewhere + " --sign-in", nobody, false, true, 0, ""},
		{elsewhere + " --no-sign-in", nobody, false, false, auth.Read, "everyone who reaches this page can see everything"},
		{elsewhere + " --no-sign-in=viewer", nobody, false, false, auth.Read, "everyone"},
		{elsewhere + " --no-sign-in=operator", ann, false, false, auth.Operate, "acknowledge and silence"},
		{elsewhere, ann, false, true, 0, ""},
		{elsewhere, gone, false, true, 0, ""}, // nobody gets in before it is known who may
		{"--listen=:8003 --proxy-sign-in=Remote-User --trusted-proxy=10.0.0.5", nobody, false, true, 0, ""},
		{"--listen=:8003 --oidc-issuer=https://sso.example.org --oidc-client-id=a --oidc-default-role=viewer", nobody, false, true, 0, ""},
		{elsewhere, nobody, false, false, 0, "refused"},
		{elsewhere, disabled, false, false, 0, "refused"},
		{"--listen=:8003", nobody, false, false, 0, "refused"},
		{"--listen=[::]:8003", nobody, false, false, 0, "refused"},
		{"--listen=192.0.2.7:8003", nobody, false, false, 0, "refused"},
		{"--listen=[::ffff:192.0.2.7]:8003", nobody, false, false, 0, "refused"},
		{elsewhere + " --no-sign-in=false", nobody, false, false, 0, "refused"},
		{elsewhere + " --trusted-proxy=10.0.0.5", nobody, false, false, 0, "refused"}, // it only names its clients
	} {
		f, err := settled(strings.Fields(tt.args)...)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		got, err := f.admit(t.Context(), tt.accounts)
		if _, refused := errors.AsType[*undecided](err); refused != (tt.notice == "refused") {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		if err != nil {
			continue
		}
		notice := ""
		if got.notice != nil {
			notice = got.notice.Text()
		}
		if got.local != tt.local || got.required != tt.required || got.everybody != tt.everybody || !strings.Contains(notice, tt.notice) || (notice == "") != (tt.notice == "") {
			t.Errorf("%s: %+v with the notice %q, want %+v", tt.args, got, notice, tt)
		}
	}
}

func TestContradictions(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--sign-in --no-sign-in", "--no-sign-in=administrator", "--listen=unix:page", "--listen=unix:/a:b", "--listen=unix:/" + strings.Repeat("x", 100)} {
		if _, err := settled(strings.Fields(args)...); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}

// Each line that the refusal says to add makes gpuwhy start: as a flag, as a variable and in the file.
func TestWhatTheRefusalSaysToAdd(t *testing.T) {
	const elsewhere = "0.0.0.0:9400"
	lines := strings.Join((&undecided{elsewhere}).Lines(), "\n")
	if !strings.Contains(lines, "--listen=127.0.0.1:9400 ") {
		t.Errorf("another port is proposed:\n%s", lines)
	}
	nobody := accounts(t)
	starts := func(t *testing.T, args ...string) {
		t.Helper()
		f, err := settled(args...)
		if err == nil {
			_, err = f.admit(t.Context(), nobody)
		}
		if err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, c := range (&undecided{elsewhere}).choices() {
		listen := "--listen=" + elsewhere
		if c.flag == "listen" {
			listen = "--log-level=info"
		}
		flag, variable, key := c.forms()
		for _, form := range []string{flag, variable, key} {
			if !strings.Contains(lines, form) {
				t.Errorf("the refusal does not say %q:\n%s", form, lines)
			}
		}
		starts(t, listen, flag)
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
			starts(t, listen)
		})
		file := filepath.Join(t.TempDir(), "gpuwhy.yaml")
		if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		starts(t, listen, "--config="+file)
	}
}

// check-config says the same as a start would, and starts nothing.
func TestCheckConfigRefusesAnOpenDoor(t *testing.T) {
	t.Parallel()
	open := []string{"check-config", "--source=simulate:rtx-4090", "--listen=0.0.0.0:0"}
	r := inside(append(open, "--state-dir="+t.TempDir())...)
	if r.code != exitUsage || !strings.Contains(r.stderr, "GPUWHY_NO_SIGN_IN=operator") || !strings.Contains(r.stderr, "gpuwhy user add") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	dir := t.TempDir()
	l, err := ledger.OpenFile(t.Context(), filepath.Join(dir, accountsFile))
	if err != nil {
		t.Fatal(err)
	}
	doc := json.RawMessage(`{"name":"ann","role":"viewer"}`)
	if err := errors.Join(l.Apply(t.Context(), ledger.Change{Item: ledger.Item{Kind: "user", ID: "1", Name: "ann", Doc: doc}}), l.Close()); err != nil {
		t.Fatal(err)
	}
	if r := inside(append(open, "--state-dir="+dir)...); r.code != exitOK {
		t.Errorf("with an account: exit %d: %s", r.code, r.stderr)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page")
	ln, err := listenUnix(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if got := addressText(ln.Addr()); got != "unix:"+path {
		t.Errorf("it listens on %s", got)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := listenUnix(t.Context(), path, ""); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("a second one: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); len(left) > 0 || err != nil {
		t.Errorf("it leaves %v, %v", left, err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := listenUnix(t.Context(), path, "no-such-group")
	if err != nil {
		t.Fatalf("a socket without its program is in the way: %v", err)
	}
	// Whoever has taken its place keeps it.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, nil, 0o600), again.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("it removes what is not its own: %v", err)
	}
	if _, err := listenUnix(t.Context(), path, ""); err == nil {
		t.Error("a file is replaced that is no socket")
	}
	if _, err := listenUnix(t.Context(), filepath.Join(path, "below", "a", "file"), ""); err == nil {
		t.Error("a socket below a file is made")
	}
}

// A listenerAt is one at an address, to which nobody connects.
type listenerAt struct {
	net.Listener
	address net.TCPAddr
}

func (l *listenerAt) Addr() net.Addr { return &l.address }

// With the first link, gpuwhy says where it does not work: passwords cross no network unencrypted, and a container's bridge is one.
func TestWhereTheFirstLinkWorks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		says bool
	}{
		{"--listen=0.0.0.0:8003 --sign-in", true},
		{"--listen=127.0.0.1:8003 --sign-in", false},
		{"--listen=0.0.0.0:8003 --sign-in --allow-plain-sign-in", false},
		{"--listen=0.0.0.0:8003 --sign-in --trusted-proxy=192.0.2.1", false},
	} {
		flags, err := settled(strings.Fields(tt.args)...)
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.NewTextHandler(t.Output(), nil))
		room := access.New(access.Config{
			Host: part.Host{Clock: clock.Program(), Log: log}, Options: access.Options{Ledger: accounts(t)}, Revoke: func(func(auth.Principal) bool) {},
		})
		var said strings.Builder
		d := &daemon{programFlags: flags}
		d.tellSetup(&environment{ctx: t.Context(), stdout: &said, log: log}, room, nil, &listenerAt{address: net.TCPAddr{IP: net.IPv4zero, Port: 8003}})
		if !strings.Contains(said.String(), "/setup?link=") || strings.Contains(said.String(), "--tls-self-signed") != tt.says {
			t.Errorf("%s: it prints %s", tt.args, &said)
		}
		if err := room.Close(); err != nil {
			t.Error(err)
		}
	}
}
