package gpu

import (
	"reflect"
	"testing"
)

func TestWithdraw(t *testing.T) {
	var got Activity
	Withdraw(&got, NotPermitted)
	if want := AbsentActivity(NotPermitted); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestStale checks that readings that had a value are absent as Stale, and that the
// others stay as they are.
func TestStale(t *testing.T) {
	r := Readings{Instances: make([]Instance, 1), Fans: Fans{Fans: []Fan{{Commanded: Of(Percent(30))}}}}
	r.Thermal.Target = Absent[Celsius](NotSupported)
	r.Utilization.GPU = DoubtfulOf(Percent(100))
	r.Processes = Of([]Process{{PID: 1}})
	r.Instances[0].Memory.Total = Of(Bytes(1))
	stale := r.Stale()
	for name, q := range map[string]Quality{
		"utilization": stale.Utilization.GPU.Quality(),
		"fan":         stale.Fans.Fans[0].Commanded.Quality(),
		"processes":   stale.Processes.Quality(),
		"instance":    stale.Instances[0].Memory.Total.Quality(),
	} {
		if q != Stale {
			t.Errorf("%s is %v, not stale", name, q)
		}
	}
	if stale.Thermal.Target.Quality() != NotSupported || stale.Power.Draw.Quality() != NotReported {
		t.Errorf("what had no value is %v and %v", stale.Thermal.Target, stale.Power.Draw)
	}
	if !r.Fans.Fans[0].Commanded.Present() || !r.Instances[0].Memory.Total.Present() {
		t.Error("the readings that became stale have changed themselves")
	}
}

// TestEveryReadingCanBeWithdrawn finds readings that Withdraw does not reach.
func TestEveryReadingCanBeWithdrawn(t *testing.T) {
	readings := Readings{Fans: Fans{Fans: make([]Fan, 1)}, Instances: make([]Instance, 1), NVLink: NVLink{Links: make([]Link, 1)}}
	Withdraw(&readings, NotSupported)
	seen := 0
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if r, ok := reflect.TypeAssert[interface{ Quality() Quality }](v); ok {
			seen++
			if r.Quality() != NotSupported {
				t.Errorf("%s of type %v is %v", path, v.Type(), r.Quality())
			}
			return
		}
		switch v.Kind() {
		case reflect.Slice:
			walk(path, v.Index(0))
		case reflect.Struct:
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
	walk("Readings", reflect.ValueOf(readings))
	if seen < 80 {
		t.Errorf("only %d readings", seen)
	}
}
