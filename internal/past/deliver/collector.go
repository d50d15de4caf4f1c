package deliver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// CollectorConfig configures a Collector. Only Again has a default.
type CollectorConfig struct {
	Store     store.Store // of the past of all nodes
	Retention store.Retention
	JetStream jetstream.JetStream
	Stream    string // its name
	// NodeOf returns the node whose past arrives on a subject.
	NodeOf func(subject string) (string, error)
	// Own reports whether this program itself writes the past of a machine of that name into the store; nil: of no machine.
	Own func(node string) bool
	Log *slog.Logger
	Now func() time.Time
	// Place distinguishes the database from a copy of it, for example by machine and file name; empty for one on a server, which has its own identity.
	Place string
	// GivesWay makes Run end with [ErrElsewhere] if another database has recorded the fleet for minutes. Otherwise the collector waits for its turn.
	GivesWay bool
	// Again is how long a message stays with a silent collector before another one gets it; 0: 30 s.
	Again time.Duration
}

const (
	// messagesAtOnce and bytesAtOnce are how much is written in one transaction.
	messagesAtOnce, bytesAtOnce = 64, 4 << 20
	// again is the default of Again. Most connections return sooner. After longer, messages may be written twice, which does no harm.
	again = 30 * time.Second
	// writePatience is how long the store may take for one transaction.
	writePatience = time.Minute
	// waiting is how long a request to the stream waits for more messages.
	waiting = time.Second
	// tries is how often a collector tries to write a message that the store rejects while it accepts others.
	tries = 5
	// Each minute some of the data that is too old is deleted.
	forgetEvery, forgetParts = time.Minute, 100
	// mostNodes is for how many nodes refused messages are counted.
	mostNodes = 100_000
)

// A Collector writes what nodes deliver into a store. People know it as a recorder of the fleet, such as the command record. Any number of
// collectors share the work for one database. A fleet is recorded in one database at a time.
type Collector struct {
	cfg   CollectorConfig
	log   *slog.Logger
	codec *codec
	names names // of Run alone

	writing store.Caller // of the goroutine that writes

	mu     sync.Mutex
	state  CollectorState
	worked time.Time // when the newest messages were taken, or the newest transaction began

	durable string // the consumer of the database; empty where that is not known yet
}

// CollectorState is the state of a collector.
type CollectorState struct {
	Written uint64            // messages, since the program began
	Last    time.Time         // when some were written last; zero: never
	Old     uint64            // rows and frames that came too late to be kept
	Refused map[string]uint64 // messages that can't be read or written, by node
	Err     error             // of the last try, a [gpu.Advice] or one of the store; nil while all is well
	Since   time.Time         // when it began to fail
}

// NewCollector returns a collector that does nothing before [Collector.Run].
func NewCollector(cfg CollectorConfig) *Collector {
	cfg.Again = cmp.Or(cfg.Again, again)
	return &Collector{cfg: cfg, log: cfg.Log.With("part", "recorder"), codec: newCodec(), names: newNames(), state: CollectorState{Refused: map[string]uint64{}}}
}

// State returns the current state.
func (r *Collector) State() CollectorState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Refused = maps.Clone(s.Refused)
	return s
}

// Run writes until ctx ends. It retries after failures; messages wait in the stream meanwhile. The error is nil, except as [CollectorConfig.GivesWay] says.
func (r *Collector) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	forgetting, cancel := context.WithCancel(ctx)
	tasks.Go(func() { r.forgetAll(forgetting) })
	defer tasks.Wait()
	defer cancel()
	defer r.leave()
	var elsewhere time.Time // since when
	for fails := 0; ctx.Err() == nil; {
		err := r.take(ctx)
		if ctx.Err() != nil {
			break
		}
		r.tell(err)
		switch {
		case !errors.Is(err, ErrElsewhere):
			elsewhere = time.Time{}
		case elsewhere.IsZero():
			elsewhere = time.Now()
		case r.cfg.GivesWay && time.Since(elsewhere) > elsewhereFor:
			return err
		}
		if err == nil {
			fails = 0
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(firstPause<<min(fails, 10), longestPause)):
		}
		fails++
	}
	return nil
}

