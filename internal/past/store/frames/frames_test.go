package frames_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/frames"
)

func TestFramesAreUnpackedAsTheyWere(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte(`{"name":"NVIDIA H100","watts":71.5}`), 1000)
	other := bytes.Replace(long, []byte("71.5"), []byte("72.5"), 7)
	var p frames.Packer
	var u frames.Unpacker
	defer u.Close()
	keys := []*frames.Key{nil, frames.NewKey(nil), frames.NewKey([]byte("short")), frames.NewKey(long), frames.NewKey(other)}
	for i, key := range append(keys, keys...) {
		for _, record := range [][]byte{long, other, []byte("short"), {}, {0, 0xff}} {
			packed, err := p.Pack(nil, record, key)
			if err != nil {
				t.Fatal(err)
			}
			got, err := u.Unpack(packed, key)
			if err != nil || !bytes.Equal(got, record) {
				t.Errorf("key %d: %d bytes became %d: %v", i, len(record), len(got), err)
			}
		}
	}
}

func TestAKeyFrameSavesRoom(t *testing.T) {
	t.Parallel()
	var key, record []byte
	for i := range 4000 {
		key = append(key, byte(i*i>>3), byte(i*7919>>5))
	}
	record = append(append(record, key...), "and a little"...)
	var p frames.Packer
	alone, err := p.Pack(nil, record, nil)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := p.Pack(nil, record, frames.NewKey(key))
	if err != nil {
		t.Fatal(err)
	}
	if len(beside) > 200 || len(beside)*4 > len(alone) {
		t.Errorf("%d bytes beside the key frame, %d alone", len(beside), len(alone))
	}
}

// A packer is there as long as the program. What it holds counts twice, since the garbage collector lets the heap grow to twice of it.
func TestAPackerHoldsLittle(t *testing.T) {
	record := bytes.Repeat([]byte(`{"name":"NVIDIA H100","watts":71.5}`), 1800) // some 60 KiB, as of eight GPUs
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	keys := []*frames.Key{nil, frames.NewKey(record), frames.NewKey(record)}
	before := held()
	var p frames.Packer
	out := make([]byte, 0, 2*len(record))
	for _, key := range keys {
		if _, err := p.Pack(out, record, key); err != nil {
			t.Fatal(err)
		}
	}
	const most = 1400 << 10
	if holds := int64(held()) - int64(before); holds > most {
		t.Errorf("it holds %d KiB, want at most %d", holds>>10, most>>10)
	}
	runtime.KeepAlive(&p)
	runtime.KeepAlive(keys)
}

func TestWhatIsDamagedIsSaid(t *testing.T) {
	t.Parallel()
	record := bytes.Repeat([]byte("frame "), 100)
	var p frames.Packer
	packed, err := p.Pack(nil, record, frames.NewKey(record))
	if err != nil {
		t.Fatal(err)
	}
	var u frames.Unpacker
	defer u.Close()
	if _, err := u.Unpack(packed, nil); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("without its key frame: %v", err)
	}
	if _, err := u.Unpack([]byte("no frame"), nil); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("of what is no frame: %v", err)
	}
}

func TestKeyTime(t *testing.T) {
	t.Parallel()
	when := time.Date(2026, 3, 28, 21, 29, 59, 999, time.FixedZone("", 5400))
	if got, want := frames.KeyTime(when), time.Date(2026, 3, 28, 19, 45, 0, 0, time.UTC); got != want {
		t.Errorf("the key frame for %v is of %v, want %v", when, got, want)
	}
}
