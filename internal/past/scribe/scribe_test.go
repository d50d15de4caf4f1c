//go:build linux

package scribe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	old "math/rand"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/quick"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) {
	if helper.Asked(os.Args) {
		os.Exit(helper.Run(os.Args, map[string]func(*helper.Task){Name: Serve(testKinds)}))
	}
	os.Exit(m.Run())
}

// begin starts a process that writes to a folder, until the test ends.
func begin(t testing.TB, dir string) *remote {
	t.Helper()
	r, ok := Start(dir, slog.New(slog.NewTextHandler(t.Output(), nil)), testKinds).(*remote)
	if !ok {
		t.Fatal("no process can be started")
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func openIn(t testing.TB, s Scribe, file string) Store {
	t.Helper()
	st, err := s.Open(t.Context(), Database{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A database in another process keeps the promises of every store.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, dir)
	empty := filepath.Join(dir, "empty.db")
	if err := openIn(t, r, empty).Close(); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(empty)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	storetest.Run(t, func(t *testing.T) store.Store {
		n++
		file := filepath.Join(dir, fmt.Sprint(n, ".db"))
		if err := os.WriteFile(file, made, 0o600); err != nil {
			t.Fatal(err)
		}
		return openIn(t, r, file)
	})
}

// What the processes send each other comes as it was, whatever is in it: also a field that somebody adds later.
func TestWhatIsSent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
	for _, typ := range []reflect.Type{reflect.TypeFor[request](), reflect.TypeFor[answer](), reflect.TypeFor[store.Row](), reflect.TypeFor[store.Frame](),
		reflect.TypeFor[store.Session](), reflect.TypeFor[store.Cause](), reflect.TypeFor[store.Event]()} {
		for n := range 200 {
			v, got := reflect.New(typ).Elem(), reflect.New(typ).Elem()
			fill(random, v)
			b := encode(nil, v)
			d := decoder{b: b}
			if d.decode(got); d.err != nil || len(d.b) > 0 || !reflect.DeepEqual(v.Interface(), got.Interface()) {
				t.Fatalf("%v, %d bytes are left of\n%+v\n%+v", d.err, len(d.b), v, got)
			}
			if session, ok := reflect.TypeAssert[store.Session](v); ok { // also over another one
				again := store.Session{User: "somebody else", Accounted: true}
				if d := (decoder{b: b}); !d.known(&again) || d.err != nil || !reflect.DeepEqual(session, again) {
					t.Fatalf("%v\n%+v\n%+v", d.err, session, again)
				}
			}
			if n >= 20 {
				continue
			}
			for cut := range b { // a message that ends too soon is an error, and no panic
				d := decoder{b: b[:cut]}
				if d.decode(reflect.New(typ).Elem()); d.err == nil {
					t.Fatalf("%d of %d bytes of %v are enough", cut, len(b), typ)
				}
			}
		}
	}
}

// fill makes a value up.
func fill(random *rand.Rand, v reflect.Value) {
	switch v.Type() {
	case timeType:
		if random.IntN(4) > 0 {
			v.Set(reflect.ValueOf(time.Unix(random.Int64N(1<<40)-1<<39, random.Int64N(1e9)).UTC()))
		}
		return
	case memoryType:
		v.Set(reflect.ValueOf([]gpu.Reading[gpu.Bytes]{gpu.Of[gpu.Bytes](7), gpu.DoubtfulOf[gpu.Bytes](1 << 50), gpu.Absent[gpu.Bytes](gpu.Stale), {}}[random.IntN(4)]))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if random.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(random, v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(random, field)
		}
	case reflect.Slice:
		if n := random.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
			for i := range n - 1 {
				fill(random, v.Index(i))
			}
		}
	case reflect.Map:
		if n := random.IntN(4); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n - 1 {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(random, key)
				fill(random, value)
				v.SetMapIndex(key, value)
			}
		}
	default:
		if random.IntN(3) > 0 {
			made, ok := quick.Value(v.Type(), old.New(old.NewSource(random.Int64())))
			if !ok {
				panic("nothing can be made up for " + v.Type().String())
			}
			v.Set(made)
		}
	}
}

