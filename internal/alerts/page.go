package alerts

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/views"
)

var errFrom = serve.Refuse(http.StatusBadRequest, "from must be the number of alerts to skip", "leave from out of the address")

// page leaves out as many of the first alerts as the query's from says.
func (s *Site) page(w http.ResponseWriter, r *http.Request) error {
	first, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("from"), "0"))
	if err != nil || first < 0 {
		return errFrom
	}
	f, node, book := s.Kit.Latest(r), serve.Node(r), s.book(r)
	in := s.Shell.Input(r.Context(), f, node)
	in.Choices = views.Choices{Path: in.BasePath + "alerts", Asked: r.URL.Query()}
	page := views.AlertsInput{
		Input: in,
		First: first,
		AnswerOf: func(a *alert.Alert) *explain.DeviceAnswer {
			p, _ := f.Device(a.Device.Node, a.Device.UUID)
			return p.Why
		},
		Past:     alert.For(alert.OfNode(book.Past(), node), serve.Commands(r.Context())),
		Ended:    book.EndedSince(node, in.Now.Add(-24*time.Hour)),
		Silences: alert.OfNode(book.Silences(s.Kit.Clock.Now()), node),
		Rules:    book.Rules(),
	}
	if s.Targets != nil && serve.SeesAll(r.Context()) { // their errors may name machines
		page.Targets = s.Targets()
	}
	if s.State != nil {
		page.Unwritten = s.State().State == "failed"
	}
	return s.Kit.LiveHTML(w, r, views.NewAlertsPage(page))
}

// back is the page that a form names: "alerts", perhaps with a query, "gpu/" and a UUID, or any other text for the dashboard.
func back(page string) string {
	page, asked, _ := strings.Cut(page, "?")
	if uuid, ok := strings.CutPrefix(page, "gpu/"); ok {
		return "/gpu/" + url.PathEscape(uuid) + "#alerts"
	}
	if page != "alerts" {
		return "/#alerts"
	}
	if chosen, err := url.ParseQuery(asked); err == nil && len(chosen) > 0 {
		return "/alerts?" + chosen.Encode()
	}
	return "/alerts"
}
