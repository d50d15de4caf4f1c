//go:build !race

package contract

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// merge is the pseudocode of RFC 7386, section 2.
func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = merge(t[name], value)
		}
	}
	return t
}

func decoded(tb rapid.TB, text []byte) (v any) {
	tb.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return v
}

func patch(tb rapid.TB, before, after []byte) any {
	tb.Helper()
	text, err := Patch(before, after)
	if err != nil {
		tb.Fatal(err)
	}
	return decoded(tb, text)
}

// Whatever two updates are, the patch makes the keyed form of one that of the other, and nothing differs between equals.
func TestPatchesMakeTheNextUpdate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.IntRange(0, 3), func(n int) any { return n }), rapid.Map(rapid.SampledFrom([]string{"", "a"}), func(s string) any { return s }))
		var value func(depth int) *rapid.Generator[any]
		object := func(depth int) *rapid.Generator[any] {
			return rapid.Map(rapid.MapOf(rapid.SampledFrom([]string{"gpus", "processes", "gpu_uuid", "pid", "power", "list"}), value(depth)), func(m map[string]any) any { return m })
		}
		value = func(depth int) *rapid.Generator[any] {
			if depth == 0 {
				return leaf
			}
			return rapid.OneOf(leaf, object(depth-1), rapid.Map(rapid.SliceOfN(rapid.OneOf(leaf, object(depth-1)), 0, 3), func(l []any) any { return l }))
		}
		draw := func(label string) []byte {
			text, err := json.Marshal(object(3).Draw(t, label))
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		before, after := draw("before"), draw("after")
		whole := merge(map[string]any{}, patch(t, nil, before))
		got, want := merge(whole, patch(t, before, after)), merge(map[string]any{}, patch(t, nil, after))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if same := patch(t, after, after); len(same.(map[string]any)) != 0 {
			t.Errorf("between equals differs %v", same)
		}
	})
}

// What differs in one process of one GPU is all that a patch has.
func TestAPatchHasWhatDiffers(t *testing.T) {
	t.Parallel()
	const form = `{"seq":%d,"gpus":[{"gpu_uuid":"A","temperature":{"gpu_celsius":%s},"processes":[{"pid":7,"used_memory_mb":%d},{"pid":7},{"pid":%d}]},{"gpu_uuid":"B","processes":[]}]}`
	before := fmt.Appendf(nil, form, 1, "61.50", 100, 8)
	for want, after := range map[string][]byte{
		`{"seq":2}`: fmt.Appendf(nil, form, 2, "61.50", 100, 8),
		`{"gpus":{"A":{"processes":{"7":{"used_memory_mb":101}}}}}`:     fmt.Appendf(nil, form, 1, "61.50", 101, 8),
		`{"gpus":{"A":{"temperature":{"gpu_celsius":null}}}}`:           fmt.Appendf(nil, form, 1, "null", 100, 8),
		`{"gpus":{"A":{"processes":{"8":null,"9":{"pid":9}}}}}`:         fmt.Appendf(nil, form, 1, "61.50", 100, 9),
		`{"gpus":{"A":{"processes":{"7#3":{"pid":7},"8":null}}}}`:       fmt.Appendf(nil, form, 1, "61.50", 100, 7),
		`{"gpus":{"A":null,"B":{"processes":null}},"seq":3}`:            []byte(`{"seq":3,"gpus":[{"gpu_uuid":"B","processes":null}]}`),
		`{"gpus":null,"seq":4,"status":"no_devices","values":[1,null]}`: []byte(`{"seq":4,"status":"no_devices","values":[1,null]}`),
	} {
		got, err := Patch(before, after)
		if err != nil || string(got) != want {
			t.Errorf("%s\nis %s, want %s, %v", after, got, want, err)
		}
	}
	if got, err := Patch(before, []byte("[]")); err == nil {
		t.Errorf("a list has the patch %s", got)
	}
}
