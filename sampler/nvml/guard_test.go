//go:build linux && cgo

package nvml

import (
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The binding ends the process when it calls a function that the library lacks. TestCallsAreGuarded reads the binding's source and ours,
// and compares each use of a binding method with the function name beside it: that must be the function which the method finally calls.
func TestCallsAreGuarded(t *testing.T) {
	b := readBinding(t)
	uses := 0
	for _, file := range ourFiles(t) {
		ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "nvml" {
				if b.functions[sel.Sel.Name] && sel.Sel.Name != "New" && sel.Sel.Name != "WithLibraryPath" && sel.Sel.Name != "STRUCT_VERSION" {
					t.Errorf("nvml.%s is called past invoke", sel.Sel.Name)
				}
				return true
			}
			calls := b.calls[sel.Sel.Name]
			if len(calls) == 0 || !isMethod(sel, stack) {
				return true
			}
			uses++
			if guard := guardOf(stack); !slices.Equal(calls, []string{guard}) {
				t.Errorf("%s stands beside %q, and calls %q", sel.Sel.Name, guard, calls)
			}
			return true
		})
	}
	const least = 50
	if uses < least {
		t.Errorf("found %d uses of the binding, want at least %d: does the test still see them?", uses, least)
	}
	for name := range symbols(t) {
		if !strings.Contains(b.header, " "+name+"(") {
			t.Errorf("%s is looked up, and NVML has no function of that name", name)
		}
	}
}

// symbols returns the library functions that our code names.
func symbols(t *testing.T) map[string]bool {
	named := map[string]bool{}
	for _, file := range ourFiles(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := literal(n); ok && strings.HasPrefix(name, "nvml") && len(name) > len("nvml") {
				named[name] = true
			}
			return true
		})
	}
	for _, list := range processLists {
		for _, symbol := range list.symbols {
			named[symbol] = true
		}
	}
	return named
}

// isMethod tells the use of a method from a field of the same name, such as the free memory: it is called, or named as nvml.Device.GetUUID,
// or a getter.
func isMethod(sel *ast.SelectorExpr, stack []ast.Node) bool {
	if call, ok := stack[len(stack)-1].(*ast.CallExpr); ok && call.Fun == sel {
		return true
	}
	_, expression := sel.X.(*ast.SelectorExpr)
	set, ok := stack[len(stack)-1].(*ast.AssignStmt)
	assigned := ok && slices.Contains(set.Lhs, ast.Expr(sel))
	return expression && !assigned || strings.HasPrefix(sel.Sel.Name, "Get")
}

// guardOf returns the function name in the innermost call around a use.
func guardOf(stack []ast.Node) string {
	for _, n := range slices.Backward(stack) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		for _, arg := range call.Args {
			if name, ok := literal(arg); ok && strings.HasPrefix(name, "nvml") {
				return name
			}
		}
	}
	return ""
}

func literal(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// binding is what go-nvml's methods call.
type binding struct {
	calls     map[string][]string // by method: the library's functions
	functions map[string]bool     // the package's own exported functions
	header    string              // NVML's, in C
}

// readBinding reads go-nvml's source. A function with versions goes through a variable that is set to the newest version in the library: if
// the library has it, as our guard requires, that version is called.
func readBinding(t *testing.T) binding {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	header, err := os.ReadFile(filepath.Join(dir, "nvml.h"))
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]string{}
	b := binding{calls: map[string][]string{}, functions: map[string]bool{}, header: strings.ReplaceAll(string(header), " (", "(")}
	byType := map[string][]string{} // of all methods of a handler type
	returns := map[string]string{}  // handler types, by the method that returns one
	files := parse(t, dir, "lib.go", "device.go", "system.go", "init.go", "return.go", "event_set.go", "gpm.go", "const_static.go")
	within := map[string][]string{} // calls of functions and sample methods that others go through
	for _, f := range files {
		for _, decl := range f.Decls {
			addStandIns(newest, decl)
		}
		for _, assign := range inFunction[*ast.AssignStmt](f, "updateVersionedSymbols") {
			left, ok := assign.Lhs[0].(*ast.Ident)
			right, ok2 := assign.Rhs[0].(*ast.Ident)
			if ok && ok2 {
				newest[left.Name] = right.Name
			}
		}
	}
	for fn := range functionsOf(files) {
		if fn.Recv == nil {
			within[fn.Name.Name] = nil
		}
	}
	for fn := range functionsOf(files) {
		if fn.Recv == nil || typeName(fn.Recv.List[0].Type) == "nvmlGpmSample" {
			within[fn.Name.Name] = callsOf(fn, newest, within)
		}
	}
	for fn := range functionsOf(files) {
		if fn.Recv == nil {
			b.functions[fn.Name.Name] = fn.Name.IsExported()
			continue
		}
		calls := callsOf(fn, newest, within)
		switch receiver := typeName(fn.Recv.List[0].Type); {
		case receiver == "nvmlDevice" || receiver == "library" || receiver == "nvmlEventSet":
			b.calls[fn.Name.Name] = calls
			if handler := handlerOf(fn); handler != "" && len(calls) == 0 {
				returns[fn.Name.Name] = handler
			}
		case strings.HasSuffix(receiver, "Handler"):
			byType[receiver] = append(byType[receiver], calls...)
		}
	}
	for method, handler := range returns {
		b.calls[method] = slices.Compact(slices.Sorted(slices.Values(byType[handler])))
	}
	return b
}

