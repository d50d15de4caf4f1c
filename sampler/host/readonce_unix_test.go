//go:build unix

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadInto(t *testing.T) {
	long := strings.Repeat("0123456789", 1000)
	file := filepath.Join(t.TempDir(), "stat")
	if err := os.WriteFile(file, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 1, 9999, 10000, 20000} {
		buf := make([]byte, room)
		n, err := readInto(file, buf, 2)
		if want := long[:min(room, len(long))]; err != nil || string(buf[:n]) != want {
			t.Errorf("with room for %d: %d bytes, %v", room, n, err)
		}
	}
	if _, err := readInto(file+"x", nil, 1); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Errorf("of no file: %v", err)
	}
	if n, err := readInto(filepath.Dir(file), make([]byte, 10), 1); err == nil || n != 0 {
		t.Errorf("of a folder: %d bytes, %v", n, err)
	}
}

// Each reading reads many files of /proc. [os.Open] allocates an object for each, which the garbage collector must free.
func TestReadIntoAllocatesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stat")
	if err := os.WriteFile(file, []byte("1 (x) S"), 0o600); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := readInto(file, buf, 2); err != nil {
			t.Error(err)
		}
	}); n > 2 { // the file name for the system call, and what the closures share
		t.Errorf("%v allocations", n)
	}
}
