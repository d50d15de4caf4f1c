package gpu

import "testing"

func TestPool(t *testing.T) {
	own := Memory{Total: Of[Bytes](512), Used: Of[Bytes](500), Free: Of[Bytes](12)}
	for name, tt := range map[string]struct {
		own         Memory
		shared      SharedMemory
		total, used Reading[Bytes]
	}{
		"a card":          {own, SharedMemory{Unified: Of(false), Total: Of[Bytes](1000), Used: Of[Bytes](10)}, own.Total, own.Used},
		"not known which": {own, SharedMemory{Total: Of[Bytes](1000), Used: Of[Bytes](10)}, own.Total, own.Used},
		"of a processor":  {own, SharedMemory{Unified: Of(true), Total: Of[Bytes](1000), Used: Of[Bytes](10)}, Of[Bytes](1512), Of[Bytes](510)},
		"the machine's is not known": {
			own, SharedMemory{Unified: Of(true), Total: Of[Bytes](1000), Used: Absent[Bytes](NotPermitted)}, Of[Bytes](1512), Absent[Bytes](NotPermitted),
		},
		"the machine's is doubtful": {
			own, SharedMemory{Unified: Of(true), Total: Of[Bytes](1000), Used: DoubtfulOf[Bytes](2000)}, Of[Bytes](1512), DoubtfulOf[Bytes](2500),
		},
		"none of its own": {
			Memory{Total: Absent[Bytes](NotSupported), Used: Absent[Bytes](NotSupported)}, SharedMemory{Unified: Of(true), Used: Of[Bytes](10)},
			Absent[Bytes](NotSupported), Absent[Bytes](NotSupported),
		},
		"more than a number can be": {
			Memory{Total: Of(^Bytes(0)), Used: own.Used}, SharedMemory{Unified: Of(true), Total: Of[Bytes](1000), Used: Of[Bytes](10)}, Reading[Bytes]{}, Of[Bytes](510),
		},
	} {
		r := Readings{Memory: tt.own, Shared: tt.shared}
		if pool := r.Pool(); pool.Total != tt.total || pool.Used != tt.used || pool.Free.Present() {
			t.Errorf("%s: %+v, want %v of %v", name, pool, tt.used, tt.total)
		}
	}
}
