//go:build linux

package intel

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// answer returns a driver's answer about regions, following the kernel's header, from pairs of class and size.
func answer(before int, regions ...uint64) []byte {
	out := make([]byte, before+len(regions)/2*regionBytes)
	binary.NativeEndian.PutUint32(out, uint32(len(regions)/2))
	for i := 0; i < len(regions); i += 2 {
		region := out[before+i/2*regionBytes:]
		binary.NativeEndian.PutUint16(region, uint16(regions[i]))
		binary.NativeEndian.PutUint64(region[8:], regions[i+1])
	}
	return out
}

func TestLocalMemory(t *testing.T) {
	var none gpu.Reading[gpu.Bytes]
	for _, tt := range []struct {
		name   string
		answer []byte
		before int
		want   gpu.Reading[gpu.Bytes]
	}{
		{"a card under i915", answer(i915Regions, 0, 64<<30, 1, 16<<30), i915Regions, gpu.Of[gpu.Bytes](16 << 30)},
		{"two tiles under xe", answer(xeRegions, 0, 64<<30, 1, 64<<30, 1, 64<<30), xeRegions, gpu.Of[gpu.Bytes](128 << 30)},
		{"an integrated GPU", answer(xeRegions, 0, 64<<30), xeRegions, gpu.Absent[gpu.Bytes](gpu.NotSupported)},
		{"no region", answer(xeRegions), xeRegions, gpu.Absent[gpu.Bytes](gpu.NotSupported)},
		{"not known", answer(xeRegions, 1, math.MaxUint64), xeRegions, none},
		{"of no size", answer(xeRegions, 1, 0), xeRegions, none},
		{"nothing", nil, i915Regions, none},
		{"cut", answer(i915Regions, 1, 16<<30)[:90], i915Regions, none},
		{"too many", []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, xeRegions, none},
	} {
		if got := localMemory(tt.answer, tt.before); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestAskOnlyCards checks that only nodes of cards get queries.
func TestAskOnlyCards(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dri"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, create := range map[string]func(string) error{
		"nothing":        func(string) error { return nil },
		"a file":         func(file string) error { return os.WriteFile(file, []byte("x"), 0o600) },
		"another device": func(file string) error { return os.Symlink("/dev/null", file) },
		"a folder":       func(file string) error { return os.Mkdir(file, 0o755) },
	} {
		file := filepath.Join(dir, "dri/renderD128")
		if err := create(file); err != nil {
			t.Fatal(err)
		}
		for _, driver := range []string{driverI915, driverXe} {
			if got := askMemory(dir, driver, []string{"card0", "renderD128"}); got.Quality() != gpu.NotSupported {
				t.Errorf("%s: %v", name, got)
			}
		}
		_ = os.Remove(file) // it may not exist
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if a, b := askI915(null.Fd()), askXe(null.Fd()); a.Present() || b.Present() {
		t.Errorf("a device of another kind has %v and %v", a, b)
	}
}

func FuzzLocalMemory(f *testing.F) {
	f.Add(answer(i915Regions, 0, 64<<30, 1, 16<<30), true)
	f.Add(answer(xeRegions, 1, 64<<30, 1, math.MaxUint64), false)
	f.Add([]byte{1, 0, 0, 0, 1}, false)
	f.Fuzz(func(t *testing.T, answer []byte, i915 bool) {
		before := xeRegions
		if i915 {
			before = i915Regions
		}
		if v, ok := localMemory(answer, before).Trusted(); ok && (v == 0 || v > 1<<50) {
			t.Errorf("%d bytes", v)
		}
	})
}
