//go:build !race

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
)

// A file of accounts that gpuwhy could not use is said before it starts.
func TestCheckAccounts(t *testing.T) {
	t.Parallel()
	whole := func(file string) error {
		l, err := ledger.OpenFile(t.Context(), file)
		if err != nil {
			return err
		}
		return l.Close()
	}
	for name, tt := range map[string]struct {
		prepare func(file string) error
		wrong   bool
	}{
		"none":  {func(string) error { return nil }, false},
		"whole": {whole, false},
		"damaged": {func(file string) error {
			return os.WriteFile(file, []byte("this is no database, but text of some length"), 0o600)
		}, true},
		"empty":  {func(file string) error { return os.WriteFile(file, nil, 0o600) }, true},
		"folder": {func(file string) error { return os.Mkdir(file, 0o700) }, true},
		"link": {func(file string) error {
			if err := whole(file + ".other"); err != nil {
				return err
			}
			return os.Symlink(file+".other", file)
		}, true},
		"link to nothing": {func(file string) error { return os.Symlink(file+".other", file) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := new(programFlags)
			f.StateDir = t.TempDir()
			if err := tt.prepare(filepath.Join(f.StateDir, accountsFile)); err != nil {
				t.Fatal(err)
			}
			if err := f.checkAccounts(t.Context()); (err != nil) != tt.wrong {
				t.Errorf("it is said that %v", err)
			}
		})
	}
}
