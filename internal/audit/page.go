package audit

import (
	"context"
	"errors"
	"net/http"

	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/views"
)

// A Shell fills in what every page shows.
type Shell interface {
	// Input is what a page of a node is made of, or of all if the name is empty.
	Input(ctx context.Context, f *insight.Fleet, node string) views.Input
}

// page shows the entries that the query asks for. It says what is wrong with a query.
func (s *Site) page(w http.ResponseWriter, r *http.Request) error {
	in := views.AuditInput{Input: s.Shell.Input(r.Context(), s.Kit.Fleet(r.Context()), "")}
	in.Choices = views.Choices{Path: in.BasePath + "audit", Asked: r.URL.Query()}
	q, err := s.query(r)
	if err == nil {
		in.Entries, in.Next, err = s.entries(r.Context(), q)
	}
	if err == nil && in.Get("check") != "" {
		checked, unread := Check(r.Context(), s.Record)
		if in.Check, err = &checked, unread; unread != nil {
			err = errors.Join(errGone, unread)
		}
	}
	if err == nil {
		return serve.HTML(w, r, views.NewAuditPage(in))
	}
	status, advice := serve.AsRefusal(err)
	if status == http.StatusInternalServerError {
		return err
	}
	in.Trouble = new(advice)
	return serve.RefuseWith(w, r, err, views.NewAuditPage(in))
}
