package control_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/control"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
)

// Whatever path leads to the directory, its program answers, with the base path that its addresses have.
func TestAsk(t *testing.T) {
	dir := t.TempDir()
	ln, err := control.Listen(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ConnContext: peer.NewContext,
		Handler: control.Handler("/gpus", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			uid, err := peer.FromContext(r.Context()).UID()
			if int(uid) != os.Getuid() || err != nil {
				http.Error(w, "who is that?", http.StatusForbidden)
				return
			}
			_, _ = io.WriteString(w, r.URL.EscapedPath()+"?"+r.URL.RawQuery)
		})),
	}
	go server.Serve(ln) //nolint:errcheck // it ends with the test
	defer server.Close()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link, dir + "/."} {
		client := http.Client{Transport: control.Transport(path)}
		answer, err := client.Get(control.URL + "/api/a%2Fb?c=1")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if string(text) != "/gpus/api/a%2Fb?c=1" {
			t.Errorf("%s: %q", path, text)
		}
	}
	if _, err := control.Listen(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("a second one: %v", err)
	}
}

func TestNobody(t *testing.T) {
	for name, dir := range map[string]string{"an empty folder": t.TempDir(), "no folder": filepath.Join(t.TempDir(), "none")} {
		if conn, err := control.Dial(t.Context(), dir); !errors.Is(err, control.ErrNobody) {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
	}
}

// Anybody may take the name before gpuwhy does. Nothing is sent to them.
func TestStrangersServer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir := t.TempDir()
	name, err := control.NameOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ln net.Listener
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 4711, ^uintptr(0)); no != 0 {
			done <- no
			return
		}
		var err error
		ln, err = control.ListenAs(context.Background(), name)
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = control.Dial(t.Context(), dir)
	if advice, ok := errors.AsType[*gpu.Advice](err); !ok || !strings.Contains(advice.What, "4711") {
		t.Errorf("it is talked to: %v", err)
	}
}
