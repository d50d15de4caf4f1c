package serve

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// Whoever writes a name that there is not reads which there are, and which one is like it.
func TestUnknownNames(t *testing.T) {
	detail := func(err error) string {
		advice := gpu.AsAdvice(err)
		return advice.Text()
	}
	_, _, err := columnsOf([]string{"power"})
	if got := detail(err); !strings.HasPrefix(got, `there is no metric "power" (did you mean "power_draw"?): use `) || !strings.Contains(got, "utilization") {
		t.Error(got)
	}
	if got := detail(unknown(unprocessable, "there is no event kind", "xidd", store.EventKinds, "")); !strings.Contains(got, `"xidd" (did you mean "xid"?): use alert_fired, `) {
		t.Error(got)
	}
	if got := detail(unknown(http.StatusNotFound, "there is no node", "gpu-10", []string{"gpu-1", "gpu-2"}, "/x lists all")); got != `there is no node "gpu-10" (did you mean "gpu-1"?): use gpu-1 or gpu-2; /x lists all` {
		t.Error(got)
	}
	if got := detail(unknown(http.StatusNotFound, "there is no node", "a", nil, "/x lists all")); got != `there is no node "a": /x lists all` {
		t.Error(got)
	}
	many := make([]string, mostNames+1)
	for i := range many {
		many[i] = strings.Repeat("n", i+1)
	}
	if got := detail(unknown(http.StatusNotFound, "there is no node", "b", many, "/x lists all")); got != `there is no node "b": /x lists all` {
		t.Error(got)
	}
	if got := detail(checkParams("/x", []*apidoc.Parameter{{Name: "from"}, {Name: "gpu"}}, url.Values{"form": {"-1h"}})); got != `the parameter "form" is not supported by /x (did you mean "from"?): leave it out, or use one of from, gpu` {
		t.Error(got)
	}
	_, h := serving(t)
	for path, want := range map[string]string{
		"/api/gpu/recnt":  `there is nothing at this address (did you mean "/api/gpu/recent"?)`,
		"/api/gpu/alerts": `there is nothing at this address (did you mean "/api/alerts"?)`,
		"/api/gpu/events": `there is nothing at this address (did you mean "/api/events"?)`,
	} {
		w := get(h, path)
		if want != "" && !strings.Contains(strings.ReplaceAll(w.Body.String(), `\"`, `"`), want) {
			t.Errorf("%s: %s, want %s", path, w.Body, want)
		}
	}
}
