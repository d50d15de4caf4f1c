package terminal

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/reading"
)

// The messages of a feed.
type (
	// greeting is the first message of a connection.
	greeting struct {
		several  bool          // there are several machines, and it brings the updates of one of them: see [Feed.Look]
		interval time.Duration // between readings
	}
	// machines are all machines, the worst first, and the answer about all of them.
	machines struct {
		list  []client.Machine
		whole client.Layers
	}
	// update is the newest snapshot of one machine.
	update struct{ *client.Update }
	// recent is what the last minutes of some GPUs were.
	recent struct{ *client.Recent }
	// alerts are the alerts of all machines.
	alerts struct{ *client.Alerts }
	// lost says why nothing arrives any more. Whatever arrives later ends that.
	lost struct{ error }
	// notice is something to tell people once.
	notice string
)

// looked is the machine that somebody looks at.
type looked struct {
	mu   sync.Mutex
	node string
	news chan struct{} // holds one if node has changed
}

func newLooked() *looked { return &looked{news: make(chan struct{}, 1)} }

// Look implements [Feed].
func (l *looked) Look(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == node {
		return
	}
	l.node = node
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// machine is the machine that is looked at.
func (l *looked) machine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node
}

// Own is a [Feed] of readings that this command makes itself. It has no alerts.
type Own struct {
	reader   *reading.Reader
	monitor  contract.Monitor
	interval time.Duration
	*looked
}

// NewOwn returns a feed of what a reader reads. Run closes the reader.
func NewOwn(r *reading.Reader, m contract.Monitor, interval time.Duration) *Own {
	return &Own{r, m, interval, newLooked()}
}

// Run implements [Feed].
func (o *Own) Run(ctx context.Context, send func(tea.Msg)) error {
	send(greeting{o.monitor.Several, o.interval})
	send(notice("No gpuwhy runs here: these are this command's own readings, without alerts."))
	fleets := make(chan *insight.Fleet)
	read := make(chan error, 1)
	go func() {
		for {
			f, err := o.reader.Next(ctx)
			if err != nil {
				read <- err
				return
			}
			select {
			case fleets <- f:
			case <-ctx.Done():
			}
		}
	}()
	var newest *insight.Fleet
	for {
		select {
		case newest = <-fleets:
			whole := contract.NewSummary(o.monitor, newest, 0)
			send(machines{contract.NewMachines(newest, func(*insight.Moment) bool { return false }).Machines, whole.Layers})
			o.send(newest, send)
		case <-o.news:
			o.send(newest, send)
		case err := <-read:
			err = errors.Join(ignoreEnd(ctx, err), o.reader.Close())
			return ignoreEnd(ctx, err)
		}
	}
}

// send sends the machine that somebody looks at, or the only one.
func (o *Own) send(f *insight.Fleet, send func(tea.Msg)) {
	m, ok := f.Node(o.machine())
	if all := f.Moments(); !ok && len(all) == 1 {
		m, ok = all[0], true
	}
	if ok {
		u := contract.NewUpdate(m, nil)
		send(update{&u})
	}
}

// ignoreEnd is nil for an error that only says that ctx has ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// Server is a [Feed] from a running gpuwhy.
type Server struct {
	client *client.Client
	*looked
	ask chan struct{} // holds one if alerts and machines are to be asked for at once
}

// NewServer returns a feed from the gpuwhy of a client.
func NewServer(c *client.Client) *Server { return &Server{c, newLooked(), make(chan struct{}, 1)} }

// How long to wait before connecting again: at first, and at most. And how often alerts are asked for, though nobody reports a newer one: silences
// end without news.
const (
	waitFirst   = time.Second
	waitMost    = 15 * time.Second
	alertsEvery = 15 * time.Second
	fleetEvery  = 2 * time.Second // at least, for the list of machines
)

// Run implements [Feed].
func (s *Server) Run(ctx context.Context, send func(tea.Msg)) error {
	wait := waitFirst
	for ctx.Err() == nil {
		send(lost{s.follow(ctx, send, func() { wait = waitFirst })})
		select {
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // spreads the load
		case <-ctx.Done():
		}
		wait = min(2*wait, waitMost)
	}
	return nil
}

