package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/capture"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
	"github.com/gpuwhy/gpuwhy/internal/release"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/term"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/amd"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
	"github.com/gpuwhy/gpuwhy/sampler/host"
	"github.com/gpuwhy/gpuwhy/sampler/intel"
	"github.com/gpuwhy/gpuwhy/sampler/kernellog"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

type doctorCommand struct {
	JSON      bool `name:"json" help:"Print the report for programs."`
	ShowNames bool `name:"show-names" env:"-" help:"Keep the names of users and hosts, and addresses. By default a number replaces each, so that the report can be shown to anybody."`
	serveFlags
	trustFlags
}

func (c *doctorCommand) check() error { return first(c.serveFlags.check, c.trustFlags.check) }

// Fails says when the command ends with status 1.
func (doctorCommand) Fails() string { return "something is not fine" }

// Run checks everything that gpuwhy needs, changes nothing, and prints what is fine, what is not, and how to mend it.
func (c doctorCommand) Run(env *environment) error {
	machine := c.machine()
	end := env.notes.During("checking", nil)
	report := newReport(env.ctx, c.checks(machine))
	end()
	if !c.ShowNames {
		report.mask(machine.User)
	}
	var err error
	if c.JSON {
		err = term.JSON(env.stdout, report)
	} else {
		err = report.print(term.ScreenOf(env.stdout))
	}
	if err == nil && !report.Fine {
		err = errQuiet
	}
	return err
}

// machine is the machine that is checked.
func (c *doctorCommand) machine() *checkup.Machine {
	m := &checkup.Machine{Sysfs: c.SysfsRoot, Proc: c.ProcRoot, Dev: "/dev", Access: checkup.Access, Group: checkup.GroupOf, Container: nvidia.Contained(c.SysfsRoot, c.ProcRoot)}
	if me, err := user.Current(); err == nil { // a container may have no users
		m.User = me.Username
	}
	if !isLinux {
		m.Dev = ""
	}
	return m
}

// checks are all checks, in the order of the report.
func (c *doctorCommand) checks(m *checkup.Machine) (all []checkup.Check) {
	if c.live() {
		silent := slog.New(slog.DiscardHandler)
		for _, vendor := range []struct {
			sources []string
			checks  func(*checkup.Machine, func(context.Context) (*gpu.Snapshot, error)) []checkup.Check
		}{{[]string{sourceNVML, sourceSMI}, nvidia.Checks}, {[]string{sourceAMD}, amd.Checks}, {[]string{sourceIntel}, intel.Checks}} {
			named := *c.target()
			chosen := sourceFlags{}
			for _, name := range vendor.sources {
				if slices.Contains(c.Source, name) || slices.Contains(c.Source, sourceAuto) {
					chosen.Source = append(chosen.Source, name)
				}
			}
			if named.sourceFlags = &chosen; len(chosen.Source) > 0 {
				all = append(all, vendor.checks(m, func(ctx context.Context) (*gpu.Snapshot, error) { return readOnce(ctx, named.newSources(nil, silent)) })...)
			}
		}
		all = append(all, kernellog.Checks(m, c.KernelLog)...)
		all = append(all, host.New(c.SysfsRoot, host.ShowCommands(c.ShowCommands), silent).Checks(m, release.ThisBuild().Date)...)
	}
	return slices.Concat(all, c.settingChecks(), c.stateFlags.checks(m), c.keptFlags.checks(), c.servingChecks(), c.tlsFlags.checks(), c.joiningFlags.checks(c.name()),
		proxyChecks(os.Getenv), helperChecks(m.Proc))
}

// readOnce reads sources once.
func readOnce(ctx context.Context, sources []sampler.Source) (all *gpu.Snapshot, err error) {
	all = new(gpu.Snapshot)
	for _, s := range sources {
		snapshot, failed := s.Read(ctx)
		if snapshot != nil {
			all.Devices, all.Notes = append(all.Devices, snapshot.Devices...), append(all.Notes, snapshot.Notes...)
		}
		err = errors.Join(err, failed)
		if closer, has := s.(interface{ Close() error }); has {
			err = errors.Join(err, closer.Close())
		}
	}
	return all, err
}

