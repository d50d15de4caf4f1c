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

// historyCommand manages the database of the past.
type historyCommand struct {
	Size    historySize    `cmd:"" help:"Show how large the past is, and how large it will grow with --history-retention."`
	Export  historyExport  `cmd:"" help:"Print all readings, sessions, causes or events of a time span, as CSV or JSON."`
	Compact historyCompact `cmd:"" help:"Free the space that the database no longer uses."`
	Check   historyCheck   `cmd:"" help:"Check the database for damage; exit with status 1 if there is any."`
}

type historySize struct {
	JSON bool   `name:"json" help:"Print what /api/gpu/history/size answers."`
	URL  string `name:"url" placeholder:"URL" help:"Where gpuwhy is served, as for gpuwhy past."`
	askingFlags
}

// Run prints how large the past is.
func (c historySize) Run(env *environment) error {
	return tellPast(env, &pastFlags{askingFlags: c.askingFlags, JSON: c.JSON, URL: c.URL}, client.GetHistorySize(), term.PastSize)
}

type historyExport struct {
	What   string   `arg:"" enum:"readings,sessions,causes,events" help:"What to print: readings, sessions, causes or events."`
	When   string   `arg:"" optional:"" default:"24h" help:"Time span, as for gpuwhy past; the last 24 hours by default."`
	GPU    []string `placeholder:"GPU" help:"A GPU, by index or UUID; repeatable, all by default."`
	User   string   `help:"Only sessions of this user; all by default."`
	Kind   []string `placeholder:"KIND" help:"Only events of this kind, such as xid; repeatable, all by default."`
	Metric []string `placeholder:"METRIC" help:"Only this reading, such as power_draw; repeatable, all readings of GPUs by default."`
	Tier   string   `placeholder:"TIER" words:"@tiers" help:"Resolution of readings: raw, 1m, 15m or 6h; by default the finest that covers the whole span."`
	TZ     string   `name:"tz" placeholder:"ZONE" help:"Time zone for times without one; this machine's by default."`
	JSON   bool     `name:"json" help:"Print JSON instead of CSV."`
	URL    string   `name:"url" placeholder:"URL" help:"Where gpuwhy is served, as for gpuwhy past."`
	askingFlags
}

func (c *historyExport) check() error {
	return first(c.askingFlags.check, func() error { return saysWhen(c.When) }, func() error { return oneOf("tier", c.Tier, "@tiers") })
}

// Run prints the past as it arrives.
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

// Run shrinks the database to the size of its content.
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
	end := env.notes.During("compacting the database", nil)
	defer end()
	if err := st.Compact(env.ctx); err != nil {
		return err
	}
	after, err := st.Size(env.ctx)
	if err != nil {
		return err
	}
	end()
	_, err = fmt.Fprintf(env.stdout, "%s took %s, and now takes %s.\n", term.Printable(where), explain.Size(before.Bytes), explain.Size(after.Bytes))
	return err
}

type historyCheck struct{ databaseFlags }

// Run checks the database for damage. It does not disturb a gpuwhy that writes to it.
func (c historyCheck) Run(env *environment) (err error) {
	end := env.notes.During("checking the database", nil)
	defer end()
	st, where, err := c.keptPast(env.ctx)
	if err != nil {
		return c.damage(env, err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Check(env.ctx); err != nil {
		end()
		return c.damage(env, err)
	}
	size, err := st.Size(env.ctx)
	if err != nil {
		return err
	}
	end()
	_, err = fmt.Fprintf(env.stdout, "%s is sound: %s in %d rows.\n", term.Printable(where), explain.Size(size.Bytes), rowsOf(size))
	return err
}

// Fails says when the command ends with status 1.
func (historyCheck) Fails() string { return "the database is damaged" }

// damage prints the damage, and returns what to do.
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
		advice.Try = "save what is readable with the program sqlite3 (sqlite3 " + c.historyFile() + " .recover), then restart gpuwhy, " +
			"which sets the file aside and starts a new one"
	}
	return &advice
}

func rowsOf(size store.Size) (rows int64) {
	for _, t := range size.Tables {
		rows += t.Rows
	}
	return rows
}
