package storetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/store"
)

// complete gives v a value of its own in each field that has none, but for its key, times and flags: each field is read back as it was written, also
// one that is declared later.
func complete[T any](t *store.Table[T], v *T) {
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Key || !reflect.ValueOf(value(f, v)).IsZero() {
			continue
		}
		switch n := i + 1; f.Kind {
		case store.TextField:
			*f.Text(v) = fmt.Sprint(f.Name, " ", n)
		case store.SpanField:
			*f.Span(v) = time.Duration(n) * time.Hour / 7
		case store.NumberField:
			*f.Number(v) = n
		case store.AmountField:
			*f.Amount(v) = float64(n) / 7
		case store.MemoryField:
			*f.Memory(v) = gpu.Of(gpu.Bytes(n << 30))
		case store.DataField:
			*f.Data(v) = fmt.Appendf(nil, `{"b": %d, "a":[2]}`, n)
		}
	}
}

// vary gives v random values but for its key and times.
func vary[T any](g *rand.Rand, t *store.Table[T], v *T) {
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Key {
			continue
		}
		switch f.Kind {
		case store.TextField:
			*f.Text(v) = words[g.IntN(len(words))]
		case store.SpanField:
			*f.Span(v) = time.Duration(g.Int64N(1e15))
		case store.NumberField:
			*f.Number(v) = g.IntN(9)
		case store.AmountField:
			*f.Amount(v) = g.ExpFloat64()
		case store.FlagField:
			*f.Flag(v) = g.IntN(2) == 0
		case store.MemoryField:
			*f.Memory(v) = gpu.Absent[gpu.Bytes](gpu.Quality(g.IntN(int(gpu.Doubtful))))
			if g.IntN(2) == 0 {
				*f.Memory(v) = gpu.Of(gpu.Bytes(g.Int64N(1 << 40)))
			}
		case store.DataField:
			*f.Data(v) = []byte(words[g.IntN(len(words))])
		}
	}
}

// value is what v has in a field.
func value[T any](f *store.Field[T], v *T) any {
	switch f.Kind {
	case store.TextField:
		return *f.Text(v)
	case store.TimeField:
		return *f.Time(v)
	case store.SpanField:
		return *f.Span(v)
	case store.NumberField:
		return *f.Number(v)
	case store.AmountField:
		return *f.Amount(v)
	case store.FlagField:
		return *f.Flag(v)
	case store.MemoryField:
		return *f.Memory(v)
	case store.DataField:
		return *f.Data(v)
	}
	panic("a field of no kind")
}
