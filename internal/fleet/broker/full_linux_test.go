package broker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A full disk, or one without space for another file, delays the fleet only while it is full: stored data is still there
// afterwards, and messages sent meanwhile were refused, not lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	for name, fill := range map[string]func(dir string) error{
		"bytes": func(dir string) error {
			file, err := os.Create(filepath.Join(dir, "full"))
			for _, size := range []int{1 << 16, 4096, 1} {
				for err == nil {
					_, err = file.Write(make([]byte, size))
				}
				if size > 1 && errors.Is(err, syscall.ENOSPC) {
					err = nil
				}
			}
			return errors.Join(err, file.Close())
		},
		"files": func(dir string) (err error) {
			for i := 0; err == nil; i++ {
				err = os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := syscall.Mount("gpuwhy-test", dir, "tmpfs", 0, "size=48m,nr_inodes=100"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			b := start(t, filepath.Join(dir, "fleet"), "127.0.0.1:0")
			node := member(t, b, Node, "gpu-1")
			unanswered := 0
			send := func(within time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				_, err := node.JetStream().Publish(ctx, bus.Past("gpu-1"), make([]byte, 64<<10))
				if errors.Is(err, context.DeadlineExceeded) {
					unanswered++
				}
				return err
			}
			ballast := filepath.Join(dir, "ballast")
			if err := errors.Join(send(testkit.Patience), os.Mkdir(ballast, 0o700)); err != nil {
				t.Fatal(err)
			}
			if err := fill(ballast); !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			kept := 1
			// What it can't write it does not answer: a second is no measure of a server that is well.
			testkit.Until(t, "it says that it can't write", func() bool {
				if send(time.Second) == nil {
					kept++
				}
				what, since := b.Trouble()
				return what != nil && !since.IsZero()
			})
			if err := os.RemoveAll(ballast); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "it keeps again", func() bool { return send(time.Second) == nil })
			kept++
			testkit.Until(t, "all is well", func() bool { what, _ := b.Trouble(); return what == nil })
			stream, err := b.bus.JetStream().Stream(t.Context(), bus.PastStream)
			if err != nil {
				t.Fatal(err)
			}
			// Of what is not answered in time nobody knows whether it is kept.
			if n := int(stream.CachedInfo().State.Msgs); n < kept || n > kept+unanswered {
				t.Errorf("%d messages are kept, want %d, and at most %d that were not answered", n, kept, unanswered)
			}
		})
	}
}

// A read error is not a full disk, and does not restart the server's storage.
func TestUnreadableIsNotFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir, "127.0.0.1:0")
	closeAll(t, b)
	found, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "*", "streams", bus.PastStream))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	if err := os.MkdirAll(filepath.Join(found[0], "obs", "foo", "meta.inf"), 0o700); err != nil {
		t.Fatal(err)
	}
	b = start(t, dir, "127.0.0.1:0")
	if b.said.unwritten.Load() != nil {
		t.Errorf("%q is a write that failed", *b.said.unwritten.Load())
	}
}
