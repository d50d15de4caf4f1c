package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/release"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// askPast writes the answer about the past from the gpuwhy at an address. If that is empty, it asks the gpuwhy with these settings or,
// if none is running, reads its database.
func (f *askingFlags) askPast(env *environment, address string, question client.Request, w io.Writer) error {
	c, err := f.client(address, client.Options{Flag: "--url"})
	if err != nil {
		return err
	}
	err = legible(c.Copy(env.ctx, w, question))
	if address != "" || !errors.Is(err, client.ErrNobody) {
		return err
	}
	st, where, failed := f.keptPast(env.ctx)
	if failed != nil {
		advice := gpu.AsAdvice(failed)
		advice.What = "no gpuwhy answers at " + c.Address() + ", and " + advice.What
		advice.Try += "; or give the address of a running gpuwhy with --url"
		return &advice
	}
	fmt.Fprintf(env.stderr, "gpuwhy: no gpuwhy answers at %s: the answer is from %s\n", term.Printable(c.Address()), term.Printable(where))
	permits := f.permits()
	answers := &history.Past{Store: permits.Store(st), Permits: permits, Keeps: f.retention, Now: time.Now, Interval: max(f.Interval, f.IdleInterval), Seldom: f.IdleInterval}
	offline := past.Site{
		Kit: serve.NewKit(serve.Settings{
			Monitor: contract.Monitor{Node: f.name(), Version: release.Version, Interval: f.Interval}, Hub: serve.Still{}, Clock: clock.Program(), Log: env.log,
		}),
		Past: answers, Sizes: &history.Sizes{Past: answers, Interval: f.Interval, Measured: true},
		Price: f.ElectricityPrice,
		Then:  func() (*insight.Stage, error) { return insight.NewStage(), nil },
	}
	err = offline.Answer(env.ctx, question.Path, question.Query, w)
	return errors.Join(err, st.Close())
}

// printed counts the bytes written.
type printed struct {
	io.Writer
	bytes atomic.Int64
}

func (p *printed) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	p.bytes.Add(int64(n))
	return n, err
}

// printPast prints an answer about the past as it arrives.
func (f *askingFlags) printPast(env *environment, address string, question client.Request) error {
	lines := bufio.NewWriter(env.stdout)
	out := &printed{Writer: lines}
	if !term.ScreenOf(env.stdout).Terminal { // on a terminal, the answer itself shows how far it is
		defer env.notes.During("reading the past", func(time.Duration) string { return explain.Size(out.bytes.Load()) })()
	}
	err := errors.Join(f.askPast(env, address, question, out), lines.Flush())
	if err != nil && out.bytes.Load() > 0 {
		err = fmt.Errorf("the output is incomplete: %w", err)
	}
	return err
}
