//go:build !race && linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

// fileFaults are the faults of a card's file.
var fileFaults = []string{"missing", "empty", "text", "EIO", "EACCES", "hangs", "2^64-1", "jumps back"}

// A filed card is a card that is read from files.
type filed struct {
	*workshop
	card   *drmtest.Card
	root   string // of its files and of those of the bridges above it
	opened func() []string
}

func newFiled(w *workshop, card *drmtest.Card) *filed {
	root := filepath.Join(card.Sysfs, "devices/pci"+card.Address[:7])
	return &filed{w, card, root, drmtest.Watch(w, root)}
}

// replug takes the card out and puts it back, so that all its files are read.
func (c *filed) replug() {
	c.Helper()
	c.card.Unplug()
	c.until("it is out", func(u *contract.Update) bool {
		return !is(hasAddress(c.card.Address), func(g *contract.UpdateGPU) bool { return g.State == "ok" })(u)
	})
	c.card.Plug()
}

// files returns the files that are read of the card.
func (c *filed) files() (all []string) {
	c.Helper()
	c.fault(hasAddress(c.card.Address))
	c.opened()
	c.replug()
	c.until("it is read", is(hasAddress(c.card.Address), func(g *contract.UpdateGPU) bool { return g.State == "ok" }))
	c.heard(4)
	for _, name := range c.opened() {
		if info, err := os.Stat(filepath.Join(c.root, name)); err == nil && info.Mode().IsRegular() {
			all = append(all, name)
		}
	}
	c.well(gpusOfAll)
	return all
}

// strike makes one fault of a file, and returns what it did; "" if the file can't have the
// fault.
func (c *filed) strike(name, fault string) string {
	c.Helper()
	file := filepath.Join(c.root, name)
	good, err := os.ReadFile(file)
	if err != nil {
		c.Fatal(err)
	}
	whom := hasAddress(c.card.Address)
	c.opened()
	c.fault(whom)
	switch fault {
	case "missing":
		err = os.Remove(file)
	case "empty":
		c.card.Write(file, "")
	case "text":
		c.card.Write(file, "no data\n")
	case "EIO":
		c.card.Fail(file, syscall.EIO)
	case "EACCES":
		c.card.Fail(file, syscall.EACCES)
	case "hangs":
		c.card.Hang(file)
	case "2^64-1":
		c.card.Write(file, "18446744073709551615\n")
	case "jumps back":
		if n, err := strconv.ParseInt(strings.TrimSpace(string(good)), 10, 64); err != nil || n < 2 {
			return ""
		}
		c.card.Write(file, "1\n")
	}
	if err != nil {
		c.Fatal(err)
	}
	unseen := slices.Contains([]string{"missing", "EIO", "EACCES", "hangs"}, fault) // nobody sees that it is opened
	read := unseen
	look := func() bool { read = read || slices.Contains(c.opened(), name); return read }
	for range 2 {
		c.next()
	}
	if !look() || unseen { // what is read seldom is read of a card that came
		c.replug()
		c.until(name+" is read", func(u *contract.Update) bool {
			return look() && is(whom, func(g *contract.UpdateGPU) bool { return g.State != "lost" })(u)
		})
	}
	if fault == "hangs" {
		c.until(name+" hangs", func(u *contract.Update) bool {
			return !is(whom, func(g *contract.UpdateGPU) bool { return g.State == "ok" && g.StateReason == "" })(u)
		})
	}
	c.heard(2)
	outcome := c.words(whom)
	if outcome == "" {
		outcome = "no GPU"
	}
	c.said(whom)
	if fault == "hangs" {
		c.card.Release(file, string(good))
	} else {
		c.card.Write(file, string(good))
	}
	c.well(gpusOfAll)
	return outcome
}

const ofABridge = " of a bridge"

// shortOf returns a file's name for the table, without the addresses and the bridges.
func shortOf(name string) string {
	for _, address := range []string{amdAt, arcAt} {
		if _, short, ok := strings.Cut(name, address+"/"); ok {
			return short
		}
	}
	return name[strings.LastIndex(name, "/")+1:] + ofABridge
}

// ofTheKernel are a card's files that the kernel answers from memory, whatever the driver
// does.
func ofTheKernel(short string) bool {
	return strings.HasPrefix(short, "power/") || strings.HasSuffix(short, ofABridge) ||
		slices.Contains([]string{
			"vendor", "device", "class", "revision", "subsystem_vendor", "subsystem_device", "resource",
		}, short)
}
