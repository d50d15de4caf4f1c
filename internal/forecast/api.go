package forecast

import (
	"net/http"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// A Forecaster has the outlooks of devices.
type Forecaster interface {
	Of(store.Key) *outlook.Outlook // nil where nothing is yet
}

// A Site answers what comes next.
type Site struct {
	Kit        *serve.Kit
	Kept       bool       // a past is kept, of which forecasts are made
	Forecaster Forecaster // nil where none are made
}

// Name implements part.Part.
func (*Site) Name() string { return "forecast" }

// Forecast is of parts of a fleet, in the time zone of now; none where none are made.
func (s *Site) Forecast(f *insight.Fleet, parts []insight.Part, now time.Time) []contract.GPUForecast {
	if s.Forecaster == nil {
		return nil
	}
	return contract.NewForecasts(s.Kit.Monitor, f, parts, s.outlook, now).GPUs
}

// outlook returns the outlook of a device; nil if there is none.
func (s *Site) outlook(p insight.Part) *outlook.Outlook {
	if s.Forecaster == nil {
		return nil
	}
	return s.Forecaster.Of(store.Key{Node: p.Device.Node, UUID: p.Device.UUID})
}

var errNoHistory = serve.Refuse(http.StatusNotFound, "no history is kept", "start gpuwhy with its own --state-dir and without --history off")

// Routes implements part.Server.
func (s *Site) Routes() []serve.Route {
	return []serve.Route{
		serve.Read("/api/gpu/forecast", s.forecasts, contract.ClientPast, "getForecast", "Get forecasts",
			apidoc.Text("When memory fills up, when a GPU throttles or becomes quiet, what a month uses and costs, and when a GPU is usually free. A forecast is shown only if it beat both simple guesses on this machine's own past; see the guide, at /guide/forecast."),
			apidoc.InQuery("gpu", "Only this GPU, by index or UUID. May be repeated.", "0").Repeated(),
			serve.Fresh("The forecasts of each GPU.", contract.Forecasts{}, "forecasts"),
			serve.BadParameter, serve.Refused("There is no such GPU, or no history is kept.", errNoHistory), serve.BadDeviceQuery).Strict(),
	}
}

// forecasts answers with the forecasts for the devices that a request names, or for all.
func (s *Site) forecasts(w http.ResponseWriter, r *http.Request) error {
	if !s.Kept {
		return errNoHistory
	}
	query, err := serve.ParseQuery(r)
	if err != nil {
		return err
	}
	f := s.Kit.Newest(r)
	var parts []insight.Part
	for _, name := range query["gpu"] {
		id, err := serve.ParseID(name)
		if err != nil {
			return err
		}
		p, err := id.Find(f)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		parts = slices.Collect(f.Parts())
	}
	now := s.Kit.Clock.Now().In(time.Local) //nolint:gosmopolitan // people's own hours are meant
	return serve.FreshJSON(w, r, contract.NewForecasts(s.Kit.MonitorFor(r.Context()).Of(f), f, parts, s.outlook, now))
}
