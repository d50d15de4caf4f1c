package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/user"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/control"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/state"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// accountsCommand is gpuwhy user, token or session: a command for each action whose command begins with that word, and one that lists.
type accountsCommand struct{ kong.Plugins }

// newAccounts returns a function that makes the command of a word.
func newAccounts(word string, list any) func() any {
	return func() any {
		commands := []member{commandOf(reflect.Zero(reflect.TypeOf(list)).Interface(), "list", lists[word])}
		for _, a := range app.Actions() {
			if name, of := strings.CutPrefix(a.Command.Name, word+" "); of && a.HTTP != "" {
				commands = append(commands, commandOf(accountCommand{actionRequest: newActionRequest(&a)}, name, a.Summary))
			}
		}
		return &accountsCommand{kong.Plugins{structOf(commands).Addr().Interface()}}
	}
}

// lists say what each list command does, by the word.
var lists = map[string]string{
	"user": "List accounts", "token": "List API tokens, without their values", "session": "List the browsers in which people have signed in",
}

// accountsFlags say where accounts are: in a running gpuwhy, which the command asks as the user who runs it, or in a state directory.
type accountsFlags struct {
	URL string `name:"url" placeholder:"URL" help:"Ask the gpuwhy that is served here, with a token that may administer. By default, the command asks the gpuwhy that runs with --state-dir on this machine or, if none does, changes the accounts there itself."`
	commonFlags
	clientFlags
	stateFlags
	ledgerFlags
}

func (f *accountsFlags) check() error {
	return first(f.clientFlags.check, f.ledgerFlags.check, func() error { return f.stateFlags.check(true) })
}

// An accountCommand requests an action on accounts, tokens or sessions.
type accountCommand struct {
	actionRequest
	accountsFlags
}

func (c *accountCommand) check() error { return first(c.accountsFlags.check, c.actionRequest.check) }

// Run requests the action, and prints what was done.
func (c accountCommand) Run(env *environment) error {
	return c.reach(env, func(running *client.Client) error { return c.run(env, running) })
}

// reach calls ask with a client of whoever has the accounts.
func (f *accountsFlags) reach(env *environment, ask func(*client.Client) error) error {
	if f.URL != "" {
		running, err := f.client(f.URL, client.Options{Flag: "--url"})
		if err != nil {
			return err
		}
		return ask(running)
	}
	if f.StateDir == "" {
		return f.alone(env, ask)
	}
	conn, err := control.Dial(env.ctx, f.StateDir)
	switch {
	case err == nil:
		if err := conn.Close(); err != nil {
			return err
		}
		running, err := client.New(control.URL, client.Options{Transport: control.Transport(f.StateDir)})
		if err != nil {
			return err
		}
		return ask(running)
	case errors.Is(err, control.ErrNobody):
		return f.alone(env, ask)
	default:
		return err
	}
}

// alone has the accounts of a state directory or a server with which no program runs here.
func (f *accountsFlags) alone(env *environment, ask func(*client.Client) error) (err error) {
	if f.StateDir == "" && f.Accounts == "" {
		return &gpu.Advice{What: "accounts are kept in a state directory, and none is given", Try: "name that of the gpuwhy with --state-dir, or its address with --url", Err: f.notKept}
	}
	if _, err := os.Stat(f.StateDir); f.StateDir != "" && errors.Is(err, os.ErrNotExist) && f.ownStateDir {
		return &gpu.Advice{
			What: fmt.Sprintf("no gpuwhy runs with %s, the default folder, and it does not exist", f.StateDir),
			Try:  "run this as root or as the user who runs gpuwhy, and name its folder with --state-dir",
		}
	}
	d := &daemon{programFlags: new(programFlags)}
	d.stateFlags, d.ledgerFlags = f.stateFlags, f.ledgerFlags
	d.ownStateDir = false // a folder that can't be used is an error here
	_, missing := os.Stat(f.StateDir)
	release, err := d.takeStateDir(env.log)
	if err != nil {
		return err
	}
	if f.StateDir != "" && errors.Is(missing, os.ErrNotExist) && os.Geteuid() == 0 && state.BelongsToRoot(f.StateDir) {
		env.log.Warn("the state directory is new, and belongs to root", "folder", f.StateDir,
			"try", "if another user runs gpuwhy, give it to that user: chown -R USER "+f.StateDir)
	}
	defer func() { err = errors.Join(err, release()) }()
	accounts := d.newLedger(env.log)
	h, end, err := app.Accounts(access.Options{Ledger: accounts}, f.BasePath, slog.New(warnings{env.log.Handler()}))
	if err != nil {
		return errors.Join(err, accounts.Close())
	}
	defer func() { err = errors.Join(err, end()) }()
	running, err := client.New(control.URL, client.Options{Transport: inProcess{h, commandUser()}})
	if err != nil {
		return err
	}
	return ask(running)
}