// settingChecks look at variables and files of settings. What is wrong with flags ends the command before it checks anything.
func (c *doctorCommand) settingChecks() []checkup.Check {
	return []checkup.Check{{Name: "settings", Run: func(context.Context) checkup.Finding {
		rules, err := c.rules()
		if err != nil {
			return checkup.Bad("the alert rules are wrong: "+gpu.AsAdvice(err).What, "gpuwhy check-config --alert-rules "+c.AlertRules)
		}
		if notes := unknownVariables(os.Environ(), append(variablesOf(rules), c.secretVariables()...)); len(notes) > 0 {
			name, _, _ := strings.Cut(strings.TrimPrefix(notes[0], "the variable "), " ")
			return checkup.Bad(notes[0], "unset "+name)
		}
		return checkup.Good("they are valid")
	}}, {Name: "who may come in", Run: func(ctx context.Context) checkup.Finding {
		if _, err := os.Stat(filepath.Join(c.StateDir, accountsFile)); c.StateDir != "" && err == nil {
			return checkup.Good("people sign in with accounts, which 'gpuwhy user list' shows")
		}
		if c.Accounts != "" {
			return checkup.Good("accounts in a database decide")
		}
		err := c.checkAdmission(ctx)
		if u, is := errors.AsType[*undecided](err); is {
			flag, variable, _ := u.choices()[0].forms()
			return checkup.Bad(u.Error(), "gpuwhy "+flag+", or "+variable+" in the environment; 'gpuwhy check-config' lists the other ways").With("address", hostOf(c.address()))
		}
		if err != nil {
			advice := gpu.AsAdvice(err)
			return checkup.Bad(cmp.Or(advice.What, err.Error()), advice.Try).With("address", hostOf(c.address()))
		}
		return checkup.Good("decided for "+c.address()).With("address", hostOf(c.address()))
	}}}
}

// hostOf is the host of an address with a port; empty for loopback and for all addresses, which tell nothing.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return ""
	}
	return host
}

// leastSpace is how many bytes should be free for the state.
const leastSpace = 1 << 30

func (f *stateFlags) checks(m *checkup.Machine) []checkup.Check {
	return []checkup.Check{{Name: "state directory", Run: func(context.Context) checkup.Finding {
		switch {
		case f.notKept != nil:
			return checkup.Less("nothing is kept across a restart: "+f.notKept.Error(), "gpuwhy --state-dir DIR")
		case f.StateDir == "":
			return checkup.None("nothing is kept across a restart, as --state-dir says")
		}
		dir := filepath.Clean(f.StateDir)
		info, err := os.Stat(dir)
		for parent := dir; errors.Is(err, fs.ErrNotExist) && parent != filepath.Dir(parent); {
			parent = filepath.Dir(parent)
			if _, err = os.Stat(parent); err == nil {
				if err := m.Access(parent, true); err != nil {
					return checkup.Bad(dir+" does not exist, and "+parent+" may not be written", fmt.Sprintf("sudo install -d -m 0700 -o %s %s", cmp.Or(m.User, "gpuwhy"), dir)).With("user", m.User)
				}
				return checkup.Good("gpuwhy will make " + dir + " when it starts")
			}
		}
		switch {
		case err != nil:
			return checkup.Bad(err.Error(), "sudo ls -ld "+dir)
		case !info.IsDir():
			return checkup.Bad(dir+" is not a folder", "gpuwhy --state-dir DIR")
		case m.Access(dir, true) != nil:
			return checkup.Bad(dir+" may not be written by "+cmp.Or(m.User, "gpuwhy"), fmt.Sprintf("sudo chown -R %s %s; or, if the service has it, look with its user: sudo -u gpuwhy gpuwhy doctor --state-dir %s", cmp.Or(m.User, "gpuwhy"), dir, dir)).With("user", m.User)
		}
		if free, err := host.FreeSpace(dir); err == nil && free < leastSpace {
			return checkup.Bad(fmt.Sprintf("only %s are free in %s", explain.Size(int64(free)), dir), "gpuwhy history compact, or make room: sudo du -xh --max-depth=1 "+dir)
		}
		if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			return checkup.Less("other users may look into "+dir, "chmod 0700 "+dir)
		}
		return checkup.Good(dir + " may be written")
	}}}
}