// Errors are what they were: to programs, to people and to the log.
func TestErrors(t *testing.T) {
	for _, err := range []error{
		&gpu.Advice{What: "the disk is full", Try: "free some", Err: fmt.Errorf("%w: %w", store.ErrFull, syscall.ENOSPC)},
		&gpu.Advice{What: "it is so", Try: "live with it"}, fmt.Errorf("write: %w", fs.ErrPermission), context.Canceled, errors.New("another"),
	} {
		got := failureOf(err).err()
		for _, is := range sentinels {
			if errors.Is(err, is) != errors.Is(got, is) {
				t.Errorf("%v is %v: %t", got, is, errors.Is(got, is))
			}
		}
		if want, got := gpu.AsAdvice(err), gpu.AsAdvice(got); got.What != want.What || got.Try != want.Try {
			t.Errorf("%+v became %+v", want, got)
		}
		if got.Error() != err.Error() {
			t.Errorf("%q became %q", err, got)
		}
	}
	if failureOf(nil).err() != nil {
		t.Error("no error became one")
	}
}

// A process that ends is started again, and a store goes on with it.
func TestStartedAgain(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, dir)
	st := openIn(t, r, filepath.Join(dir, "past.db"))
	write := func(name string) error {
		return st.Write(t.Context(), &store.Batch{Documents: map[string][]byte{name: []byte(name)}})
	}
	if err := write("a"); err != nil {
		t.Fatal(err)
	}
	pid := r.Pid()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var failed error
	testkit.Until(t, "it writes again", func() bool {
		err := write("b")
		if err != nil {
			failed = err
		}
		return err == nil && r.Pid() != pid
	})
	if !errors.Is(failed, store.ErrGone) || gpu.AsAdvice(failed).Try == "" {
		t.Errorf("meanwhile it said %v", failed)
	}
	for _, name := range []string{"a", "b"} {
		if text, err := st.Document(t.Context(), name); err != nil || string(text) != name {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
}

// Terminals and systemd signal all processes of a program. The one that writes goes on until it is told to end.
func TestSignalsOfAGroup(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, dir)
	if err := r.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(r.Pid(), s); err != nil {
			t.Fatal(err)
		}
	}
	pid := r.Pid()
	if err := errors.Join(r.Write("a.json", []byte("{}")), r.Remove("a.json"), r.Remove("a.json")); err != nil || r.Pid() != pid {
		t.Errorf("%v of process %d, which was %d", err, r.Pid(), pid)
	}
}

