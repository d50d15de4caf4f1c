package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// historyCommand is about the database itself.
type historyCommand struct {
	Size    historySize    `cmd:"" help:"Say how much is kept, and how much it will be with --history-retention."`
	Export  historyExport  `cmd:"" help:"Print all readings, sessions, causes or events of a span of time, as CSV or JSON."`
	Compact historyCompact `cmd:"" help:"Give room back that the database does not use."`
	Check   historyCheck   `cmd:"" help:"Look for damage in the database; exit status 1 if there is some."`
}

type historySize struct {
	JSON bool   `name:"json" help:"Print what /api/gpu/history/size answers."`
	URL  string `name:"url" placeholder:"URL" help:"Where gpuwhy is served, as for gpuwhy past."`
	askingFlags
}

// Run prints how much is kept.
func (c historySize) Run(env *environment) error {
	return tellPast(env, &pastFlags{askingFlags: c.askingFlags, JSON: c.JSON, URL: c.URL}, client.GetHistorySize(), term.PastSize)
}

type historyExport struct {
	What   string   `arg:"" enum:"readings,sessions,causes,events" help:"What: readings, sessions, causes or events."`
	When   string   `arg:"" optional:"" default:"24h" help:"When, as for gpuwhy past; the last 24 hours by default."`
	GPU    []string `placeholder:"GPU" help:"A GPU, by index or UUID; repeatable, all by default."`
	User   string   `help:"Sessions of one user; of all by default."`
	Kind   []string `placeholder:"KIND" help:"Events of a kind, such as xid; repeatable, all by default."`
	Metric []string `placeholder:"METRIC" help:"A quantity of readings, such as power_draw; repeatable, all of GPUs by default."`
	Tier   string   `placeholder:"TIER" help:"Readings as they are kept: raw, 1m, 15m or 6h; by default the finest that there is for all of the time."`
	TZ     string   `name:"tz" placeholder:"ZONE" help:"The time zone in which times are understood; this machine's by default."`
	JSON   bool     `name:"json" help:"Print JSON in place of CSV."`
	URL    string   `name:"url" placeholder:"URL" help:"Where gpuwhy is served, as for gpuwhy past."`
	askingFlags
}

func (c *historyExport) check() error {
	return first(c.askingFlags.check, func() error { return saysWhen(c.When) })
}

// Run prints what is kept, as it comes.
func (c historyExport) Run(env *environment) error {
	for name, parameter := range map[string]struct {
		about string
		given bool
	}{"user": {"sessions", c.User != ""}, "kind": {"events", len(c.Kind) > 0}, "metric": {"readings", len(c.Metric) > 0}, "tier": {"readings", c.Tier != ""}} {
		if parameter.given && c.What != parameter.about {
			return usageError{fmt.Errorf("--%s is about %s, not %s", name, parameter.about, c.What)}
		}
	}
	span := client.Span{From: c.When, TimeZone: zoneAsked(c.TZ), GPU: c.GPU}
	question := map[string]client.Request{
		"readings": client.ListReadings(span, c.Tier, c.Metric...).Request,
		"sessions": client.ListSessions(span, c.User).Request,
		"causes":   client.ListCauses(span).Request,
		"events":   client.ListEvents(span, c.Kind...).Request,
	}[c.What]
	if !c.JSON {
		question = question.Table()
	}
	return c.printPast(env, c.URL, question)
}

type historyCompact struct{ databaseFlags }

// Run makes the database as small as what is in it.
func (c historyCompact) Run(env *environment) (err error) {
	st, where, err := c.ownedPast(env.ctx, env.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	before, err := st.Size(env.ctx)
	if err != nil {
		return err
	}
	if err := st.Compact(env.ctx); err != nil {
		return err
	}
	after, err := st.Size(env.ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "%s took %s, and now takes %s.\n", term.Printable(where), explain.Size(before.Bytes), explain.Size(after.Bytes))
	return err
}

type historyCheck struct{ databaseFlags }

// Run says whether the database is sound. It harms no gpuwhy that writes to it.
func (c historyCheck) Run(env *environment) (err error) {
	st, where, err := c.keptPast(env.ctx)
	if err != nil {
		return c.damage(env, err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Check(env.ctx); err != nil {
		return c.damage(env, err)
	}
	size, err := st.Size(env.ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "%s is sound: %s in %d rows.\n", term.Printable(where), explain.Size(size.Bytes), rowsOf(size))
	return err
}

// damage prints what was found, and returns what to do.
func (c historyCheck) damage(env *environment, err error) error {
	if !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	advice := gpu.AsAdvice(err)
	if advice.Err != nil {
		for line := range strings.Lines(advice.Err.Error()) {
			fmt.Fprintln(env.stdout, term.Printable(strings.TrimSpace(line)))
		}
	}
	if _, onServer := c.keepsHistory(); !onServer {
		advice.Try = "save what can be read of it with the program sqlite3 (sqlite3 " + c.historyFile() + " .recover), and start gpuwhy again, " +
			"which sets the file aside and begins a new one"
	}
	return &advice
}

func rowsOf(size store.Size) (rows int64) {
	for _, t := range size.Tables {
		rows += t.Rows
	}
	return rows
}
