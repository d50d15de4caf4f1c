package scribe

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A client is a database in the other process.
type client struct {
	*remote
	Database
}

var _ Store = (*client)(nil)

func (c *client) ask(ctx context.Context, q *request) (*answer, error) {
	q.File = c.File
	a, err := c.call(ctx, q, c.Begun, func([]byte) error { return errors.New("scribe: items that nobody requested") })
	if a == nil {
		a = &answer{}
	}
	return a, err
}

// change asks for what changes the database. Once that is sent it takes as long as the disk does, as in this process: who asks
// for it must know whether it is done, and may not ask again before.
func (c *client) change(ctx context.Context, q *request) (*answer, error) {
	if ctx.Err() != nil {
		return &answer{}, context.Cause(ctx)
	}
	return c.ask(context.WithoutCancel(ctx), q)
}

// find yields what a query finds. read reads one.
func find[T any](ctx context.Context, c *client, kind call, q store.Query, read func(*decoder, *T)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		_, err := c.call(ctx, &request{Call: kind, File: c.File, Query: &q}, c.Begun, func(content []byte) error {
			var v T
			for d := (decoder{b: content}); len(d.b) > 0; {
				if read(&d, &v); d.err != nil {
					return d.err
				}
				if !yield(v, nil) {
					return errEnough
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(*new(T), err)
		}
	}
}

func readItem[T any](d *decoder, v *T) {
	if !d.known(v) {
		*v = *new(T)
		d.decode(reflect.ValueOf(v).Elem())
	}
}

// Write implements [store.Store].
func (c *client) Write(ctx context.Context, b *store.Batch) error {
	_, err := c.change(ctx, &request{Call: callBatch, Batch: b})
	return err
}

// Devices implements [store.Store].
func (c *client) Devices(ctx context.Context) ([]store.Device, error) {
	a, err := c.ask(ctx, &request{Call: callDevices})
	return a.Devices, err
}

// Rows implements [store.Store].
func (c *client) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	var values []store.Value // that are used again
	return find(ctx, c, callRows, q, func(d *decoder, row *store.Row) {
		d.row(row, values)
		if q.Reuse {
			values = row.Values
		}
	})
}

// Frames implements [store.Store].
func (c *client) Frames(ctx context.Context, q store.Query) iter.Seq2[store.Frame, error] {
	return find(ctx, c, callFrames, q, readItem[store.Frame])
}

// Sessions implements [store.Store].
func (c *client) Sessions(ctx context.Context, q store.Query) iter.Seq2[store.Session, error] {
	return find(ctx, c, callSessions, q, readItem[store.Session])
}

// Causes implements [store.Store].
func (c *client) Causes(ctx context.Context, q store.Query) iter.Seq2[store.Cause, error] {
	return find(ctx, c, callCauses, q, readItem[store.Cause])
}

// Events implements [store.Store].
func (c *client) Events(ctx context.Context, q store.Query) iter.Seq2[store.Event, error] {
	return find(ctx, c, callEvents, q, readItem[store.Event])
}

// Document implements [store.Store].
func (c *client) Document(ctx context.Context, name string) ([]byte, error) {
	a, err := c.ask(ctx, &request{Call: callDocument, Name: name})
	return a.Text, err
}

// Unsettled implements [store.Store].
func (c *client) Unsettled(ctx context.Context, tier store.Tier, before time.Time) ([]store.Bucket, error) {
	a, err := c.ask(ctx, &request{Call: callUnsettled, Tier: tier, Time: before})
	return a.Buckets, err
}

// Forget implements [store.Store].
func (c *client) Forget(ctx context.Context, r store.Retention, now time.Time) (more bool, err error) {
	a, err := c.change(ctx, &request{Call: callForget, Keep: r, Time: now})
	return a.More, err
}

// Size implements [store.Store].
func (c *client) Size(ctx context.Context) (store.Size, error) {
	a, err := c.ask(ctx, &request{Call: callSize})
	return a.Size, err
}

// Check implements [store.Store].
func (c *client) Check(ctx context.Context) error {
	_, err := c.ask(ctx, &request{Call: callCheck})
	return err
}

// Compact implements [store.Store].
func (c *client) Compact(ctx context.Context) error {
	_, err := c.change(ctx, &request{Call: callCompact})
	return err
}

// LastParcel implements [store.Outbox].
func (c *client) LastParcel(ctx context.Context) (number int64, parcels int, bytes int64, err error) {
	a, err := c.ask(ctx, &request{Call: callLastParcel})
	return a.Number, a.Count, a.Bytes, err
}

// Parcels implements [store.Outbox].
func (c *client) Parcels(ctx context.Context, parts store.Parts, most int) ([]store.Parcel, error) {
	a, err := c.ask(ctx, &request{Call: callParcels, Parts: parts, Most: most})
	return a.Parcels, err
}

// Repack implements [store.Outbox].
func (c *client) Repack(ctx context.Context, p store.Parcel) error {
	_, err := c.change(ctx, &request{Call: callRepack, Parcel: &p})
	return err
}

// Posted implements [store.Outbox].
func (c *client) Posted(ctx context.Context, numbers []int64) (parcels int, bytes int64, err error) {
	a, err := c.change(ctx, &request{Call: callPosted, List: numbers})
	return a.Count, a.Bytes, err
}

// Close closes the database there. The process stays.
func (c *client) Close() error {
	_, err := c.ask(context.Background(), &request{Call: callShut})
	return err
}
