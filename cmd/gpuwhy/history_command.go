package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/store"
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
}

// Run prints how much is kept.
func (c historySize) Run(env *environment) error {
	answer, err := askPast(env.ctx, env, c.URL, "/api/gpu/history/size", typeJSON)
	if err != nil {
		return err
	}
	size, err := decoded[contract.PastSize](answer)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return term.JSON(env.stdout, size)
	}
	return term.PastSize(env.stdout, size)
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
}

// Run prints what is kept, as it comes.
func (c historyExport) Run(env *environment) error {
	path := map[string]string{
		"readings": "/api/gpu/readings", "sessions": "/api/gpu/sessions", "causes": "/api/gpu/causes", "events": "/api/events",
	}[c.What]
	q := url.Values{
		"from": {c.When}, "gpu": c.GPU, "user": given(c.User), "kind": c.Kind, "metric": c.Metric, "tier": given(c.Tier), "tz": {zoneAsked(c.TZ)},
	}
	for name, of := range map[string]string{"user": "sessions", "kind": "events", "metric": "readings", "tier": "readings"} {
		if len(q[name]) > 0 && c.What != of {
			return usageError{fmt.Errorf("--%s is about %s, not %s", name, of, c.What)}
		}
	}
	contentType := typeJSON
	if !c.JSON {
		contentType = typeCSV
		q.Set("format", "csv")
	}
	answer, err := askPast(env.ctx, env, c.URL, path+"?"+q.Encode(), contentType)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(env.stdout)
	_, err = io.Copy(out, answer)
	if err = errors.Join(err, out.Flush(), answer.Close()); err != nil {
		return fmt.Errorf("what is printed is not all: %w", err)
	}
	return nil
}

type historyCompact struct{}

// Run makes the database as small as what is in it.
func (historyCompact) Run(env *environment) (err error) {
	st, where, err := env.cfg.ownedPast(env.ctx, env.log)
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

type historyCheck struct{}

// Run says whether the database is sound. It harms no gpuwhy that writes to it.
func (c historyCheck) Run(env *environment) (err error) {
	st, where, err := env.cfg.keptPast(env.ctx)
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
func (historyCheck) damage(env *environment, err error) error {
	if !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	advice := gpu.AsAdvice(err)
	if advice.Err != nil {
		for line := range strings.Lines(advice.Err.Error()) {
			fmt.Fprintln(env.stdout, term.Printable(strings.TrimSpace(line)))
		}
	}
	if _, onServer := env.cfg.keepsHistory(); !onServer {
		advice.Try = "save what can be read of it with the program sqlite3 (sqlite3 " + env.cfg.historyFile() + " .recover), and start gpuwhy again, " +
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
