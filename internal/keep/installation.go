package keep

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// installationFile is where a state directory says whose it is.
const installationFile = "installation.json"

// longestInstallation is how long that file may be, in bytes.
const longestInstallation = 64 << 10

// An Installation is one gpuwhy with a state directory. It stays the same whatever its machine is called, and what is kept belongs to it.
type Installation struct {
	// ID is random; empty where there is no state directory.
	ID string `json:"id"`
	// Node is what the machine was called when what is kept was last known to be under the name that it had; empty where that is not known.
	Node string `json:"node,omitempty"`
}

// OpenInstallation reads the installation of a state directory, which this program alone must have, or makes one. Where that can't be written
// now, as on a full disk, there is none, and what is kept belongs to the machine's name until the next start. A file that can't be read is an
// error, so that nothing is taken for another installation's by mistake.
func OpenInstallation(dir string) (i Installation, err error) {
	text, err := regular.Read(Folder(dir).file(installationFile), longestInstallation)
	if err == nil {
		err = json.Unmarshal(text, &i)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && i.ID == "":
		i = Installation{ID: rand.Text()}
		if i.write(dir) != nil {
			return Installation{}, nil
		}
		return i, nil
	case err != nil:
		return Installation{}, &gpu.Advice{
			What: fmt.Sprintf("which installation of gpuwhy has %s can't be read from %s", dir, installationFile), Err: err,
			Try: "take the file from a backup, or remove it: then alerts, silences and what was learned of the GPUs begin anew",
		}
	}
	return i, nil
}

// Called notes what the machine is called now.
func (i *Installation) Called(dir, node string) error {
	if i.ID == "" || i.Node == node {
		return nil
	}
	next := *i
	next.Node = node
	if err := next.write(dir); err != nil {
		return err
	}
	*i = next
	return nil
}

// Was is the name of before, where the machine is called otherwise now; else empty.
func (i *Installation) Was(node string) string {
	if i.Node == node || node == "" {
		return ""
	}
	return i.Node
}

func (i *Installation) write(dir string) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return Folder(dir).Write(installationFile, append(bytes.TrimSpace(text), '\n'))
}
