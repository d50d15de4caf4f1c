package serve

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// taking answers requests that have only these parameters.
func taking(params []*apidoc.Parameter, answer Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		values, err := ParseQuery(r)
		if err == nil {
			err = Taken(r, params, values)
		}
		if err != nil {
			return err
		}
		return answer(w, r)
	}
}

// Taken refuses what a request asks for beside these parameters, and a node other than that of its address.
func Taken(r *http.Request, params []*apidoc.Parameter, values url.Values) error {
	if err := checkParams(r.URL.Path, params, values); err != nil {
		return err
	}
	if node, asked := Node(r), values.Get("node"); node != "" && asked != "" && asked != node {
		return Refuse(http.StatusBadRequest, "the address is for the node "+Quote(node)+", but the parameter \"node\" is "+Quote(asked),
			"leave the parameter out, or use the address without /node/")
	}
	return nil
}

// checkParams refuses parameters that an address does not support, repeated ones and empty ones: a client that narrows an
// answer must not get all of it.
func checkParams(path string, params []*apidoc.Parameter, values url.Values) error {
	bad := func(name, what, try string) error {
		return Refuse(http.StatusBadRequest, "the parameter "+Quote(name)+" "+what, try)
	}
	var names []string
	known := map[string]*apidoc.Parameter{}
	for _, p := range params {
		known[p.Name] = p
		names = append(names, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch p := known[name]; {
		case p == nil && len(names) == 0:
			return bad(name, "is not supported by "+path, "leave it out")
		case p == nil:
			return bad(name, "is not supported by "+path+nearest.Hint(name, names), "leave it out, or use one of "+strings.Join(names, ", "))
		case len(values[name]) > 1 && !p.IsRepeated():
			return bad(name, "is given twice", "give it only once")
		case slices.Contains(values[name], ""):
			return bad(name, "has no value", "give it one, or leave it out")
		}
	}
	return nil
}
