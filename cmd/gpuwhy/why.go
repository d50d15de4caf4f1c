package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

type whyCommand struct {
	GPU     string `arg:"" optional:"" help:"One GPU, by index or UUID; all by default."`
	JSON    bool   `name:"json" help:"Print what /api/gpu/why answers."`
	Verbose bool   `short:"v" env:"-" help:"Show every cause, with its evidence and what helps."`
	Watch   bool   `help:"Keep running, and print each new answer until interrupted."`
	URL     string `name:"url" placeholder:"URL" help:"Where gpuwhy is served; by default, what --listen and --base-path say. If nothing listens there, the command reads the GPUs itself."`
	readingFlags
	clientFlags
}

func (c *whyCommand) logger(w io.Writer) *slog.Logger { return c.brief(w) }

func (c *whyCommand) check() error { return first(c.readingFlags.check, c.clientFlags.check) }

// said is one answer: the parts that every answer has, and the whole.
type said struct {
	Timestamp string // of the readings, different for each snapshot
	Source    string
	contract.Layers
	Why    string
	Causes []contract.Cause
	GPUs   []contract.GPUWhy // nil if it is about one
	whole  any
}

func sayAll(w *contract.Why) said {
	return said{w.Timestamp, w.Source, w.Layers, w.Why, w.Causes, w.GPUs, w}
}

func sayOne(w *contract.OneWhy) said {
	return said{w.Timestamp, w.Source, w.Layers, w.Why, w.Causes, nil, w}
}

// An answerer waits for the next answer, or for the first if it does not exist yet.
type answerer func() (said, error)

// Run prints why the fans run. If nothing can be read, it prints why and fails.
func (c whyCommand) Run(env *environment) error {
	ask, err := c.server(env)
	if err == nil {
		err = c.tell(env, ask)
	}
	if !errors.Is(err, client.ErrNobody) || c.URL != "" {
		return err
	}
	inputs, err := c.target().inputs(env.log)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.stderr, "gpuwhy: no gpuwhy is running here: the answer is from a few seconds of this command's own readings")
	r := reading.NewReader(env.ctx, inputs, ownInterval, c.Deadline, env.log)
	return errors.Join(c.tell(env, c.ownReadings(env, r, app.MonitorOf(inputs, c.name()))), r.Close())
}

// tell prints the first answer, and with --watch those after it.
func (c whyCommand) tell(env *environment, ask answerer) error {
	end := env.notes.During("reading", nil)
	first, err := ask()
	end()
	switch {
	case err != nil:
		return err
	case c.Watch:
		return c.watch(env, ask, first)
	default:
		return c.print(env, first)
	}
}

// print prints one answer. It fails if the answer is that nothing can be read.
func (c whyCommand) print(env *environment, s said) error {
	answer, show := &term.Answer{Source: s.Source, Layers: s.Layers, Causes: s.Causes, GPUs: s.GPUs}, term.Brief
	if c.Verbose {
		show = term.Evidence
	}
	var err error
	if c.JSON {
		err = term.JSON(env.stdout, s.whole)
	} else {
		err = show(term.ScreenOf(env.stdout), answer)
	}
	if err != nil {
		return err
	}
	// Without a GPU, the answer is about the machine, and this comes last.
	if len(s.Causes) > 0 && explain.Kind(s.Causes[0].Kind) == explain.NoDevice {
		fmt.Fprintln(env.stderr, "gpuwhy: "+term.Printable(s.Causes[0].Sentence))
		return errQuiet
	}
	return nil
}

