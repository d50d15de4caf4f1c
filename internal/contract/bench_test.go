package contract_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/contract/machines"
)

func BenchmarkEncode8(b *testing.B)  { benchmarkEncode(b, machines.H100s(8)) }
func BenchmarkEncode64(b *testing.B) { benchmarkEncode(b, machines.H100s(64)) }

func benchmarkEncode(b *testing.B, s *gpu.Snapshot) {
	b.Helper()
	b.ReportAllocs()
	var encoded []byte
	var err error
	for b.Loop() {
		if encoded, err = json.Marshal(contract.NewUpdate(s, "why")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(encoded)), "bytes")
}