// take fetches messages and writes them, until something fails.
func (r *Collector) take(ctx context.Context) error {
	consumer, err := r.consumer(ctx) // a database that is away says so: nothing is taken then
	if err != nil {
		return err
	}
	if err := r.names.load(ctx, r.cfg.Store, r.cfg.Now()); err != nil {
		return err
	}
	r.tell(nil)
	for ctx.Err() == nil {
		some, err := consumer.Fetch(messagesAtOnce, jetstream.FetchMaxWait(waiting))
		if err != nil {
			return r.noStream(err)
		}
		var got []jetstream.Msg
		for m := range some.Messages() {
			got = append(got, m)
		}
		if err := some.Error(); err != nil && len(got) == 0 && ctx.Err() == nil {
			return r.noStream(err)
		}
		if err := r.record(ctx, got); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (r *Collector) noStream(err error) error {
	if err == nil {
		return nil
	}
	advice := &gpu.Advice{
		What: "the stream with the fleet's past can't be read", Err: err,
		Try: "check that the NATS servers run and have a quorum, and that a hub runs, which creates the stream; the past waits meanwhile",
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		advice.What = "the NATS servers have no stream with the fleet's past"
		advice.Try = "start a hub, which creates it, or check that the credentials belong to this fleet"
	}
	return advice
}

// A taken message is one that can be read.
type taken struct {
	jetstream.Msg
	node   string
	number int64
	batch  *store.Batch
	wait   bool // under which name it is kept can't be said yet
}

// record writes messages, and acknowledges them to the stream.
func (r *Collector) record(ctx context.Context, got []jetstream.Msg) error {
	if len(got) == 0 {
		return nil
	}
	defer r.hold(got)()
	var all []taken
	for _, m := range got {
		node, err := r.cfg.NodeOf(m.Subject())
		if err == nil {
			var t taken
			switch t, err = r.read(m, node); {
			case t.wait:
				_ = m.NakWithDelay(claimPause)
				continue
			case err == nil:
				all = append(all, t)
				continue
			case faultOfStore(err): // what it is called can't be kept now
				for i := range got {
					_ = got[i].Nak()
				}
				return err
			}
		}
		r.refuse(node, err)
		_ = m.Term() // else it comes again, and is refused again
	}
	for len(all) > 0 {
		n, bytes := 0, 0
		for n < len(all) && (n == 0 || bytes+len(all[n].Data()) <= bytesAtOnce) {
			bytes += len(all[n].Data())
			n++
		}
		if err := r.write(ctx, all[:n]); err != nil {
			for i := range all {
				_ = all[i].Nak() // else it comes again after a while
			}
			return err
		}
		all = all[n:]
	}
	return nil
}

// hold keeps messages from going to another collector until release is called, or a transaction is stuck.
func (r *Collector) hold(got []jetstream.Msg) (release func()) {
	r.works()
	ctx, cancel := context.WithCancel(context.Background())
	var holding sync.WaitGroup
	holding.Go(func() {
		often := time.NewTicker(r.cfg.Again / 3)
		defer often.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-often.C:
			}
			if r.idle() > writePatience+r.cfg.Again { // the store does not return in its time
				return
			}
			for _, m := range got {
				_ = m.InProgress() // of one that is written it is an error, and without a connection the message comes again
			}
		}
	})
	return func() { cancel(); holding.Wait() }
}

func (r *Collector) works() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worked = time.Now()
}

func (r *Collector) idle() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.worked)
}

// read turns a message into a batch.
func (r *Collector) read(m jetstream.Msg, node string) (t taken, err error) {
	number, err := strconv.ParseInt(m.Headers().Get(headerNumber), 10, 64)
	if err != nil || number <= 0 {
		return t, fmt.Errorf("%w: it has no number", ErrUnreadable)
	}
	read, err := r.codec.unpack(m.Data())
	if err != nil {
		return t, err
	}
	b, err := read.read(node, number, r.cfg.Now()) // before a name is decided by what can't be
	if err != nil {
		return t, err
	}
	name, err := r.name(read, node)
	if err != nil || name.wait {
		return taken{wait: name.wait}, err
	}
	if name.node != node {
		read.Node = name.node
		if b, err = read.read(name.node, number, r.cfg.Now()); err != nil {
			return t, err
		}
	}
	r.leaveOut(b)
	return taken{m, node, number, b, false}, nil
}

