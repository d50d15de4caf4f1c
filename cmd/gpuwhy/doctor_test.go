//go:build !race

package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/sampler/checkup"
)

// found runs the only check of a list.
func found(t *testing.T, checks []checkup.Check) checkup.Finding {
	t.Helper()
	if len(checks) != 1 {
		t.Fatalf("%d checks", len(checks))
	}
	return checks[0].Do(t.Context())
}

// expect compares a finding with a verdict, and with parts of what is found and of what mends it.
func expect(t *testing.T, name string, f checkup.Finding, verdict checkup.Verdict, what, mend string) {
	t.Helper()
	if f.Verdict != verdict || !strings.Contains(f.What, what) || !strings.Contains(f.Mend, mend) || mend == "" && f.Mend != "" {
		t.Errorf("%s: %s: %q, mend %q; want %s: %q, mend %q", name, f.Verdict, f.What, f.Mend, verdict, what, mend)
	}
}

// allowed is a machine on which a file may be opened, or not.
func allowed(may bool) *checkup.Machine {
	return &checkup.Machine{User: "ann", Access: func(path string, _ bool) error {
		if !may {
			return &os.PathError{Op: "access", Path: path, Err: os.ErrPermission}
		}
		return nil
	}, Group: func(string) (string, bool) { return "video", true }}
}

func TestDoctorOnTheStateDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	state := func(dir string) *stateFlags { return &stateFlags{StateDir: dir} }
	expect(t, "none", found(t, state("").checks(allowed(true))), checkup.NotApplicable, "nothing is kept", "")
	expect(t, "fine", found(t, state(dir).checks(allowed(true))), checkup.Fine, dir, "")
	expect(t, "not there", found(t, state(dir+"/a/b").checks(allowed(true))), checkup.Fine, "will make", "")
	expect(t, "not there, and can't be", found(t, state(dir+"/a/b").checks(allowed(false))), checkup.NotFine, "may not be written", "install -d -m 0700 -o ann "+dir+"/a/b")
	expect(t, "forbidden", found(t, state(dir).checks(allowed(false))), checkup.NotFine, "may not be written by ann", "chown -R ann "+dir)
	expect(t, "a file", found(t, state(file).checks(allowed(true))), checkup.NotFine, "not a folder", "--state-dir DIR")
	expect(t, "open to others", found(t, state(open).checks(allowed(true))), checkup.Limited, "other users", "chmod 0700 "+open)
	expect(t, "no past yet", found(t, (&keptFlags{stateFlags: *state(dir), historyFlags: historyFlags{historySQLite}}).checks()), checkup.NotApplicable, "none yet", "")
	if err := os.WriteFile(filepath.Join(dir, historyFile), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := found(t, (&keptFlags{stateFlags: *state(dir), historyFlags: historyFlags{historySQLite}}).checks()); f.Verdict != checkup.NotFine || f.Mend == "" {
		t.Errorf("a damaged past: %+v", f)
	}
}

