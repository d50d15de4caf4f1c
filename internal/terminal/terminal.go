// Package terminal is the live view of gpuwhy in a terminal, as gpuwhy top shows it: why the fans run, the GPUs, the processes on them, and the
// worst alert.
//
// A [Feed] brings what there is to show: [Server] from a running gpuwhy, [Own] from readings of this command. A Model keeps the newest of it and
// draws frames. Bubble Tea brings keys and sizes, and writes only the cells that have changed. Every text from outside passes through
// [term.Printable] on its way into a frame, so no name can move the cursor or turn the text around.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/gpuwhy/gpuwhy/client"
)

// A Feed brings what machines report.
type Feed interface {
	// Run sends messages until ctx ends, and survives failures: it sends them too. An error means that it can't go on.
	Run(ctx context.Context, send func(tea.Msg)) error
	// Look says which machine's GPUs and processes are shown. Any goroutine may call it.
	Look(node string)
}

// Options are what a view is made of.
type Options struct {
	Feed   Feed
	Server *client.Client // where the feed comes from, to act on alerts; nil: nowhere, and no action is offered
	// Past writes gpuwhy's answer to a question about the past; nil: there is none to ask.
	Past func(context.Context, client.Request, io.Writer) error
	// From is the time at which the view begins in the past, or with To a span; zero: it begins now.
	From, To time.Time
	Machine  string         // the machine whose past is shown; empty: the one that is selected, or the only one
	Zone     *time.Location // of all times
	Now      func() time.Time
}

// fps is how often a frame may be written, a second. More would only wake the processor.
const fps = 15

// Run shows the view in the terminal of the given output until somebody quits, or ctx ends. It gives the terminal back as it was, also after a
// panic, which it returns as an error.
func Run(ctx context.Context, o *Options, out io.Writer, environ []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := tea.NewProgram(newModel(ctx, o), tea.WithOutput(out), tea.WithEnvironment(environ), tea.WithFPS(fps), tea.WithoutSignalHandler())
	ends := context.AfterFunc(ctx, func() { p.Send(leave{}) }) // as for a signal
	defer ends()
	ended := make(chan error, 1)
	go func() {
		err := o.Feed.Run(ctx, p.Send)
		if err != nil {
			p.Send(leave{})
		}
		ended <- err
	}()
	_, err := p.Run()
	stop()
	return errors.Join(err, <-ended)
}

// Print writes one frame as plain text, for outputs that can't be drawn on: it waits until everything has been read once.
func Print(ctx context.Context, o *Options, out io.Writer, width int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := newModel(ctx, o)
	m.printed = true
	messages := make(chan tea.Msg)
	ended := make(chan error, 1)
	go func() {
		ended <- o.Feed.Run(ctx, func(msg tea.Msg) {
			select {
			case messages <- msg:
			case <-ctx.Done():
			}
		})
	}()
	if m.past != nil {
		m.Update(m.begin()())
		if m.past.err != nil {
			stop()
			return errors.Join(m.past.err, <-ended)
		}
	}
	for !m.complete() {
		select {
		case msg := <-messages:
			m.Update(msg)
			if m.lost != nil {
				stop()
				return errors.Join(m.lost, <-ended)
			}
		case err := <-ended:
			return firstError(err, context.Cause(ctx))
		}
	}
	stop()
	m.width, m.height = width, m.tall()
	text := strings.TrimRight(ansi.Strip(m.View().Content), " \n")
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return errors.Join(err, <-ended)
		}
	}
	return <-ended
}

// firstError is the first of two errors that there is.
func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