// watch prints each answer that differs from the previous one on its own line, until the
// context ends. As JSON, the answer of each snapshot differs. It prints a failure once, and retries.
func (c whyCommand) watch(env *environment, ask answerer, next said) error {
	if banner := term.Banner(gpu.KindOf(next.Source)); banner != "" && !c.JSON {
		if _, err := fmt.Fprintln(env.stdout, banner); err != nil {
			return err
		}
	}
	var before said
	failed := ""
	for env.ctx.Err() == nil {
		var err error
		switch {
		case c.JSON && next.Timestamp != before.Timestamp:
			err = term.JSONLine(env.stdout, next.whole)
		case !c.JSON && next.Headline != before.Headline:
			_, err = fmt.Fprintf(env.stdout, "%s  %s\n", term.Clock(next.Timestamp), term.Printable(next.Headline))
		}
		if err != nil {
			return err
		}
		before = next
		answer, err := ask()
		if err == nil {
			next, failed = answer, ""
		} else if env.ctx.Err() == nil && err.Error() != failed {
			failed = err.Error()
			tell(env.stderr, err)
		}
	}
	return nil
}

// How often gpuwhy is asked with --watch, and how long the first reading may take.
const (
	askEvery   = time.Second
	askPatient = 5 * time.Second
)

// server returns an answerer that asks a running gpuwhy.
func (c whyCommand) server(env *environment) (answerer, error) {
	server, err := c.client(c.URL, client.Options{Retry: askPatient, Flag: "--url"})
	if err != nil {
		return nil, err
	}
	next := time.After(0)
	return func() (said, error) {
		select {
		case <-next:
		case <-env.ctx.Done():
			return said{}, context.Cause(env.ctx)
		}
		next = time.After(askEvery)
		if c.GPU == "" {
			return say(env.ctx, server, client.GetWhy(), sayAll)
		}
		return say(env.ctx, server, client.GetWhyOfOne(c.GPU), sayOne)
	}, nil
}

func say[A any](ctx context.Context, server *client.Client, call client.Call[A], form func(*A) said) (said, error) {
	answer, err := client.Do(ctx, server, call)
	if p, ok := errors.AsType[*client.Problem](err); ok {
		err = fmt.Errorf("%s: %s", p.Line, term.Printable(p.Detail))
	}
	if err != nil {
		return said{}, err
	}
	return form(answer), nil
}

// The time between own readings, and how many of them the first answer needs.
const (
	ownInterval = time.Second
	ownReadings = 4
)

// ownReadings returns an answerer that reads the machine itself.
func (c whyCommand) ownReadings(env *environment, r *reading.Reader, m contract.Monitor) answerer {
	left := ownReadings
	return func() (said, error) {
		for {
			f, err := r.Next(env.ctx)
			if err != nil {
				return said{}, err
			}
			if left--; left <= 0 || f.Nodes().Totals().Devices == 0 && !f.Answer().NoCard() {
				return c.said(m, f)
			}
		}
	}
}

// said makes an answer from own readings, in the form of a server's answer.
func (c whyCommand) said(m contract.Monitor, f *insight.Fleet) (said, error) {
	if c.GPU == "" || f.Nodes().Totals().Devices == 0 {
		w := contract.NewWhy(m, f)
		return sayAll(&w), nil
	}
	for p := range f.Parts() {
		if strings.EqualFold(p.Device.UUID, c.GPU) || !m.Several && strconv.Itoa(p.Device.Index) == c.GPU {
			w := contract.NewOneWhy(p)
			return sayOne(&w), nil
		}
	}
	if _, err := strconv.Atoi(c.GPU); m.Several && err == nil {
		return said{}, &gpu.Advice{What: "there are several nodes, and each may have a GPU " + c.GPU, Try: "name the GPU by its UUID: gpuwhy snapshot lists all"}
	}
	return said{}, &gpu.Advice{What: "there is no GPU " + strconv.Quote(c.GPU) + nearest.Hint(c.GPU, namesOf(f)), Try: "gpuwhy snapshot lists all"}
}

// namesOf are the names by which people may mean a device: its UUID and its product's name.
func namesOf(f *insight.Fleet) (names []string) {
	for d := range f.Nodes().Devices() {
		names = append(names, d.UUID, d.Name)
	}
	return names
}

// Fails says when the command ends with status 1.
func (whyCommand) Fails() string { return "no GPU can be read, or there is no such GPU" }
