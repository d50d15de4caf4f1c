//go:build !race

package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// Patches from the running program add up to the whole update at a fraction of the bytes. A client that subscribes again starts over.
func TestPatchesInPlaceOfUpdates(t *testing.T) {
	t.Parallel()
	p := start(t, nil, fast, "--source=simulate:dgx-h100")
	whole, delta := p.dial(), p.dial()
	delta.send(`{"event":"subscribe","data":{"delta":true},"id":1}`)
	updates := map[uint64]json.RawMessage{}
	var have map[string]any
	var seq *uint64
	compared, wholes := 0, 0
	patched, full := 0, 0
	var newest uint64 // of updates
	for compared < 8 || wholes < 2 {
		var d struct {
			Base  *uint64
			Seq   uint64
			Patch json.RawMessage
		}
		delta.next("gpu_status_patch", &d)
		for newest < d.Seq { // who has asked for patches may be ahead
			var u struct{ Seq uint64 }
			m := whole.next("gpu_status_update", &u)
			updates[u.Seq], newest = m.Data, u.Seq
		}
		if d.Base == nil {
			have = map[string]any{}
			wholes++
		} else {
			if seq == nil || *d.Base != *seq {
				t.Fatalf("a patch is for %d", *d.Base)
			}
			patched += len(d.Patch)
		}
		var patch map[string]any
		if err := json.Unmarshal(d.Patch, &patch); err != nil {
			t.Fatal(err)
		}
		merge(have, patch)
		seq = &d.Seq
		if now := updates[d.Seq]; now != nil {
			text, err := contract.Patch(nil, now)
			if err != nil {
				t.Fatal(err)
			}
			var want map[string]any
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(have, want) {
				t.Fatalf("update %d is not what the patches make", d.Seq)
			}
			compared++
			if d.Base != nil {
				full += len(now)
			}
		}
		if compared == 5 {
			delta.send(`{"event":"subscribe","data":{"delta":true},"id":2}`)
		}
	}
	t.Logf("%d bytes of patches for %d of updates", patched, full)
	if patched > full/3 {
		t.Errorf("%d bytes of patches for %d of updates", patched, full)
	}
}

// merge applies a merge patch (RFC 7386).
func merge(target, patch map[string]any) {
	for name, value := range patch {
		object, ok := value.(map[string]any)
		switch {
		case value == nil:
			delete(target, name)
		case ok:
			inner, ok := target[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				target[name] = inner
			}
			merge(inner, object)
		default:
			target[name] = value
		}
	}
}
