package past

import (
	"context"
	"net/http"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// What tests of the room look at.
var (
	Called    = called
	Before    = before
	ColumnsOf = columnsOf
)

// MostLong is how many long answers are under way at most.
const MostLong = mostLong

// Owner is a context in which the local owner asks.
func Owner(ctx context.Context) context.Context {
	who := auth.LocalOwner()
	return auth.NewContext(ctx, &who)
}

// Asked is what the page is asked by the local owner.
func (s *Site) Asked(r *http.Request) (*Question, error) {
	return s.asked(r.WithContext(Owner(r.Context())))
}

// Shown is the page for the local owner.
func (s *Site) Shown(ctx context.Context, q *Question) (templ.Component, error) {
	return s.shown(Owner(ctx), q)
}

// File is what a table about those devices is called when it is saved.
func File(devices map[store.Key]store.Device, what, extension string) string {
	q := request{devices: devices}
	return q.file(what, extension)
}
