//go:build !race && soak

package main

import (
	"net/url"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// The amount of data that waits for a database is bounded. Dropped data is counted and reported, the newest is kept, and the
// program's memory does not grow meanwhile.
func TestSoakAPastThatCantBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, nil, "--source=simulate:fleet:64", fast, "--state-dir="+dir)
	p.remembered()
	began, other := time.Now(), database(t, dir)
	do(t, other, "BEGIN IMMEDIATE")
	p.part("history", "failed")
	lost := regexp.MustCompile(`lost so far: .*[0-9]+ (readings|snapshots)`)
	for { // until there is no room for more, which takes minutes
		part := p.part("history", "failed")
		if time.Since(began) > 15*time.Minute {
			t.Fatalf("nothing is lost: %s", *part.LastError)
		}
		if lost.MatchString(*part.LastError) {
			t.Logf("after %v: %s", time.Since(began).Round(time.Second), *part.LastError)
			break
		}
		p.goesOn()
	}
	p.log.await(t, "history can't be written fast enough")
	before := resident(t, p.cmd.Process.Pid) / (1 << 20)
	time.Sleep(30 * time.Second) // what is dropped makes room for what is new
	after := resident(t, p.cmd.Process.Pid) / (1 << 20)
	t.Logf("it holds %.0f MiB, and half a minute later %.0f MiB", before, after)
	if after > before+16 {
		t.Errorf("it has grown from %.0f MiB to %.0f MiB", before, after)
	}
	newest := p.await("there is a reading", func(contract.Update) bool { return true })
	do(t, other, "ROLLBACK")
	p.remembered()
	kept, _ := p.readings("power_draw", "from=-10m&node="+url.QueryEscape(newest.Node))
	if !slices.ContainsFunc(kept, func(r contract.PastReading) bool { return sameReading(t, r.Time, newest.Timestamp) }) {
		t.Errorf("the newest reading that waited is lost: that of %s at %s", newest.Node, newest.Timestamp)
	}
	p.log.await(t, "history can be written again")
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
