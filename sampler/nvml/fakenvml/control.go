package fakenvml

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
)

// The layout of the control file, as library/fake.c maps it.
const (
	maxGPUs      = 16
	maxFunctions = 160

	atGeneration  = 0
	atHeld        = 8
	atInitialized = 16
	atEventSets   = 24
	atSamples     = 32
	atRows        = 40

	nameSize    = 64
	rowSize     = nameSize + 8*(maxGPUs+1)
	controlSize = atRows + maxFunctions*rowSize
)

func (l *Library) controlPath() string { return filepath.Join(l.dir, "control") }

// control reads the file that the library maps. Both use the same pages of the cache, so
// that each sees what the other writes.
func (m *Machine) control() []byte {
	b, err := os.ReadFile(m.lib.controlPath())
	m.check(err)
	return append(b, make([]byte, controlSize-len(b))...)
}

func (m *Machine) counter(at int) int { return int(binary.NativeEndian.Uint64(m.control()[at:])) }

// publish makes the library read the state file again.
func (m *Machine) publish() {
	f, err := os.OpenFile(m.lib.controlPath(), os.O_WRONLY, 0)
	m.check(err)
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(m.counter(atGeneration)+1)), atGeneration)
	m.check(cmp.Or(err, f.Close()))
}

// calls adds up the calls for one GPU, or for any GPU and none with anyGPU, of the given
// functions, or of all functions if there are none.
func (m *Machine) calls(gpu int, functions []string) (total int) {
	b := m.control()
	for at := atRows; at < controlSize; at += rowSize {
		name, _, _ := bytes.Cut(b[at:at+nameSize], []byte{0})
		if len(name) == 0 || len(functions) > 0 && !slices.Contains(functions, string(name)) {
			continue
		}
		for i := range maxGPUs + 1 {
			if gpu == anyGPU || gpu == i {
				place := at + nameSize + 8*i
				total += int(binary.NativeEndian.Uint64(b[place:]) - binary.NativeEndian.Uint64(m.base[place:]))
			}
		}
	}
	return total
}
