package deliver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// ErrElsewhere is the error of a collector whose fleet is recorded in another database. NATS itself enforces this: the stream allows one
// consumer at a time, which is named after the database, so that all messages go to the same database.
var ErrElsewhere = errors.New("the fleet's past is recorded in another database")

const (
	// group is the prefix of consumer names. All collectors of one database share one consumer. Earlier versions always called it
	// "recorders".
	group, formerGroup = "recorders-", "recorders"
	// deserted is how long the consumer of a database stays after its last collector asked for messages. After that, another database may take
	// over. Messages stay in the stream.
	deserted = 2 * time.Minute
	// elsewhereFor is how long a collector that gives way waits for the other database to be deserted.
	elsewhereFor = deserted + 30*time.Second
)

// JetStream's codes of a second consumer of a stream that allows one.
const (
	secondConsumer, sameFilter jetstream.ErrorCode = 10099, 10100
)

// consumerName is the name of the consumer of this collector's database.
func (r *Collector) consumerName(ctx context.Context) (string, error) {
	id, err := r.cfg.Store.Document(ctx, store.Identity)
	if err == nil && len(id) == 0 {
		if err = r.cfg.Store.Write(ctx, &store.Batch{Documents: map[string][]byte{store.Identity: []byte(rand.Text())}}); err == nil {
			id, err = r.cfg.Store.Document(ctx, store.Identity) // another collector may have been first
		}
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(append(id, 0), r.cfg.Place...))
	return group + hex.EncodeToString(sum[:8]), nil
}

// consumer returns the consumer of this collector's database. If the stream has another database's consumer, the error is [ErrElsewhere].
func (r *Collector) consumer(ctx context.Context) (jetstream.Consumer, error) {
	name, err := r.consumerName(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.durable = name
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	consumer := jetstream.ConsumerConfig{
		Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: r.cfg.Again, MaxAckPending: 64 * messagesAtOnce,
		InactiveThreshold: deserted, Description: "gpuwhy: the recorders that write the fleet's past into one database",
	}
	made, err := r.cfg.JetStream.CreateOrUpdateConsumer(ctx, r.cfg.Stream, consumer)
	if !isSecond(err) {
		return made, r.noStream(err)
	}
	// An earlier version left a consumer that never expires.
	if former, failed := r.cfg.JetStream.Consumer(ctx, r.cfg.Stream, formerGroup); failed == nil && ended(former.CachedInfo()) {
		if r.cfg.JetStream.DeleteConsumer(ctx, r.cfg.Stream, formerGroup) == nil {
			made, err = r.cfg.JetStream.CreateOrUpdateConsumer(ctx, r.cfg.Stream, consumer)
		}
	}
	if isSecond(err) {
		return nil, &gpu.Advice{
			What: "the past of this fleet is recorded in another database, and nothing is written to this one",
			Try: "use one database for everything that records the fleet: start 'gpuwhy serve --fleet-listen' with the --history postgres://… of 'gpuwhy record', " +
				"or with --history off, and every 'gpuwhy record' with the same --history",
			Err: ErrElsewhere,
		}
	}
	return made, r.noStream(err)
}

// isSecond reports whether the stream has the consumer of another database.
func isSecond(err error) bool {
	refused, ok := errors.AsType[jetstream.JetStreamError](err)
	if !ok || refused.APIError() == nil {
		return false
	}
	code := refused.APIError().ErrorCode
	return code == secondConsumer || code == sameFilter
}

// unused reports whether nobody fetches messages from a consumer.
func unused(c *jetstream.ConsumerInfo) bool { return c.NumWaiting == 0 && c.NumAckPending == 0 }

// ended reports whether all collectors of a consumer are gone. Anything one of them was still writing was delivered long ago.
func ended(c *jetstream.ConsumerInfo) bool {
	return c.NumWaiting == 0 && (c.NumAckPending == 0 || c.Delivered.Last != nil && c.TimeStamp.Sub(*c.Delivered.Last) > deserted)
}

// leave lets another database record the fleet at once, unless this database has another collector. Unwritten messages stay in the stream.
func (r *Collector) leave() {
	r.mu.Lock()
	name := r.durable
	r.mu.Unlock()
	if name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if c, err := r.cfg.JetStream.Consumer(ctx, r.cfg.Stream, name); err == nil && unused(c.CachedInfo()) {
		_ = r.cfg.JetStream.DeleteConsumer(ctx, r.cfg.Stream, name) // else it goes by itself, later
	}
}
