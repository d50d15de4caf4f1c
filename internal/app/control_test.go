package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/control"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
)

// Commands of this machine reach the program over its control socket, as the user who runs them, wherever its pages are. The socket ends with it.
func TestControlSocket(t *testing.T) {
	dir := t.TempDir()
	ln, err := control.Listen(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Nobody reaches its address without signing in.
	kernel := access.NewKernel(access.KernelConfig{OwnersOnly: true, Log: slog.New(slog.DiscardHandler)})
	p := run(t, Options{Access: &access.Options{Ledger: accounts, Control: ln, Ways: []access.Way{kernel}}})
	strangers, err := client.New(strings.TrimSuffix(p.url, "/"), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	question := client.Request{Path: "/api/alerts"}
	if refused, ok := errors.AsType[*client.Problem](strangers.Copy(t.Context(), new(bytes.Buffer), question)); !ok || refused.Status != 401 {
		t.Errorf("over TCP: %v", refused)
	}
	owner, err := client.New(control.URL, client.Options{Transport: control.Transport(dir)})
	if err != nil {
		t.Fatal(err)
	}
	var answer bytes.Buffer
	if err := owner.Copy(t.Context(), &answer, question); err != nil || !strings.Contains(answer.String(), "silences") {
		t.Errorf("user %d over the socket: %v, %s", os.Getuid(), err, &answer)
	}
	p.stop()
	if _, err := control.Dial(t.Context(), dir); !errors.Is(err, control.ErrNobody) {
		t.Errorf("after the end: %v", err)
	}
}
