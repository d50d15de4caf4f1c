package hub

import (
	"bytes"
	"compress/flate"
	"io"
	"strings"
	"testing"
)

// Another inflater restores what was compressed, whatever was compressed before.
func FuzzDeflated(f *testing.F) {
	f.Add([]byte(`{"event":"gpu_status_update","data":{}}`))
	f.Add([]byte(strings.Repeat(`{"gpu_uuid":"GPU-0","power":71.5},`, 3000)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		frame := deflated(payload)
		start := 2
		switch frame[1] {
		case 126:
			start = 4
		case 127:
			start = 10
		}
		if want := appendHeader(nil, len(frame)-start); frame[0] != want[0]|deflatedBit || !bytes.Equal(frame[1:start], want[1:]) {
			t.Fatalf("the header is % x", frame[:start])
		}
		end := []byte{0, 0, 0xff, 0xff, 1, 0, 0, 0xff, 0xff} // the flush's end, and an empty last block
		got, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(frame[start:]), bytes.NewReader(end))))
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d bytes became %d: %v", len(payload), len(got), err)
		}
	})
}
