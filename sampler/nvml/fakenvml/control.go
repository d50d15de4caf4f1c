package fakenvml

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
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

func createControl(dir string) error {
	return os.WriteFile(filepath.Join(dir, "control"), make([]byte, controlSize), 0o666)
}

// control is the file that the library maps: pages of the same cache, so that
// plain reads and writes see what it does, and it them.
type control struct {
	path string
	base []byte // the file when the machine began; counting starts there
}

// openControl counts from now on.
func openControl(dir string) (control, error) {
	path := filepath.Join(dir, "control")
	base, err := os.ReadFile(path)
	return control{path, base}, err
}

// publish tells the library that the state file was replaced.
func (c control) publish() error {
	b, err := os.ReadFile(c.path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(c.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	next := binary.NativeEndian.AppendUint64(nil, binary.NativeEndian.Uint64(b[atGeneration:])+1)
	if _, err := f.WriteAt(next, atGeneration); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func (c control) number(at int) (int, error) {
	b, err := os.ReadFile(c.path)
	if err != nil {
		return 0, err
	}
	return int(binary.NativeEndian.Uint64(b[at:])), nil
}

// calls adds up the calls of one GPU, or of all and none for anyGPU, over the
// functions named, or over all for none.
func (c control) calls(gpu int, functions []string) (int, error) {
	b, err := os.ReadFile(c.path)
	if err != nil {
		return 0, err
	}
	wanted := map[string]bool{}
	for _, f := range functions {
		wanted[f] = true
	}
	total := 0
	for at := atRows; at+rowSize <= len(b); at += rowSize {
		row, base := b[at:], c.base[at:]
		name, _, _ := bytes.Cut(row[:nameSize], []byte{0})
		if len(name) == 0 || len(wanted) > 0 && !wanted[string(name)] {
			continue
		}
		for i := range maxGPUs + 1 {
			if gpu == anyGPU || gpu == i {
				total += int(binary.NativeEndian.Uint64(row[nameSize+8*i:]) - binary.NativeEndian.Uint64(base[nameSize+8*i:]))
			}
		}
	}
	return total, nil
}
