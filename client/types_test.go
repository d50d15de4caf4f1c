package client

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
)

// Programs elsewhere can name each answer and each of its parts: nobody can import the package that declares them.
func TestAnswersHavePublicNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	public := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if alias, ok := n.(*ast.TypeSpec); ok {
			declared := alias.Type.(*ast.SelectorExpr)
			public[declared.X.(*ast.Ident).Name+"."+declared.Sel.Name] = alias.Name.Name == declared.Sel.Name
		}
		return true
	})
	seen := map[reflect.Type]bool{}
	var visit func(of reflect.Type, within string)
	visit = func(of reflect.Type, within string) {
		if seen[of] {
			return
		}
		seen[of] = true
		if strings.Contains(of.PkgPath(), "/internal/") && !public[of.String()] {
			t.Errorf("%v, in %s, has no name here: give it one in types.go", of, within)
		}
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			visit(of.Elem(), within)
		case reflect.Struct:
			for f := range of.Fields() {
				if f.IsExported() && f.Tag.Get("json") != "-" {
					visit(f.Type, of.Name())
				}
			}
		}
	}
	for _, of := range []any{
		Summary{}, Update{}, OneGPU{}, Recent{}, Why{}, OneWhy{}, MonitorHealth{}, PastWhy{}, History{}, PastReadings{}, PastSessions{}, PastUsage{}, PastCauses{},
		PastEvents{}, PastMoment{}, Forecasts{}, PastSize{}, Alerts{}, AlertRules{}, Silences{}, Alert{}, Silence{}, SilenceRequest{}, SilenceSpan{}, Note{}, GPUStatus{},
	} {
		visit(reflect.TypeOf(of), "an answer")
	}
	for of := range seen {
		delete(public, of.String())
	}
	for name := range public {
		t.Errorf("%s is in no answer", name)
	}
}
