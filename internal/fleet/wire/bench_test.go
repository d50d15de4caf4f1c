package wire_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/wire"
)

// Machines of eight GPUs with processes.
var benched = []struct{ name, profile string }{{"dgx-h100", "dgx-h100"}, {"fleet", "fleet:8"}}

// states returns a node's states over half a minute, as many as are based on one whole state.
func states(b *testing.B, profile string) (all []*wire.State) {
	b.Helper()
	for _, m := range played(b, profile, 7, 5*time.Second)[0] {
		s := stateOf(m)
		s.Extra = nil
		all = append(all, s)
	}
	return all
}

func BenchmarkEncode(b *testing.B) {
	for _, tt := range benched {
		b.Run(tt.name, func(b *testing.B) {
			all := states(b, tt.profile)
			e := wire.NewEncoder(nil)
			message, err := e.EncodeWhole(all[0])
			if err != nil {
				b.Fatal(err)
			}
			wholes, deltas, n := len(message), 0, 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				message, isWhole, err := e.Encode(all[1+n%(len(all)-1)])
				if err != nil || isWhole {
					b.Fatal(isWhole, err)
				}
				deltas += len(message)
			}
			b.ReportMetric(float64(wholes), "whole-bytes")
			b.ReportMetric(float64(deltas)/float64(n), "delta-bytes")
		})
	}
}

func BenchmarkEncodeWhole(b *testing.B) {
	for _, tt := range benched {
		b.Run(tt.name, func(b *testing.B) {
			all, e := states(b, tt.profile), wire.NewEncoder(nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.EncodeWhole(all[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// messages returns the whole state, and the deltas based on it.
func messages(b *testing.B, profile string) (node string, all [][]byte) {
	b.Helper()
	e := wire.NewEncoder(nil)
	for _, s := range states(b, profile) {
		message, _, err := e.Encode(s)
		if err != nil {
			b.Fatal(err)
		}
		node, all = s.Moment.Snapshot.Node, append(all, message)
	}
	return node, all
}

func BenchmarkDecode(b *testing.B) {
	for _, tt := range benched {
		b.Run(tt.name, func(b *testing.B) {
			node, all := messages(b, tt.profile)
			d := wire.NewDecoder(node, nil, new(gpu.Shared))
			if _, err := d.Decode(all[0]); err != nil {
				b.Fatal(err)
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				if _, err := d.Decode(all[1+n%(len(all)-1)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHeldByHub measures the memory of a hub for each of a hundred different nodes of eight GPUs: the newest state, and the
// whole state that deltas are based on.
func BenchmarkHeldByHub(b *testing.B) {
	const nodes = 100
	live := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var names []string
	var sent [][][]byte
	for _, node := range played(b, fmt.Sprintf("fleet:%d", nodes*8), 7, 5*time.Second) {
		e, all := wire.NewEncoder(nil), [][]byte(nil)
		for _, m := range node {
			message, _, err := e.Encode(stateOf(m))
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, message)
		}
		names, sent = append(names, node[0].Snapshot.Node), append(sent, all)
	}
	var held float64
	for b.Loop() {
		before := live()
		packers, shared := new(wire.Packers), new(gpu.Shared)
		decoders, newest := make([]*wire.Decoder, nodes), make([]*wire.State, nodes)
		for i := range decoders {
			decoders[i] = wire.NewDecoder(names[i], packers, shared)
			for _, message := range sent[i] {
				s, err := decoders[i].Decode(message)
				if err != nil {
					b.Fatal(err)
				}
				newest[i] = s
			}
		}
		held = (live() - before) / nodes
		runtime.KeepAlive(decoders)
		runtime.KeepAlive(newest)
	}
	b.ReportMetric(held, "B/node")
}
