// Package part says what a capability of gpuwhy can offer the program, and what it is given. A capability, such as alerts or the
// past, is a [Part]. It implements those of the other interfaces that it needs. Package app lists the parts in order, asks each of
// them for what it offers, and knows nothing else of them: there is no setter, no flag and no nil check for a single capability.
//
// Parts do not import each other. What one needs of another, it declares as a small interface or a function of its Config, and app
// passes that in.
package part

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A Host is what every part is given of the program. Its functions may be called by many goroutines, once the program runs.
type Host struct {
	Node    string // what the program is called: that of the one node, or with several nodes its own name
	Version string
	Hub     *hub.Hub      // the newest Moments and the viewers
	Keeper  *state.Keeper // writes the documents of the parts: a part says when they have changed
	// Interval is the time between readings, and Idle that while nobody looks; 0: Interval, always.
	Interval, Idle time.Duration
	Own            func(node string) bool // reports whether this program reads a node
	Remove         func(node string)      // takes a node out of the program
	Clock          clock.Clock
	Log            *slog.Logger
}

// Longest is the longest time between two readings.
func (h *Host) Longest() time.Duration { return max(h.Interval, h.Idle) }

// A Part is a capability of the program.
type Part interface {
	Name() string // in logs and errors, such as "alerts"
}

// An Observer receives the newest Moments of nodes, of each node in the order of time. Observers are called one after the other, in
// the order of the parts, before viewers are told: so they must not block.
type Observer interface {
	Observe(moments []*insight.Moment)
}

// A Follower receives the newest Moment of each node, and then each newer one, beside all others. While it is slow, it misses those
// that were replaced.
type Follower interface {
	Follow(m *insight.Moment)
}

// A Runner works beside the live path. Run returns soon after ctx has ended. An error ends the program.
type Runner interface {
	Run(ctx context.Context) error
}

// A Starter is told once that every node that the program is given has been read.
type Starter interface {
	Started()
}

// A Reloader reads again what people have changed, where they ask for that.
type Reloader interface {
	Reload()
}

// A Configured part has read settings from files.
type Configured interface {
	// Settings are those in force, by a name that tells them from all others, without secrets.
	Settings() map[string]string
}

// A Server answers requests. Routes is called once, before the program runs; their order is that of the documents.
type Server interface {
	Routes() []serve.Route
}

// A Watcher reports whether somebody is looking at the readings; nodes are then read at the usual interval.
type Watcher interface {
	Watched() bool
}

// A Reporter says how a part does. Health may be called at any time, by many goroutines.
type Reporter interface {
	// Health has the state of what the part consists of, by the names that /api/health shows.
	Health() map[string]contract.Part
}

// A Measurer has metrics of its own. Measure may be called at any time.
type Measurer interface {
	// Measure fills in what /metrics says of the part.
	Measure(*metrics.Self)
}

// A Keeper has state that survives a restart. Of documents that are equally urgent, those of an earlier part are written first.
type Keeper interface {
	Documents() []state.Document
}

// A Holder keeps its state as it is while a function runs, so that documents that belong together are of one moment.
type Holder interface {
	Hold(func())
}

// A Shelver has a better place than files for what survives a restart. It is closed after the last document was written.
type Shelver interface {
	// Shelf is where documents are, beside the files that an earlier run may have left.
	Shelf(files state.Files) state.Shelf
}

// An Actor has actions that people and programs can ask for.
type Actor interface {
	Actions() []action.Action
}

// A Forgetter forgets a node that belongs to the program no more.
type Forgetter interface {
	Forget(node string)
}

// A Closer holds something that is to be closed after all has ended, such as a database, or before it has begun. Closers are closed
// at the same time, since each may wait for a disk.
type Closer interface {
	Close() error
}
