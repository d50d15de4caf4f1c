package broker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
)

// A disk that was full holds up the fleet only for as long as it is full: what was kept is there afterwards, and what
// was sent meanwhile was refused, not lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	dir := t.TempDir()
	if err := syscall.Mount("gpuwhy-test", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b := start(t, dir, "127.0.0.1:0")
	node := member(t, b, Node, "gpu-1")
	send := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := node.JetStream().Publish(ctx, bus.Past("gpu-1"), make([]byte, 64<<10))
		return err
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	full, err := os.Create(filepath.Join(dir, "full"))
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 16, 4096, 1} {
		for err = nil; err == nil; {
			_, err = full.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	refused, kept := 0, 1
	until(t, "it refuses", func() bool {
		if err := send(); err != nil {
			refused++
		} else {
			kept++
		}
		return refused > 2
	})
	if err := errors.Join(full.Close(), os.Remove(full.Name())); err != nil {
		t.Fatal(err)
	}
	until(t, "it keeps again", func() bool { err := send(); return err == nil })
	kept++
	stream, err := b.bus.JetStream().Stream(t.Context(), bus.PastStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != uint64(kept) {
		t.Errorf("%d messages are kept, want %d", n, kept)
	}
}
