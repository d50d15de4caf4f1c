package forecast_test

import (
	"net/http"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// firstOnly foretells of one device alone.
type firstOnly struct {
	uuid  string
	asked int
}

func (f *firstOnly) Of(k store.Key) *outlook.Outlook {
	if f.asked++; k.UUID != f.uuid {
		return nil
	}
	o := &outlook.Outlook{At: fixture.Time}
	o.MemoryFull = method.Forecast{Kind: method.KindMemoryFull, Why: method.NoGrowth}
	return o
}

// What comes next is of the GPUs that there are now; without a past there is none.
func TestForecasts(t *testing.T) {
	t.Parallel()
	first := &firstOnly{uuid: fixture.Server().Devices[0].UUID}
	st, h := servetest.Serving(t, func(c *servetest.Rig) { c.Forecaster = first })
	if none := servetest.Decode[contract.Forecasts](t, servetest.Get(h, "/api/gpu/forecast")); none.GPUs == nil || len(none.GPUs) > 0 {
		t.Errorf("before the first reading: %+v", none)
	}
	st.Show(t, fixture.Server())
	all := servetest.Decode[contract.Forecasts](t, servetest.Get(h, "/api/gpu/forecast"))
	if len(all.GPUs) != first.asked || first.asked == 0 || *all.GPUs[0].Made == "" || len(all.GPUs[0].Forecasts) != 6 || all.TimeZone == "" {
		t.Fatalf("of %d GPUs: %+v", first.asked, all)
	}
	if f := all.GPUs[0].Forecasts[0]; f.Shown || f.Reason != "no growth" || f.Text != "There is no forecast yet: no growth." || f.Value.Present() || f.Error.Present() {
		t.Errorf("%+v", f)
	}
	one := servetest.Decode[contract.Forecasts](t, servetest.Get(h, "/api/gpu/forecast?gpu=0"))
	if len(one.GPUs) != 1 || one.GPUs[0].GPUUUID != all.GPUs[0].GPUUUID {
		t.Errorf("%+v", one)
	}
	servetest.IsProblem(t, servetest.Get(h, "/api/gpu/forecast?gpu=99"), http.StatusNotFound)
	_, off := servetest.Serving(t, func(c *servetest.Rig) { c.Past = nil })
	servetest.IsProblem(t, servetest.Get(off, "/api/gpu/forecast"), http.StatusNotFound)
}
