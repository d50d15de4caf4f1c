package storetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// complete gives v a value of its own in each field that has none, but for its key, times and flags: each field is read back as it was written, also
// one that is declared later.
func complete[T any](t *store.Table[T], v *T) {
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Key || !reflect.ValueOf(f.Place(v)).Elem().IsZero() {
			continue
		}
		n := i + 1
		switch p := f.Place(v).(type) {
		case *string:
			*p = fmt.Sprint(f.Name, " ", n)
		case *time.Duration:
			*p = time.Duration(n) * time.Hour / 7
		case *int:
			*p = n
		case *float64:
			*p = float64(n) / 7
		case *store.Memory:
			*p = gpu.Of(gpu.Bytes(n << 30))
		case *[]byte:
			*p = fmt.Appendf(nil, `{"b": %d, "a":[2]}`, n)
		}
	}
}

// vary gives v random values but for its key and times.
func vary[T any](g *rand.Rand, t *store.Table[T], v *T) {
	for i := range t.Fields {
		if t.Fields[i].Key {
			continue
		}
		switch p := t.Fields[i].Place(v).(type) {
		case *string:
			*p = words[g.IntN(len(words))]
		case *time.Duration:
			*p = time.Duration(g.Int64N(1e15))
		case *int:
			*p = g.IntN(9)
		case *float64:
			*p = g.ExpFloat64()
		case *bool:
			*p = g.IntN(2) == 0
		case *store.Memory:
			*p = gpu.Absent[gpu.Bytes](gpu.Quality(g.IntN(int(gpu.Doubtful))))
			if g.IntN(2) == 0 {
				*p = gpu.Of(gpu.Bytes(g.Int64N(1 << 40)))
			}
		case *[]byte:
			*p = []byte(words[g.IntN(len(words))])
		}
	}
}
