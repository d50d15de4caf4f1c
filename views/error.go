package views

import (
	"context"
	"io"
)

// An ErrorPage tells a person what happened and what to do. A page with status
// 503 (not there yet) reloads itself.
type ErrorPage struct {
	Code     int    // the HTTP status
	Title    string // "There is no such page"
	What     string // what happened, in a sentence
	Try      string // what to do, in a sentence; may be empty
	BasePath string // begins and ends with "/"
	Asset    func(name string) string
}

// Render writes the whole page as HTML.
func (p ErrorPage) Render(ctx context.Context, w io.Writer) error {
	h := newHead(p.Title+" · gpuwhy", p.Asset, "", "app.css")
	h.Again = p.Code == 503
	return document(h, errorBody(p)).Render(ctx, w)
}
