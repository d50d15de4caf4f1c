package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/control"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/sampler/host"
)

// accessFlags say who gets in.
type accessFlags struct {
	SignIn     bool     `group:"access" help:"Let people in only if they sign in. If no account exists, gpuwhy prints a link at its start that makes the first administrator. Local owners of a loopback address need not sign in." docs:"access.md#who-may-do-what-here"`
	NoSignIn   openness `group:"access" placeholder:"operator" help:"Let everyone in who reaches --listen, from any machine: to read, or with --no-sign-in=operator also to acknowledge and silence alerts. Every page says so." docs:"access.md#without-sign-in"`
	OwnerGroup string   `group:"access" placeholder:"GROUP" help:"Members of this group of the machine are local owners, like root and the user who runs gpuwhy: they may do everything on a loopback address or Unix socket." docs:"access.md#on-the-machine-itself"`
}

// An openness is what everybody may do without signing in; 0: nothing. Its flag may have a value.
type openness auth.Access

// IsBool implements [kong.BoolMapperValue]: the flag needs no value.
func (openness) IsBool() bool { return true }

// Decode implements [kong.MapperValue].
func (o *openness) Decode(ctx *kong.DecodeContext) error {
	value := "true"
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		value = fmt.Sprint(ctx.Scan.Pop().Value)
	}
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true", "yes", "1", "viewer":
		*o = openness(auth.Read)
	case "operator":
		*o = openness(auth.Operate)
	case "false", "no", "0":
		*o = 0
	default:
		return fmt.Errorf("%q is no role that everybody may have: write --no-sign-in, or --no-sign-in=operator", value)
	}
	return nil
}

func (f *accessFlags) check() error {
	if f.SignIn && f.NoSignIn != 0 {
		return &gpu.Advice{What: "--sign-in and --no-sign-in contradict each other", Try: "give one of them"}
	}
	return nil
}

// signsIn reports whether settings say that people sign in.
func (f *programFlags) signsIn() bool { return f.SignIn || f.vouched() }

// An admission is who gets in without signing in.
type admission struct {
	local     bool        // only this machine reaches the address, so that the kernel knows who calls
	required  bool        // who is no local owner has to sign in
	everybody auth.Access // what they may do who have not signed in, and whom the kernel does not know
	notice    *gpu.Advice // what every page says about it; nil: nothing
}

// admit decides who gets in. Its error says that nobody has decided it: the address can be reached from other machines, nobody can sign
// in, and nobody has said that this is how it should be. While the accounts can't be read, nobody gets in without signing in. accounts is
// nil if they are not to be read.
func (f *programFlags) admit(ctx context.Context, accounts ledger.Ledger) (a admission, err error) {
	a = admission{local: f.local(ctx), required: f.signsIn(), everybody: auth.Access(f.NoSignIn)}
	switch {
	case a.everybody == auth.Operate:
		a.notice = &gpu.Advice{What: "nobody has to sign in here: everyone who reaches this page can see everything on it, and acknowledge and silence alerts"}
	case a.everybody > 0:
		a.notice = &gpu.Advice{What: "nobody has to sign in here: everyone who reaches this page can see everything on it"}
	case a.required:
	case a.local:
		a.everybody = auth.Read
	default:
		a.required = true
		if accounts == nil {
			break
		}
		if has, err := access.HasAccounts(ctx, accounts); err == nil && !has {
			return a, usageError{&undecided{f.address()}}
		}
	}
	return a, nil
}

