package ledger

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkAppend adds entries one after the other, and reports the median.
func BenchmarkAppend(b *testing.B) {
	for _, p := range places(b) {
		b.Run(p.name, func(b *testing.B) {
			l := p.open(b)
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := l.Append(b.Context(), &Entry{Time: began, Action: "acknowledge", Principal: "ann", Identity: "user:7", Way: "password", Address: "192.0.2.7", Target: "GPU-0", Result: "done"}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/median")
		})
	}
}

// BenchmarkGet asks for a session: from memory, from a file, and through the calls between processes.
func BenchmarkGet(b *testing.B) {
	file := opened(b)(OpenFile(b.Context(), filepath.Join(b.TempDir(), "access.db")))
	applies(b, file, add(item("a", "ann", "")))
	apart := &Later{Open: func(context.Context) (Ledger, error) {
		return Apart(&Opened{Open: func(context.Context) (Ledger, error) { return file, nil }}), nil
	}}
	for _, tt := range []struct {
		name string
		l    Ledger
	}{{"cached", Cached(file, 0)}, {"shared", Cached(file, Often)}, {"file", file}, {"apart", apart}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if it, err := tt.l.Get(b.Context(), "user", "a"); err != nil || it == nil {
					b.Fatal(it, err)
				}
			}
		})
	}
}