// leaveOut leaves out data that would be deleted at once. It also bounds how many partitions a node can cause.
func (r *Collector) leaveOut(b *store.Batch) {
	now, old := r.cfg.Now(), uint64(0)
	rows := b.Rows[:0]
	for i := range b.Rows {
		if b.Rows[i].Time.Add(b.Rows[i].Tier.Span()).Before(r.cfg.Retention.Cutoff(b.Rows[i].Tier, now)) {
			old++
			continue
		}
		rows = append(rows, b.Rows[i])
	}
	b.Rows = rows
	frames := b.Frames[:0]
	for _, f := range b.Frames {
		if f.Time.Before(r.cfg.Retention.Cutoff(store.Raw, now)) {
			old++
			continue
		}
		frames = append(frames, f)
	}
	b.Frames = frames
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Old += old
}

// write writes messages in one transaction or, if the store rejects one of them, each on its own.
func (r *Collector) write(ctx context.Context, all []taken) error {
	together := store.Batch{Delivered: true}
	slices.SortStableFunc(all, func(a, b taken) int { return cmp.Compare(a.number, b.number) }) // as it happened on each node
	for i := range all {
		join(&together, all[i].batch)
	}
	err := r.store(ctx, &together)
	if err == nil {
		for i := range all {
			_ = all[i].Ack() // else it comes again, and changes nothing
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state.Written, r.state.Last = r.state.Written+uint64(len(all)), r.cfg.Now()
		return nil
	}
	if ctx.Err() != nil || faultOfStore(err) {
		return err
	}
	if len(all) > 1 {
		for i := range all {
			if err := r.write(ctx, all[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	if meta, failed := all[0].Metadata(); failed == nil && meta.NumDelivered < tries {
		_ = all[0].NakWithDelay(longestPause) // the reason may be another one
		r.log.Warn("can't write a part of the past; will try again", "node", all[0].node, "err", err)
		return nil
	}
	r.refuse(all[0].node, err)
	_ = all[0].Term()
	return nil
}

func (r *Collector) store(ctx context.Context, b *store.Batch) error {
	r.works()
	return r.writing.Call(ctx, writePatience, func(ctx context.Context) error { return r.cfg.Store.Write(ctx, b) })
}

// faultOfStore reports whether the store, not the data, is the cause of an error.
func faultOfStore(err error) bool {
	for _, known := range []error{
		store.ErrFull, store.ErrReadOnly, store.ErrCorrupt, store.ErrLocked, store.ErrGone, store.ErrNewer, store.ErrBusy, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

func join(whole, b *store.Batch) {
	whole.Devices = append(whole.Devices, b.Devices...)
	whole.Rows = append(whole.Rows, b.Rows...)
	whole.Frames = append(whole.Frames, b.Frames...)
	whole.Sessions = append(whole.Sessions, b.Sessions...)
	whole.Causes = append(whole.Causes, b.Causes...)
	whole.Events = append(whole.Events, b.Events...)
}

// refuse counts a message that is not written, and logs it once for each node.
func (r *Collector) refuse(node string, err error) {
	r.mu.Lock()
	n, known := r.state.Refused[node]
	if known || len(r.state.Refused) < mostNodes {
		r.state.Refused[node] = n + 1
	}
	r.mu.Unlock()
	if !known {
		r.log.Warn("refusing a part of the past; logged once for each node", "node", node, "err", err)
	}
}

// tell updates the state, and logs when writing begins to fail and when it works again.
func (r *Collector) tell(err error) {
	r.mu.Lock()
	failed := r.state.Err != nil
	switch r.state.Err = err; {
	case err == nil:
		r.state.Since = time.Time{}
	case !failed:
		r.state.Since = r.cfg.Now()
	}
	r.mu.Unlock()
	switch {
	case err != nil && !failed:
		advice := gpu.AsAdvice(err)
		r.log.Warn("can't write the fleet's past; it waits in the stream", "err", err, "try", advice.Try)
	case err == nil && failed:
		r.log.Info("the fleet's past is being written again")
	}
}

// forgetAll makes the store delete what is too old, in parts. Of several collectors on one server, one does so at a time.
func (r *Collector) forgetAll(ctx context.Context) {
	every := time.NewTicker(forgetEvery)
	defer every.Stop()
	var forgetting store.Caller
	for told := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		for range forgetParts {
			more := false
			err := forgetting.Call(ctx, writePatience, func(ctx context.Context) error {
				is, err := r.cfg.Store.Forget(ctx, r.cfg.Retention, r.cfg.Now())
				if err == nil {
					more = is
				}
				return err
			})
			if err != nil && ctx.Err() == nil && !told {
				r.log.Warn("can't delete what is too old from the fleet's past for now", "err", err)
			}
			if told = err != nil; err != nil || !more {
				break
			}
		}
	}
}
