// Package ownfile gives memory back after the start: unused pages of the program's own file, and once the garbage.
//
// The kernel maps 64 KiB around each page of the file that is touched, and never takes them back while there is memory enough. A start touches most of the
// file, and a program that reads GPUs each few seconds little of it. Nothing is lost: the pages stay in the kernel's cache, which may use their memory for
// something else when it is short, and one that is touched again is mapped again.
package ownfile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Until the program has started, and then as often as a visitor may have had other pages mapped.
const (
	started = 10 * time.Second
	again   = 10 * time.Minute
)

// Run lets go of pages after the start and every ten minutes, until ctx ends. Where that
// can't be done it says so once, and returns.
func Run(ctx context.Context, log *slog.Logger) { run(ctx, log, release) }

func run(ctx context.Context, log *slog.Logger, release func() error) {
	timer := time.NewTimer(started)
	defer timer.Stop()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if first { // some megabytes, which else stay until the heap has doubled
			debug.FreeOSMemory()
		}
		if err := release(); err != nil {
			log.Debug("pages of the program's file stay resident", "err", err)
			return
		}
		timer.Reset(again)
	}
}

// A span is a mapping's addresses, [from, to).
type span struct{ from, to uintptr }

// unwritten returns the mappings of a file, in the form of /proc/PID/smaps, that can be mapped again as they are: nobody may write to them, and nobody did before,
// as the dynamic linker does to a part that it then protects, or a debugger where it wants to stop.
func unwritten(smaps io.Reader, file string) (all []span, err error) {
	var current span // none while its end is 0
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		line := lines.Text()
		if name, value, _ := strings.Cut(line, ":"); !strings.Contains(name, " ") {
			if name == "Anonymous" && current.to != 0 && strings.TrimSpace(value) == "0 kB" {
				all = append(all, current)
			}
			continue
		}
		// from-to rwxp offset device inode file
		current = span{}
		fields := strings.SplitN(line, " ", 6)
		if len(fields) < 6 || strings.TrimLeft(fields[5], " ") != file || !strings.HasPrefix(fields[1], "r-") || !strings.HasSuffix(fields[1], "p") {
			continue
		}
		if current, err = parse(fields[0]); err != nil {
			return nil, err
		}
	}
	return all, lines.Err()
}

func parse(addresses string) (span, error) {
	from, to, _ := strings.Cut(addresses, "-")
	begin, err := strconv.ParseUint(from, 16, strconv.IntSize)
	if err != nil {
		return span{}, fmt.Errorf("the addresses %q of a mapping: %w", addresses, err)
	}
	end, err := strconv.ParseUint(to, 16, strconv.IntSize)
	if err != nil {
		return span{}, fmt.Errorf("the addresses %q of a mapping: %w", addresses, err)
	}
	return span{uintptr(begin), uintptr(end)}, nil
}