func TestDoctorOnPortsAndCertificates(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { // another program, which is no HTTP server
		for {
			conn, err := busy.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { busy.Close() })
	at := func(address string) []checkup.Check {
		c := &doctorCommand{}
		c.Listen, c.BasePath = address, "/"
		return c.servingChecks()
	}
	expect(t, "busy", at(busy.Addr().String())[0].Do(t.Context()), checkup.NotFine, "another program is listening", "ss -ltnp")
	expect(t, "of another machine", at("192.0.2.7:8003")[0].Do(t.Context()), checkup.NotFine, "can't listen on", "an address of this machine")
	free := at(freeAddress(t))
	expect(t, "free", free[0].Do(t.Context()), checkup.Fine, "is free", "")
	expect(t, "none runs", free[1].Do(t.Context()), checkup.NotApplicable, "none runs", "")
	expect(t, "any", at("127.0.0.1:0")[0].Do(t.Context()), checkup.NotApplicable, "free one", "")

	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	year := now.AddDate(1, 0, 0)
	expect(t, "valid", certificateFinding(now.AddDate(0, -1, 0), year, now, "cert.pem"), checkup.Fine, "until 2027-11-28", "")
	expect(t, "soon over", certificateFinding(now.AddDate(0, -1, 0), now.AddDate(0, 0, 13), now, "cert.pem"), checkup.NotFine, "ends on 2026-12-11", "renew")
	expect(t, "over", certificateFinding(now.AddDate(-1, 0, 0), now.AddDate(0, 0, -1), now, "cert.pem"), checkup.NotFine, "ended on", "renew")
	expect(t, "not yet", certificateFinding(now.AddDate(0, 0, 1), year, now, "cert.pem"), checkup.NotFine, "only from", "timedatectl")
	expect(t, "no certificate", found(t, (&tlsFlags{TLSCert: "/nowhere", TLSKey: "/nowhere"}).checks()), checkup.NotFine, "can't be used", "openssl x509")
	expect(t, "no TLS", found(t, (&tlsFlags{}).checks()), checkup.NotApplicable, "without it", "")
}

func TestDoctorOnProxiesAndTheFleet(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	set := func(name, value string) []checkup.Check {
		return proxyChecks(func(asked string) string { return map[string]string{name: value}[asked] })
	}
	expect(t, "none", found(t, set("", "")), checkup.NotApplicable, "none is set", "")
	expect(t, "it answers", found(t, set("https_proxy", ln.Addr().String())), checkup.Fine, "answers", "")
	expect(t, "it does not", found(t, set("HTTP_PROXY", "http://"+freeAddress(t))), checkup.NotFine, "does not answer", "unset HTTP_PROXY")
	expect(t, "no address", found(t, set("HTTPS_PROXY", "http://")), checkup.NotFine, "not the address", "unset HTTPS_PROXY")

	expect(t, "no fleet", found(t, (&joiningFlags{}).checks("box")), checkup.NotApplicable, "joins none", "")
	f := found(t, (&joiningFlags{fleet: []string{"nats://" + freeAddress(t)}}).checks("box"))
	if f.Verdict != checkup.NotFine || f.Mend == "" {
		t.Errorf("a fleet that does not answer: %+v", f)
	}
	f = found(t, (&joiningFlags{fleet: []string{"nats://127.0.0.1:1"}, FleetCredentials: "/nowhere"}).checks("box"))
	expect(t, "no credentials", f, checkup.NotFine, "/nowhere", "gpuwhy fleet join-command")
}

func TestDoctorOnHelpers(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	write := func(pid, state string) {
		dir := filepath.Join(proc, pid)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cmdline": "/usr/bin/gpuwhy\x00helper\x00scribe\x001\x00/state\x00", "stat": pid + " (a) b) " + state + " 1 1"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect(t, "none", found(t, helperChecks(proc)), checkup.NotApplicable, "no gpuwhy", "")
	write("7", "S")
	expect(t, "one", found(t, helperChecks(proc)), checkup.Fine, "1 run", "")
	write("8", "D")
	expect(t, "a disk hangs", found(t, helperChecks(proc)), checkup.NotFine, "process 8", "fsfreeze -u")
}

// The report has no name of a user or host and no address, unless it is asked for.
func TestDoctorMasksNames(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"annika", "gpu-7.lab.example", "10.1.2.3", "2001:db8::7", "s3cret", host}
	check := checkup.Check{Name: "x", Run: func(context.Context) checkup.Finding {
		return checkup.Bad("gpu-7.lab.example and 10.1.2.3 refuse annika at [2001:db8::7]:4222 on "+host+", 127.0.0.1:8003, at 12:30:45", "chown annika /home/annika/x, postgres://annika:s3cret@gpu-7.lab.example/x").With("host", "gpu-7.lab.example")
	}}
	r := newReport(t.Context(), []checkup.Check{check})
	r.mask("annika")
	text := r.Checks[0].Found + " " + r.Checks[0].Mend
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %q", secret, text)
		}
	}
	if !strings.Contains(text, "127.0.0.1:8003, at 12:30:45") || r.Fine {
		t.Errorf("%q", text)
	}
}

// The program finds what is wrong on a made-up machine, says how to mend it and ends with status 1; once it is mended, with 0.
func TestDoctor(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	card := filepath.Join(root, "sys/bus/pci/devices/0000:01:00.0")
	if err := os.MkdirAll(card, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vendor": "0x10de\n", "class": "0x030000\n"} {
		if err := os.WriteFile(filepath.Join(card, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"doctor", "--json", "--sysfs-root=" + filepath.Join(root, "sys"), "--proc-root=" + filepath.Join(root, "proc"), "--listen=" + freeAddress(t), "--source=nvml"}
	env := []string{"LD_LIBRARY_PATH=" + t.TempDir(), "HTTPS_PROXY=", "HTTP_PROXY=", "https_proxy=", "http_proxy="}
	r := command(t, env, args...)
	var answer report
	if err := json.Unmarshal([]byte(r.stdout), &answer); r.code != exitError || err != nil || answer.Fine {
		t.Fatalf("status %d, %v: %s%s", r.code, err, r.stdout, r.stderr)
	}
	for _, l := range answer.Checks {
		if l.Name == "NVIDIA driver" && (l.Verdict != checkup.NotFine || !strings.Contains(l.Mend, "modprobe nvidia")) {
			t.Errorf("%+v", l)
		}
		if l.Verdict == checkup.NotFine && l.Mend == "" {
			t.Errorf("nothing says how to mend %+v", l)
		}
	}
	if err := os.RemoveAll(card); err != nil {
		t.Fatal(err)
	}
	if r := inside("doctor", "--source=simulate:rtx-4090", "--listen="+freeAddress(t)); r.code != exitOK || !strings.Contains(r.stdout, "not applicable") {
		t.Errorf("status %d: %s%s", r.code, r.stdout, r.stderr)
	}
}
