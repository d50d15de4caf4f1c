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
	// atOnce is how many parcels are read, and removed, together. One at a time is on its way, so that they keep their order: even
	// where an answer takes 20 ms, what a node has told in a day is sent in minutes.
	atOnce = 16
	// patience is how long a stream may take for one parcel.
	patience = 10 * time.Second
	// The pause after a failure doubles with each; a part of it is left to chance, so that not all nodes come back at once.
	firstPause, longestPause = time.Second, time.Minute
	// goodbye is how long sending may take at the end.
	goodbye = 2 * time.Second
	// headerNumber is where a message has the number of its parcel.
	headerNumber = "Gpuwhy-Number"
)

// State says how the delivery does.
type State struct {
	Waiting int // parcels
	Bytes   int64
	Sent    uint64    // parcels, since the program began
	Last    time.Time // when the stream took one last; zero: never
	Lost    Lost
	Err     error     // of the last try, a [gpu.Advice]; nil while all is well
	Since   time.Time // when it began to fail
}

// State returns how it does now. It waits for nobody.
func (o *Outbox) State() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state
}

// Send sends parcels, the oldest first, to the subject of their node, until ctx ends. What the stream has is removed; what it does not
// take is tried again. At the end it sends what waits for two seconds at most.
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

// sendAll sends all that waits.
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

// idOf is the ID of the message of a parcel, the same after a restart. IDs hold for all of the stream: nobody who does not know
// what is in a parcel shall guess it and take its place.
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

// tell notes how sending does, and logs when it begins to fail and when it is well again.
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
		o.log.Warn("the past can't be delivered to the fleet; it waits", "err", err)
	case well:
		o.log.Info("the past is delivered to the fleet again")
	}
}

// JetStream's codes of a stream that takes nothing.
const (
	storeFailed   jetstream.ErrorCode = 10077 // a limit of the stream
	noResources   jetstream.ErrorCode = 10023
	notAvailable  jetstream.ErrorCode = 10008 // no quorum
	storageFailed jetstream.ErrorCode = 10047
)

// undelivered says why the past is not delivered, and what to do. It waits in the outbox meanwhile.
func undelivered(err error) error {
	advice := &gpu.Advice{What: "the past is not delivered to the fleet", Try: "it waits here, and is sent when that works again", Err: err}
	if kept, ok := errors.AsType[*gpu.Advice](err); ok { // of the store with the outbox
		return kept
	}
	var code jetstream.ErrorCode
	if of, ok := errors.AsType[jetstream.JetStreamError](err); ok && of.APIError() != nil {
		code = of.APIError().ErrorCode
	}
	switch {
	case code == storeFailed, code == noResources, code == storageFailed:
		advice.What = "the stream of the past is full: recorders do not take it, or not fast enough"
		advice.Try = "start 'gpuwhy record', or more of them, or look at their database; the past waits here"
	case code == notAvailable, errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		advice.What = "nobody takes the past: the NATS servers have no stream for it, or no quorum"
		advice.Try = "see whether a hub runs, which makes the stream, and whether most NATS servers run; the past waits here"
	case errors.Is(err, nats.ErrMaxPayload):
		advice.What = "the NATS server takes no messages as long as those of the past"
		advice.Try = "set its max_payload to 1MB at least"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		advice.What = "the NATS servers do not say that they have the past"
		advice.Try = "see whether they run and have a quorum, and whether the credentials let this node publish; the past waits here"
	}
	return advice
}