// warnings are those of a log: the audit has what a command does, and its answer says it.
type warnings struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// commandUser is whoever runs a command on the files of gpuwhy: who can write them owns it.
func commandUser() *auth.Principal {
	who := auth.LocalOwner()
	who.ID, who.Address = fmt.Sprint("uid:", os.Getuid()), "a command on the machine"
	if u, err := user.Current(); err == nil {
		who.Name = u.Username
	}
	return &who
}

// inProcess is a transport to a handler in the same process, on behalf of a principal.
type inProcess struct {
	http.Handler
	who *auth.Principal
}

// RoundTrip implements [http.RoundTripper].
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.Clone(auth.NewContext(r.Context(), p.who))
	asked.RequestURI = r.URL.RequestURI()
	if asked.Host = r.URL.Host; asked.Body == nil {
		asked.Body = http.NoBody
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	p.ServeHTTP(w, asked)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// An answer is what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// A listFlags is a command that lists.
type listFlags struct {
	JSON bool `name:"json" help:"Print what the API answers."`
	accountsFlags
}

func (c *listFlags) check() error { return c.accountsFlags.check() }

// list prints the answer of a call: as JSON, or as a table with a header and a row for each of the answer's elements.
func list[A any](c *listFlags, env *environment, call client.Call[A], none string, rows func(*A) [][]string) error {
	return c.reach(env, func(running *client.Client) error {
		got, err := client.Do(env.ctx, running, call)
		if err != nil {
			return legible(err)
		}
		if c.JSON {
			return term.JSON(env.stdout, got)
		}
		table := rows(got)
		if len(table) == 1 {
			_, err := fmt.Fprintln(env.stdout, none)
			return err
		}
		w := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
		for _, row := range table {
			for i := range row {
				row[i] = term.Printable(row[i])
			}
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		return w.Flush()
	})
}

type userList struct{ listFlags }

// Run lists accounts.
func (c userList) Run(env *environment) error {
	return list(&c.listFlags, env, client.ListUsers(), "There is no account.", func(all *contract.Users) [][]string {
		rows := [][]string{{"NAME", "ROLE", "MACHINES", "SEES", "SIGNS IN WITH", "LAST SIGN-IN", "SESSIONS", "TOKENS", ""}}
		for i := range all.Users {
			u := &all.Users[i]
			state := ""
			if u.Disabled {
				state = "disabled"
			}
			rows = append(rows, []string{
				u.Name, u.Role, cmp.Or(u.Scope, "all"), cmp.Or(u.Sees, "all"), cmp.Or(strings.Join(u.Ways, ", "), "nothing yet"), momentOr(u.LastSeen, "never"),
				fmt.Sprint(u.Sessions), fmt.Sprint(u.Tokens), state,
			})
		}
		return rows
	})
}

type tokenList struct{ listFlags }

// Run lists tokens.
func (c tokenList) Run(env *environment) error {
	return list(&c.listFlags, env, client.ListTokens(), "There is no token.", func(all *contract.Tokens) [][]string {
		rows := [][]string{{"ID", "TITLE", "ACCESS", "FOR", "ACCOUNT", "MADE BY", "ENDS", "LAST USED"}}
		for i := range all.Tokens {
			t := &all.Tokens[i]
			rows = append(rows, []string{
				t.ID, t.Title, t.Access, cmp.Or(t.Path, t.Scope, "all machines"), cmp.Or(t.User, "none"), t.By, momentOr(t.Expires, "never"), momentOr(t.LastUsed, "never"),
			})
		}
		return rows
	})
}

type sessionList struct{ listFlags }

// Run lists sessions.
func (c sessionList) Run(env *environment) error {
	return list(&c.listFlags, env, client.ListSessionsOfPeople(), "Nobody has signed in.", func(all *contract.Sessions) [][]string {
		rows := [][]string{{"ID", "USER", "SIGNED IN WITH", "SINCE", "LAST USED", "FROM", "BROWSER"}}
		for i := range all.Sessions {
			s := &all.Sessions[i]
			rows = append(rows, []string{s.ID, s.User, s.Way, momentOr(&s.Began, ""), momentOr(&s.Seen, ""), cmp.Or(s.Address, "unknown"), s.Agent})
		}
		return rows
	})
}

// momentOr is a time of an answer for people at this machine, or what stands for none.
func momentOr(timestamp *string, none string) string {
	if timestamp == nil {
		return none
	}
	t, err := time.Parse(time.RFC3339, *timestamp)
	if err != nil {
		return *timestamp
	}
	return t.Local().Format("2006-01-02 15:04") //nolint:gosmopolitan // of the person who reads
}
