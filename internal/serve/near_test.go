package serve

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// Whoever writes a name that there is not reads which there are, and which one is like it.
func TestUnknownNames(t *testing.T) {
	detail := func(err error) string {
		advice := gpu.AsAdvice(err)
		return advice.Text()
	}
	if got := detail(Unknown(http.StatusUnprocessableEntity, "there is no event kind", "xidd", []string{"alert_fired", "xid"}, "")); !strings.Contains(got, `"xidd" (did you mean "xid"?): use alert_fired or xid`) {
		t.Error(got)
	}
	if got := detail(Unknown(http.StatusNotFound, "there is no node", "gpu-10", []string{"gpu-1", "gpu-2"}, "/x lists all")); got != `there is no node "gpu-10" (did you mean "gpu-1"?): use gpu-1 or gpu-2; /x lists all` {
		t.Error(got)
	}
	if got := detail(Unknown(http.StatusNotFound, "there is no node", "a", nil, "/x lists all")); got != `there is no node "a": /x lists all` {
		t.Error(got)
	}
	many := make([]string, mostNames+1)
	for i := range many {
		many[i] = strings.Repeat("n", i+1)
	}
	if got := detail(Unknown(http.StatusNotFound, "there is no node", "b", many, "/x lists all")); got != `there is no node "b": /x lists all` {
		t.Error(got)
	}
	if got := detail(checkParams("/x", []*apidoc.Parameter{{Name: "from"}, {Name: "gpu"}}, url.Values{"form": {"-1h"}})); got != `the parameter "form" is not supported by /x (did you mean "from"?): leave it out, or use one of from, gpu` {
		t.Error(got)
	}
}