// local reports whether only this machine reaches the address to listen on.
func (f *addressFlags) local(ctx context.Context) bool {
	if _, unix := serve.UnixSocket(f.address()); unix {
		return true
	}
	host, _, err := net.SplitHostPort(f.address())
	if err != nil || host == "" {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, ip := range all {
		if !ip.Unmap().IsLoopback() {
			return false
		}
	}
	return err == nil && len(all) > 0
}

// confine refuses an address that turns out to be reachable from other machines, such as of a name that has changed.
func (a *admission) confine(ln net.Listener) error {
	if address, ok := ln.Addr().(*net.TCPAddr); ok && a.local && !address.IP.IsLoopback() {
		return usageError{fmt.Errorf("--listen: %s is reachable from other machines: write an address such as 127.0.0.1:8003", address)}
	}
	return nil
}

// undecided is the error for an address that other machines reach, if nobody has said who may come in.
type undecided struct{ address string }

// Error implements error.
func (u *undecided) Error() string {
	return "--listen " + u.address + " can be reached from other machines, and nobody has said who may come in"
}

// A choice is a way on, with the setting that it takes.
type choice struct{ does, flag, value string }

func (u *undecided) choices() []choice {
	here := defaultListen
	if _, port, err := net.SplitHostPort(u.address); err == nil && port != "0" {
		here = net.JoinHostPort("127.0.0.1", port)
	}
	return []choice{
		{"people sign in, and the first start prints a link that makes the first administrator", "sign-in", "true"},
		{"everyone may see everything", "no-sign-in", "true"},
		{"everyone may see everything, and acknowledge and silence alerts, as in versions without sign-in", "no-sign-in", "operator"},
		{"only this machine reaches it", "listen", here},
	}
}

// forms returns what to add to the command line, to the environment, or to the file of settings.
func (c *choice) forms() (flag, variable, key string) {
	flag = "--" + c.flag
	if c.value != "true" {
		flag += "=" + c.value
	}
	return flag, variables + strings.ToUpper(strings.ReplaceAll(c.flag, "-", "_")) + "=" + c.value, c.flag + ": " + c.value
}

// Lines are the whole error for people: what to add, in each of the places where settings are.
func (u *undecided) Lines() []string {
	lines := []string{u.Error() + ". Choose one, and gpuwhy starts:"}
	for _, c := range u.choices() {
		flag, variable, key := c.forms()
		lines = append(lines, fmt.Sprintf("  %s: add %s to the command, or %s to the environment, or '%s' to the file of --config", c.does, flag, variable, key))
	}
	return append(lines,
		"  people sign in with an account that you make now: run 'gpuwhy user add NAME --role administrator', with the same --state-dir",
		"  people sign in elsewhere: name a provider with --oidc-issuer, or a proxy that signs people in with --proxy-sign-in and --trusted-proxy (the guide, at /guide/access)")
}

// checkAdmission returns why gpuwhy would not start, as far as that is known without asking a server. It changes no file.
func (f *programFlags) checkAdmission(ctx context.Context) error {
	if f.Accounts != "" {
		_, err := f.admit(ctx, nil)
		return err
	}
	open := ledger.InMemory
	if file := filepath.Join(f.StateDir, accountsFile); f.StateDir != "" {
		if _, err := os.Stat(file); err == nil {
			open = func(ctx context.Context) (ledger.Ledger, error) { return ledger.Look(ctx, file) }
		}
	}
	accounts := &ledger.Later{Deadline: f.AccountsDeadline, Open: open}
	_, err := f.admit(ctx, accounts)
	return errors.Join(err, accounts.Close())
}

// checkAccounts returns what is wrong with the file of accounts, if there is one: gpuwhy would start, and let nobody in whom it has to look up. It
// changes nothing.
func (f *programFlags) checkAccounts(ctx context.Context) error {
	file := filepath.Join(f.StateDir, accountsFile)
	if _, err := os.Lstat(file); f.Accounts != "" || f.StateDir == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	accounts := &ledger.Later{Open: func(ctx context.Context) (ledger.Ledger, error) { return ledger.Look(ctx, file) }}
	_, err := accounts.List(ctx, "user", "")
	return errors.Join(err, accounts.Close())
}

// newAccess opens the accounts, and decides who gets in without one.
func (env *environment) newAccess(d *daemon, r role) (_ *access.Options, a admission, err error) {
	o := &access.Options{Ledger: d.newLedger(env.log), PublicURL: d.PublicURL, Providers: d.providers, Proxy: d.proxied, PlainSignIn: d.AllowPlainSignIn, NoCommands: host.ShowCommands(d.ShowCommands) == host.ShowNone}
	if r.page {
		if a, err = d.admit(env.ctx, o.Ledger); err != nil {
			return nil, a, errors.Join(err, o.Close())
		}
	}
	o.Open, o.Notice = a.everybody, a.notice
	o.Ways = append(o.Ways, access.NewKernel(access.KernelConfig{
		Loopback: a.local, OwnersOnly: a.required, OwnerGroup: d.OwnerGroup, Proxies: d.proxies, Clock: clock.Program(), Log: env.log.With("part", "access"),
	}))
	if d.StateDir != "" {
		if o.Control, err = control.Listen(env.ctx, d.StateDir); err != nil {
			advice := gpu.AsAdvice(err)
			env.log.Warn("commands such as 'gpuwhy user' don't reach this gpuwhy", "err", err, "try", advice.Try)
		}
	}
	return o, a, nil
}

// tellSetup prints the link that makes the first administrator, if there is none.
func (d *daemon) tellSetup(env *environment, room *access.Room, secure *certs.Room, ln net.Listener) {
	link, err := room.SetupLink(env.ctx)
	switch {
	case err == nil:
		if path, unix := serve.UnixSocket(addressText(ln.Addr())); unix && d.PublicURL == "" {
			fmt.Fprintf(env.stdout, "Nobody can sign in yet. Make the first administrator within 15 minutes, through the socket %s, at %s\n", path, link)
			return
		}
		// The link is below the origin, with the base path.
		origin := cmp.Or(d.PublicURL, strings.TrimSuffix(pageURL(secure, addressText(ln.Addr()), "/"), "/"))
		fmt.Fprintf(env.stdout, "Nobody can sign in yet. Make the first administrator within 15 minutes, at %s%s\n", origin, link)
		if !d.local(env.ctx) && secure == nil && !d.AllowPlainSignIn && d.proxies.None() {
			fmt.Fprintln(env.stdout, "Over plain HTTP, it works on this machine alone, and not in a container. For others, add --tls-self-signed or another certificate, "+
				"or a proxy that --trusted-proxy names, or --allow-plain-sign-in")
		}
	case !errors.Is(err, access.ErrAdministered):
		advice := gpu.AsAdvice(err)
		env.log.Warn("it is not known whether there is an administrator", "err", err, "try", advice.Try)
	}
}
