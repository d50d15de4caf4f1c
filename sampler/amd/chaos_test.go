//go:build linux

package amd

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// Random faults, different ones in each reading: no reading breaks a promise, each returns, and once everything works again all cards are
// there.
func TestFaultsAtRandom(t *testing.T) {
	const readings = 400
	m, f := drmtest.New(t), &faults{}
	topology(m)
	kinds := []func() map[string]string{navi31, phoenix, mi300x, polaris, laptop}
	var cards []*drmtest.Card
	for i, kind := range kinds {
		cards = append(cards, m.Card(i, "0000:"+string(rune('1'+i))+"0:00.0", "amdgpu", kind()))
	}
	s := newSource(t, m, f)
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{
		"", "0\n", "-1\n", "18446744073709551615\n", "9223372036854775808\n", "4294967295\n", "99999\n", "[N/A]\n", "\x00\x01\xff",
		"0: 500Mhz *\n", "suspended\n", "ue: 1\nce: -1\n",
	}
	errnos := []syscall.Errno{syscall.EIO, syscall.EPERM, syscall.EACCES, syscall.ENODEV, syscall.EINVAL, syscall.EBUSY}
	for range readings {
		n := random.IntN(len(cards))
		c := cards[n]
		well := kinds[n]()
		var files []string
		for name := range well {
			files = append(files, name)
		}
		name := files[random.IntN(len(files))]
		undo := func() {}
		switch random.IntN(6) {
		case 0:
			f.set(c.Dir, errnos[random.IntN(len(errnos))])
			undo = func() { f.set(c.Dir, 0) }
		case 1:
			f.set(c.File(name), errnos[random.IntN(len(errnos))])
			undo = func() { f.set(c.File(name), 0) }
		case 2:
			c.Unplug()
			undo = c.Plug
		case 3:
			c.Sleep()
			undo = c.Wake
		case 4:
			m.Open(100+n, 5, "dri/"+c.Nodes[1], client(n, vram, ran("gfx", time.Duration(random.Int64()))))
			m.Write(filepath.Join(m.Proc, "100", "fdinfo/5"), texts[random.IntN(len(texts))])
		default:
			c.Set(map[string]string{name: texts[random.IntN(len(texts))]})
			undo = func() { c.Set(map[string]string{name: well[name]}) }
		}
		clockOf(s).Advance(time.Duration(random.Int64N(int64(sometimes))))
		snap, err := drmtest.Read(t, s)
		if _, ok := errors.AsType[*gpu.Advice](err); err != nil && !ok {
			t.Errorf("no advice: %v", err)
		}
		if snap != nil {
			for i := range snap.Devices {
				for _, problem := range sourcetest.Check(&snap.Devices[i], clockOf(s).Now()) {
					t.Errorf("%s of %s: %s", name, c.Address, problem)
				}
			}
		}
		undo()
	}
	for _, c := range cards {
		c.Set(map[string]string{"power/runtime_status": "active\n", "power/control": "on\n"})
	}
	if n := len(drmtest.Answers(t, s).Devices); n != len(cards) {
		t.Errorf("%d of %d cards are back", n, len(cards))
	}
}