// handlerOf returns the type of a method's result that makes the call in the method's place.
func handlerOf(fn *ast.FuncDecl) string {
	if fn.Type.Results == nil {
		return ""
	}
	if result := typeName(fn.Type.Results.List[0].Type); strings.HasSuffix(result, "Handler") {
		return result
	}
	return ""
}

// functionsOf iterates over the functions and methods in some files.
func functionsOf(files []*ast.File) iter.Seq[*ast.FuncDecl] {
	return func(yield func(*ast.FuncDecl) bool) {
		for _, f := range files {
			for _, decl := range f.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil && !yield(fn) {
					return
				}
			}
		}
	}
}

// addStandIns adds variables that stand for one of the library's functions, such as nvmlGpmMetricsGetStub, which the binding has for its
// own tests.
func addStandIns(newest map[string]string, decl ast.Decl) {
	variables, ok := decl.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range variables.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			continue
		}
		if function, ok := v.Values[0].(*ast.Ident); ok && strings.HasSuffix(v.Names[0].Name, "Stub") {
			newest[v.Names[0].Name] = function.Name
		}
	}
}

// callsOf lists the library functions that a method calls, directly or through the functions in within.
func callsOf(fn *ast.FuncDecl, newest map[string]string, within map[string][]string) (out []string) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name, ok := call.Fun.(*ast.Ident)
		if method, is := call.Fun.(*ast.SelectorExpr); is {
			receiver, isName := method.X.(*ast.Ident)
			name, ok = method.Sel, isName && receiver.Name == "gpmSample"
		}
		if !ok {
			return true
		}
		if v, ok := newest[name.Name]; ok {
			out = append(out, v)
		} else if calls, ok := within[name.Name]; ok {
			out = append(out, calls...)
		} else if strings.HasPrefix(name.Name, "nvml") {
			out = append(out, name.Name)
		}
		return true
	})
	return slices.Compact(out)
}

func inFunction[T ast.Node](f *ast.File, name string) (out []T) {
	ast.Inspect(f, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && fn.Name.Name != name {
			return false
		}
		if found, ok := n.(T); ok {
			out = append(out, found)
		}
		return true
	})
	return out
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

func ourFiles(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "_test.go") })
	return parse(t, ".", names...)
}

func parse(t *testing.T, dir string, names ...string) (files []*ast.File) {
	t.Helper()
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// TestGuardSeesTheBinding checks what the guard finds in the binding's source against a few known methods.
func TestGuardSeesTheBinding(t *testing.T) {
	b := readBinding(t)
	for method, want := range map[string]string{
		"Init":                       "nvmlInit_v2",
		"DeviceGetHandleByIndex":     "nvmlDeviceGetHandleByIndex_v2",
		"GetPciInfo":                 "nvmlDeviceGetPciInfo_v3",
		"GetComputeRunningProcesses": "deviceGetComputeRunningProcesses_v3",
		"GetTemperatureV":            "nvmlDeviceGetTemperatureV",
		"GetPowerUsage":              "nvmlDeviceGetPowerUsage",
		"Wait":                       "nvmlEventSetWait_v2",
		"GpmQueryDeviceSupport":      "nvmlGpmQueryDeviceSupport",
		"GpmSampleAlloc":             "nvmlGpmSampleAlloc",
		"GpmSampleGet":               "nvmlGpmSampleGet",
		"GpmSampleFree":              "nvmlGpmSampleFree",
		"GpmMetricsGet":              "nvmlGpmMetricsGet",
	} {
		if got := b.calls[method]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s calls %q, want %q", method, got, want)
		}
	}
}
