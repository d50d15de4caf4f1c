package scribe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"syscall"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// A call is what one process asks the other to do. A connection carries one call at a time: the call, and then messages of which
// the last one is an answer. Who asked closes the connection where it does not want the rest.
type call uint8

const (
	callTake call = iota
	callRead
	callWrite
	callRemove
	callOpen
	callShut
	callBatch
	callDevices
	callRows
	callFrames
	callSessions
	callCauses
	callEvents
	callDocument
	callUnsettled
	callForget
	callSize
	callCheck
	callCompact
	callLastParcel
	callParcels
	callRepack
	callPosted
	callOther
)

// A request has what its call needs.
type request struct {
	Call   call
	Kind   string // of a database of another kind
	File   string // of a database
	Name   string // of a file, a document or a method
	Text   []byte
	Batch  *store.Batch
	Query  *store.Query
	Tier   store.Tier
	Time   time.Time
	Keep   store.Retention
	Parts  store.Parts
	Most   int
	Parcel *store.Parcel
	List   []int64
}

// An answer has what its call asked for.
type answer struct {
	Err     *failure
	Begun   uint64 // how often the database of the call has begun anew since that process runs
	Text    []byte
	Devices []store.Device
	Buckets []store.Bucket
	More    bool
	Size    store.Size
	Parcels []store.Parcel
	Number  int64
	Count   int
	Bytes   int64
}

// A message is its kind, its length and its content.
const (
	anAnswer byte = iota
	someItems
)

const (
	header = 5 // bytes before the content
	// longestMessage bounds what a process takes from the other one that runs amok.
	longestMessage = 1 << 30
)

func writeMessage(w io.Writer, b []byte, kind byte) error {
	if len(b)-header > longestMessage {
		return fmt.Errorf("scribe: a message of %d bytes", len(b)-header)
	}
	b[0] = kind
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-header)) //nolint:gosec // checked
	_, err := w.Write(b)
	return err
}

// readMessage reads a message into a buffer, which it returns.
func readMessage(r io.Reader, buffer []byte) (kind byte, content []byte, err error) {
	var head [header]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, buffer, err
	}
	size := int(binary.LittleEndian.Uint32(head[1:]))
	if size > longestMessage {
		return 0, buffer, fmt.Errorf("scribe: a message of %d bytes", size)
	}
	if cap(buffer) < size {
		buffer = make([]byte, size)
	}
	_, err = io.ReadFull(r, buffer[:size])
	return head[0], buffer[:size], err
}

// send encodes a value as a message of its own.
func send(w io.Writer, buffer []byte, kind byte, v reflect.Value) ([]byte, error) {
	b := encode(append(buffer[:0], make([]byte, header)...), v)
	return b, writeMessage(w, b, kind)
}

// A failure is an error as it is sent: its texts, and what it is.
type failure struct {
	Text      string // for the log
	Advice    bool
	What, Try string
	Is        []uint8 // which of sentinels
}

// sentinels are what programs tell errors apart by.
var sentinels = []error{
	store.ErrFull, store.ErrReadOnly, store.ErrCorrupt, store.ErrLocked, store.ErrGone, store.ErrNewer, store.ErrBusy,
	context.Canceled, context.DeadlineExceeded, fs.ErrNotExist, fs.ErrPermission, regular.ErrSlow, regular.ErrIrregular, regular.ErrLong,
	syscall.ENOSPC, syscall.EROFS, syscall.EIO,
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for i, is := range sentinels {
		if errors.Is(err, is) {
			f.Is = append(f.Is, uint8(i)) //nolint:gosec // there are few
		}
	}
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		f.Advice, f.What, f.Try = true, advice.What, advice.Try
		if advice.Err != nil {
			f.Text = advice.Err.Error()
		} else {
			f.Text = ""
		}
	}
	return f
}

// err is the error that was sent.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	is := make([]error, 0, len(f.Is))
	for _, i := range f.Is {
		if int(i) < len(sentinels) {
			is = append(is, sentinels[i])
		}
	}
	if !f.Advice {
		return &sent{f.Text, is}
	}
	advice := &gpu.Advice{What: f.What, Try: f.Try}
	if f.Text != "" || len(is) > 0 {
		advice.Err = &sent{f.Text, is}
	}
	return advice
}

// sent is an error of the other process.
type sent struct {
	text string
	is   []error
}

func (e *sent) Error() string   { return e.text }
func (e *sent) Unwrap() []error { return e.is }
