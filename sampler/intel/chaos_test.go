//go:build linux

package intel

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// faults make files return a kernel error.
type faults struct {
	mu  sync.Mutex
	all map[string]syscall.Errno // by file, or by folder for everything below it
}

func (f *faults) set(file string, err syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = map[string]syscall.Errno{file: err}
}

func (f *faults) read(file string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for place, err := range f.all {
		if err != 0 && (file == place || strings.HasPrefix(file, place+"/")) && !strings.Contains(file, "/power/runtime_status") {
			return nil, &fs.PathError{Op: "read", Path: file, Err: err}
		}
	}
	return drm.ReadFile(file)
}

func faulty(t *testing.T, m *drmtest.Machine, f *faults) *Source {
	t.Helper()
	return source(t, m, func(c *Config) { c.Log, c.Read = slog.New(slog.DiscardHandler), f.read })
}

// TestErrorsOfTheKernel checks what each error means: of all files for the card, and of one file for its reading.
func TestErrorsOfTheKernel(t *testing.T) {
	for errno, want := range map[syscall.Errno]struct {
		state   gpu.State
		quality gpu.Quality
	}{
		syscall.EIO:        {gpu.StateNotAnswering, gpu.NotReported},
		syscall.EBUSY:      {gpu.StateNotAnswering, gpu.NotReported},
		syscall.EAGAIN:     {gpu.StateNotAnswering, gpu.NotReported},
		syscall.ENODEV:     {gpu.StateLost, gpu.NotReported},
		syscall.ENXIO:      {gpu.StateLost, gpu.NotReported},
		syscall.EACCES:     {gpu.StateOK, gpu.NotPermitted},
		syscall.EOPNOTSUPP: {gpu.StateNotAnswering, gpu.NotSupported},
	} {
		t.Run(errno.Error(), func(t *testing.T) {
			m, f := drmtest.New(t), &faults{}
			c := arcB580(m)
			s := faulty(t, m, f)
			read(t, s)
			f.set(c.Dir, errno)
			if d := read(t, s); d.State != want.state || d.State != gpu.StateOK && d.Reason.Try == "" {
				t.Errorf("all files: it is %s (%s), want %s", d.State, d.Reason.Text(), want.state)
			}
			f.set(c.File("hwmon/hwmon3/temp2_input"), errno)
			d := read(t, s)
			if d.State != gpu.StateOK || d.Thermal.GPU.Quality() != want.quality || !d.Thermal.Memory.Present() {
				t.Errorf("one file: it is %s with %v and %v, want %v", d.State, d.Thermal.GPU, d.Thermal.Memory, want.quality)
			}
			f.set("", 0)
			if d := read(t, s); d.State != gpu.StateOK || d.Thermal.GPU != gpu.Of[gpu.Celsius](52) {
				t.Errorf("well again it is %s with %v", d.State, d.Thermal.GPU)
			}
		})
	}
}

// TestVanishesWhileRead checks that a card removed in the middle of a reading is lost.
func TestVanishesWhileRead(t *testing.T) {
	m := drmtest.New(t)
	c := arcB580(m)
	var once sync.Once
	s := source(t, m, func(cfg *Config) {
		cfg.Read = func(file string) ([]byte, error) {
			if filepath.Base(file) == "temp2_input" {
				once.Do(c.Unplug)
			}
			return drm.ReadFile(file)
		}
	})
	if d := read(t, s); d.State != gpu.StateLost || d.Reason.Try == "" {
		t.Errorf("it is %s: %s", d.State, d.Reason.Text())
	}
}

func TestSixteenCards(t *testing.T) {
	m := drmtest.New(t)
	for i := range 16 {
		m.Card(i, fmt.Sprintf("0000:%02x:00.0", 16+i), "xe", merge(ids("0xe20b"), xeGT(0, 0, false, "600", "2850")))
	}
	snap, err := drmtest.Read(t, source(t, m))
	if err != nil || len(snap.Devices) != 16 {
		t.Fatal(snap, err)
	}
	for i, d := range snap.Devices {
		if d.State != gpu.StateOK || d.PCI != fmt.Sprintf("0000:%02x:00.0", 16+i) {
			t.Errorf("card %d is %s at %s", i, d.State, d.PCI)
		}
	}
}

// TestFaultsAtRandom checks that, whatever goes wrong, no reading breaks a promise, each returns, and all cards are there once everything
// works again.
func TestFaultsAtRandom(t *testing.T) {
	const readings = 300
	m, f := drmtest.New(t), &faults{}
	cards := []*drmtest.Card{uhd770(m), arcB580(m)}
	var files [2][]string
	for i, c := range cards {
		err := filepath.WalkDir(c.Dir, func(file string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				relative, _ := filepath.Rel(c.Dir, file)
				files[i] = append(files[i], relative)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s := faulty(t, m, f)
	random := rand.New(rand.NewPCG(3, 4))
	texts := []string{
		"", "0\n", "-1\n", "18446744073709551615\n", "9223372036854775808\n", "4294967295\n", "99999\n", "[N/A]\n",
		"\x00\x01\xff", "suspended\n",
	}
	errnos := []syscall.Errno{syscall.EIO, syscall.EPERM, syscall.EACCES, syscall.ENODEV, syscall.EINVAL, syscall.EBUSY,
		syscall.EAGAIN}
	for i := range readings {
		n := random.IntN(len(cards))
		c, name := cards[n], files[n][random.IntN(len(files[n]))]
		undo := func() { f.set("", 0) }
		switch random.IntN(6) {
		case 0:
			f.set(c.Dir, errnos[random.IntN(len(errnos))])
		case 1:
			f.set(c.File(name), errnos[random.IntN(len(errnos))])
		case 2:
			c.Unplug()
			undo = c.Plug
		case 3:
			c.Sleep()
			undo = c.Wake
		case 4:
			info := xeClient(c.Address, 5, random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(),
				"drm-resident-vram0:\t1 MiB\n")
			m.Open(100+n, 5, "dri/"+c.Nodes[1], info[:random.IntN(len(info))])
		default:
			good, err := os.ReadFile(c.File(name))
			if err != nil {
				t.Fatal(err)
			}
			c.Set(map[string]string{name: texts[random.IntN(len(texts))]})
			undo = func() { c.Set(map[string]string{name: string(good)}) }
		}
		clockOf(s).Advance(time.Duration(random.Int64N(int64(sometimes))))
		snap, err := drmtest.Read(t, s)
		if _, ok := errors.AsType[*gpu.Advice](err); err != nil && !ok {
			t.Errorf("no advice: %v", err)
		}
		if snap != nil {
			for k := range snap.Devices {
				for _, problem := range sourcetest.Check(&snap.Devices[k], clockOf(s).Now()) {
					t.Errorf("reading %d, %s of %s: %s", i, name, c.Address, problem)
				}
			}
		}
		undo()
	}
	for _, c := range cards {
		c.Set(map[string]string{"power/runtime_status": "active\n", "power/control": "on\n"})
	}
	snap, err := drmtest.Read(t, s)
	if err != nil || len(snap.Devices) != 2 || snap.Devices[0].State != gpu.StateOK || snap.Devices[1].State != gpu.StateOK {
		t.Errorf("in the end %+v, %v", snap, err)
	}
}
