//go:build !race

package serve_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
)

// Every answer about every machine is what the document says.
func TestAnswersAreDocumented(t *testing.T) {
	d := servetest.NewDocumented(t)
	for name, snaps := range servetest.Machines() {
		st, h := servetest.Serving(t, func(c *servetest.Rig) { c.Monitor.Several = len(snaps) > 1 })
		if snaps != nil {
			st.Show(t, snaps...)
		}
		for path, item := range d.Paths {
			if item["get"] == nil {
				continue
			}
			queries := []string{""}
			for _, p := range item["get"].Parameters {
				if p.In == "query" {
					queries = append(queries, "?"+p.Name+"=local", "?"+p.Name+"=other", "?"+p.Name+"=0", "?"+p.Name+"=a;b")
				}
			}
			for _, values := range [][]string{
				{"{id}", "0", "{cluster}", "local", "{node}", "workstation"},
				{"{id}", "5", "{cluster}", "local", "{node}", "dgx-1"},
				{"{id}", "99", "{cluster}", "other", "{node}", "other"},
				{"{id}", "zero", "{cluster}", "x y", "{node}", "x y"},
			} {
				address := (&url.URL{Path: strings.NewReplacer(values...).Replace(path)}).String()
				for _, query := range queries {
					t.Run(name+" "+address+query, func(t *testing.T) { d.Check(t, http.MethodGet, path, servetest.Get(h, address+query)) })
				}
			}
		}
	}
}
