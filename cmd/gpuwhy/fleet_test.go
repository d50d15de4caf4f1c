//go:build !race

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// The line from join-command works in a real shell, whatever the machine's name is. The credentials that it writes let the
// machine join until it is removed, while the server runs.
func TestFleetJoin(t *testing.T) {
	t.Parallel()
	state, home := t.TempDir(), t.TempDir()
	b, err := broker.Start(t.Context(), broker.Config{Dir: filepath.Join(state, broker.Dir), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	listen := "--fleet-listen=" + b.Addr().String()
	const node, cluster = `it's "$HOME" ` + "`id`" + ` é; exit 3 #!`, "a b"
	joined := command(t, nil, "fleet", "join-command", node, "--cluster="+cluster, "--state-dir="+state, "--host=127.0.0.1", listen)
	if joined.code != exitOK || strings.Count(joined.stdout, "\n") != 1 {
		t.Fatalf("join-command: %+v", joined)
	}
	bin := t.TempDir()
	if err := testkit.WriteProgram(filepath.Join(bin, "gpuwhy"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")); err != nil {
		t.Fatal(err)
	}
	creds := filepath.Join(home, ".config", "gpuwhy", "fleet.creds")
	if err := os.MkdirAll(filepath.Dir(creds), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(creds, []byte("old"), 0o644); err != nil { // open to others
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", joined.stdout)
	shell.Env = append(os.Environ(), "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("the line: %v: %s", err, out)
	}
	url := "tls://" + b.Addr().String()
	want := []string{"agent", "--fleet=" + url, "--fleet-credentials=" + creds, "--node=" + node, "--cluster=" + cluster}
	if got := strings.TrimSuffix(string(out), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the program is started with\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if info, err := os.Stat(creds); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the credentials: %v, %v", info, err)
	}
	key := cluster + ":" + node
	c, err := bus.Open(bus.Config{URLs: []string{url}, Credentials: creds, Node: key})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wait := func(what string, ok func(bus.State) bool) {
		t.Helper()
		testkit.Until(t, what, func() bool { return ok(c.State()) }, func() any { return c.State() })
	}
	wait("connected", func(s bus.State) bool { return s.Connected })
	if err := c.Put(t.Context(), key, []byte("x")); err != nil {
		t.Error(err)
	}
	if r := command(t, nil, "fleet", "list", "--state-dir="+state); r.code != exitOK || !strings.Contains(r.stdout, key+"  node  ") {
		t.Errorf("list: %+v", r)
	}
	if r := command(t, nil, "fleet", "remove", key, "--state-dir="+state); r.code != exitOK {
		t.Errorf("remove: %+v", r)
	}
	wait("revoked", func(s bus.State) bool { return !s.Connected && s.Err != nil && strings.Contains(s.Err.What, "revoked") })
	if r := command(t, nil, "fleet", "remove", node, "--cluster="+cluster, "--state-dir="+state); r.code != exitError || !strings.Contains(r.stderr, "gpuwhy fleet list") {
		t.Errorf("removed twice: %+v", r)
	}
}

// The commands need no running server, and also print lines for hubs, recorders and existing servers.
func TestFleetCommands(t *testing.T) {
	t.Parallel()
	state := "--state-dir=" + t.TempDir()
	pair, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	text, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	seed := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seed, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args         []string
		code         int
		said, warned string
	}{
		{[]string{"list", state}, exitError, "", "no fleet keys"},
		{[]string{"join-command", "gpu-1", state, "--fleet-host=10.0.0.1"}, exitOK, "gpuwhy agent --fleet='tls://10.0.0.1:4222' ", "a new fleet starts"},
		{[]string{"join-command", "h", state, "--hub", "--host=::1"}, exitOK, "gpuwhy hub --fleet='tls://[::1]:4222' ", ""},
		{[]string{"join-command", "r", state, "--recorder", "--host=x", "--history=postgres://u@db/past"}, exitOK, "--history='postgres://u@db/past'", ""},
		{[]string{"list", state}, exitOK, "recorder", ""},
		{[]string{"list", "--json", state}, exitOK, `"kind": "hub"`, ""},
		{[]string{"join-command", "n", "--account-seed=" + seed, "--fleet=nats://a,nats://b:1"}, exitOK, "--fleet='nats://a:4222,nats://b:1'", "revoke the user U"},
		{[]string{"join-command", "n", "--account-seed=" + seed}, exitUsage, "", "--fleet"},
		{[]string{"join-command", "n", "--account-seed=/nowhere", "--fleet=nats://a"}, exitUsage, "", "--account-seed"},
		{[]string{"join-command", "a:b", state}, exitUsage, "", "--cluster"},
		{[]string{"join-command", "a\nb", state}, exitUsage, "", "printable"},
		{[]string{"join-command", "..", state}, exitUsage, "", "means something else in URLs"},
		{[]string{"join-command", "", state}, exitUsage, "", "printable"},
		{[]string{"join-command", "a", "--host=x y", state}, exitUsage, "", "--host"},
		{[]string{"join-command", "a", "--state-dir=none"}, exitError, "", "--state-dir"},
		{[]string{"remove", "nobody", state}, exitError, "", "gpuwhy fleet list"},
	} {
		r := command(t, nil, append([]string{"fleet"}, tt.args...)...)
		if r.code != tt.code || !strings.Contains(r.stdout, tt.said) || !strings.Contains(r.stderr, tt.warned) || tt.code != exitOK && r.stdout != "" && tt.code != exitUsage {
			t.Errorf("%q: %+v", tt.args, r)
		}
	}
}

// The line has the running server's port and a name from its certificate. Nothing creates a second authority by mistake.
func TestJoinCommandAsksTheServer(t *testing.T) {
	t.Parallel()
	state, home := t.TempDir(), t.TempDir()
	f := newFleet(t, state)
	_, port, err := net.SplitHostPort(f.addr)
	if err != nil {
		t.Fatal(err)
	}
	join := func(args ...string) result {
		t.Helper()
		return command(t, []string{"GPUWHY_STATE_DIR=", "STATE_DIRECTORY=", "XDG_STATE_HOME=", "HOME=" + home}, append([]string{"fleet", "join-command", "gpu-2"}, args...)...)
	}
	for _, tt := range []struct {
		args         []string
		code         int
		said, warned string
	}{
		{[]string{"--state-dir=" + state, "--host=127.0.0.1"}, exitOK, "--fleet='tls://127.0.0.1:" + port + "' ", ""},
		{[]string{"--state-dir=" + state}, exitOK, ":" + port + "' ", ""},
		{[]string{"--state-dir=" + state, "--host=gpu-1.example.org"}, exitError, "", "localhost"},
		{[]string{"--state-dir=" + state, "--host=gpu-1.example.org"}, exitError, "", "--fleet-host gpu-1.example.org"},
		{[]string{"--state-dir=" + state, "--fleet=tls://gpu-1.example.org:14222"}, exitError, "", "--fleet-host gpu-1.example.org"},
		{[]string{"--state-dir=" + state, "--fleet=tls://localhost:14222"}, exitOK, "tls://localhost:14222", ""},
		{[]string{"--state-dir=" + state, "--fleet-listen=:1"}, exitError, "", "listens on port " + port},
		{[]string{"--host=127.0.0.1"}, exitError, "", "--state-dir"},
		{[]string{"--fleet=tls://127.0.0.1:" + port}, exitError, "", "--state-dir"},
	} {
		if r := join(tt.args...); r.code != tt.code || !strings.Contains(r.stdout, tt.said) || !strings.Contains(r.stderr, tt.warned) || tt.code != exitOK && r.stdout != "" {
			t.Errorf("%q: %+v", tt.args, r)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("a second authority is made: %v, %v", left, err)
	}
	if err := f.server.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := join("--state-dir=" + state); r.code != exitOK || !strings.Contains(r.stdout, ":"+port+"' ") || !strings.Contains(r.stderr, "is not running") {
		t.Errorf("while the server does not run: %+v", r)
	}
}

// The printed address is one that other machines can use.
func TestWhereMachinesJoin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		hosts     []string
		listening net.TCPAddr
		want      string
	}{
		{[]string{"gpu-1"}, net.TCPAddr{IP: net.IPv4zero, Port: 4222}, "tls://gpu-1:4222"},
		{[]string{"10.0.0.1", "gpu-1"}, net.TCPAddr{IP: net.IPv6zero, Port: 4222}, "tls://10.0.0.1:4222"},
		{[]string{"gpu-1"}, net.TCPAddr{IP: net.IPv6loopback, Port: 1}, "tls://[::1]:1"},
	} {
		if got := joinURL(&tt.listening, tt.hosts); got != tt.want {
			t.Errorf("%v: %s, want %s", &tt.listening, got, tt.want)
		}
	}
}

func TestFleetSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"--node=..", "means something else in URLs"},
		{"--node=.", "means something else in URLs"},
		{"--fleet=http://x", "does not begin with nats:// or tls://"},
		{"--fleet=x", "is not the URL of a NATS server"},
		{"--fleet=nats://u:p@x", "contains a user or a token"},
		{"--fleet=nats://x/y", "more than a host"},
		{"--fleet-credentials=x", "no effect without --fleet"},
		{"--fleet-listen=4222", "--fleet-listen"},
		{"--fleet-listen=:x", "number from 0"},
		{"--fleet-listen=:4222 --state-dir=none", "--state-dir"},
		{"--fleet-host=a:1", "without a port"},
		{"--cluster=a:b", "without a colon"},
		{"--label=rack", "rack=r12"},
		{"--label=rack=1,rack=2", "already"},
		{"--label==1", "rack=r12"},
	} {
		r := inside(append(strings.Fields(tt.args), "check-config")...)
		if r.code != exitUsage || !strings.Contains(r.stderr, tt.want) || strings.Contains(r.stderr, "u:p") {
			t.Errorf("%s: %+v", tt.args, r)
		}
	}
	for _, args := range []string{"--fleet=tls://a,nats://b:1 --cluster=c --label=rack=r1,x/y=", "--fleet-listen=:0 --fleet-host=a,::1"} {
		if r := inside(append(strings.Fields(args), "--listen=127.0.0.1:0", "--state-dir="+t.TempDir(), "check-config")...); r.code != exitOK {
			t.Errorf("good settings: %s: %+v", args, r)
		}
	}
}

