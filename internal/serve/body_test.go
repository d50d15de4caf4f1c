package serve

import (
	"bytes"
	"testing"
)

// However many want it, a body is compressed once.
func TestCompressedOnce(t *testing.T) {
	once := newBody(typeJSON, bytes.Repeat([]byte("x"), worthZipping))
	if first, second := once.zipped(), once.zipped(); &first.bytes[0] != &second.bytes[0] {
		t.Error("a body was compressed twice")
	}
}
