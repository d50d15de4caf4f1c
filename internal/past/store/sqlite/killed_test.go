//go:build !race

package sqlite

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// A program that is killed at any moment leaves a file that is whole, with all that it had said was written, and nothing
// in parts.
func TestKilled(t *testing.T) {
	dir, file, next, written := t.TempDir(), "", 0, 0
	for n := range kills {
		if n%20 == 0 { // looking at all of a file takes ever longer
			file, next = filepath.Join(dir, fmt.Sprint(n, ".db")), 0
		}
		said := killed(t, file, next)
		s := open(t, file)
		if s.Aside() != "" {
			t.Fatalf("the file is damaged: %s", s.Aside())
		}
		before := next
		next = whole(t, s)
		written += next - before
		if next-1 != said && next-2 != said {
			t.Fatalf("%d batches are there, and it had said that %d is written", next, said)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, %d batches", kills, written)
}

// killed starts a program that writes, kills it at some moment, and returns the last number that it said.
func killed(t *testing.T, file string, next int) int {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	writer := exec.CommandContext(t.Context(), program)
	writer.Env = append(os.Environ(), writerEnv+"="+file, fromEnv+"="+strconv.Itoa(next))
	writer.Stderr = t.Output()
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	said, left := next-1, 1+rand.IntN(60)
	for lines := bufio.NewScanner(out); lines.Scan(); left-- {
		if said, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			if err := writer.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := writer.Wait(); err == nil || writer.ProcessState.Exited() {
		t.Fatalf("the writer ended by itself: %v", err)
	}
	return said
}
