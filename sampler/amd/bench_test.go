//go:build linux

package amd

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

// BenchmarkRead reads eight cards on a machine with a thousand processes, of which fifty use a card.
func BenchmarkRead(b *testing.B) {
	m := drmtest.New(b)
	for i := range 8 {
		m.Card(i, fmt.Sprintf("0000:%d0:00.0", i+1), "amdgpu", navi31())
	}
	for pid := range 1000 {
		for descriptor := range 20 {
			m.Open(100+pid, descriptor, "null", "")
		}
		if pid < 50 {
			info := fmt.Sprintf("drm-driver:\tamdgpu\ndrm-client-id:\t%d\ndrm-engine-gfx:\t1 ns\n", pid)
			m.Open(100+pid, 30, fmt.Sprint("dri/renderD", 128+pid%8), info)
		}
	}
	s := New(Config{
		SysfsRoot: m.Sysfs, ProcRoot: m.Proc, Deadline: 10 * time.Second,
		Holders: drm.NewHolders(m.Proc, m.Sysfs), Log: slog.New(slog.DiscardHandler),
	})
	defer s.Close()
	for b.Loop() {
		snap, err := s.Read(b.Context())
		if err != nil || len(snap.Devices) != 8 {
			b.Fatal(err)
		}
	}
}
