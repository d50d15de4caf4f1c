package serve_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
)

// A clientCall is a call of package client, and the operation that it is of.
type clientCall struct {
	id      string
	request client.Request
	answer  reflect.Type
}

func operation[A any](id string, call client.Call[A]) clientCall {
	return clientCall{id, call.Request, reflect.TypeFor[A]()}
}

// clientCalls are the calls of package client with all their parameters.
func clientCalls() []clientCall {
	span := client.Span{From: "1h", To: "now", TimeZone: "UTC", GPU: []string{"0"}, Node: "node"}
	return []clientCall{
		operation("getSummary", client.GetSummary()), operation("listMachines", client.ListMachines()), operation("getSnapshot", client.GetSnapshot("node")), operation("getDevice", client.GetDevice("0")),
		operation("getRecent", client.GetRecent("0")), operation("getWhy", client.GetWhy()), operation("getWhyOfOne", client.GetWhyOfOne("0")),
		operation("getMonitorHealth", client.GetMonitorHealth()), operation("getWhy", client.GetPastWhy(span)), operation("getHistory", client.GetHistory(span, "5m", "power_draw")),
		operation("listReadings", client.ListReadings(span, "raw", "power_draw")), operation("listSessions", client.ListSessions(span, "ann")),
		operation("getUsage", client.GetUsage(span, "user", "ann")), operation("listCauses", client.ListCauses(span)), operation("listEvents", client.ListEvents(span, "xid")),
		operation("getAt", client.GetAt("now", "UTC", "node")), operation("getForecast", client.GetForecast("0")), operation("getHistorySize", client.GetHistorySize()),
		operation("getAlerts", client.GetAlerts()), operation("getAlertRules", client.GetAlertRules()), operation("getSilences", client.GetSilences()),
		operation("acknowledgeAlert", client.AcknowledgeAlert("a", "x")), operation("withdrawAcknowledgment", client.WithdrawAcknowledgment("a")),
		operation("dismissAlert", client.DismissAlert("a")), operation("silenceAlert", client.SilenceAlert("a", "x", time.Hour)),
		operation("silenceAlerts", client.SilenceAlerts(client.SilenceRequest{Duration: 1})), operation("endSilence", client.EndSilence("s")),
		operation("testTarget", client.TestTarget("phone")),
	}
}

// Each call of the client is an operation of the API's document, with parameters that it has and the answer that it gives.
func TestTheClientAsksWhatIsDocumented(t *testing.T) {
	t.Parallel()
	_, cfg := servetest.New()
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clientCalls() {
		r := httptest.NewRequest(c.request.Method, "http://localhost:8003"+c.request.Path, nil)
		_, pattern := s.Mux().Handler(r)
		_, pattern, _ = strings.Cut(pattern, " ")
		index := slices.IndexFunc(s.Routes(), func(route serve.Route) bool { return route.Path == pattern && route.Method == r.Method })
		if index < 0 || s.Routes()[index].Doc == nil || s.Routes()[index].Doc.ID != c.id {
			t.Errorf("%s %s is not %s", r.Method, c.request.Path, c.id)
			continue
		}
		doc := s.Routes()[index].Doc
		for name, values := range c.request.Query {
			i := slices.IndexFunc(doc.Params, func(p *apidoc.Parameter) bool { return p.Name == name && p.In == "query" })
			if i < 0 || len(values) != 1 {
				t.Errorf("%s has no parameter %s", c.id, name)
			}
		}
		if c.request.Body != nil && (doc.Body == nil || reflect.TypeOf(doc.Body.Of) != reflect.TypeOf(c.request.Body)) {
			t.Errorf("%s takes no %T", c.id, c.request.Body)
		}
		answers := false
		for _, a := range doc.Answers {
			answers = answers || reflect.TypeOf(a.Of) == c.answer || reflect.TypeOf(a.Or) == c.answer ||
				a.Status == http.StatusNoContent && c.answer == reflect.TypeFor[client.Nothing]()
		}
		if !answers {
			t.Errorf("%s does not answer with %v", c.id, c.answer)
		}
	}
}
