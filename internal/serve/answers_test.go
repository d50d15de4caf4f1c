//go:build !race

package serve

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Every answer about every machine is what the document says.
func TestAnswersAreDocumented(t *testing.T) {
	d := newDocumented(t)
	for name, snaps := range machinesOf() {
		st, h := serving(t, func(c *Config) { c.Monitor.Several = len(snaps) > 1 })
		if snaps != nil {
			st.show(t, snaps...)
		}
		for path, item := range d.paths {
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
					t.Run(name+" "+address+query, func(t *testing.T) { d.check(t, http.MethodGet, path, get(h, address+query)) })
				}
			}
		}
	}
}
