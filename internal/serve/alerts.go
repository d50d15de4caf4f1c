package serve

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

func (s *Server) alertRoutes() []Route {
	return slices.Concat(
		[]Route{s.read("/api/alerts", current(s.alerts), tagAlerts, "getAlerts", "Open and past alerts, and silences",
			ok("The alerts.", contract.Alerts{}, "alerts"))},
		s.actionRoutes(ofKind("alert")),
		[]Route{
			s.read("/api/alert-rules", current(func(*http.Request) any { return contract.NewAlertRules(s.cfg.Alerts.Rules()) }),
				tagAlerts, "getAlertRules", "List alert rules",
				ok("All rules, including disabled ones.", contract.AlertRules{}, "alert_rules")),
			s.read("/api/silences", current(func(r *http.Request) any {
				return contract.NewSilences(alert.OfNode(s.cfg.Alerts.Silences(s.cfg.Clock.Now()), nodeOf(r)))
			}), tagAlerts, "getSilences", "List active silences",
				ok("The silences, in the order in which they end.", contract.Silences{}, "silences")),
		},
		s.actionRoutes(ofKind("silence")),
		[]Route{s.livePage("/alerts", s.alertsPage)},
	)
}

var errFrom = refuse(http.StatusBadRequest, "from must be the number of alerts to skip", "leave from out of the address")

// current answers with what may change between two readings.
func current(build func(*http.Request) any) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return serveJSON(w, r, build(r), cacheRevalidate)
	}
}

func (s *Server) alerts(r *http.Request) any {
	a, f, node := s.cfg.Alerts, s.fleet(r), nodeOf(r)
	ended := a.EndedSince(node, s.cfg.Clock.Now().Add(-24*time.Hour))
	return contract.NewAlerts(s.monitor(f), f,
		alert.OfNode(a.Standing(), node), alert.OfNode(a.Past(), node), ended, alert.OfNode(a.Silences(s.cfg.Clock.Now()), node))
}

// alertsPage skips as many alerts as the query's from says.
func (s *Server) alertsPage(w http.ResponseWriter, r *http.Request) error {
	from, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("from"), "0"))
	if err != nil || from < 0 {
		return errFrom
	}
	return s.serveLive(w, r, s.cfg.AlertsPage(from, nodeOf(r), r.URL.Query()))
}
