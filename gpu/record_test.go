package gpu

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// filler gives every field of a value a value that is mostly not zero.
type filler struct{ *rand.Rand }

func (f filler) fill(v reflect.Value) {
	if f.IntN(8) == 0 {
		return
	}
	if r, ok := reflect.TypeAssert[recordable](v.Addr()); ok {
		value, _ := r.record()
		q := Quality(f.IntN(int(Good) + 1))
		if q >= Doubtful {
			f.fill(value)
		}
		r.recall(q)
		return
	}
	switch v.Type() {
	case timeType:
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000+f.Int64N(1e8), f.Int64N(1e9)).UTC()))
		return
	case errorType:
		v.Set(reflect.ValueOf(recordOf(fmt.Errorf("reading %d: %w", f.IntN(9), sentinels[f.IntN(len(sentinels))]))))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for t, field := range v.Fields() {
			if t.Tag.Get("record") != "-" {
				f.fill(field)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.IntN(3), 3))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.String:
		v.SetString([]string{"python3", "a \"quoted\" text\n", "null", "{\"absent\":\"stale\"}", "Größe €", "NaN"}[f.IntN(6)])
	case reflect.Float64:
		v.SetFloat([]float64{f.NormFloat64() * 1e6, 0.1, math.Inf(-1), 1e300, 5}[f.IntN(5)])
	case reflect.Int, reflect.Int64:
		v.SetInt(f.Int64() - 1<<62)
	case reflect.Uint64:
		v.SetUint(f.Uint64())
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("a kind of field that is not written: " + v.Kind().String())
	}
}