// A folder is one program's, and the lock names the program and not its helper.
func TestOneProgram(t *testing.T) {
	dir := t.TempDir()
	first, second := begin(t, dir), begin(t, dir)
	if err := first.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := second.Take(t.Context())
	if _, ok := errors.AsType[*gpu.Advice](err); !ok || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid(), " on")) {
		t.Errorf("the second: %v", err)
	}
	if err := second.Write("a.json", nil); err == nil {
		t.Error("the second writes")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Take(t.Context()); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

// A database that begins anew is told of, once.
func TestBegunAnew(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, dir)
	var begun atomic.Int32
	file := filepath.Join(dir, "past.db")
	st, err := r.Open(t.Context(), Database{File: file, Begun: func() { begun.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	for n := range int32(3) {
		if err := st.Write(t.Context(), &store.Batch{}); err != nil || begun.Load() != n {
			t.Fatalf("%v; it has begun anew %d times, want %d", err, begun.Load(), n)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkRows reads 20,000 readings of a device, all columns of each: from a database in this process, and in another one.
func BenchmarkRows(b *testing.B) {
	dir := b.TempDir()
	file := filepath.Join(dir, "past.db")
	s, err := sqlite.Open(b.Context(), sqlite.Options{File: file, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	const rows = 20_000
	batch := &store.Batch{}
	for i := range rows {
		row := store.Row{Key: store.Key{Node: "node", UUID: "GPU-0"}, Time: storetest.Begin.Add(time.Duration(i) * time.Second), Readings: 1, State: gpu.StateOK,
			Values: make([]store.Value, len(store.DeviceColumns))}
		for c := range row.Values {
			v := store.DeviceColumns[c].Value(int64(i + c))
			row.Values[c] = store.Value{Least: v, Mean: v, Most: v, Count: 1}
		}
		batch.Rows = append(batch.Rows, row)
	}
	if err := errors.Join(s.Write(b.Context(), batch), s.Close()); err != nil { // which moves the log into the file
		b.Fatal(err)
	}
	if s, err = sqlite.Open(b.Context(), sqlite.Options{File: file, Log: slog.New(slog.DiscardHandler), Now: time.Now}); err != nil {
		b.Fatal(err)
	}
	read := func(b *testing.B, st store.Store, q store.Query) {
		for b.Loop() {
			n := 0
			for _, err := range st.Rows(b.Context(), q) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != rows {
				b.Fatalf("%d rows", n)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "µs/row")
	}
	three := store.Query{Columns: []int{1, 5, 9}, Reuse: true}
	b.Run("all/here", func(b *testing.B) { read(b, s, store.Query{Reuse: true}) })
	b.Run("three/here", func(b *testing.B) { read(b, s, three) })
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	st := openIn(b, begin(b, dir), file)
	b.Run("all/apart", func(b *testing.B) { read(b, st, store.Query{Reuse: true}) })
	b.Run("three/apart", func(b *testing.B) { read(b, st, three) })
}

// testKinds are databases that count their calls in a file.
var testKinds = Kinds{"counter": func(file string) Other { return counter(file) }}

type counter string

// Call returns how many calls there were, and appends their texts to the file. "wait" waits for the end of its context.
func (c counter) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	if method == "wait" {
		<-ctx.Done()
	}
	f, err := os.OpenFile(string(c), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(method + " " + string(args) + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(string(c))
}

// Close leaves a trace.
func (c counter) Close() error {
	_, err := c.Call(context.Background(), "close", nil)
	return err
}

// A database of another kind is in the other process: calls get there and back, errors too, and one that hangs ends for whoever waits.
func TestOther(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, dir)
	o := r.Other("counter", filepath.Join(dir, "counter"))
	if text, err := o.Call(t.Context(), "add", []byte("\x00é")); err != nil || string(text) != "add \x00é\n" {
		t.Errorf("%q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Call(ctx, "wait", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that nobody waits for: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := o.Call(ctx, "wait", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that hangs: %v", err)
	}
	testkit.Until(t, "the hanging call ends there, too", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "counter"))
		return err == nil && strings.HasSuffix(string(text), "wait \n")
	})
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if text, err := o.Call(t.Context(), "add", nil); err != nil || !strings.HasSuffix(string(text), "close \nadd \n") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := r.Other("counter", dir).Call(t.Context(), "add", nil); err == nil {
		t.Error("a folder can be written to")
	}
	if _, err := r.Other("nothing", "").Call(t.Context(), "add", nil); err == nil {
		t.Error("an unknown kind has a database")
	}
	pid := r.Pid()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it answers again", func() bool {
		_, err := o.Call(t.Context(), "add", nil)
		return err == nil && r.Pid() != pid
	})
}

// A folder is taken again after its process has ended, before anything needs it: no other program can have it for long.
func TestTakenAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := begin(t, dir)
	if err := r.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := r.Pid()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the folder is taken again", func() bool {
		if now := r.Pid(); now == pid || now == 0 {
			return false
		}
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.Pid()))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(files, func(file string) bool {
			target, _ := os.Readlink(file) // it may be closed
			return target == filepath.Join(dir, "lock")
		})
	})
}
