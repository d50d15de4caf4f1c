//go:build soak

package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// What waits for a database is bounded. What is dropped is counted and said, the newest is kept, and the program takes no more
// memory meanwhile.
func TestSoakAPastThatCantBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, nil, "--source=simulate:fleet:64", fast, "--state-dir="+dir)
	p.remembered()
	began, other := time.Now(), database(t, dir)
	do(t, other, "BEGIN IMMEDIATE")
	p.part("history", "failed")
	lost := regexp.MustCompile(`lost so far: .*[0-9]+ (readings|snapshots)`)
	for deadline := time.Now().Add(15 * time.Minute); ; time.Sleep(time.Second) {
		part := p.part("history", "failed")
		if lost.MatchString(*part.LastError) {
			t.Logf("after %v: %s", time.Since(began).Round(time.Second), *part.LastError)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is lost: %s", *part.LastError)
		}
	}
	p.log.await(t, "history can't be written fast enough")
	before := resident(t, p.cmd.Process.Pid) / (1 << 20)
	time.Sleep(30 * time.Second) // what is dropped makes room for what is new
	after := resident(t, p.cmd.Process.Pid) / (1 << 20)
	t.Logf("it holds %.0f MiB, and half a minute later %.0f MiB", before, after)
	if after > before+16 {
		t.Errorf("it has grown from %.0f MiB to %.0f MiB", before, after)
	}
	p.goesOn()
	last := time.Now()
	do(t, other, "ROLLBACK")
	p.remembered()
	var h contract.History
	p.get("/api/gpu/history?from=-2m&step=1s&metric=power_draw", &h)
	begin, err := time.Parse(time.RFC3339, h.Start)
	if err != nil || len(h.GPUs) != 64 {
		t.Fatalf("%v, %d GPUs", err, len(h.GPUs))
	}
	newest := 0
	for i, v := range h.GPUs[0].Metrics["power_draw"].Mean {
		if at := begin.Add(time.Duration(i) * time.Second); v.Present() && at.After(last.Add(-20*time.Second)) && at.Before(last) {
			newest++
		}
	}
	if newest < 15 {
		t.Errorf("of the last 20 s that waited, %d are there", newest)
	}
	if !strings.Contains(p.log.String(), "history is written again") {
		t.Error("the log does not say that it is written again")
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
