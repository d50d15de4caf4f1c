// Package forecast has the forecasts of devices, and answers with them over the API. How they are made is for package outlook,
// and the mathematics for package method.
package forecast

import (
	"context"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A Room makes the forecasts.
type Room struct{ *outlook.Forecaster }

// New makes a Room that forecasts from the past. price is the price of a kilowatt-hour of electricity; 0 if unknown.
func New(host part.Host, past *history.Past, price float64) *Room {
	return &Room{outlook.New(outlook.Config{
		Past: past, Newest: host.Hub.Newest, Interval: host.Interval, Price: price, Log: host.Log.With("part", "forecast"),
		Zone: time.Local, //nolint:gosmopolitan // people's own hours are meant
	})}
}

// Name implements [part.Part].
func (r *Room) Name() string { return "forecast" }

// Follow learns from the nodes that are read here: who reads a node foretells of it.
func (r *Room) Follow(m *insight.Moment) {
	if !m.Link.Remote {
		r.Observe(m)
	}
}

// Run makes forecasts until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	r.Forecaster.Run(ctx)
	return nil
}

// Documents has the past forecasts of cool-downs, which show how good they were.
func (r *Room) Documents() []state.Document {
	return []state.Document{state.Of("cooldowns", "forecasts of cool-downs", state.Regularly, r.Forecaster)}
}
