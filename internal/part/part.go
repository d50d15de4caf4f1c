// Package part says what a capability of gpuwhy can offer the program. A capability, such as alerts or the past, is a [Part]. It
// implements those of the other interfaces that it needs. Package app lists the parts in order, asks each of them for what it
// offers, and knows nothing else of them: there is no setter, no flag and no nil check for a single capability.
//
// Parts do not import each other. What one needs of another, it declares as a small interface, and app passes the other in.
package part

import (
	"context"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A Part is a capability of the program.
type Part interface {
	Name() string // in logs and errors, such as "alerts"
}

// An Observer receives the newest Moments of nodes, of each node in the order of time. Observers are called one after the other, in
// the order of the parts, before viewers are told: so they must not block.
type Observer interface {
	Observe(moments []*insight.Moment)
}

// A Runner works beside the live path. Run returns soon after ctx has ended. An error ends the program.
type Runner interface {
	Run(ctx context.Context) error
}

// A Server answers requests. Routes is called once, before the program runs; their order is that of the documents.
type Server interface {
	Routes() []serve.Route
}

// A Reporter says how a part does. Both may be called at any time, by many goroutines.
type Reporter interface {
	// Health has the state of what the part consists of, by the names that /api/health shows.
	Health() map[string]contract.Part
	// Measure fills in what /metrics says of the part.
	Measure(*metrics.Self)
}

// A Keeper has state that survives a restart. Documents are written in their order, those of an earlier part first.
type Keeper interface {
	Documents() []state.Document
}

// An Actor has actions that people and programs can ask for.
type Actor interface {
	Actions() []action.Action
}

// A Forgetter forgets a node that has left the fleet.
type Forgetter interface {
	Forget(node string)
}

// A Closer holds something that is to be closed after all has ended, such as a database. Parts are closed in reverse order.
type Closer interface {
	Close() error
}
