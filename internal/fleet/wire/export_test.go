package wire

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Seal makes a message from any record, as a sender of that version would.
func Seal(t *testing.T, p Protocol, record []byte) []byte {
	t.Helper()
	h := header{protocol: p, kind: whole, number: 1, size: uint64(len(record)), instance: "sealed"}
	message := h.append(nil)
	if p.Minor > Spoken.Minor { // whose header has more fields
		message = append(message, "more"...)
		message[fixed-1] += byte(len("more"))
	}
	return append(message, zipped(t, record)...)
}

func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(text, nil)
}

// Bomb returns a message whose record is larger than allowed.
func Bomb(t *testing.T) []byte {
	t.Helper()
	return Seal(t, Spoken, bytes.Repeat([]byte(" "), 64<<20))
}

// Liar returns the same, but claims to be small.
func Liar(t *testing.T) []byte {
	t.Helper()
	h := header{protocol: Spoken, kind: whole, number: 1, size: 100, instance: "sealed"}
	return append(h.append(nil), zipped(t, bytes.Repeat([]byte(" "), 64<<20))...)
}
