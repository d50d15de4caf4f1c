//go:build unix

package drmtest

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/sampler/captures"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
)

// Captured returns the kernel's files in a capture of package captures; root is "sysfs" or "proc".
func Captured(name, root string) recording.Tree {
	text, err := fs.ReadFile(captures.Files, name+"/raw/"+root+".txt")
	if err != nil {
		panic(err) // it is embedded
	}
	tree, err := recording.ParseTree(text)
	if err != nil {
		panic(err)
	}
	return tree
}

// Load plugs in the card of a capture, without the processes that had it open.
func (m *Machine) Load(name string) *Card {
	m.t.Helper()
	c := &Card{Machine: m}
	tree := Captured(name, "sysfs")
	for file, e := range tree {
		if e.Link != "" {
			m.link(filepath.Join(m.Sysfs, file), filepath.Join(m.Sysfs, path.Dir(file), e.Link))
			if rest, is := strings.CutPrefix(file, "bus/pci/drivers/"); is {
				c.Driver, c.Address = path.Split(rest)
				c.Driver, c.Dir = path.Clean(c.Driver), filepath.Join(m.Sysfs, path.Dir(file), e.Link)
			}
			if node, is := strings.CutPrefix(file, "class/drm/"); is {
				c.Nodes = append(c.Nodes, node)
			}
			continue
		}
		m.Write(filepath.Join(m.Sysfs, file), string(e.Text))
	}
	slices.Sort(c.Nodes)
	m.mkdir(filepath.Join(m.Sysfs, "bus/pci/drivers", c.Driver))
	return c
}
