//go:build !race

package contract_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

func BenchmarkEncode8(b *testing.B)  { benchmarkEncode(b, fixture.H100s(8)) }
func BenchmarkEncode64(b *testing.B) { benchmarkEncode(b, fixture.H100s(64)) }

func benchmarkEncode(b *testing.B, s *gpu.Snapshot) {
	b.Helper()
	b.ReportAllocs()
	var encoded []byte
	var err error
	m := insight.Of(s)
	for b.Loop() {
		if encoded, err = json.Marshal(contract.NewUpdate(m, nil)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(encoded)), "bytes")
}
