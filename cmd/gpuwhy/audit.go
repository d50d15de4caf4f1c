package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/audit"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/past/record"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// auditFlags say how who did what is recorded.
type auditFlags struct {
	KeepAudit   string `group:"access" default:"400d" placeholder:"TIME" help:"How long to keep the record of who did what: a whole number of h, d, w or y, or forever." docs:"access.md#the-audit"`
	AuditSyslog bool   `group:"access" help:"Also send each entry of that record to the machine's system log." docs:"access.md#the-audit"`

	keep     time.Duration     // 0: forever
	settings map[string]string // that are not the default, by flag, without secrets
}

func (f *auditFlags) check() (err error) {
	if f.KeepAudit == "forever" {
		return nil
	}
	if f.keep, err = record.ParseSpan(f.KeepAudit); err != nil {
		return bad("keep-audit", f.KeepAudit, "must be a whole number of h, d, w or y, such as 400d, or forever")
	}
	return nil
}

// A rememberer is a command whose settings are recorded when they change.
type rememberer interface {
	remember(settings map[string]string)
}

// remember takes the settings of this run, for the record of changes.
func (f *auditFlags) remember(settings map[string]string) { f.settings = settings }

// auditOptions returns how who did what is recorded.
func (f *auditFlags) auditOptions(log *slog.Logger, deadline time.Duration) audit.Options {
	o := audit.Options{Keep: f.keep, Deadline: deadline, Settings: f.settings}
	if f.AuditSyslog {
		system, err := audit.OpenSystemLog()
		if err != nil {
			log.Warn("entries are not sent to the system log", "err", err, "try", "leave out --audit-syslog")
			return o
		}
		o.System = system
	}
	return o
}

// unusual returns the flags whose values are not the default, without secrets.
func unusual(flags []*kong.Flag) map[string]string {
	all := map[string]string{}
	for _, flag := range flags {
		if len(flag.Envs) == 0 { // without a variable, it is no setting
			continue
		}
		usual := flag.Default
		if span, err := time.ParseDuration(usual); err == nil {
			usual = span.String()
		}
		if text := valueOf(flag); text != usual {
			all[flag.Name] = text
		}
	}
	return all
}

// What addresses may carry: a password before the host, and secrets as parameters.
var (
	passwordIn  = lazy.Pattern(`(://[^:/@\s]*):[^@\s]*@`)
	parameterIn = lazy.Pattern(`(?i)([?&][^=&\s]*(?:pass|token|secret|key|sig)[^=&\s]*=)[^&\s]*`)
)

// withoutSecrets returns a setting without the passwords of the addresses in it.
func withoutSecrets(text string) string {
	return parameterIn().ReplaceAllString(passwordIn().ReplaceAllString(text, "$1:(hidden)@"), "$1(hidden)")
}

// auditCommand shows the record of who did what.
type auditCommand struct {
	List  auditList  `cmd:"" help:"List who did what, the newest first."`
	Check auditCheck `cmd:"" help:"Check that nobody changed an entry in the database; exit with status 1 if somebody did."`
}

type auditList struct {
	When   string `arg:"" optional:"" help:"Time span, as for gpuwhy past, such as yesterday; all by default."`
	Who    string `placeholder:"NAME" env:"-" help:"Only what this person or token did."`
	Action string `placeholder:"ACTION" words:"@actions" env:"-" help:"Only this action, such as silenceAlert or signIn."`
	Target string `placeholder:"TARGET" env:"-" help:"Only what was done to this."`
	Result string `placeholder:"RESULT" words:"@results" env:"-" help:"Only entries with this result: begun, done, refused or failed."`
	Most   int    `default:"100" placeholder:"N" env:"-" help:"At most so many entries."`
	listFlags
}

func (c *auditList) check() error {
	return first(c.listFlags.check, func() error { return oneOf("result", c.Result, "@results") }, func() error {
		return refuse(rule{c.Most < 1, "most", c.Most, "must be 1 or more"})
	})
}

// Run lists entries.
func (c auditList) Run(env *environment) error {
	return c.reach(env, func(running *client.Client) error {
		q := client.AuditQuery{Who: c.Who, Action: c.Action, Target: c.Target, Result: c.Result, From: c.When}
		all := client.Audit{Entries: []client.AuditEntry{}}
		for more := true; more && len(all.Entries) < c.Most; {
			page, err := client.Do(env.ctx, running, client.ListAudit(q))
			if err != nil {
				return legible(err)
			}
			all.Entries, all.Next = append(all.Entries, page.Entries...), page.Next
			if more = page.Next != nil; more {
				q.Before = *page.Next
			}
		}
		if len(all.Entries) > c.Most {
			all.Entries = all.Entries[:c.Most]
			all.Next = &all.Entries[c.Most-1].Number
		}
		if c.JSON {
			return term.JSON(env.stdout, all)
		}
		if len(all.Entries) == 0 {
			_, err := fmt.Fprintln(env.stdout, "There is no such entry.")
			return err
		}
		rows := make([][]string, len(all.Entries))
		for i := range all.Entries {
			e := &all.Entries[i]
			rows[i] = []string{fmt.Sprint(e.Number), momentOr(&e.Time, ""), e.Principal, e.Way, e.Address, e.Action, e.Target, e.Result, cmp.Or(e.Detail, shortly(e.Args))}
		}
		return term.Rows(term.ScreenOf(env.stdout), []term.Column{
			{Title: "ENTRY"}, {Title: "TIME"}, {Title: "WHO", Least: 6}, {Title: "WAY", Rank: 4}, {Title: "FROM", Rank: 3}, {Title: "ACTION"}, {Title: "TARGET", Rank: 1, Least: 8},
			{Title: "RESULT"}, {Title: "DETAIL", Rank: 2, Least: 10},
		}, rows)
	})
}

// shortly returns the beginning of some JSON.
func shortly(text json.RawMessage) string {
	const most = 80
	if runes := []rune(string(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(text)
}

type auditCheck struct{ listFlags }

// Fails says when the command ends with status 1.
func (auditCheck) Fails() string { return "somebody changed an entry" }

// Run checks the chain of entries.
func (c auditCheck) Run(env *environment) error {
	return c.reach(env, func(running *client.Client) error {
		end := env.notes.During("checking the record", nil)
		got, err := client.Do(env.ctx, running, client.CheckAudit())
		end()
		if err != nil {
			return legible(err)
		}
		switch {
		case c.JSON:
			err = term.JSON(env.stdout, got)
		case !got.Sound:
			_, err = fmt.Fprintf(env.stdout, "%s. Somebody changed the database by hand, or restored an old copy of a part of it.\n", term.Printable(got.Detail))
		case got.Last == 0:
			_, err = fmt.Fprintln(env.stdout, "There is no entry yet.")
		default:
			_, err = fmt.Fprintf(env.stdout, "No entry from %d to %d was changed. The hash of the last is %s.\n", got.First, got.Last, got.Head)
		}
		if err == nil && !got.Sound {
			err = errQuiet
		}
		return err
	})
}