func (f *keptFlags) checks() []checkup.Check {
	return []checkup.Check{{Name: "database of the past", Run: func(ctx context.Context) checkup.Finding {
		kept, onServer := f.keepsHistory()
		if !kept {
			return checkup.None("no past is kept")
		}
		if _, err := os.Stat(f.historyFile()); !onServer && errors.Is(err, fs.ErrNotExist) {
			return checkup.None("there is none yet: gpuwhy makes it when it starts")
		}
		var private string
		if address, err := url.Parse(f.History); err == nil && onServer {
			private = address.Hostname()
		}
		bad := func(err error) checkup.Finding {
			advice := gpu.AsAdvice(err)
			return checkup.Bad(advice.What, cmp.Or(advice.Try, "gpuwhy history check")).With("host", private)
		}
		st, _, err := f.keptPast(ctx)
		if err != nil {
			return bad(err)
		}
		size, err := st.Size(ctx)
		if err = errors.Join(err, st.Close()); err != nil {
			return bad(err)
		}
		return checkup.Good(fmt.Sprintf("it opens, and takes %s; 'gpuwhy history check' looks for damage", explain.Size(size.Bytes)))
	}}}
}

// servingChecks look at the address of the page, and at the gpuwhy that runs there.
func (c *doctorCommand) servingChecks() []checkup.Check {
	address, private := c.address(), hostOf(c.address())
	running := sync.OnceValue(func() error {
		return (&reachFlags{c.addressFlags, c.trustFlags}).ready(context.Background(), "") // within seconds
	})
	return []checkup.Check{{Name: "port", Run: func(ctx context.Context) checkup.Finding {
		_, port, _ := net.SplitHostPort(address)
		socket, unix := serve.UnixSocket(address)
		err := running()
		_, answers := errors.AsType[*client.Problem](err)
		switch {
		case err == nil || answers:
			return checkup.Good("gpuwhy answers at "+address).With("address", private)
		case unix:
			if err := checkup.Access(filepath.Dir(socket), true); err != nil {
				return checkup.Bad(filepath.Dir(socket)+" may not be written", "sudo install -d -o gpuwhy "+filepath.Dir(socket))
			}
			return checkup.Good("the socket can be made")
		case port == "0":
			return checkup.None("gpuwhy picks a free one")
		}
		ln, err := listen(ctx, "listen", address)
		if err != nil {
			advice := gpu.AsAdvice(err)
			if !neterr.InUse(err) {
				return checkup.Bad(advice.What, "choose an address of this machine and a port above 1023: gpuwhy --listen 127.0.0.1:8004").With("address", private)
			}
			return checkup.Bad(advice.What, "sudo ss -ltnp 'sport = :"+port+"' names the program; or choose another port: gpuwhy --listen 127.0.0.1:8004").With("address", private)
		}
		if err := ln.Close(); err != nil {
			return checkup.Bad(err.Error(), "")
		}
		return checkup.Good(address+" is free").With("address", private)
	}}, {Name: "running gpuwhy", Run: func(context.Context) checkup.Finding {
		err := running()
		problem, answers := errors.AsType[*client.Problem](err)
		switch {
		case err == nil:
			return checkup.Good("it is ready")
		case answers:
			return checkup.Bad("it is not ready: "+problem.Detail, "journalctl -u gpuwhy -n 50").With("address", private)
		}
		return checkup.None("none runs with these settings")
	}}}
}

// renewal is how long before its end a certificate should be renewed.
const renewal = 14 * 24 * time.Hour

