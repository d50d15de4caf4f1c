package contract

import (
	"math"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Forecasts answers GET /api/gpu/forecast.
type Forecasts struct {
	Timestamp string        `json:"timestamp" format:"date-time"` // time of the newest snapshot; before the first, when the monitor started
	TimeZone  string        `json:"time_zone"`                    // zone of months and hours of the week: a name, or the offset from UTC
	GPUs      []GPUForecast `json:"gpus"`                         // one entry per GPU, by gpu_id
}

// GPUForecast is what is forecast of one GPU.
type GPUForecast struct {
	PastGPU
	Made      *string    `json:"made" format:"date-time"` // when the forecasts were made, about once a minute. Null before the first
	Forecasts []Forecast `json:"forecasts"`               // one entry per kind; empty before the first
	// How likely the GPU is to be free in each hour of the week, Sunday first; empty if usually_free is
	// not shown.
	Hours []FreeHour `json:"hours"`
}

// Forecast is one expected figure, with how wrong such forecasts were in the past.
type Forecast struct {
	Kind   string  `json:"kind" enum:"memory_full,limit_reached,quiet,energy,cost,usually_free"` // what is forecast
	Shown  bool    `json:"shown"`                                                                // whether the forecast is good enough: it beat both simple guesses
	Text   string  `json:"sentence"`                                                             // for people; if it is not shown, a sentence that says why
	Reason string  `json:"reason"`                                                               // why it is not shown; empty if it is
	Method string  `json:"method"`                                                               // the method; empty if it was not tried
	At     *string `json:"at" format:"date-time"`                                                // time of the newest point used. Null if there is none
	Unit   string  `json:"unit"`                                                                 // unit of value, low and high: "s" after at, "kWh", "" for money or a probability
	Value  Float   `json:"value" unit:"any"`                                                     // the expected value. Null if it is not shown
	Low    Float   `json:"low" unit:"any"`                                                       // lower end of the 80 % interval. Null if it is not shown
	High   Float   `json:"high" unit:"any"`                                                      // upper end of the 80 % interval. Null if it is not shown
	// The unit of the errors: the unit of the forecast, or of the reading as far ahead as the forecast
	// reaches.
	ErrorUnit string `json:"error_unit"`
	Trials    int    `json:"trial_count"`        // the number of forecasts of this machine's own past that the errors are based on
	Error     Float  `json:"error" unit:"any"`   // the mean absolute error of those forecasts. Null if there were none
	AsNow     Naive  `json:"naive_as_now"`       // the same for the simple guess that nothing changes
	Yesterday Naive  `json:"naive_as_yesterday"` // the same for the simple guess that it will be as at this hour yesterday
}

// Naive says how wrong a simple guess was.
type Naive struct {
	Trials int   `json:"trial_count"`             // the number of trials in which it could be made
	Error  Float `json:"error" unit:"any"`        // its mean absolute error in those trials. Null if it could never be made
	Method Float `json:"method_error" unit:"any"` // the method's error in the same trials. Null if there were none
}

// FreeHour is one hour of the week.
type FreeHour struct {
	Weekday     string  `json:"weekday" enum:"sunday,monday,tuesday,wednesday,thursday,friday,saturday"` // in local time
	Hour        int     `json:"hour" unit:"any"`                                                         // hour at which it begins, 0 to 23
	Probability float64 `json:"probability" unit:"share"`                                                // how likely the GPU is to be free, 0 to 1
	Low         float64 `json:"low" unit:"share"`                                                        // lower end of the probability's 80 % interval
	High        float64 `json:"high" unit:"share"`                                                       // upper end of the probability's 80 % interval
	Weeks       int     `json:"week_count"`                                                              // the number of weeks with data
	Free        bool    `json:"usually_free"`                                                            // whether the GPU is usually free then: the whole interval is above one half
}

// NewForecasts makes it from parts of a fleet, in the time zone of now. of returns nil for a device without forecasts yet.
func NewForecasts(m Monitor, f *insight.Fleet, parts []insight.Part, outlookOf func(insight.Part) *outlook.Outlook, now time.Time) Forecasts {
	out := Forecasts{TimeZone: NewPastSpan(now, now, nil).TimeZone}
	out.Timestamp, _ = m.head(f)
	out.GPUs = listOf(parts, func(p *insight.Part) GPUForecast {
		d := p.Device
		g := GPUForecast{PastGPU: PastGPU{d.Index, d.UUID, d.Name, d.Node, gpu.KindOf(d.Source)}, Forecasts: []Forecast{}, Hours: []FreeHour{}}
		o := outlookOf(*p)
		if o == nil {
			return g
		}
		g.Made = optionalTime(o.At)
		for forecast := range o.Forecasts {
			g.Forecasts = append(g.Forecasts, newForecast(forecast, p))
		}
		if o.Free.Shown {
			for i := range o.Free.Hours {
				g.Hours = append(g.Hours, newFreeHour(i, &o.Free.Hours[i]))
			}
		}
		return g
	})
	return out
}

var units = map[method.Kind][2]string{
	method.KindMemoryFull:   {"s", "MiB"},
	method.KindLimitReached: {"s", "°C"},
	method.KindQuiet:        {"s", "s"},
	method.KindEnergy:       {"kWh", "kWh"},
}

// newForecast makes it from what is shown for the device now: an older forecast may be over.
func newForecast(f *method.Forecast, p *insight.Part) Forecast {
	out := Forecast{
		Kind: string(f.Kind), Shown: f.Shown, Reason: string(f.Why), Method: f.Method, At: optionalTime(f.At), Unit: units[f.Kind][0],
		ErrorUnit: units[f.Kind][1], Trials: f.Error.Trials, AsNow: newNaive(&f.AsNow), Yesterday: newNaive(&f.Yesterday),
	}
	for _, next := range p.Why.Next {
		if next.Kind == out.Kind {
			out.Text = next.Sentence
		}
	}
	if f.Shown && out.Text == "" {
		out.Shown, out.Reason = false, string(outlook.Over)
	}
	if out.Shown {
		out.Value, out.Low, out.High = thousandths(f.Value), thousandths(f.Low), thousandths(f.High)
	}
	if out.Text == "" {
		out.Text = "There is no forecast yet: " + out.Reason + "."
	}
	if f.Error.Trials > 0 {
		out.Error = thousandths(f.Error.MAE)
	}
	return out
}

func newNaive(n *method.Naive) Naive {
	if n.Trials == 0 {
		return Naive{}
	}
	return Naive{n.Trials, thousandths(n.MAE), thousandths(n.Method)}
}

func newFreeHour(i int, h *method.Hour) FreeHour {
	weekdays := [...]string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
	return FreeHour{weekdays[i/24], i % 24, h.P, h.Low, h.High, h.Weeks, outlook.Usually(h)}
}

func thousandths(v float64) Float { return gpu.Of(math.Round(v*1000) / 1000) }
