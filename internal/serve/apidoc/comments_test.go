package apidoc_test

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write comments.json anew from the source; its diff is the review")

// sources are where the answers' types are.
var sources = []string{"../../contract/*.go", "../problem.go", "messages.go"}

// The comments that the documents use are those in the source.
func TestCommentsAreTheSourcesOwn(t *testing.T) {
	found := map[string]string{}
	for _, pattern := range sources {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				collect(t, name, found)
			}
		}
	}
	if len(found) < 250 {
		t.Fatalf("only %d comments found", len(found))
	}
	if *update {
		text, err := json.MarshalIndent(found, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("comments.json", append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("comments.json")
	if err != nil {
		t.Fatal(err)
	}
	var have map[string]string
	if err := json.Unmarshal(text, &have); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(have, found); diff != "" {
		t.Errorf("comments.json is not what the source says; `go test ./internal/serve/apidoc -update` writes it (-file +source):\n%s", diff)
	}
}

// collect adds the comments of a file's structs that have JSON names.
func collect(t *testing.T, name string, found map[string]string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		declaration, ok := n.(*ast.GenDecl)
		if !ok || declaration.Tok != token.TYPE {
			return true
		}
		for _, spec := range declaration.Specs {
			named := spec.(*ast.TypeSpec)
			if body, ok := named.Type.(*ast.StructType); ok {
				collectFields(named.Name.Name, plain(declaration.Doc), body, found)
			}
		}
		return false
	})
}

func collectFields(owner, doc string, body *ast.StructType, found map[string]string) {
	for _, f := range body.Fields.List {
		if f.Tag == nil {
			if len(f.Names) == 0 { // the fields of what is embedded
				found[owner] = doc
			}
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		found[owner] = doc
		if text := plain(f.Doc); text != "" {
			found[owner+"."+name] = text
		} else if text := plain(f.Comment); text != "" {
			found[owner+"."+name] = text
		}
	}
}

// plain is a comment on one line.
func plain(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Text()), " ")
}