func (f *tlsFlags) checks() []checkup.Check {
	return []checkup.Check{{Name: "TLS", Run: func(context.Context) checkup.Finding {
		switch {
		case !f.secure():
			return checkup.None("the page is served without it")
		case f.TLSCert == "" && f.TLSSelfSigned:
			return checkup.Good("gpuwhy makes its own certificate")
		case f.TLSCert == "":
			return checkup.Good("an ACME authority gives the certificate: 'gpuwhy healthcheck' says whether the page is served").With("host", f.domains...)
		}
		pair, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
		if err != nil {
			return checkup.Bad("the certificate can't be used: "+err.Error(), "openssl x509 -noout -text -in "+f.TLSCert)
		}
		return certificateFinding(pair.Leaf.NotBefore, pair.Leaf.NotAfter, time.Now(), f.TLSCert).With("host", pair.Leaf.DNSNames...)
	}}}
}

func certificateFinding(begin, end, now time.Time, file string) checkup.Finding {
	const renew = "sudo certbot renew, or ask for a new one where this came from"
	day := end.UTC().Format(time.DateOnly)
	switch {
	case now.Before(begin):
		return checkup.Bad("the certificate holds only from "+begin.UTC().Format(time.DateOnly)+" on", "check the clock: timedatectl")
	case now.After(end):
		return checkup.Bad("the certificate in "+file+" ended on "+day, renew)
	case now.After(end.Add(-renewal)):
		return checkup.Bad("the certificate in "+file+" ends on "+day, renew)
	}
	return checkup.Good("the certificate holds until " + day)
}

func (f *joiningFlags) checks(name string) []checkup.Check {
	return []checkup.Check{{Name: "fleet", Run: func(ctx context.Context) (found checkup.Finding) {
		if len(f.fleet) == 0 {
			return checkup.None("this machine joins none")
		}
		var hosts []string
		for _, server := range f.fleet {
			if address, err := url.Parse(server); err == nil {
				hosts = append(hosts, hostOf(net.JoinHostPort(address.Hostname(), "1")))
			}
		}
		defer func() { found = found.With("host", append(hosts, name)...) }()
		b, err := bus.Open(bus.Config{URLs: f.fleet, Credentials: f.FleetCredentials, Name: name + " (doctor)", Patience: 3 * time.Second})
		if err != nil {
			advice := gpu.AsAdvice(err)
			return checkup.Bad(advice.What, advice.Try)
		}
		connected := b.Connected(ctx)
		s := b.State()
		if err := b.Close(); err != nil && connected {
			return checkup.Bad(err.Error(), "")
		}
		switch {
		case s.Err != nil:
			return checkup.Bad(s.Err.What, cmp.Or(s.Err.Try, "on the fleet's server: systemctl status gpuwhy"))
		case !connected:
			return checkup.Bad("no server of the fleet answers", "on the fleet's server: systemctl status gpuwhy")
		}
		return checkup.Good("connected to " + s.Server)
	}}}
}

// proxyChecks look at the proxy through which gpuwhy sends messages and series.
func proxyChecks(variable func(string) string) []checkup.Check {
	return []checkup.Check{{Name: "proxy for outgoing requests", Run: func(ctx context.Context) checkup.Finding {
		for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
			text := variable(name)
			if text == "" {
				continue
			}
			if !strings.Contains(text, "://") {
				text = "http://" + text
			}
			address, err := url.Parse(text)
			if err != nil || address.Hostname() == "" {
				return checkup.Bad("the variable "+name+" is not the address of a proxy", "unset "+name)
			}
			at := net.JoinHostPort(address.Hostname(), cmp.Or(address.Port(), map[string]string{"https": "443", "socks5": "1080"}[address.Scheme], "80"))
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
			if err != nil {
				return checkup.Bad("the proxy of "+name+" does not answer at "+at, "unset "+name+", or start the proxy").With("host", hostOf(at))
			}
			if err := conn.Close(); err != nil {
				return checkup.Bad(err.Error(), "")
			}
			return checkup.Good("the proxy of "+name+" answers at "+at).With("host", hostOf(at))
		}
		return checkup.None("none is set")
	}}}
}

