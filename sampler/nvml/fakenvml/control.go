package fakenvml

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"unsafe"
)

const maxGPUs = 16

// control is the file that the library maps, in the layout of library/fake.c.
type control struct {
	generation uint64
	counters   Counters
	functions  [160]struct {
		name  [64]byte
		calls [maxGPUs + 1]int64 // by GPU; the last entry is for calls without a GPU
	}
}

// Counters are the library's counters, over all processes.
type Counters struct {
	Held        int64 // calls that hang now
	Initialized int64 // initializations not yet shut down
	EventSets   int64 // created and not freed
	Samples     int64 // GPM samples created and not freed
}

// Counters returns the current counters.
func (m *Machine) Counters() Counters { return m.control().counters }

func (l *Library) controlPath() string { return filepath.Join(l.dir, "control") }

// control returns the file's pages, which the library has mapped too.
func (m *Machine) control() *control {
	b, err := os.ReadFile(m.lib.controlPath())
	m.check(err)
	c := new(control)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c)), b)
	return c
}

// publish makes the library read the state file again.
func (m *Machine) publish() {
	f, err := os.OpenFile(m.lib.controlPath(), os.O_RDWR, 0)
	m.check(err)
	generation := make([]byte, 8)
	_, err = f.ReadAt(generation, 0)
	binary.NativeEndian.PutUint64(generation, binary.NativeEndian.Uint64(generation)+1)
	_, err2 := f.WriteAt(generation, 0)
	m.check(cmp.Or(err, err2, f.Close()))
}

// Functions returns the functions that were called: for the GPU, or for all GPUs and none.
func (t target) Functions() (names []string) {
	c := t.m.control()
	for f, row := range c.functions {
		for i, n := range row.calls {
			if (t.gpu == anyGPU || t.gpu == i) && n > t.m.base.functions[f].calls[i] {
				names = append(names, string(bytes.TrimRight(row.name[:], "\x00")))
				break
			}
		}
	}
	return names
}

// calls adds up the calls for one GPU (anyGPU: for all GPUs and none), of the given functions, or of all functions if none are given.
func (m *Machine) calls(gpu int, functions []string) (total int) {
	c := m.control()
	for f, row := range c.functions {
		name := string(bytes.TrimRight(row.name[:], "\x00"))
		if len(functions) > 0 && !slices.Contains(functions, name) {
			continue
		}
		for i, n := range row.calls {
			if gpu == anyGPU || gpu == i {
				total += int(n - m.base.functions[f].calls[i])
			}
		}
	}
	return total
}
