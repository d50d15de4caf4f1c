//go:build unix

package regular_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/regular"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	whole, long, pipe := filepath.Join(dir, "whole"), filepath.Join(dir, "long"), filepath.Join(dir, "pipe")
	for name, text := range map[string]string{whole: "four", long: strings.Repeat("5", 1025)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := regular.Read(whole, 1024); err != nil || string(text) != "four" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := regular.Read(long, 1024); !errors.Is(err, regular.ErrLong) || !strings.Contains(err.Error(), long) {
		t.Errorf("a file of 1025 bytes: %v", err)
	}
	if _, err := regular.Read(filepath.Join(dir, "absent"), 1024); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, name := range []string{pipe, dir, "/dev/zero"} { // nobody writes to the pipe
		if _, err := regular.Read(name, 1024); !errors.Is(err, regular.ErrIrregular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What takes less than 5 s is waited for, and what takes longer is not.
func TestInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			takes, waits time.Duration
			err          error
		}{
			{0, 0, nil}, {5*time.Second - 1, 5*time.Second - 1, nil}, {time.Hour, 5 * time.Second, regular.ErrSlow},
		} {
			begun := time.Now()
			_, err := regular.InTime(func() (int, error) { time.Sleep(tt.takes); return 1, nil })
			if waited := time.Since(begun); waited != tt.waits || !errors.Is(err, tt.err) {
				t.Errorf("of %v it waits %v, and says %v", tt.takes, waited, err)
			}
		}
		time.Sleep(time.Hour) // the last of them ends
	})
}

// A file on a mount whose server never answers is given up.
func TestReadOnADeadMount(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	dir := t.TempDir()
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0) // which never answers
	if err != nil {
		t.Fatal(err)
	}
	how := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd())
	if err := syscall.Mount("gpuwhy-test", dir, "fuse", 0, how); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), syscall.Unmount(dir, syscall.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	})
	if _, err := regular.Read(filepath.Join(dir, "file"), 1024); !errors.Is(err, regular.ErrSlow) {
		t.Errorf("the mount is dead: %v", err)
	}
}
