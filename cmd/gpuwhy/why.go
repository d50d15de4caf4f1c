package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/sampler"
)

type whyCommand struct {
	GPU   string `arg:"" optional:"" help:"One GPU, by index or UUID; all by default."`
	JSON  bool   `name:"json" help:"Print what /api/gpu/why answers."`
	Watch bool   `help:"Go on, and print each new answer, until interrupted."`
	URL   string `name:"url" placeholder:"URL" help:"Where gpuwhy is served; by default what --listen and --base-path say, and gpuwhy's own readings where nobody listens there."`
}

// said is one answer: in words, and as the API gives it.
type said struct {
	at     string // when the readings were made: another for each snapshot
	source string
	why    string
	causes []contract.Cause
	json   any
}

// An answerer waits for the next answer and returns it. The first comes as soon
// as there is one.
type answerer func(context.Context) (said, error)

// errNobody: no gpuwhy runs where one was looked for.
var errNobody = errors.New("nobody listens there")

// Run prints why. Where nothing can be read it says why not, and fails.
func (c whyCommand) Run(env *environment) error {
	ask := c.server(env)
	first, err := ask(env.ctx)
	if !errors.Is(err, errNobody) || c.URL != "" {
		return c.tell(env, ask, first, err)
	}
	own, closeOwn, err := c.ownReadings(env)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.stderr, "gpuwhy: no gpuwhy runs here: this is from a few seconds of readings of its own")
	first, err = own(env.ctx)
	return errors.Join(c.tell(env, own, first, err), closeOwn())
}

// tell prints the first answer, and those after it where it is to watch.
func (c whyCommand) tell(env *environment, ask answerer, first said, err error) error {
	if err != nil {
		return err
	}
	if c.Watch {
		return c.watch(env, ask, first)
	}
	return c.print(env, first)
}

// print writes one answer. It fails where the answer is that there is none.
func (c whyCommand) print(env *environment, s said) error {
	if c.JSON {
		if err := writeJSON(env.stdout, s.json); err != nil {
			return err
		}
	} else if err := writeWhy(env.stdout, s); err != nil {
		return err
	}
	for i := range s.causes {
		if c := &s.causes[i]; explain.Kind(c.Kind) == explain.NoDevice {
			fmt.Fprintln(env.stderr, "gpuwhy: "+printable(c.Sentence))
			return errQuiet
		}
	}
	return nil
}

// watch prints each answer that differs from the one before, until the context
// ends. What fails meanwhile is told once, and tried again.
func (c whyCommand) watch(env *environment, ask answerer, next said) error {
	if next.source == gpu.SourceSimulated && !c.JSON {
		if _, err := fmt.Fprintln(env.stdout, simulatedNote); err != nil {
			return err
		}
	}
	var before said
	failed := ""
	for env.ctx.Err() == nil {
		if err := c.printNews(env.stdout, before, next); err != nil {
			return err
		}
		before = next
		answer, err := ask(env.ctx)
		if err == nil {
			next, failed = answer, ""
		} else if env.ctx.Err() == nil && err.Error() != failed {
			failed = err.Error()
			tell(env.stderr, err)
		}
	}
	return nil
}

// printNews prints an answer on a line of its own if it differs from the one
// before: in JSON each snapshot's does.
func (c whyCommand) printNews(w io.Writer, before, next said) error {
	var err error
	switch {
	case c.JSON && next.at != before.at:
		err = json.NewEncoder(escaping{w}).Encode(next.json)
	case !c.JSON && next.why != before.why:
		_, err = fmt.Fprintf(w, "%s  %s\n", clock(next.at), printable(next.why))
	}
	return err
}

// clock is the time of day of a timestamp, here.
func clock(timestamp string) string {
	at, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return timestamp
	}
	return at.Local().Format(time.TimeOnly)
}

