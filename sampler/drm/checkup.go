package drm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
)

// A Family is the GPUs of one vendor, which the kernel's own drivers serve.
type Family struct {
	Name    string   // "AMD"
	Vendor  uint32   // its PCI vendor id
	Drivers []string // the kernel's drivers that gpuwhy reads: "i915", "xe"
	Asks    bool     // readings need the render node, too
}

// Checks are what the GPUs of a family need. read reads the source once.
func (f Family) Checks(m *checkup.Machine, read func(ctx context.Context) (*gpu.Snapshot, error)) []checkup.Check {
	checks := []checkup.Check{
		{Name: f.Name + " driver", Run: func(context.Context) checkup.Finding { return f.driver(m) }},
		{Name: f.Name + " device files", Run: func(context.Context) checkup.Finding { return f.nodes(m) }},
	}
	return append(checks, checkup.Check{Name: f.Name + " readings", Run: func(ctx context.Context) checkup.Finding {
		s, err := read(ctx)
		switch {
		case len(f.displays(m)) == 0:
			return f.none()
		case err != nil && errors.Is(err, gpu.ErrNoCard):
			return checkup.None(gpu.AsAdvice(err).What)
		case err != nil:
			advice := gpu.AsAdvice(err)
			return checkup.Bad(advice.What, advice.Try)
		case len(s.Notes) > 0:
			return checkup.Less(fmt.Sprintf("%d can be read, but %s", len(s.Devices), s.Notes[0].What), s.Notes[0].Try)
		}
		return checkup.Good(fmt.Sprintf("%d can be read", len(s.Devices)))
	}})
}

func (f Family) none() checkup.Finding { return checkup.None("no " + f.Name + " GPU is on the bus") }

func (f Family) displays(m *checkup.Machine) []Display {
	if m.Sysfs == "" {
		return nil
	}
	return NewFinder(m.Sysfs, nil).Displays(f.Vendor)
}

func (f Family) driver(m *checkup.Machine) checkup.Finding {
	all := f.displays(m)
	if len(all) == 0 {
		return f.none()
	}
	for _, d := range all {
		for _, driver := range f.Drivers {
			if d.Driver == driver {
				return checkup.Good("the kernel's driver " + driver + " is loaded")
			}
		}
	}
	for _, d := range all {
		if d.Driver != "" {
			return checkup.None("the driver " + Clean(d.Driver) + " has it, and gpuwhy reads " + strings.Join(f.Drivers, " and "))
		}
	}
	return checkup.Bad("an "+f.Name+" GPU is on the bus, and no kernel driver serves it", "sudo modprobe "+f.Drivers[0])
}

func (f Family) nodes(m *checkup.Machine) checkup.Finding {
	if len(f.displays(m)) == 0 {
		return f.none()
	}
	if !f.Asks {
		return checkup.None("its readings are files of sysfs, which everybody may read")
	}
	all, err := NewFinder(m.Sysfs, nil).Cards(f.Drivers...)
	if err != nil {
		return checkup.Bad(err.Error(), "")
	}
	for i := range all {
		for _, node := range all[i].Nodes {
			if !strings.HasPrefix(node, "renderD") {
				continue
			}
			if finding, ok := m.Node(filepath.Join(m.Dev, "dri", node), true); !ok {
				finding.Verdict = checkup.Limited // only the size of its memory needs it
				return finding
			}
		}
	}
	return checkup.Good("they may be opened")
}
