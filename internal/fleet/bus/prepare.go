package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Limits bound what the servers store. Zero leaves existing streams as they are, and means the default for new ones.
type Limits struct {
	NodeBytes   int64         // of one node's whole state; 1 MiB by default, the most that NATS carries in one message
	BucketBytes int64         // of all states; 1 GiB
	EventAge    time.Duration // how long events are kept; 7 days
	EventBytes  int64         // of all events; 256 MiB
	EventsNode  int64         // events of one node; 1,000, then the oldest are dropped
	PastBytes   int64         // of the past that no recorder has stored yet; 2 GiB
	PastNode    int64         // messages of one node; 10,000, then newer ones are refused
	Replicas    int           // 3 if the cluster has that many servers, otherwise 1
}

// The default limits.
var defaults = Limits{
	NodeBytes: 1 << 20, BucketBytes: 1 << 30, EventAge: 7 * 24 * time.Hour, EventBytes: 256 << 20, EventsNode: 1_000,
	PastBytes: 2 << 30, PastNode: 10_000,
}

const (
	// Within that time, a second message with the same ID in a stream counts as a duplicate. The time is short because senders
	// choose the length of the IDs that the server must remember. Hubs and recorders themselves recognize what they have
	// received.
	duplicates = 10 * time.Second
	checkPause = 10 * time.Second
	// prepareTries is how often Prepare tries a stream.
	prepareTries = 5
)

// LargestEvent is how many bytes an event may have, so that one node can't push out the events of others.
const LargestEvent = 64 << 10

// streams returns the streams that the servers must have. No stream lets a message remove others (roll-up), set its own
// expiry or delete, since a node could then remove another node's data. That is why jetstream's client does not create the
// bucket.
func (l *Limits) streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: BucketStream, Description: "gpuwhy: the newest whole state of each node", Subjects: []string{"$KV." + Bucket + ".>"},
			MaxMsgsPerSubject: 1, MaxBytes: l.BucketBytes, MaxMsgSize: int32(l.NodeBytes), Discard: jetstream.DiscardNew, AllowDirect: true,
			MaxMsgs: -1, MaxConsumers: -1, Duplicates: 2 * time.Minute,
		},
		{
			Name: EventStream, Description: "gpuwhy: events of nodes, such as alerts", Subjects: []string{AllEvents},
			MaxMsgsPerSubject: l.EventsNode, MaxBytes: l.EventBytes, MaxAge: l.EventAge, MaxMsgSize: LargestEvent, Duplicates: duplicates,
			Discard: jetstream.DiscardOld, AllowDirect: true, MaxMsgs: -1, MaxConsumers: -1,
		},
		{
			Name: PastStream, Description: "gpuwhy: the past of nodes, until a recorder has stored it", Subjects: []string{AllPast},
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			MaxMsgsPerSubject: l.PastNode, MaxBytes: l.PastBytes, MaxMsgSize: int32(l.NodeBytes), Duplicates: duplicates, MaxMsgs: -1, MaxConsumers: -1,
		},
	}
}

// Prepare creates the streams and the bucket, or changes them to fit the limits. Any number of hubs may do that at once. From
// then on the Bus checks them every ten seconds and reports problems in State. Errors are a [gpu.Advice].
func (b *Bus) Prepare(ctx context.Context, limits Limits) error {
	made := limits.or(defaults)
	for _, want := range made.streams() {
		if err := b.prepare(ctx, want, &limits); err != nil {
			b.Note(err)
			advice := *cmp.Or(explainStored(err), Explain(err))
			advice.Err = fmt.Errorf("prepare %s: %w", want.Name, err)
			return &advice
		}
	}
	b.Note(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() == nil && !b.checking {
		b.checking = true
		b.tasks.Go(b.checkAll)
	}
	return nil
}

func (l Limits) or(other Limits) Limits {
	return Limits{
		NodeBytes: cmp.Or(l.NodeBytes, other.NodeBytes), BucketBytes: cmp.Or(l.BucketBytes, other.BucketBytes),
		EventAge: cmp.Or(l.EventAge, other.EventAge), EventBytes: cmp.Or(l.EventBytes, other.EventBytes), EventsNode: cmp.Or(l.EventsNode, other.EventsNode),
		PastBytes: cmp.Or(l.PastBytes, other.PastBytes), PastNode: cmp.Or(l.PastNode, other.PastNode), Replicas: cmp.Or(l.Replicas, other.Replicas),
	}
}

// prepare creates one stream, or changes the existing one. It starts over if another hub was faster, perhaps with another
// number of replicas, and if no answer arrived, for example while servers elect a leader.
func (b *Bus) prepare(ctx context.Context, want jetstream.StreamConfig, limits *Limits) (err error) {
	for range prepareTries {
		err = b.tryPrepare(ctx, want, limits)
		again := errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, context.DeadlineExceeded) || codeOf(err) == codeNotAvailable
		if !again || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (b *Bus) tryPrepare(ctx context.Context, want jetstream.StreamConfig, limits *Limits) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Patience)
	defer cancel()
	stream, err := b.js.Stream(ctx, want.Name)
	switch {
	case err == nil:
		return b.update(ctx, stream.CachedInfo().Config, want, limits)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return err
	}
	return b.replicated(want, limits.Replicas, func(c jetstream.StreamConfig) error {
		_, err := b.js.CreateStream(ctx, c)
		return err
	})
}

