package deliver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

const (
	// atOnce is how many parcels are read, and removed, together. They are sent one at a time to keep their order. Even if an
	// answer takes 20 ms, a day's parcels of a node are sent in minutes.
	atOnce = 16
	// patience is how long the stream may take for one parcel.
	patience = 10 * time.Second
	// The pause doubles with each failure. Part of it is random, so that not all nodes return at once.
	firstPause, longestPause = time.Second, time.Minute
	// goodbye is how long sending may take at the end.
	goodbye = 2 * time.Second
	// headerNumber is where a message has the number of its parcel.
	headerNumber = "Gpuwhy-Number"
)

// State is the state of the delivery.
type State struct {
	Waiting int // parcels
	Bytes   int64
	Sent    uint64    // parcels, since the program started
	Last    time.Time // when the stream last accepted one; zero: never
	Lost    Lost
	Err     error     // of the last attempt, a [gpu.Advice]; nil if it worked
	Since   time.Time // when it began to fail
}

// State returns the current state. It does not wait.
func (o *Outbox) State() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state
}

// Send sends parcels, oldest first, to their node's subject, until ctx ends. It removes parcels that the stream has stored, and retries
// the others. After ctx ends it sends the rest for at most two seconds.
func (o *Outbox) Send(ctx context.Context, js jetstream.JetStream, subject func(node string) string) {
	for fails := 0; ; {
		var again <-chan time.Time
		switch err := o.sendAll(ctx, js, subject); {
		case ctx.Err() != nil:
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
			_ = o.sendAll(last, js, subject) // what stays is sent the next time
			cancel()
			return
		case err != nil:
			pause := min(firstPause<<min(fails, 10), longestPause)
			again = time.After(pause/2 + rand.N(pause/2)) //nolint:gosec // no secret
			fails++
		default:
			fails = 0
		}
		more := o.more
		if again != nil {
			more = nil
		}
		select {
		case <-ctx.Done():
		case <-more:
		case <-again:
		}
	}
}

// sendAll sends everything that waits.
func (o *Outbox) sendAll(ctx context.Context, js jetstream.JetStream, subject func(node string) string) error {
	for {
		some, err := o.next(ctx)
		if err != nil || len(some) == 0 {
			o.tell(ctx, err)
			return err
		}
		sent := 0
		for i := range some {
			if err = send(ctx, js, subject(some[i].Node), &some[i]); err != nil {
				break
			}
			sent++
		}
		// What is not removed is sent again: the stream, or the collector, knows it then.
		removed := o.posted(context.WithoutCancel(ctx), some[:sent])
		o.note(func(s *State) {
			if s.Sent += uint64(sent); sent > 0 { //nolint:gosec // it is no less than 0
				s.Last = o.cfg.Now()
			}
		})
		if err = errors.Join(err, removed); err != nil {
			o.tell(ctx, err)
			return err
		}
	}
}

// idOf returns the message ID of a parcel, which is the same after a restart. IDs are shared by the whole stream: nobody who does not
// know the parcel's content must be able to guess its ID and block it.
func idOf(p *store.Parcel) string {
	sum := sha256.Sum256(p.Data)
	return p.Node + "/" + hex.EncodeToString(sum[:])
}

func send(ctx context.Context, js jetstream.JetStream, subject string, p *store.Parcel) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	number := strconv.FormatInt(p.Number, 10)
	msg := &nats.Msg{Subject: subject, Data: p.Data, Header: nats.Header{headerNumber: {number}}}
	_, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(idOf(p)), jetstream.WithRetryAttempts(0))
	return err
}

// tell updates the state, and logs when sending begins to fail and when it works again.
func (o *Outbox) tell(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	var failed, well bool
	o.note(func(s *State) {
		switch {
		case err == nil:
			well = s.Err != nil
			s.Err, s.Since = nil, time.Time{}
		case s.Err == nil:
			failed = true
			s.Err, s.Since = undelivered(err), o.cfg.Now()
		default:
			s.Err = undelivered(err)
		}
	})
	switch {
	case failed:
		o.log.Warn("can't deliver the past to the fleet; it waits here", "err", err)
	case well:
		o.log.Info("the past is being delivered to the fleet again")
	}
}

// JetStream's codes for a stream that accepts nothing.
const (
	storeFailed   jetstream.ErrorCode = 10077 // a limit of the stream
	noResources   jetstream.ErrorCode = 10023
	notAvailable  jetstream.ErrorCode = 10008 // no quorum
	storageFailed jetstream.ErrorCode = 10047
)

// undelivered returns why the past is not delivered, and what to do. The past waits in the outbox meanwhile.
func undelivered(err error) error {
	advice := &gpu.Advice{What: "the past is not delivered to the fleet", Try: "it waits here, and is sent once that works again", Err: err}
	if kept, ok := errors.AsType[*gpu.Advice](err); ok { // of the store with the outbox
		return kept
	}
	var code jetstream.ErrorCode
	if refused, ok := errors.AsType[jetstream.JetStreamError](err); ok && refused.APIError() != nil {
		code = refused.APIError().ErrorCode
	}
	switch {
	case code == storeFailed, code == noResources, code == storageFailed:
		advice.What = "the stream of the past is full: recorders don't empty it, or not fast enough"
		advice.Try = "start 'gpuwhy record', or more of them, or check their database; the past waits here"
	case code == notAvailable, errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		advice.What = "the NATS servers don't accept the past: they have no stream for it, or no quorum"
		advice.Try = "check that a hub runs, which creates the stream, and that most NATS servers run; the past waits here"
	case errors.Is(err, nats.ErrMaxPayload):
		advice.What = "the NATS server accepts no messages as long as those of the past"
		advice.Try = "set its max_payload to at least 1MB"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		advice.What = "the NATS servers don't confirm that they have stored the past"
		advice.Try = "check that they run and have a quorum, and that the credentials let this node publish; the past waits here"
	}
	return advice
}
