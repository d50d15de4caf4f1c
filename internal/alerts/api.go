package alerts

import (
	"context"
	"net/http"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/views"
)

// A Shell fills in what every page shows.
type Shell interface {
	// Input is what a page of a node is made of for somebody who asks, or of all nodes if the name is empty.
	Input(ctx context.Context, f *insight.Fleet, node string) views.Input
}

// A Site shows alerts, over the API and on a page. What people do about them are the [Room]'s actions.
type Site struct {
	Kit     *serve.Kit
	Book    alert.Book
	Shell   Shell
	Targets func() []notify.Status // those who are told of alerts; it may be nil
	// State returns the state of writing alerts and silences to disk. It may be nil.
	State func() contract.Part
}

// Name implements part.Part.
func (*Site) Name() string { return "alerts" }

// Routes implements part.Server.
func (s *Site) Routes() []serve.Route {
	return []serve.Route{
		serve.Read("/api/alerts", current(s.alerts), contract.ClientAlerts, "getAlerts", "Open and past alerts, and silences",
			serve.OK("The alerts.", contract.Alerts{}, "alerts")),
		serve.Read("/api/alert-rules", current(func(r *http.Request) any { return contract.NewAlertRules(s.book(r).Rules()) }),
			contract.ClientAlerts, "getAlertRules", "List alert rules",
			serve.OK("All rules, including disabled ones.", contract.AlertRules{}, "alert_rules")),
		serve.Read("/api/silences", current(func(r *http.Request) any {
			return contract.NewSilences(alert.OfNode(s.book(r).Silences(s.Kit.Clock.Now()), serve.Node(r)))
		}), contract.ClientAlerts, "getSilences", "List active silences",
			serve.OK("The silences, in the order in which they end.", contract.Silences{}, "silences")),
		serve.LivePage("/alerts", s.page),
	}
}

// current answers with what may change between two readings.
func current(build func(*http.Request) any) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return serve.JSON(w, r, build(r))
	}
}

// book has the alerts that somebody sees who asks.
func (s *Site) book(r *http.Request) alert.Book {
	if serve.SeesAll(r.Context()) {
		return s.Book
	}
	return alert.Seen(s.Book, serve.NodeNames(s.Kit.Fleet(r.Context())))
}

func (s *Site) alerts(r *http.Request) any {
	f, node, now, book, commands := s.Kit.Newest(r), serve.Node(r), s.Kit.Clock.Now(), s.book(r), serve.Commands(r.Context())
	return contract.NewAlerts(s.Kit.MonitorFor(r.Context()).Of(f), f, alert.For(alert.OfNode(book.Standing(), node), commands), alert.For(alert.OfNode(book.Past(), node), commands),
		book.EndedSince(node, now.Add(-24*time.Hour)), alert.OfNode(book.Silences(now), node))
}
