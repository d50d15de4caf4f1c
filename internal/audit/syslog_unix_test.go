//go:build unix

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// packet is a message of RFC 3164 as programs write it to the socket of the machine's own system log, without the name of a host.
var packet = regexp.MustCompile(`^<(\d+)>([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) ([a-z]+)\[(\d+)\]: (\{.*\})\n$`)

// A daemon has the socket of a system log.
type daemon struct {
	t    *testing.T
	conn *net.UnixConn
}

func listenAsDaemon(t *testing.T, socket string) *daemon {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t, conn}
	t.Cleanup(func() { _ = d.conn.Close() })
	return d
}

// read returns the next entry.
func (d *daemon) read() (e ledger.Entry) {
	d.t.Helper()
	buffer := make([]byte, 64<<10)
	if err := d.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		d.t.Fatal(err)
	}
	n, err := d.conn.Read(buffer)
	if err != nil {
		d.t.Fatal(err)
	}
	parts := packet.FindSubmatch(buffer[:n])
	if parts == nil {
		d.t.Fatalf("not a message of RFC 3164: %q", buffer[:n])
	}
	const authpriv, informational = 10, 6
	sent, err := time.ParseInLocation(time.Stamp, string(parts[2]), time.Local)
	if now := time.Now(); err != nil || sent.AddDate(now.Year(), 0, 0).Sub(now).Abs() > 24*time.Hour && sent.AddDate(now.Year()-1, 0, 0).Sub(now).Abs() > 24*time.Hour {
		d.t.Errorf("it is of %s: %v", parts[2], err)
	}
	if string(parts[1]) != strconv.Itoa(authpriv*8+informational) || string(parts[3]) != "gpuwhy" || string(parts[4]) != strconv.Itoa(os.Getpid()) {
		d.t.Errorf("its priority is %s, and it is of %s[%s]", parts[1], parts[3], parts[4])
	}
	if err := json.Unmarshal(parts[5], &e); err != nil {
		d.t.Fatal(err)
	}
	return e
}

// told has a room record entries and tell a system log at a socket.
func told(t *testing.T, socket string) (r *Room, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	r = newRoom(&book{}, log, Options{System: &system{network: "unixgram", address: socket}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := testkit.Receive(t, "the end", ended); err != nil {
			t.Error(err)
		}
	})
	return r, log
}

func TestSystemLog(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	r, _ := told(t, socket)
	entries := 0
	record := func(detail string) {
		t.Helper()
		entries++
		e := NewEntry(fmt.Sprint("turn", entries), &anna, done)
		e.Detail = detail
		began := time.Now()
		if err := r.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("an entry waits %v for the system log", took)
		}
	}
	next := 0
	expect := func(d *daemon) ledger.Entry {
		t.Helper()
		next++
		e := d.read()
		if e.Action != fmt.Sprint("turn", next) || e.Number != int64(next) || e.Principal != "anna" || e.Address != anna.Address {
			t.Fatalf("entry %d is %+v", next, e)
		}
		return e
	}
	trouble := func() string {
		if health := r.Health()["audit"]; health.State != "ok" {
			return *health.LastError
		}
		return ""
	}
	// It is not there yet.
	const hostile = "a\nline \x1b[31m<86>Jan  1 00:00:00 sshd[1]: root"
	record(hostile)
	testkit.Until(t, "health says so", func() bool { return strings.Contains(trouble(), "takes no entries") })
	first := listenAsDaemon(t, socket)
	if e := expect(first); e.Detail != hostile {
		t.Errorf("a text is another one: %q", e.Detail)
	}
	testkit.Until(t, "all is well", func() bool { return trouble() == "" })
	// It ends, and another one takes its place.
	if err := first.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for range 3 {
		record("")
	}
	testkit.Until(t, "health says so again", func() bool { return strings.Contains(trouble(), "takes no entries; that wait for it: 3") })
	second := listenAsDaemon(t, socket)
	for range 3 {
		expect(second)
	}
	// It reads nothing, until neither it nor the queue takes more. Nobody waits for it.
	for r.system.lost == 0 {
		record(strings.Repeat("x", longestText))
	}
	lost := entries
	if !strings.Contains(trouble(), "") || entries < mostLines {
		t.Errorf("after %d entries: %s", entries, trouble())
	}
	for next < lost-1 {
		expect(second)
	}
	testkit.Until(t, "health says that some were lost", func() bool { return strings.Contains(trouble(), "was not told since gpuwhy started: 1") })
	next++ // it is lost
	record("")
	expect(second)
}

// A line that the system log can never take keeps no other from it.
func TestLinesThatAreTooLong(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	d := listenAsDaemon(t, socket)
	r, log := told(t, socket)
	for i, size := range []int{4 << 20, 10} {
		e := NewEntry(fmt.Sprint("turn", i), &anna, done)
		e.Args, _ = json.Marshal(strings.Repeat("x", size)) //nolint:errchkjson // a text
		if err := r.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if e := d.read(); e.Action != "turn1" {
		t.Errorf("it is told %+v", e)
	}
	if !strings.Contains(log.String(), "an entry is too long") {
		t.Error("nobody is told")
	}
}

// The program ends although the system log takes nothing, and what it takes is told before that.
func TestTheEndWithASystemLog(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	d := listenAsDaemon(t, socket)
	r := newRoom(&book{}, new(bytes.Buffer), Options{System: &system{network: "unixgram", address: socket}})
	ended, stop := context.WithCancel(t.Context())
	stop()
	r.Later(NewEntry("turn", &anna, done))
	if err := r.Run(ended); err != nil {
		t.Fatal(err)
	}
	if e := d.read(); e.Action != "turn" {
		t.Errorf("the last entry is %+v", e)
	}
	gone := newRoom(&book{}, new(bytes.Buffer), Options{System: &system{network: "unixgram", address: socket + "2"}})
	gone.Later(NewEntry("turn", &anna, done))
	if err := gone.Run(ended); err != nil {
		t.Fatal(err)
	}
	if advice, _ := gone.system.trouble(); advice == nil || advice.Err == nil || advice.Try == (&gpu.Advice{}).Try {
		t.Errorf("a log that is not there is told: %v", advice)
	}
}
