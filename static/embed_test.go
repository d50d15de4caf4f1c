//go:build !race

package static_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuwhy/gpuwhy/static"
)

func open(t *testing.T, a *static.Assets, name string) (content []byte, contentType string) {
	t.Helper()
	content, contentType, ok := a.Open(strings.TrimPrefix(a.URL("/", name), "/static/"))
	if !ok {
		t.Fatalf("%s is not there", name)
	}
	return content, contentType
}

// compressed is the length of what is sent of a file.
func compressed(t *testing.T, content []byte) int {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, 8) // as package server does
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func TestAssets(t *testing.T) {
	a := static.New()
	if b := static.New(); a.URL("/x/", "page.js") != b.URL("/x/", "page.js") {
		t.Error("addresses differ from start to start")
	}
	if url := a.URL("/x/", "page.js"); !regexp.MustCompile(`^/x/static/[0-9a-f]{12}/page\.js$`).MatchString(url) {
		t.Errorf("got %q", url)
	}
	for name, kind := range map[string]string{
		"page.js": "text/javascript; charset=utf-8", "app.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
		"vendor/rapidoc/LICENSE": "text/plain; charset=utf-8",
	} {
		content, contentType := open(t, a, name)
		if contentType != kind {
			t.Errorf("%s is %q", name, contentType)
		}
		want, err := os.ReadFile(name)
		if name == "page.js" || name == "app.css" {
			want, err = os.ReadFile("dist/" + name)
		}
		if err != nil || !bytes.Equal(content, want) {
			t.Errorf("%s is not the file: %v", name, err)
		}
	}
	for _, path := range []string{"", "page.js", "000000000000/page.js", strings.TrimPrefix(a.URL("", "nothing.js"), "static/"), strings.TrimPrefix(a.URL("", "../embed.go"), "static/"), strings.TrimPrefix(a.URL("", "embed.go"), "static/")} {
		if _, _, ok := a.Open(path); ok {
			t.Errorf("%q is there", path)
		}
	}
}

// A file that is embedded compressed is served under its plain name.
// Most of the time nobody looks, and the files are in the program anyway.
func TestAssetsAreReadForSomebody(t *testing.T) {
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	a := static.New()
	const most = 100 << 10
	if holds := int64(held()) - int64(before); holds > most {
		t.Errorf("they hold %d KiB, want at most %d", holds>>10, most>>10)
	}
	runtime.KeepAlive(a)
}

func TestPackedAsset(t *testing.T) {
	content, contentType := open(t, static.New(), "vendor/rapidoc/rapidoc-min.js")
	if n := compressed(t, content); len(content) < 800_000 || n > 230_000 || contentType != "text/javascript; charset=utf-8" {
		t.Errorf("%d bytes, %d compressed, %q", len(content), n, contentType)
	}
	sum := sha256.Sum256(content)
	readme, err := os.ReadFile("vendor/rapidoc/README.md")
	if err != nil || !strings.Contains(string(readme), hex.EncodeToString(sum[:])) {
		t.Errorf("the library is not the one that its README names: %v", err)
	}
}

// Scripts may import only what is there, by relative paths: as they are written,
// and as they are sent.
func TestImportsResolve(t *testing.T) {
	a := static.New()
	imports := regexp.MustCompile(`(?:from|import\() ?"([\w./@-]+)"`)
	written, sent := 0, 0
	for _, name := range scripts(t, ".") {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range imports.FindAllSubmatch(source, -1) {
			target, relative := strings.CutPrefix(string(m[1]), "./")
			_, err := os.Stat(target)
			packed := strings.HasPrefix(target, "vendor/") // it is looked up below
			if !relative || err != nil && !packed {
				t.Errorf("%s imports %q: %v", name, m[1], err)
			}
			written++
		}
	}
	for _, name := range scripts(t, "dist") {
		content, _ := open(t, a, name)
		for _, m := range imports.FindAllSubmatch(content, -1) {
			target, relative := strings.CutPrefix(string(m[1]), "./")
			if !relative {
				t.Errorf("%s imports %q", name, m[1])
				continue
			}
			open(t, a, target)
			sent++
		}
	}
	if written < 5 || sent < 1 {
		t.Errorf("%d imports as they are written, %d as they are sent", written, sent)
	}
}

func scripts(t *testing.T, folder string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(folder), "*.js")
	if err != nil || len(names) < 3 {
		t.Fatalf("%v, %v", names, err)
	}
	return names
}

// Scripts stay few and short, and never make markup of text: what they take from the server is markup.
func TestOwnFilesAreSmallAndSafe(t *testing.T) {
	a := static.New()
	bytesOf := func(ext string, most int) {
		total := 0
		names, err := fs.Glob(os.DirFS("dist"), "*"+ext)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			content, _ := open(t, a, name)
			n := compressed(t, content)
			t.Logf("%s: %d", name, n)
			total += n
		}
		if total > most {
			t.Errorf("all %s have %d bytes compressed, more than %d", ext, total, most)
		}
	}
	bytesOf(".js", 18_000)
	bytesOf(".css", 22_000)
	unsafe := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser`)
	// The page itself and its list of what was found, as the server rendered them.
	allowed := map[string][]string{"patch.js": {"innerHTML"}, "live.js": {"DOMParser"}, "palette.js": {"DOMParser"}}
	lines := 0
	for _, name := range scripts(t, ".") {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(source, []byte("\n"))
		if !bytes.HasPrefix(source, []byte("// @ts-check\n")) {
			t.Errorf("%s is not type-checked", name)
		}
		var found []string
		for _, m := range unsafe.FindAll(source, -1) {
			found = append(found, string(m))
		}
		if !slices.Equal(found, allowed[name]) {
			t.Errorf("%s has %q", name, found)
		}
	}
	if lines > 2_200 {
		t.Errorf("the scripts have %d lines, more than 2,200", lines)
	}
}