// `make demo-fleet` starts a hub that shows three simulated machines. Everything ends with the script, and nothing is left behind.
func TestDemoFleet(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	demo := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(top, "tools/demo-fleet"), append([]string{binary}, args...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "GORACE=atexit_sleep_ms=0", "GPUWHY_NODE=other", "GPUWHY_LISTEN=:0")
		return cmd
	}
	p := launch(t, demo())
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.stop(syscall.SIGTERM) // the script ends what it started
		}
	})
	var got []string
	testkit.Until(t, "it shows three machines", func() bool {
		var seen struct {
			Source  string
			Devices []struct{ Node string }
		}
		p.get("/api/gpu/devices", &seen)
		got = nil
		for _, d := range seen.Devices {
			if !slices.Contains(got, d.Node) {
				got = append(got, d.Node)
			}
		}
		if len(got) > 0 && seen.Source != "simulated" {
			t.Fatalf("its devices are %q", seen.Source)
		}
		return len(got) >= 3
	}, func() any { return got }, p.log)
	slices.Sort(got)
	if want := []string{"hall:dgx-1", "hall:gpu-17", "lab:ada"}; !slices.Equal(got, want) {
		t.Errorf("it shows %q, want %q", got, want)
	}
	_ = p.stop(syscall.SIGTERM) // to the script alone, and it waits for whoever holds its output
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}

	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	out, err := demo("--listen", busy.Addr().String()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another program is listening") {
		t.Errorf("with a port that is taken: %v, %s", err, out)
	}
}

// The first machine of a fleet shows itself, and a hub elsewhere shows it too.
func TestFirstMachine(t *testing.T) {
	t.Parallel()
	state, listen := "--state-dir="+t.TempDir(), "--fleet-listen="+freeAddress(t)
	first := start(t, nil, "--source=simulate:rtx-4090", "--node=gpu-1", "--cluster=lab", state, listen)
	joined := command(t, nil, "fleet", "join-command", "h", "--hub", "--host=127.0.0.1", state, listen)
	home := t.TempDir()
	line := exec.Command("sh", "-c", strings.TrimSuffix(joined.stdout, "\n")+" --listen=127.0.0.1:0")
	path := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(path, "gpuwhy")); err != nil {
		t.Fatal(err)
	}
	line.Env = append(os.Environ(), "HOME="+home, "PATH="+path+":"+os.Getenv("PATH"))
	line.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	hub := launch(t, line)
	t.Cleanup(func() { _ = syscall.Kill(-line.Process.Pid, syscall.SIGKILL) }) // the shell and the program
	for _, p := range []*program{first, hub} {
		p.await("the first machine", func(u contract.Update) bool { return len(u.GPUs) == 1 && u.Node == "lab:gpu-1" })
	}
	first.part("fleet", "ok")
}
