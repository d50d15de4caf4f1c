package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/amd"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/intel"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
	"github.com/gpuwhy/gpuwhy/sampler/smi"
)

const (
	mostPrinted = 4 << 20 // bytes of one command
	mostFiles   = 8 << 20 // bytes of the files of all cards
)

// recordRaw writes the raw data of the sources, and records what is missing.
func (r *recorder) recordRaw(ctx context.Context, first *gpu.Snapshot) error {
	if slices.Contains(r.Vendors, gpu.NVIDIA) {
		if err := r.recordSMI(ctx, first); err != nil {
			return err
		}
	}
	files := &listener{sysfs: resolved(r.SysfsRoot), proc: resolved(r.ProcRoot), trees: map[string]recording.Tree{}}
	for _, vendor := range r.Vendors {
		files.listen(ctx, vendor, r.Options)
	}
	sysfs, proc, cut := files.take()
	if cut {
		r.missing("some files of the cards: all of them have more than %d MiB", mostFiles>>20)
	}
	for name, tree := range map[string]recording.Tree{recording.SysfsFile: sysfs, recording.ProcFile: proc} {
		if len(tree) == 0 || len(sysfs) == 0 { // without a card there are no processes on it
			continue
		}
		for file, e := range tree {
			if e.Link == "" && e.Error == nil {
				e.Text = []byte(r.mask.kernelFile(file, string(e.Text)))
				tree[file] = e
			}
			if e.Error != nil && name == recording.SysfsFile {
				r.missing("%s: %s can't be read (%v)", name, file, errors.Unwrap(e.Error))
			}
		}
		if err := r.write(name, tree.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// recordSMI writes the output of nvidia-smi, unless running it would wake a card.
func (r *recorder) recordSMI(ctx context.Context, first *gpu.Snapshot) error {
	cards := nvidia.NewKernel(r.SysfsRoot, r.ProcRoot).Cards()
	if i := slices.IndexFunc(cards, nvidia.Card.Asleep); i >= 0 {
		r.missing("%s: nvidia-smi would wake the GPU at %s, which sleeps", recording.SMIFolder, cards[i].Address)
		return nil
	}
	isNVIDIA := func(d gpu.Device) bool { return d.Vendor == gpu.NVIDIA }
	if len(cards) == 0 && !slices.ContainsFunc(first.Devices, isNVIDIA) {
		return nil
	}
	all := smi.Record(ctx, r.NvidiaSMI, r.rawTime, mostPrinted)
	var log bytes.Buffer
	texts := map[string]string{}
	// The table of fields comes first, since it shows which words are serial numbers.
	slices.SortStableFunc(all, func(a, b smi.Printed) int { return strings.Compare(a.Name+"~", b.Name+"~") })
	for pass := range 2 {
		for _, p := range all {
			texts[p.Name] = r.mask.printed(p.Name, strings.ToValidUTF8(string(p.Text), "?"))
			if pass == 0 || p.Args == nil {
				continue
			}
			ended := "ended well"
			if p.Err != nil {
				ended = r.mask.text(p.Err.Error())
				command, _, _ := strings.Cut(p.Args[0], "=")
				r.missing("%s/%s: nvidia-smi %s: %s", recording.SMIFolder, p.Name, command, ended)
			}
			fmt.Fprintf(&log, "nvidia-smi %s\n  printed %s, %s\n", strings.Join(p.Args, " "), p.Name, ended)
		}
	}
	for name, text := range texts {
		if text == "" {
			continue
		}
		if err := r.write(recording.SMIFolder+"/"+name, []byte(text)); err != nil {
			return err
		}
	}
	return r.write(recording.SMIFolder+"/commands.txt", log.Bytes())
}

// resolved returns the path of a folder without symbolic links.
func resolved(dir string) string {
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		return target
	}
	return dir
}

// A listener keeps the kernel files that sources read, and no others, so that nothing is read
// that would wake a card, or that sources avoid for another reason.
type listener struct {
	sysfs, proc string

	mu    sync.Mutex
	ended bool
	trees map[string]recording.Tree // by root
	bytes int
	cut   bool
}

// read reads a file for a source.
func (l *listener) read(file string) ([]byte, error) {
	text, err := drm.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	e := recording.Entry{Text: bytes.Clone(text)}
	if err != nil {
		e = recording.Failed(err)
	}
	l.add(file, e)
	return text, err
}

// add keeps a file as it was when first read.
func (l *listener) add(file string, e recording.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, root := range []string{l.sysfs, l.proc} {
		name, err := filepath.Rel(root, file)
		if err != nil || !filepath.IsLocal(name) || l.ended {
			continue
		}
		tree := l.trees[root]
		if tree == nil {
			tree = recording.Tree{}
			l.trees[root] = tree
		}
		name = filepath.ToSlash(name)
		if _, known := tree[name]; known || !recording.Name(name) {
			return
		}
		if l.bytes += len(name) + len(e.Text); l.bytes > mostFiles {
			l.cut = true
			return
		}
		tree[name] = e
		return
	}
}

// listen reads the cards of a vendor once.
func (l *listener) listen(ctx context.Context, vendor gpu.Vendor, o Options) {
	var s interface {
		Read(ctx context.Context) (*gpu.Snapshot, error)
		Close() error
	}
	var drivers []string
	holders := drm.NewHolders(l.proc, l.sysfs)
	switch vendor {
	case gpu.AMD:
		drivers = []string{"amdgpu"}
		s = amd.New(amd.Config{SysfsRoot: l.sysfs, ProcRoot: l.proc, Deadline: o.rawTime, Holders: holders, Read: l.read, Log: o.Log})
	case gpu.Intel:
		drivers = []string{"i915", "xe"}
		s = intel.New(intel.Config{SysfsRoot: l.sysfs, ProcRoot: l.proc, Deadline: o.rawTime, Holders: holders, Read: l.read, Log: o.Log})
	default:
		return
	}
	cards, _ := drm.NewFinder(l.sysfs, l.read).Cards(drivers...) // without a list, there are no cards
	if len(cards) == 0 {
		return
	}
	for i := range cards {
		l.plug(&cards[i])
	}
	holders.Find(o.rawTime) // a reading itself does not wait long to learn who has the cards open
	limit, cancel := context.WithTimeout(ctx, o.rawTime)
	defer cancel()
	_, _ = s.Read(limit) // failures are in the tree
	_ = s.Close()        // it holds nothing
}

// plug keeps the links by which a card is found.
func (l *listener) plug(c *drm.Card) {
	link := func(name, target string) {
		if there, err := filepath.Rel(filepath.Dir(filepath.Join(l.sysfs, name)), target); err == nil {
			l.add(filepath.Join(l.sysfs, name), recording.Entry{Link: filepath.ToSlash(there)})
		}
	}
	dir, err := filepath.Rel(l.sysfs, c.Device.Path)
	if err != nil {
		return
	}
	driver := "bus/pci/drivers/" + c.Driver
	link(path.Join("bus/pci/devices", c.Address), c.Device.Path)
	link(path.Join(driver, c.Address), c.Device.Path)
	link(filepath.Join(dir, "driver"), filepath.Join(l.sysfs, driver))
	for _, node := range c.Nodes {
		target := filepath.Join(c.Device.Path, "drm", node)
		link("class/drm/"+node, target)
		link(filepath.Join(dir, "drm", node, "device"), c.Device.Path)
		if number, err := os.ReadFile(filepath.Join(target, "dev")); err == nil { // the kernel's own file, which asks no driver
			link("dev/char/"+strings.TrimSpace(string(number)), target)
		}
	}
}

// take stops the listener, and returns what it heard; a hanging driver may still be reading.
func (l *listener) take() (sysfs, proc recording.Tree, cut bool) {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	proc = recording.Tree{}
	for name, e := range l.trees[l.proc] {
		proc[name] = e
		// The link of a descriptor says which card it belongs to.
		if dir, number := path.Split(name); path.Base(dir) == "fdinfo" {
			fd := path.Join(path.Dir(path.Clean(dir)), "fd", number)
			if target, err := os.Readlink(filepath.Join(l.proc, fd)); err == nil && strings.HasPrefix(target, "/dev/dri/") {
				proc[fd] = recording.Entry{Link: target}
			}
		}
	}
	return l.trees[l.sysfs], proc, l.cut
}
