package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An installation stays the same, whatever its machine is called; one that can't be read is never taken for a new one.
func TestInstallation(t *testing.T) {
	dir := t.TempDir()
	first, err := (&Installed{Shelf: Folder(dir)}).Installation()
	if err != nil || first.ID == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := (&Installed{Shelf: Folder(dir)}).Installation(); err != nil || again != first {
		t.Errorf("%+v, %v", again, err)
	}
	if err := os.WriteFile(filepath.Join(dir, installationFile), []byte(`{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (&Installed{Shelf: Folder(dir)}).Installation(); err == nil {
		t.Errorf("a damaged file is that of %+v", got)
	}
}

type namesDevices struct{ All []Learned }

func (n *namesDevices) Kept() namesDevices { return *n }

func (n *namesDevices) Restore(kept namesDevices, _ time.Time) error { *n = kept; return nil }

// What was learned of devices is found again under the name that the machine has now. That of other machines stays theirs, and so does all where
// the program reads several.
func TestAMachineThatIsRenamed(t *testing.T) {
	shelf := Folder(t.TempDir())
	run := func(node string, part *namesDevices) {
		t.Helper()
		k := New()
		k.Shelf, k.Node, k.Hold = shelf, node, func(f func()) { f() }
		k.Documents = []Document{Of("devices", "what was learned", Regularly, part)}
		k.Restore(time.Now())
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(node string) {
		t.Helper()
		text, err := json.Marshal(header{Version: version, Node: node, State: namesDevices{[]Learned{
			{Device: Device{Node: "former", UUID: "GPU-former"}}, {Device: Device{Node: "else", UUID: "former"}},
		}}})
		if err == nil {
			err = shelf.Write("devices.json", text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ kept, node, want string }{
		{"former", "other", "other"}, {"former", "former", "former"}, {"former", "", "former"}, {"", "other", "former"},
	} {
		kept(tt.kept)
		got := &namesDevices{}
		run(tt.node, got)
		if len(got.All) != 2 || got.All[0].Node != tt.want || got.All[0].UUID != "GPU-former" || got.All[1].Node != "else" || got.All[1].UUID != "former" {
			t.Errorf("kept of %q, and read as %q: %+v", tt.kept, tt.node, got.All)
		}
	}
}
