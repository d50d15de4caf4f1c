package contract

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// An answer about the past has members of two kinds: those that are copied from the store unchanged, found by the name that
// package store declares for them, and those computed from others. Only the second kind is written out in code. Members are
// looked up by reflection, as package json does anyway: a table of functions would be one more list of all fields.

// members are the fields of A by their JSON names, in JSON order, including fields of embedded
// structs.
func members[A any]() (names []string, places [][]int) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[A]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names, places = append(names, name), append(places, f.Index)
		}
	}
	return names, places
}

// told are the members of A that are copied unchanged from a T.
type told[A, T any] []toldField[T]

type toldField[T any] struct {
	kept   *store.Field[T]
	member int // of A itself
}

func newTold[A, T any](t *store.Table[T]) (out told[A, T]) {
	names, places := members[A]()
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.API == "" {
			continue
		}
		n := slices.Index(names, f.API)
		if n < 0 || len(places[n]) != 1 {
			panic(fmt.Sprintf("contract: %v has no member %q, as which %s.%s is told", reflect.TypeFor[A](), f.API, t.Name, f.Name))
		}
		out = append(out, toldField[T]{f, places[n][0]})
	}
	return out
}

// fill sets the members. An unknown time is null, and durations are seconds.
func (t told[A, T]) fill(out *A, v *T) {
	answer := reflect.ValueOf(out).Elem()
	for i := range t {
		f, member := t[i].kept, answer.Field(t[i].member)
		switch p := f.Place(v).(type) {
		case *string:
			member.SetString(*p)
		case *time.Time:
			if f.Unset {
				*member.Addr().Interface().(**string) = optionalTime(*p)
			} else {
				member.SetString(timestamp(*p))
			}
		case *time.Duration:
			member.SetFloat(inSeconds(*p))
		case *int:
			member.SetInt(int64(*p))
		case *float64:
			member.SetFloat(*p)
		case *bool:
			member.SetBool(*p)
		case *store.Memory:
			*member.Addr().Interface().(*Bytes) = *p
		case *[]byte:
			member.SetBytes(*p)
		}
	}
}

var (
	sessionTold = newTold[PastSession](store.Sessions)
	causeTold   = newTold[PastCause](store.Causes)
	eventTold   = newTold[PastEvent](store.Events)
)

// A csvTable has members of A as the columns of a table, under their JSON names.
type csvTable[A any] struct {
	names  []string
	places [][]int
}

// newCSVTable makes a table with these columns in this order, followed by all other members of A, so columns keep their place
// when A grows. A name with a minus is a member to leave out.
func newCSVTable[A any](columns ...string) (out csvTable[A]) {
	names, places := members[A]()
	for _, name := range append(columns, names...) {
		n := slices.Index(names, name)
		if n >= 0 && !slices.Contains(out.names, name) && !slices.Contains(columns, "-"+name) {
			out.names, out.places = append(out.names, name), append(out.places, places[n])
		}
	}
	return out
}

// line is a row of the table.
func (t *csvTable[A]) line(a *A) []string {
	answer := reflect.ValueOf(a).Elem()
	out := make([]string, len(t.places))
	for i, place := range t.places {
		v := answer.FieldByIndex(place)
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.String:
			out[i] = v.String()
		case reflect.Int:
			out[i] = strconv.FormatInt(v.Int(), 10)
		case reflect.Bool:
			out[i] = strconv.FormatBool(v.Bool())
		case reflect.Float64:
			out[i] = number(v.Float())
		default:
			out[i] = cell(v.Interface())
		}
	}
	return out
}

// number is a number as package json writes it.
func number(v float64) string {
	if size := math.Abs(v); v == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return cell(v)
}

var (
	sessionCSV = newCSVTable[PastSession]("from", "to", "outcome", "node", "gpu_uuid", "gpu_id", "gpu_name", "pid", "user", "name", "program", "container",
		"image", "pod", "unit", "job", "seen_seconds", "busy_seconds", "peak_memory_mb", "mean_memory_mb", "sm_seconds", "energy_joules",
		"energy_known_seconds", "energy_method", "accounted", "gpu_kind", "energy_estimated_seconds", "-started", "-command")
	chapterCSV = newCSVTable[PastChapter]("from", "to", "kind", "node", "gpu_uuid", "gpu_id", "gpu_name", "who", "other_count", "utilization_percent",
		"cooled_seconds", "sentence", "gpu_kind")
	causeCSV = newCSVTable[PastCause]("from", "to", "open", "kind", "node", "gpu_uuid", "confidence", "sentence", "id", "gpu_kind")
	eventCSV = newCSVTable[PastEvent]("time", "kind", "severity", "node", "gpu_uuid", "text", "gpu_kind", "-id")
)

// The columns of the lists as CSV.
var (
	SessionColumns = sessionCSV.names
	ChapterColumns = chapterCSV.names
	CauseColumns   = causeCSV.names
	EventColumns   = eventCSV.names
)

// CSV is the session as a line of [SessionColumns].
func (s PastSession) CSV() []string { return sessionCSV.line(&s) }

// CSV is the chapter as a line of [ChapterColumns].
func (c PastChapter) CSV() []string { return chapterCSV.line(&c) }

// CSV is the cause as a line of [CauseColumns].
func (c PastCause) CSV() []string { return causeCSV.line(&c) }

// CSV is the event as a line of [EventColumns].
func (e PastEvent) CSV() []string { return eventCSV.line(&e) }
