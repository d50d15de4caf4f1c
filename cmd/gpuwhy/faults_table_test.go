//go:build !race && linux

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestFaults causes the faults listed in docs/reliability.md in the running program, one after
// the other, and heals each before the next. Without the tag soak, it causes some of each kind.
func TestFaults(t *testing.T) { //nolint:tparallel // what follows the subtests needs them all
	t.Parallel()
	var mu sync.Mutex
	var states []statement
	state := func(all ...statement) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, all...)
	}
	functions := &table{title: "Functions of NVIDIA's library", place: "function"}
	for _, f := range nvmlFaults {
		functions.faults = append(functions.faults, f.name)
	}
	amdFiles := &table{title: "Files of an AMD card", place: "file", faults: fileFaults}
	intelFiles := &table{title: "Files of an Intel card", place: "file", faults: fileFaults}
	commands := &table{title: "Commands of nvidia-smi", place: "command", faults: smiFaults}

	t.Run("each", func(t *testing.T) {
		t.Run("states", func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, start)
			for i := range troubles {
				if everyFault || !troubles[i].more {
					state(w.suffer(&troubles[i]))
				}
			}
		})
		t.Run("at the start", func(t *testing.T) {
			t.Parallel()
			state(failing(t)...)
		})
		t.Run("nvidia-smi", func(t *testing.T) {
			t.Parallel()
			a := newAsked(t, start)
			for _, f := range smiTroubles {
				if f.more && !everyFault {
					continue
				}
				outcome, said := strikeDevice(a, f.fault, f.one)
				state(statement{"nvidia-smi " + f.name, outcome, said})
			}
			if !everyFault {
				commands.put("xml", "cut", strikeCommand(a, "xml", "cut"))
			}
		})
		if !everyFault {
			t.Run("some", func(t *testing.T) {
				t.Parallel()
				someFaults(newWorkshop(t, start), functions, amdFiles, intelFiles)
			})
		} else {
			everything(t, functions, amdFiles, intelFiles, commands)
		}
	})
	if everyFault && !t.Failed() {
		document(t, statesText(states)+functions.markdown()+amdFiles.markdown()+intelFiles.markdown()+commands.markdown())
	}
}

// someFaults are the faults of functions and files that the tests always make.
func someFaults(w *workshop, functions, amdFiles, intelFiles *table) {
	const bridges = "0000:00:01.0/0000:01:00.0/0000:02:01.0/" // above the card of Intel
	for _, f := range []struct {
		function, fault string
		code            int
	}{
		{"nvmlDeviceGetPowerUsage", "hangs", 0}, {"nvmlDeviceGetPowerUsage", "slow", 0},
		{"nvmlDeviceGetMemoryInfo", "unknown error", 999},
		{"nvmlInit_v2", "hangs", 0}, {"nvmlDeviceGetUUID", "lost", 15},
	} {
		functions.put(f.function, f.fault, w.strike(f.function, f.fault, f.code))
	}
	for _, f := range []struct {
		card       *filed
		into       *table
		name, what string
	}{
		{newFiled(w, w.amd), amdFiles, amdAt + "/gpu_metrics", "hangs"},
		{newFiled(w, w.amd), amdFiles, amdAt + "/unique_id", "EIO"},
		{newFiled(w, w.intel), intelFiles, bridges + arcAt + "/hwmon/hwmon3/temp2_input", "2^64-1"},
	} {
		f.into.put(shortOf(f.name), f.what, f.card.strike(f.name, f.what))
	}
}

// everything causes every fault of every function and file, each kind in its own program.
func everything(t *testing.T, functions, amdFiles, intelFiles, commands *table) {
	used := usedFunctions(t)
	const byIndex = "nvmlDeviceGetHandleByIndex_v2"
	used = slices.DeleteFunc(used, func(f string) bool { return f == byIndex })
	for _, f := range nvmlFaults {
		for part := range slices.Chunk(used, len(used)/2+1) {
			t.Run("functions/"+f.name, func(t *testing.T) {
				t.Parallel()
				w := newWorkshop(t, start)
				for _, name := range part {
					functions.put(name, f.name, w.strike(name, f.name, f.code))
				}
			})
		}
		t.Run("by index/"+f.name, func(t *testing.T) {
			t.Parallel()
			functions.put(byIndex, f.name, newWorkshopWithout(t).strike(byIndex, f.name, f.code))
		})
	}
	for _, c := range smiCommands {
		t.Run("nvidia-smi/"+c, func(t *testing.T) {
			t.Parallel()
			for _, f := range smiFaults {
				if c == "query" || c == "xml" {
					commands.put(c, f, strikeCommand(newAsked(t, start), c, f))
				} else { // the others are begun once, or seldom after they failed
					commands.put(c, f, strikeCommand(newAsked(t, start, spoils(c, f)), c, f))
				}
			}
		})
	}
	for _, fault := range fileFaults {
		for vendor, into := range map[string]*table{"AMD": amdFiles, "Intel": intelFiles} {
			t.Run(vendor+" files/"+strings.ReplaceAll(fault, "^", ""), func(t *testing.T) {
				t.Parallel()
				w := newWorkshop(t, start)
				c := newFiled(w, w.amd)
				if vendor == "Intel" {
					c = newFiled(w, w.intel)
				}
				for _, name := range c.files() {
					if fault == "hangs" && ofTheKernel(shortOf(name)) {
						continue
					}
					if outcome := c.strike(name, fault); outcome != "" {
						into.put(shortOf(name), fault, outcome)
					}
				}
			})
		}
	}
}

// statesText returns the table of states, without what depends on the time.
func statesText(states []statement) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Devices and drivers\n\n%d faults.\n\n| fault | state | what is said |\n|---|---|---|\n", len(states))
	slices.SortFunc(states, func(a, b statement) int { return strings.Compare(a.fault, b.fault) })
	clock := regexp.MustCompile(`\d\d:\d\d:\d\d UTC`)
	took := regexp.MustCompile(`\b\d+(\.\d+)?m?s\b`)
	for _, s := range states {
		says := took.ReplaceAllString(clock.ReplaceAllString(s.says, "…"), "…")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.fault, s.state, strings.ReplaceAll(says, "|", "\\|"))
	}
	return b.String() + "\n"
}