// writeWhy prints an answer for a terminal: the sentence, then each cause with
// what it rests on and what would stop it.
func writeWhy(w io.Writer, s said) error {
	var b strings.Builder
	if s.source == gpu.SourceSimulated {
		b.WriteString(simulatedNote + "\n")
	}
	b.WriteString(s.why + "\n")
	for i := range s.causes {
		c := &s.causes[i]
		fmt.Fprintf(&b, "\n%s\n", c.Sentence)
		fmt.Fprintf(&b, "  how sure: %s\n", c.Certainty)
		if c.Since != nil {
			fmt.Fprintf(&b, "  since: %s\n", clock(*c.Since))
		}
		for _, e := range c.Evidence {
			text := e.Text
			if e.Moment && e.At != nil {
				text = clock(*e.At)
			}
			fmt.Fprintf(&b, "  %s: %s\n", e.Name, text)
		}
		if c.Advice != "" {
			fmt.Fprintf(&b, "  what helps: %s\n", c.Advice)
		}
	}
	lines := strings.SplitAfter(b.String(), "\n")
	for _, line := range lines[:len(lines)-1] {
		if _, err := fmt.Fprintln(w, printable(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// How often a running gpuwhy is asked, and how long it may take, and how long
// it may be without a first reading.
const (
	askEvery   = time.Second
	askPatient = 5 * time.Second
)

// server asks a running gpuwhy.
func (c whyCommand) server(env *environment) answerer {
	base := c.URL
	if base == "" {
		base = ownURL(env.cfg.Listen, env.cfg.BasePath)
	}
	address := strings.TrimSuffix(base, "/") + "/api/gpu/why"
	if c.GPU != "" {
		address += "/" + url.PathEscape(c.GPU)
	}
	asked := false
	return func(ctx context.Context) (said, error) {
		begun := time.Now()
		for {
			if asked {
				if err := pause(ctx, askEvery); err != nil {
					return said{}, err
				}
			}
			asked = true
			s, again, err := fetchWhy(ctx, address, c.GPU != "")
			if !again || time.Since(begun) > askPatient {
				return s, err
			}
		}
	}
}

// fetchWhy asks once. again says that there will be an answer in a moment.
func fetchWhy(ctx context.Context, address string, one bool) (s said, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatient)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return said{}, false, usageError{fmt.Errorf("%q is no URL: %w", address, err)}
	}
	answer, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return said{}, false, fmt.Errorf("gpuwhy does not answer: %w: %w", errNobody, err)
	}
	if err != nil {
		return said{}, false, fmt.Errorf("gpuwhy does not answer: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	if err != nil {
		return said{}, false, fmt.Errorf("gpuwhy does not answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return said{}, answer.StatusCode == http.StatusServiceUnavailable, fmt.Errorf("%s: %s", answer.Status, detail(body))
	}
	if one {
		s, err = decodeWhy(body, func(w *contract.OneWhy) said { return said{w.Timestamp, w.Source, w.Why, w.Causes, w} })
	} else {
		s, err = decodeWhy(body, func(w *contract.Why) said { return said{w.Timestamp, w.Source, w.Why, w.Causes, w} })
	}
	if err != nil || s.why == "" {
		return said{}, false, &gpu.Advice{What: "what answers at " + address + " is not gpuwhy", Try: "give its address with --url", Err: err}
	}
	starting := len(s.causes) == 1 && explain.Kind(s.causes[0].Kind) == explain.Starting
	return s, starting, nil
}

func decodeWhy[T any](body []byte, as func(*T) said) (said, error) {
	var w T
	if err := json.Unmarshal(body, &w); err != nil {
		return said{}, err
	}
	return as(&w), nil
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Own readings: how far apart, and how many make the first answer. Some causes
// take a few seconds to be told from a passing moment.
const (
	ownInterval = time.Second
	ownReadings = 4
)

// ownReadings reads the GPUs itself. What it returns second ends it.
func (c whyCommand) ownReadings(env *environment) (answerer, func() error, error) {
	log := newLogger(env.stderr, env.cfg)
	in, err := newInputs(env.cfg, log)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(env.ctx)
	history := explain.NewHistory()
	var floors attribute.Floors
	read := make(chan *gpu.Snapshot)
	s := sampler.New(sampler.Config{
		Node: in.node, Interval: ownInterval, Deadline: env.cfg.Deadline,
		Sources: in.sources, Host: in.host, Notes: in.notes, Log: log,
		Publish: func(s *gpu.Snapshot) {
			s = floors.Note(s)
			in.reserve(s)
			history.Add(s)
			select {
			case read <- s:
			case <-ctx.Done():
			}
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	closeAll := func() error {
		cancel()
		return errors.Join(<-ended, in.close())
	}
	left := ownReadings
	return func(ctx context.Context) (said, error) {
		for {
			select {
			case snap := <-read:
				if left--; left <= 0 || len(snap.Devices) == 0 {
					return c.said(snap, history.Explain(snap))
				}
			case err := <-ended:
				ended <- err
				if err == nil {
					err = context.Cause(ctx)
				}
				return said{}, err
			}
		}
	}, closeAll, nil
}

// said turns our own answer into what a server would have said.
func (c whyCommand) said(snap *gpu.Snapshot, a explain.Answer) (said, error) {
	if c.GPU == "" || len(snap.Devices) == 0 {
		w := contract.NewWhy(contract.Monitor{Node: snap.Node, Source: snap.Source}, snap, &a)
		return said{w.Timestamp, w.Source, w.Why, w.Causes, w}, nil
	}
	i := slices.IndexFunc(snap.Devices, func(d gpu.Device) bool {
		return strings.EqualFold(d.UUID, c.GPU) || strconv.Itoa(d.Index) == c.GPU
	})
	if i < 0 {
		return said{}, &gpu.Advice{What: "there is no GPU " + strconv.Quote(c.GPU), Try: "gpuwhy snapshot lists all"}
	}
	w := contract.NewOneWhy(snap, &a.Devices[i])
	return said{w.Timestamp, w.Source, w.Why, w.Causes, w}, nil
}
