package state

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// installationFile is where a state directory says whose it is.
const installationFile = "installation.json"

// An Installation is one gpuwhy with a state directory. It stays the same if its machine is renamed, and the saved state belongs
// to it.
type Installation struct {
	// ID is random; empty if there is no state directory.
	ID string `json:"id"`
}

// ErrDamaged says that a file exists but is not what gpuwhy wrote.
var ErrDamaged = errors.New("the file is damaged")

// Installed knows which installation of gpuwhy owns the files of a shelf, which no other program may use. Its methods may be
// called concurrently; a nil Installed means none.
type Installed struct {
	Shelf Shelf

	mu    sync.Mutex
	known Installation
}

// Installation reads which one it is, or creates one. If that can't be written now, for example on a full disk, there is none,
// and saved state belongs to the machine's name meanwhile. Failing to read it is an error, so that nothing is mistaken for
// another installation's: [ErrDamaged] if that will not pass on its own.
func (o *Installed) Installation() (i Installation, err error) {
	if o == nil {
		return i, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known.ID != "" {
		return o.known, nil
	}
	text, err := o.Shelf.Read(installationFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		i = Installation{ID: rand.Text()}
		if o.write(i) != nil {
			return Installation{}, nil
		}
		return i, nil
	case err != nil:
		return i, fmt.Errorf("the installation's identity can't be read now: %w", err)
	}
	if err = json.Unmarshal(text, &i); err != nil || i.ID == "" {
		return Installation{}, &gpu.Advice{
			What: "the file " + installationFile + " in the state directory, which identifies this installation of gpuwhy, is damaged", Err: errors.Join(ErrDamaged, err),
			Try: "restore it from a backup, or delete it: gpuwhy then forgets alerts, silences and what it learned about the GPUs",
		}
	}
	o.known = i
	return i, nil
}

// ID is that of the installation; empty where there is none.
func (o *Installed) ID() (string, error) {
	i, err := o.Installation()
	return i.ID, err
}

func (o *Installed) write(i Installation) error {
	text, err := json.Marshal(i)
	if err == nil {
		err = o.Shelf.Write(installationFile, append(text, '\n'))
	}
	if err == nil {
		o.known = i
	}
	return err
}