// helperChecks look at the helper processes of gpuwhys that run here.
func helperChecks(proc string) []checkup.Check {
	return []checkup.Check{{Name: "helper processes", Run: func(context.Context) checkup.Finding {
		found, names := 0, map[string]bool{}
		entries, err := os.ReadDir(proc)
		if proc == "" || err != nil {
			return checkup.None("this system shows no processes")
		}
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err != nil {
				continue
			}
			dir := filepath.Join(proc, e.Name())
			line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
			args := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
			if err != nil || len(args) < 4 || args[1] != "helper" || helperTasks[args[2]] == nil {
				continue
			}
			status, err := os.ReadFile(filepath.Join(dir, "stat"))
			if err != nil { // it has ended
				continue
			}
			found++
			names[args[2]] = true
			_, rest, _ := strings.Cut(string(status[bytes.LastIndexByte(status, ')')+1:]), " ")
			if strings.HasPrefix(rest, "D") {
				return checkup.Bad("the helper "+args[2]+" (process "+e.Name()+") waits for a disk that does not answer", "sudo dmesg | tail -n 50; if a backup has frozen the file system: sudo fsfreeze -u MOUNTPOINT")
			}
		}
		if found == 0 {
			return checkup.None("no gpuwhy that runs here has any")
		}
		return checkup.Good(fmt.Sprintf("%d run", found))
	}}}
}

// A report is what was found.
type report struct {
	Version string `json:"version"`
	Build   string `json:"build"`
	System  string `json:"system"`
	Fine    bool   `json:"fine"` // nothing is "not fine"
	Checks  []line `json:"checks"`
}

// A line is about one check.
type line struct {
	Name    string          `json:"name"`
	Verdict checkup.Verdict `json:"verdict"`
	Found   string          `json:"found"`
	Mend    string          `json:"mend,omitempty"`

	names []checkup.Name
}

// newReport runs checks, all at once.
func newReport(ctx context.Context, checks []checkup.Check) *report {
	r := &report{Version: release.Version, Build: release.ThisBuild().String(), System: runtime.GOOS + "/" + runtime.GOARCH, Checks: make([]line, len(checks))}
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			f := c.Do(ctx)
			r.Checks[i] = line{c.Name, f.Verdict, f.What, f.Mend, f.Names}
		})
	}
	all.Wait()
	r.Fine = !slices.ContainsFunc(r.Checks, func(l line) bool { return l.Verdict == checkup.NotFine })
	return r
}

// mask replaces names, so that the report can be shown to anybody.
func (r *report) mask(user string) {
	m := capture.NewMask()
	m.LearnHere(user)
	for _, l := range r.Checks {
		for _, name := range l.names {
			m.Learn(name.Kind, name.Text)
		}
	}
	for i := range r.Checks {
		l := &r.Checks[i]
		l.Found, l.Mend = m.Text(withoutSecrets(l.Found)), m.Text(withoutSecrets(l.Mend))
	}
}

func (r *report) print(s term.Screen) error {
	styles := map[checkup.Verdict]term.Style{checkup.Fine: term.Good, checkup.Limited: term.Warn, checkup.NotFine: term.Bad, checkup.NotApplicable: term.Faint}
	counts := map[checkup.Verdict]int{}
	var out []string
	const width = len(checkup.NotApplicable)
	indent := strings.Repeat(" ", width+2)
	out = append(out, fmt.Sprintf("gpuwhy %s (%s; %s)", r.Version, r.Build, r.System), "")
	for _, l := range r.Checks {
		counts[l.Verdict]++
		lines := term.Wrapped(s, indent+l.Name+": "+l.Found, indent+"  ")
		lines[0] = s.Styled(styles[l.Verdict], fmt.Sprintf("%-*s", width, l.Verdict)) + strings.TrimPrefix(lines[0], indent[2:])
		out = append(out, lines...)
		if l.Mend != "" {
			out = append(out, term.Wrapped(s, indent+"to mend it: "+l.Mend, indent+"  ")...)
		}
	}
	var sums []string
	for _, v := range []checkup.Verdict{checkup.Fine, checkup.Limited, checkup.NotFine, checkup.NotApplicable} {
		if counts[v] > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	out = append(out, "", strings.Join(sums, ", ")+".")
	_, err := fmt.Fprintln(s, strings.Join(out, "\n"))
	return err
}