// update changes a stream that is not as it must be.
func (b *Bus) update(ctx context.Context, is, want jetstream.StreamConfig, limits *Limits) error {
	next := is
	next.Subjects, next.Description, next.AllowRollup, next.AllowMsgTTL = want.Subjects, want.Description, false, false
	next.Duplicates, next.Discard, next.DiscardNewPerSubject, next.AllowDirect = want.Duplicates, want.Discard, want.DiscardNewPerSubject, want.AllowDirect
	if limits.NodeBytes != 0 {
		next.MaxMsgSize = want.MaxMsgSize
	}
	switch is.Name {
	case BucketStream:
		next.MaxMsgsPerSubject = 1
		next.MaxBytes = given(limits.BucketBytes, is.MaxBytes)
	case EventStream:
		next.MaxBytes, next.MaxMsgsPerSubject = given(limits.EventBytes, is.MaxBytes), given(limits.EventsNode, is.MaxMsgsPerSubject)
		next.MaxAge = cmp.Or(limits.EventAge, is.MaxAge)
	case PastStream:
		next.MaxBytes, next.MaxMsgsPerSubject = given(limits.PastBytes, is.MaxBytes), given(limits.PastNode, is.MaxMsgsPerSubject)
	}
	change := func(c jetstream.StreamConfig) error {
		_, err := b.js.UpdateStream(ctx, c)
		return err
	}
	if limits.Replicas == 0 && is.Replicas > 1 { // as the administrator of the cluster wants it
		if same(is, next) {
			return nil
		}
		return change(next)
	}
	if same(is, next) && is.Replicas == limits.Replicas {
		return nil
	}
	return b.replicated(next, limits.Replicas, func(c jetstream.StreamConfig) error {
		if same(is, c) && is.Replicas == c.Replicas {
			return nil
		}
		return change(c)
	})
}

func given(limit, is int64) int64 { return cmp.Or(limit, is) }

// same compares the settings that Prepare makes.
func same(a, b jetstream.StreamConfig) bool {
	return len(a.Subjects) == len(b.Subjects) && (len(a.Subjects) == 0 || a.Subjects[0] == b.Subjects[0]) && a.Description == b.Description &&
		a.AllowRollup == b.AllowRollup && a.AllowMsgTTL == b.AllowMsgTTL && a.Duplicates == b.Duplicates && a.Discard == b.Discard &&
		a.DiscardNewPerSubject == b.DiscardNewPerSubject && a.AllowDirect == b.AllowDirect && a.MaxMsgSize == b.MaxMsgSize &&
		a.MaxMsgsPerSubject == b.MaxMsgsPerSubject && a.MaxBytes == b.MaxBytes && a.MaxAge == b.MaxAge
}

// replicated does it with so many replicas; with none named, with three, or with one where the cluster has no three
// servers.
func (b *Bus) replicated(c jetstream.StreamConfig, replicas int, do func(jetstream.StreamConfig) error) error {
	if c.Replicas = replicas; replicas != 0 {
		return do(c)
	}
	if b.conn.ConnectedClusterName() == "" { // a server alone
		c.Replicas = 1
		return do(c)
	}
	c.Replicas = 3
	err := do(c)
	switch codeOf(err) {
	case codeReplicas, codeNoPeers:
		c.Replicas = 1
		return do(c)
	}
	return err
}

// checkAll checks the streams until Close.
func (b *Bus) checkAll() {
	timer := time.NewTimer(b.cfg.check)
	defer timer.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-timer.C:
		}
		b.note(&b.checked, b.checkOnce())
		timer.Reset(b.cfg.check/2 + rand.N(b.cfg.check)) //nolint:gosec // no secret
	}
}

// checkOnce returns an error if a stream is missing, or has no majority of its servers.
func (b *Bus) checkOnce() error {
	ctx, cancel := context.WithTimeout(b.ctx, b.cfg.Patience)
	defer cancel()
	for _, name := range []string{BucketStream, EventStream, PastStream} {
		stream, err := b.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		if info := stream.CachedInfo(); info.Cluster != nil && info.Config.Replicas > 1 && info.Cluster.Leader == "" {
			return jetstream.ErrNoStreamResponse
		}
	}
	return nil
}
