package ownfile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

const size = 1 << 20

// mapped is a new file of ones, mapped; and its name.
func mapped(t *testing.T, prot int) ([]byte, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a program (deleted)")
	if err := os.WriteFile(name, bytes.Repeat([]byte{1}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapping, err := syscall.Mmap(int(f.Fd()), 0, size, prot, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mapping); err != nil {
			t.Error(err)
		}
	})
	return mapping, name
}

// resident is how much of a mapping is resident, in KiB.
func resident(t *testing.T, mapping []byte) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	begin := strconv.FormatUint(uint64(uintptr(unsafe.Pointer(&mapping[0]))), 16) + "-"
	_, rest, ok := strings.Cut("\n"+string(text), "\n"+begin)
	if !ok {
		t.Fatalf("no mapping begins at %s", begin)
	}
	_, rest, _ = strings.Cut(rest, "\nRss:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

func allOnes(mapping []byte) bool { return bytes.Count(mapping, []byte{1}) == size }

func TestLetsGo(t *testing.T) {
	mapping, name := mapped(t, syscall.PROT_READ)
	if !allOnes(mapping) || resident(t, mapping) != size>>10 {
		t.Fatalf("%d KiB are resident after all was read", resident(t, mapping))
	}
	if err := releaseOf(name + "/another"); !errors.Is(err, errNone) {
		t.Errorf("a file that is not mapped: %v", err)
	}
	if left := resident(t, mapping); left != size>>10 {
		t.Errorf("%d KiB are left of a file that was not asked for", left)
	}
	if err := releaseOf(name); err != nil {
		t.Fatal(err)
	}
	if left := resident(t, mapping); left != 0 {
		t.Errorf("%d KiB are resident still", left)
	}
	if !allOnes(mapping) {
		t.Error("it is not what it was")
	}
}

// What was written is in no file.
func TestKeepsWhatWasWritten(t *testing.T) {
	for name, protect := range map[string]bool{"writable": false, "protected since": true} {
		t.Run(name, func(t *testing.T) {
			mapping, name := mapped(t, syscall.PROT_READ|syscall.PROT_WRITE)
			mapping[5] = 7
			if protect {
				if err := syscall.Mprotect(mapping, syscall.PROT_READ); err != nil {
					t.Fatal(err)
				}
			}
			if err := releaseOf(name); !errors.Is(err, errNone) {
				t.Error(err)
			}
			if mapping[5] != 7 {
				t.Error("what was written is gone")
			}
		})
	}
}

// The program's own code is found under the name that the kernel gives it, and it runs on.
func TestTheProgram(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer smaps.Close()
	all, err := unwritten(smaps, program)
	if err != nil {
		t.Fatal(err)
	}
	code := reflect.ValueOf(TestTheProgram).Pointer()
	found := false
	for _, s := range all {
		found = found || s.from <= code && code < s.to
	}
	if !found {
		t.Errorf("%x is in none of the mappings %x of %s", code, all, program)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

func TestNoAddresses(t *testing.T) {
	for _, addresses := range []string{"400000", "x-500000", "400000-x"} {
		smaps := addresses + " r-xp 00000000 fe:00 1 /bin/gpuwhy\nAnonymous: 0 kB\n"
		if all, err := unwritten(strings.NewReader(smaps), "/bin/gpuwhy"); err == nil {
			t.Errorf("%q are the addresses %x", addresses, all)
		}
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var times atomic.Int64
		done := make(chan struct{})
		go func() {
			run(ctx, slog.New(slog.DiscardHandler), func() error { times.Add(1); return release() })
			close(done)
		}()
		time.Sleep(started - time.Second)
		synctest.Wait()
		if times.Load() != 0 {
			t.Errorf("during the start it has let go %d times", times.Load())
		}
		time.Sleep(2*time.Second + again)
		synctest.Wait()
		if times.Load() != 2 {
			t.Errorf("it has let go %d times, not after the start and once again", times.Load())
		}
		cancel()
		<-done
	})
}

func TestWhereThatCannotBeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := 0
		run(t.Context(), slog.New(slog.DiscardHandler), func() error { times++; return errors.ErrUnsupported })
		if times != 1 {
			t.Errorf("it tried %d times", times)
		}
	})
}
