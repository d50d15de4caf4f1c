package scribe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
)

// A server is the other side: it does what calls ask for.
type server struct {
	*local
	log *slog.Logger

	mu    sync.Mutex
	begun map[string]uint64 // how often a database has begun anew
}

// bytesAtOnce bounds how much of a query's answer is gathered before it is sent.
const bytesAtOnce = 48 << 10

// converse answers the calls of one connection, until the other side closes it.
func (s *server) converse(conn io.ReadWriteCloser) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	requests := make(chan *request)
	go func() { // which sees the connection end while a call is under way
		defer cancel()
		defer close(requests)
		r := bufio.NewReaderSize(conn, 4<<10)
		for {
			_, b, err := readMessage(r, nil)
			if err != nil {
				return
			}
			q, d := &request{}, decoder{b: b}
			if d.decode(reflect.ValueOf(q).Elem()); d.err != nil {
				s.log.Error("a call can't be read", "err", d.err)
				return
			}
			select {
			case requests <- q:
			case <-ctx.Done():
				return
			}
		}
	}()
	w := &sender{w: conn}
	for q := range requests {
		a := s.answer(ctx, q, w)
		s.mu.Lock()
		a.Begun = s.begun[q.File]
		s.mu.Unlock()
		if w.answer(a) != nil {
			cancel() // nobody is there any more
			return
		}
	}
}

// answer does what a call asks for. A panic of a database is an error of that call.
func (s *server) answer(ctx context.Context, q *request, w *sender) (a *answer) {
	a = &answer{}
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("a call to the database panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			a = &answer{Err: failureOf(fmt.Errorf("%w: panic: %v", store.ErrGone, r))}
		}
	}()
	a.Err = failureOf(s.do(ctx, q, a, w))
	return a
}

func (s *server) do(ctx context.Context, q *request, a *answer, w *sender) (err error) {
	switch q.Call {
	case callTake:
		return s.Take(ctx)
	case callRead:
		a.Text, err = s.Read(q.Name)
		return err
	case callWrite:
		return s.Write(q.Name, q.Text)
	case callRemove:
		return s.Remove(q.Name)
	case callOther:
		a.Text, err = s.Other(q.Kind, q.File).Call(ctx, q.Name, q.Text)
		return err
	case callShut:
		if q.Kind != "" {
			return s.Other(q.Kind, q.File).Close()
		}
		return s.shut(q.File)
	}
	st, err := s.open(ctx, Database{File: q.File, Begun: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begun[q.File]++
	}})
	if err != nil || q.Call == callOpen {
		return err
	}
	return ask(ctx, st, q, a, w)
}

// ask asks an open database.
func ask(ctx context.Context, st *sqlite.Store, q *request, a *answer, w *sender) (err error) {
	switch q.Call {
	case callBatch:
		return st.Write(ctx, q.Batch)
	case callDevices:
		a.Devices, err = st.Devices(ctx)
	case callRows:
		q.Query.Reuse = true // a row is sent before the next one is read
		return sendAll(w, st.Rows(ctx, *q.Query))
	case callFrames:
		return sendAll(w, st.Frames(ctx, *q.Query))
	case callSessions:
		return sendAll(w, st.Sessions(ctx, *q.Query))
	case callCauses:
		return sendAll(w, st.Causes(ctx, *q.Query))
	case callEvents:
		return sendAll(w, st.Events(ctx, *q.Query))
	case callDocument:
		a.Text, err = st.Document(ctx, q.Name)
	case callUnsettled:
		a.Buckets, err = st.Unsettled(ctx, q.Tier, q.Time)
	case callForget:
		a.More, err = st.Forget(ctx, q.Keep, q.Time)
	case callSize:
		a.Size, err = st.Size(ctx)
	case callCheck:
		return st.Check(ctx)
	case callCompact:
		return st.Compact(ctx)
	case callLastParcel:
		a.Number, a.Count, a.Bytes, err = st.LastParcel(ctx)
	case callParcels:
		a.Parcels, err = st.Parcels(ctx, q.Parts, q.Most)
	case callRepack:
		return st.Repack(ctx, *q.Parcel)
	case callPosted:
		a.Count, a.Bytes, err = st.Posted(ctx, q.List)
	default:
		return fmt.Errorf("no call %d", q.Call)
	}
	return err
}

// A sender gathers what is sent.
type sender struct {
	w      io.Writer
	buffer []byte // with room for the header, if it has anything
}

// sendAll sends what a query finds, as long as somebody takes it.
func sendAll[T any](w *sender, all iter.Seq2[T, error]) error {
	v := new(T)
	value := reflect.ValueOf(v).Elem()
	for found, err := range all {
		if err != nil {
			return err
		}
		*v = found
		if len(w.buffer) == 0 {
			w.buffer = append(w.buffer, make([]byte, header)...)
		}
		w.buffer = encode(w.buffer, value)
		if len(w.buffer) >= bytesAtOnce {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *sender) flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	err := writeMessage(w.w, w.buffer, someItems)
	w.buffer = w.buffer[:0]
	return err
}

// answer sends what was gathered, and the answer.
func (w *sender) answer(a *answer) error {
	if err := w.flush(); err != nil {
		return err
	}
	b, err := send(w.w, w.buffer, anAnswer, reflect.ValueOf(a).Elem())
	if w.buffer = b[:0]; cap(b) > 4*bytesAtOnce {
		w.buffer = nil // a large one is seldom
	}
	return err
}
