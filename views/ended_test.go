//go:build !race

package views

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
)

// The history of a fleet says where it was, whose work it was, what fired and how far it went; and all that ended is counted, however
// much of it is listed.
func TestTheHistoryOfAFleet(t *testing.T) {
	ended := func(n int, node string) alert.Alert {
		return alert.Alert{
			ID: fmt.Sprint("a", n), Rule: "hot", Severity: alert.Critical, State: alert.Resolved, Unit: "°C", Device: gpu.Identity{Node: node, UUID: "GPU-1", Index: 1, Name: "H100"},
			Since: noon.Add(-time.Hour), Time: noon.Add(-time.Minute), Ended: noon.Add(-2 * time.Minute), Message: "GPU 1 (H100) is at 71 °C, no longer above 85 °C.",
			Is: "is at 71 °C again", Fired: "GPU 1 (H100) is at 91 °C.", FiredIs: "is at 91 °C, above 85 °C", Peak: gpu.Of(94.0), Users: []string{"ann", "<b>bob"},
		}
	}
	in := AlertsInput{Input: Input{Nodes: nodesOf(machine("one")), Now: noon, Asset: asset, BasePath: "/", Root: "/"}, Ended: 1258}
	for n := range 100 {
		in.Past = append(in.Past, ended(n, fmt.Sprint("node-", n%7)))
	}
	p := NewAlertsPage(in)
	if len(p.Folds) != 1 || p.Folds[0].Count != "1258" || !strings.HasPrefix(p.Folds[0].Text, "ended in the last 24") {
		t.Errorf("%+v", p.Folds)
	}
	in.Choices = Choices{Path: "/alerts", Asked: url.Values{chosenTab: {"history"}}}
	p = NewAlertsPage(in)
	got := p.Past[3]
	if got.Node != "node-3" || got.Users != "ann, <b>bob" || !strings.Contains(strings.ReplaceAll(got.Title, nbsp, " "), "is at 91 °C, above 85 °C") || got.Peak != "94 °C" {
		t.Errorf("%+v", got)
	}
	html := strings.ReplaceAll(render(t, p), nbsp, " ")
	for _, want := range []string{`<th scope="col">Machine</th>`, `<bdi>node-3</bdi>`, `<bdi>ann, &lt;b&gt;bob</bdi>`, "above 85", ">94 °C<", "1258 ended in the last 24 hours."} {
		if !strings.Contains(html, want) {
			t.Errorf("the history lacks %s", want)
		}
	}
	if strings.Contains(html, "71 °C") {
		t.Error("it tells how it is now")
	}
	in.Past = in.Past[:1]
	in.Ended = 1
	if html := render(t, NewAlertsPage(in)); strings.Contains(html, `<th scope="col">Machine</th>`) || strings.Contains(html, "These are the newest") {
		t.Error("one machine is named, or more is said to be there")
	}
}