// follow sends what arrives over one connection, until it ends. connected is called once it works.
func (s *Server) follow(ctx context.Context, send func(tea.Msg), connected func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	stream, err := s.client.Dial(ctx, "")
	if err != nil {
		stop(nil)
		return err
	}
	defer stream.Close()
	var status client.GPUStatus
	m, err := stream.Next(ctx)
	if err == nil {
		err = m.Decode(&status)
	}
	if err != nil {
		stop(nil)
		return err
	}
	connected()
	several := status.Nodes != nil
	interval := time.Duration(status.Interval * float64(time.Second))
	send(greeting{several, interval})
	asked := make(chan error, 1)
	go func() {
		err := s.keepAsking(ctx, send, stream, several, interval)
		stop(err)
		asked <- err
	}()
	u := client.Message{Event: client.EventUpdate, Data: status.Snapshot}
	if several || string(status.Snapshot) == "null" {
		u, err = stream.Next(ctx)
	}
	for err == nil {
		switch u.Event {
		case client.EventUpdate:
			newest := new(client.Update)
			if err = u.Decode(newest); err == nil {
				send(update{newest})
			}
		case client.EventAlert, client.EventUsage:
			s.again()
		}
		if err == nil {
			u, err = stream.Next(ctx)
		}
	}
	stop(err)
	return firstError(<-asked, &gpu.Advice{What: "the connection to gpuwhy at " + s.client.Address() + " has ended", Try: "check that it runs", Err: err})
}

// again asks for alerts and machines at once.
func (s *Server) again() {
	select {
	case s.ask <- struct{}{}:
	default:
	}
}

// keepAsking asks for what the socket does not bring, and tells it which machine somebody looks at. Its error ends the connection.
func (s *Server) keepAsking(ctx context.Context, send func(tea.Msg), stream *client.Stream, several bool, interval time.Duration) error {
	every := alertsEvery
	if several {
		every = max(fleetEvery, interval)
	}
	timer := time.NewTicker(every)
	defer timer.Stop()
	s.again()
	following := ""
	if several { // nothing until somebody looks at one
		if err := stream.Send(ctx, client.EventSubscribe, "", client.Filter{Events: []string{client.EventAlert, client.EventUsage}}); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.ask:
		case <-s.news:
			// below
		}
		if node := s.machine(); several && node != "" && node != following {
			following = node
			if err := s.show(ctx, send, stream, node); err != nil {
				return ignoreEnd(ctx, err)
			}
		} else if !several && following == "" {
			following = "-"
			r, err := client.Do(ctx, s.client, client.GetRecent())
			if err != nil {
				return ignoreEnd(ctx, err)
			}
			send(recent{r})
		}
		if err := s.answers(ctx, send, several); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// show sends the newest of a machine, and subscribes to what follows.
func (s *Server) show(ctx context.Context, send func(tea.Msg), stream *client.Stream, node string) error {
	if err := stream.Send(ctx, client.EventSubscribe, "", client.Filter{Nodes: []string{node}}); err != nil {
		return err
	}
	u, err := client.Do(ctx, s.client, client.GetSnapshot(node))
	if err != nil {
		return err
	}
	send(update{u})
	gpus := make([]string, 0, len(u.GPUs))
	for i := range u.GPUs {
		gpus = append(gpus, u.GPUs[i].UUID)
	}
	if len(gpus) == 0 {
		return nil
	}
	r, err := client.Do(ctx, s.client, client.GetRecent(gpus...))
	if err != nil {
		return err
	}
	send(recent{r})
	return nil
}

func (s *Server) answers(ctx context.Context, send func(tea.Msg), several bool) error {
	list, err := client.Do(ctx, s.client, client.ListMachines())
	if err != nil {
		return err
	}
	var whole client.Layers
	if several {
		summary, err := client.Do(ctx, s.client, client.GetSummary())
		if err != nil {
			return err
		}
		whole = summary.Layers
	}
	send(machines{list.Machines, whole})
	a, err := client.Do(ctx, s.client, client.GetAlerts())
	if err != nil {
		send(notice("Alerts can't be read: " + words(err)))
		return nil
	}
	send(alerts{a})
	return nil
}

// words are what people read of an error.
func words(err error) string {
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		return advice.Text()
	}
	return err.Error()
}

// happened is an error without what to do about it.
func happened(err error) string {
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		return advice.What
	}
	return words(err)
}
