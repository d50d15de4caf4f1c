package outlook

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

const (
	// fillsOver is over which time a growth is looked at, and fillsWithin how soon it would fill the memory to be fast.
	fillsOver   = time.Minute
	fillsWithin = time.Hour
)

// filling is how much memory a device used lately: now, and at the beginning of the last minute or two.
type filling struct {
	begin, next, now level
	full             float64
}

// A level is how much memory was used at a time, in bytes.
type level struct {
	time time.Time
	used float64
}

// followMemory takes one reading of a device in.
func (f *Forecaster) followMemory(now time.Time, k store.Key, d *gpu.Device) {
	full, known := fullMemory(d)
	if !known || d.State != gpu.StateOK {
		return
	}
	used, _ := d.Memory.Used.Trusted()
	f.mu.Lock()
	defer f.mu.Unlock()
	read := level{now, float64(used)}
	m := f.filling[k]
	if m == nil {
		m = &filling{begin: read, next: read}
		f.filling[k] = m
	}
	if now.Sub(m.next.time) >= fillsOver {
		m.begin, m.next = m.next, read
	}
	m.now, m.full = read, full
}

// fillsFast reports whether the memory of a device would be full soon if it went on as in the last minute or two.
func (f *Forecaster) fillsFast(k store.Key, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.filling[k]
	if m == nil || now.Sub(m.now.time).Abs() > fillsOver {
		return false
	}
	grown, took := m.now.used-m.begin.used, m.now.time.Sub(m.begin.time).Seconds()
	return grown > 0 && took > 0 && (m.full-m.now.used)/grown*took < fillsWithin.Seconds()
}