// Records are read back exactly as written, whatever the readings are.
func TestRecordsAreExact(t *testing.T) {
	for seed := range uint64(200) {
		var s Snapshot
		filler{rand.New(rand.NewPCG(seed, 12))}.fill(reflect.ValueOf(&s).Elem())
		line, err := MarshalRecord(&s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(string(line), "\n\r") {
			t.Fatalf("more than a line: %s", line)
		}
		back, err := UnmarshalRecord(line)
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if !reflect.DeepEqual(&s, back) {
			again, _ := MarshalRecord(back)
			t.Fatalf("seed %d: read back as\n%s\nnot\n%s", seed, again, line)
		}
	}
}

func TestRecordsSayWhatIsAbsent(t *testing.T) {
	s := &Snapshot{Devices: []Device{{State: StateOK}}}
	d := &s.Devices[0]
	d.UUID, d.Thermal.GPU, d.Power.Draw = "GPU-1", Of[Celsius](41.5), DoubtfulOf[Watts](70000)
	d.Thermal.Memory, d.Memory.Used, d.Fans.Count = Absent[Celsius](NotSupported), Of[Bytes](0), Of(0)
	s.Failures = []Failure{{Source: SourceNVML, Advice: Advice{What: "no", Err: fmt.Errorf("open: %w", ErrNoLibrary)}}}
	line, err := MarshalRecord(s)
	want := `{"Devices":[{"Identity":{"UUID":"GPU-1"},"State":"ok","Readings":{"Memory":{"Used":0},` +
		`"Thermal":{"GPU":41.5,"Memory":{"absent":"not_supported"}},"Fans":{"Count":0},"Power":{"Draw":{"doubtful":70000}}}}],` +
		`"Failures":[{"Source":"nvml","Advice":{"What":"no","Err":{"Text":"open: no usable library of a driver found",` +
		`"Is":["no usable library of a driver found"]}}}]}`
	if err != nil || string(line) != want {
		t.Errorf("%s, %v\nwant %s", line, err, want)
	}
	back, err := UnmarshalRecord(line)
	if err != nil || !errors.Is(&back.Failures[0].Advice, ErrNoLibrary) || errors.Is(&back.Failures[0].Advice, ErrNoDriver) {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	for line, want := range map[string]string{
		`{"Devices":[{"Warmth":1}]}`:                                       `no "Warmth"`,
		`{"Devices":[{"Readings":{"Thermal":{"GPU":{"absent":"lost"}}}}]}`: `"lost" is no reason`,
		`{"Devices":[{"Readings":{"Thermal":{"GPU":"hot"}}}]}`:             "Thermal.GPU",
		`{"Time":"yesterday"}`:                                             "Time",
		`{"Devices":[`:                                                     "unexpected end",
	} {
		if _, err := UnmarshalRecord([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// A record that was cut off, or in which a character changed, is an error or another record, and does not crash gpuwhy.
func TestDamagedRecords(t *testing.T) {
	var s Snapshot
	random := rand.New(rand.NewPCG(3, 12))
	filler{random}.fill(reflect.ValueOf(&s).Elem())
	line, err := MarshalRecord(&s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range line {
		if _, err := UnmarshalRecord(line[:i]); err == nil {
			t.Fatalf("the first %d characters of %d are a record", i, len(line))
		}
		damaged := slices.Clone(line)
		damaged[i] = `"{}[]:,\\ x0`[random.IntN(11)]
		_, _ = UnmarshalRecord(damaged)
	}
	if _, err := UnmarshalRecord(append(slices.Clone(line), "\n{}"...)); err == nil {
		t.Error("two records are one")
	}
	if _, err := UnmarshalRecord(append(line, " \n"...)); err != nil {
		t.Error(err)
	}
}

// Every error is in the list, since one that is not would be read back as an unknown error.
func TestSentinelsAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names, listed []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if name := v.Names[0].Name; strings.HasPrefix(name, "Err") {
				names = append(names, name)
			} else if name == "sentinels" {
				for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
					listed = append(listed, e.(*ast.Ident).Name)
				}
			}
		}
		return true
	})
	slices.Sort(names)
	slices.Sort(listed)
	if len(names) == 0 || !slices.Equal(names, listed) {
		t.Errorf("listed are %v, and there are %v", listed, names)
	}
}

func TestMoved(t *testing.T) {
	taken := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	s := &Snapshot{Time: taken, Devices: []Device{{Since: taken.Add(-time.Hour), SampledAt: taken.Add(time.Second)}}}
	s.Devices[0].Health.XIDs = Of([]XID{{Code: 79, Last: taken.Add(-time.Minute)}})
	s.Devices[0].Processes = Of([]Process{{PID: 1, Facts: ProcessFacts{Started: Of(taken.Add(-2 * time.Hour))}}})
	s.Moved(24*time.Hour, taken.Add(24*time.Hour))
	d := s.Devices[0]
	started, _ := d.Processes.Or(nil)[0].Facts.Started.Get()
	got := []time.Time{s.Time, d.Since, d.SampledAt, d.Health.XIDs.Or(nil)[0].Last, started}
	for i, before := range []time.Duration{0, time.Hour, 0, time.Minute, 2 * time.Hour} {
		if want := taken.Add(24*time.Hour - before); !got[i].Equal(want) {
			t.Errorf("time %d is %v, want %v", i, got[i], want)
		}
	}
}

// Records of another version are read as far as this version knows them.
func TestRecordsOfAnotherVersion(t *testing.T) {
	reader := &RecordReader{Room: 1 << 20}
	var s Snapshot
	err := ReadRecord(reader, []byte(`{"Warmth":{"a":[1,"]"]},"Devices":[{"Identity":{"UUID":"GPU-1"},"State":"melting","Glow":null,"Readings":{"Thermal":{`+
		`"GPU":{"estimated":41.5},"Memory":{"absent":"too_hot"},"HotSpot":50},"Processes":{"guessed":[]},"Modes":{"MIG":{"likely":true}}}}]}`), &s)
	if err != nil {
		t.Fatal(err)
	}
	var want Snapshot
	want.Devices = []Device{{Identity: Identity{UUID: "GPU-1"}, State: "melting"}}
	want.Devices[0].Thermal.HotSpot = Of[Celsius](50)
	if !reflect.DeepEqual(&s, &want) {
		got, _ := MarshalRecord(&s)
		t.Errorf("read as %s", got)
	}
	for text, says := range map[string]string{
		`{"Warmth":{"a":[1}}`: "Warmth", `{"Warmth":}`: "Warmth", `{"Warmth":nope}`: "Warmth",
		`{"Seq":-1}`: "Seq", `{"Breaks":99999999999999999999}`: "Breaks", `{"Breaks":1e3}`: "Breaks",
		`{"Devices":[{"Readings":{"Thermal":{"GPU":nan}}}]}`:     ".Devices[0].Readings.Thermal.GPU",
		`{"Devices":[{"Readings":{"Thermal":{"GPU":0x1p4}}}]}`:   ".Thermal.GPU",
		`{"Devices":[{"Readings":{"Thermal":{"GPU":1e999}}}]}`:   ".Thermal.GPU",
		`{"Devices":[{"Readings":{"Thermal":{"GPU":"Inf"}}}]}`:   ".Thermal.GPU",
		`{"Devices":[{"Readings":{"Thermal":{"GPU":{"new":}}}]}`: ".Thermal.GPU",
	} {
		if err := ReadRecord(reader, []byte(text), new(Snapshot)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}

// A short record can't demand much memory.
func TestRecordsTakeNoMoreRoomThanTheyMay(t *testing.T) {
	many := []byte(`{"Devices":[{}` + strings.Repeat(",{}", 10_000) + `]}`)
	if err := ReadRecord(&RecordReader{Room: 1 << 20}, many, new(Snapshot)); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
	if err := ReadRecord(&RecordReader{Room: 100 << 20}, many, new(Snapshot)); err != nil {
		t.Error(err)
	}
	if _, err := AppendRecord(nil, &struct{ hidden int }{1}); err == nil || !strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}

// Shared values equal the ones that records would have without sharing.
func TestSharedRecordsAreExact(t *testing.T) {
	reader := &RecordReader{Room: 16 << 20, Shared: new(Shared)}
	for seed := range uint64(200) {
		var s Snapshot
		filler{rand.New(rand.NewPCG(seed/2, 12))}.fill(reflect.ValueOf(&s).Elem()) // each twice
		line, err := MarshalRecord(&s)
		if err != nil {
			t.Fatal(err)
		}
		var back Snapshot
		if err := ReadRecord(reader, line, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&s, &back) {
			again, _ := MarshalRecord(&back)
			t.Fatalf("seed %d: read back as\n%s\nnot\n%s", seed, again, line)
		}
	}
	two := []byte(`{"Devices":[{"Readings":{"NVLink":{"Links":[{"Index":1},{"Index":2}]}}},{"Readings":{"NVLink":{"Links":[{"Index":1},{"Index":2}]}}},` +
		`{"Readings":{"NVLink":{"Links":[{"Index":1},{"Index":3}]}}}]}`)
	var s Snapshot
	if err := ReadRecord(reader, two, &s); err != nil {
		t.Fatal(err)
	}
	links := func(i int) []Link { return s.Devices[i].NVLink.Links }
	if &links(0)[0] != &links(1)[0] || &links(0)[0] == &links(2)[0] || links(2)[1].Index != 3 {
		t.Errorf("%v %v %v", links(0), links(1), links(2))
	}
	if err := ReadRecord(reader, []byte(`{"Devices":[{"Readings":{"NVLink":{"Links":[{"Index":"x"}]}}}]}`), &s); err == nil || !strings.Contains(err.Error(), "Links[0].Index") {
		t.Error(err)
	}
}
