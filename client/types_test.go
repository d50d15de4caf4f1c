package client

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
)

// Programs elsewhere can name each answer and each of its parts, since they can't import the package that declares them.
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
	var visit func(typ reflect.Type, within string)
	visit = func(typ reflect.Type, within string) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		if strings.Contains(typ.PkgPath(), "/internal/") && !public[typ.String()] {
			t.Errorf("%v, in %s, has no name here: give it one in types.go", typ, within)
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			visit(typ.Elem(), within)
		case reflect.Struct:
			for f := range typ.Fields() {
				if f.IsExported() && f.Tag.Get("json") != "-" {
					visit(f.Type, typ.Name())
				}
			}
		}
	}
	for _, typ := range []any{
		Summary{}, Update{}, OneGPU{}, Recent{}, Why{}, OneWhy{}, MonitorHealth{}, PastWhy{}, History{}, PastReadings{}, PastSessions{}, PastUsage{}, PastCauses{},
		PastEvents{}, PastMoment{}, Forecasts{}, PastSize{}, Alerts{}, AlertRules{}, Silences{}, Alert{}, Silence{}, SilenceRequest{}, SilenceSpan{}, Note{}, GPUStatus{},
		Account{}, Users{}, AddedUser{}, UserRequest{}, UserChange{}, Tokens{}, AddedToken{}, TokenRequest{}, ShownCommands{}, Sessions{}, Audit{}, AuditCheck{},
	} {
		visit(reflect.TypeOf(typ), "an answer")
	}
	for typ := range seen {
		delete(public, typ.String())
	}
	for name := range public {
		t.Errorf("%s is in no answer", name)
	}
}
