//go:build !race

package guide

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/docs"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/static"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// served is the guide as a program below /gpu serves it.
func served(t *testing.T) http.Handler {
	t.Helper()
	assets := static.New()
	kit := serve.NewKit(serve.Settings{
		Monitor: contract.Monitor{Node: "secret-machine", Version: "7.7.7"}, Hub: serve.Still{},
		Address: serve.Address{BasePath: "/gpu", Listen: "127.0.0.1:8003"}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	s := &Site{Kit: kit, Asset: func(name string) string { return assets.URL(kit.Root(), name) }}
	mux := http.NewServeMux()
	for _, r := range s.Routes() {
		if r.Needs != auth.Anyone || !r.Whole {
			t.Errorf("%s needs %v, and is about a node: %t", r.Path, r.Needs, !r.Whole)
		}
		mux.HandleFunc(r.Method+" "+kit.BasePath+r.Path, func(w http.ResponseWriter, q *http.Request) {
			if err := r.Answer(w, q); errors.Is(err, serve.ErrNothing) {
				w.WriteHeader(http.StatusNotFound)
			} else if err != nil {
				t.Errorf("%s: %v", q.URL, err)
			}
		})
	}
	return mux
}

func get(h http.Handler, address string) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
	return w.Code, w.Body.String()
}

var (
	reference = regexp.MustCompile(`\s(?:href|src|action)="([^"]*)"`)
	identity  = regexp.MustCompile(`\sid="([^"]*)"`)
)

// all returns what a pattern has in its first group, of each match.
func all(pattern *regexp.Regexp, text string) (found []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	return found
}

// Each file of the documentation is in the guide, once, and has a title and something to say.
func TestEveryPageIsInTheGuide(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for name, title := range docs.Pages() {
		seen[name]++
		if title == "" {
			t.Errorf("%s has no title in its first line", name)
		}
	}
	err := fs.WalkDir(docs.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		page, is := strings.CutSuffix(name, ".md")
		if is && seen[page] != 1 {
			t.Errorf("docs/%s is %d times in docs.Sections", name, seen[page])
		}
		return err
	})
	if err != nil || len(seen) < 30 {
		t.Errorf("%d pages, %v", len(seen), err)
	}
}

// Every link of every page leads to a page or a picture that is served, and to an anchor that is there.
func TestEveryLinkIsServed(t *testing.T) {
	t.Parallel()
	h := served(t)
	pages := map[string]string{}
	load := func(address string) (body string, ok bool) {
		if body, ok = pages[address]; !ok {
			status, text := get(h, address)
			if status != http.StatusOK {
				return "", false
			}
			body, pages[address] = text, text
		}
		return body, true
	}
	addresses := []string{"/gpu/guide", "/gpu/guide/search?q=fan"}
	for name := range docs.Pages() {
		addresses = append(addresses, "/gpu/guide/"+name)
	}
	links := 0
	for _, address := range addresses {
		body, ok := load(address)
		if !ok {
			t.Errorf("%s is not there", address)
			continue
		}
		if ids := all(identity, body); len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
			t.Errorf("%s has an anchor twice: %v", address, ids)
		}
		for _, link := range all(reference, body) {
			to, err := url.Parse(link)
			if err != nil || to.Host != "" {
				if err != nil || to.Scheme != "https" && to.Scheme != "http" {
					t.Errorf("%s links %s: %v", address, link, err)
				}
				continue
			}
			links++
			target := body
			if to.Path != "" {
				if !strings.HasPrefix(to.Path, "/gpu/") {
					t.Errorf("%s links %s, outside the base path", address, link)
				}
				if !strings.HasPrefix(to.Path, "/gpu/guide") { // another part of the program
					continue
				}
				if target, ok = load(to.Path); !ok {
					t.Errorf("%s links %s, which is not there", address, link)
					continue
				}
			}
			if to.Fragment != "" && !slices.Contains(all(identity, target), to.Fragment) {
				t.Errorf("%s links %s: there is no such anchor", address, link)
			}
		}
	}
	if links < 2000 {
		t.Errorf("only %d links were found", links)
	}
}

// The guide is the same in every program: it names neither the machine nor the version, and asks nothing of who reads it.
func TestTheGuideNamesNothing(t *testing.T) {
	t.Parallel()
	h := served(t)
	for _, address := range []string{"/gpu/guide", "/gpu/guide/start", "/gpu/guide/search?q=secret-machine"} {
		status, body := get(h, address)
		body = strings.ReplaceAll(body, `value="secret-machine"`, "")
		body = strings.ReplaceAll(body, `<bdi>secret-machine</bdi>`, "") // as it was asked
		if status != http.StatusOK || strings.Contains(body, "secret-machine") || strings.Contains(body, "7.7.7") {
			t.Errorf("%s: %d, and it names the machine or the version", address, status)
		}
	}
	for _, address := range []string{"/gpu/guide/nothing", "/gpu/guide/docs.go", "/gpu/guide/start.md", "/gpu/guide/screenshots", "/gpu/guide/screenshots/none.png", "/gpu/guide/%2e%2e/x.png"} {
		if status, _ := get(h, address); status != http.StatusNotFound {
			t.Errorf("%s: %d", address, status)
		}
	}
	if status, picture := get(h, "/gpu/guide/screenshots/server.png"); status != http.StatusOK || !strings.HasPrefix(picture, "\x89PNG") {
		t.Errorf("a picture: %d", status)
	}
}

// made is a guide of invented pages.
func made(pages map[string]string) (*book, error) {
	files := fstest.MapFS{}
	section := docs.Section{Title: "All"}
	for name, text := range pages {
		files[name+".md"] = &fstest.MapFile{Data: []byte(text)}
		section.Pages = append(section.Pages, name)
	}
	slices.Sort(section.Pages)
	return newBook(files, []docs.Section{section}, inProgram("/guide"))
}

// HTML in a page is text, and addresses that run something are dropped.
func TestHTMLIsText(t *testing.T) {
	t.Parallel()
	b, err := made(map[string]string{"a": "# A <b>title</b>\n\nOne <img src=x onerror=alert(1)> two.\n\n<script>\nalert(2)\n</script>\n\n" +
		"<div onclick=\"x\">\n\n<javascript:alert(3)>\n\n<!-- a note -->\n\n## <i>h</i>\n\n```html\n<script>alert(4)</script>\n```\n\n| <u>a</u> | |\n| ---: | :---: |\n| <s>b</s> | 1 |\n"})
	if err != nil {
		t.Fatal(err)
	}
	html := b.byName["a"].html
	if strings.Contains(html, "style=") {
		t.Errorf("it has styles, which the page's policy refuses: %s", html)
	}
	for _, tag := range []string{"<b>", "<img", "<script", "<div onclick", "<i>", "<u>", "<s>", "a note", `href="javascript`} {
		if strings.Contains(html, tag) {
			t.Errorf("%s is passed on:\n%s", tag, html)
		}
	}
	for _, text := range []string{"&lt;img src=x onerror=alert(1)&gt;", "&lt;script&gt;", "alert(2)", "&lt;/script&gt;", "&lt;div onclick=", `<th class="right">&lt;u&gt;`, "<td></td>"} {
		if !strings.Contains(html, text) {
			t.Errorf("%s is lost:\n%s", text, html)
		}
	}
}

// A link that leads nowhere is an error, and names its page. One to a file of the source is its text.
func TestDeadLinks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[x](b.md)":                     "",
		"[x](b.md#there)":               "",
		"[x](#here)":                    "",
		"[x](../internal/app/app.go)":   "",
		"[x](https://example.org/#any)": "",
		"[x](b.md#not-there)":           "a links b.md#not-there",
		"[x](c.md)":                     "a links c.md",
		"[x](#not-here)":                "a links #not-here",
		"![x](no.png)":                  "a links no.png",
	} {
		b, err := made(map[string]string{"a": "# A\n\n" + text + "\n\n## Here\n", "b": "# B\n\n## There\n"})
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		case want == "" && !strings.Contains(b.byName["a"].html, "x"):
			t.Errorf("%s: the text is lost: %s", text, b.byName["a"].html)
		}
		if strings.Contains(text, ".go") && strings.Contains(b.byName["a"].html, "<a") {
			t.Errorf("%s: %s", text, b.byName["a"].html)
		}
	}
}

// Anchors are those that GitHub makes, so that the same links work there.
func TestAnchors(t *testing.T) {
	t.Parallel()
	b, err := made(map[string]string{"a": "# A\n\n## What it's for, in `code`\n\n## Über 80 °C\n\n## Twice\n\n## Twice\n\n### with_under-score\n"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range b.byName["a"].headings {
		got = append(got, h.anchor)
	}
	want := []string{"what-its-for-in-code", "über-80-c", "twice", "twice-1", "with_under-score"}
	if !slices.Equal(got, want) {
		t.Errorf("anchors %q, want %q", got, want)
	}
}

// People find the page that answers their question.
func TestSearch(t *testing.T) {
	t.Parallel()
	b, err := newBook(docs.Files, docs.Sections, inProgram("/guide"))
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"slack":                "/guide/slack",
		"last night":           "/guide/last-night",
		"nginx":                "/guide/deploy#nginx",
		"silence a machine":    "/guide/silence",
		"--history-retention":  "/guide/past",
		"no fan can be read":   "/guide/troubleshooting",
		"kubernetes":           "/guide/kubernetes",
		"PROMETHEUS":           "/guide/prometheus",
		"mcp-of-another-world": "",
		" ":                    "",
		"- . /":                "",
	} {
		list, more := b.search(question)
		switch {
		case want == "" && len(list)+more > 0:
			t.Errorf("%q finds %d places", question, len(list)+more)
		case want != "" && (len(list) == 0 || !strings.HasPrefix(list[0].Path, want)):
			t.Errorf("%q finds %d places, the first is %+v, want %s", question, len(list), append(list, list...)[:min(1, len(list))], want)
		case len(list) > mostResults || more > 0 && len(list) < mostResults:
			t.Errorf("%q: %d listed, %d more", question, len(list), more)
		}
	}
	long := strings.Repeat("ü", longestQuestion)
	if got := clip(long); len(got) > longestQuestion || !strings.HasPrefix(long, got) || got == "" {
		t.Errorf("a long question becomes %q", got)
	}
	if got := len(wordsOf(strings.Repeat("a ", 1000))); got != mostWords {
		t.Errorf("%d words are searched", got)
	}
}

// An excerpt is a part of the text, is short, and marks nothing but words of the question.
func TestExcerpts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(strings.Fields(rapid.StringOf(rapid.RuneFrom([]rune("abcü İß°4 .-"))).Draw(t, "text")), " ")
		words := wordsOf(rapid.StringOf(rapid.RuneFrom([]rune("abü 4-"))).Draw(t, "question"))
		var all strings.Builder
		for _, p := range excerpt(text, words) {
			if p.Text == "… " || p.Text == " …" {
				continue
			}
			if p.Marked && !slices.Contains(words, strings.ToLower(p.Text)) {
				t.Fatalf("%q is marked, of %q", p.Text, words)
			}
			all.WriteString(p.Text)
		}
		if !strings.Contains(text, all.String()) || len(all.String()) > excerptLength {
			t.Fatalf("%q is no part of %q", all.String(), text)
		}
	})
}

// The first page is small: with all files that it loads it fits into a few packets.
func TestTheFirstLoadIsSmall(t *testing.T) {
	t.Parallel()
	zipped := func(content []byte) int {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(content)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Len()
	}
	_, html := get(served(t), "/gpu/guide")
	assets := static.New()
	sum, files := zipped([]byte(html)), 0
	for _, link := range all(reference, html) {
		address, is := strings.CutPrefix(link, "/gpu/static/")
		if !is {
			continue
		}
		content, _, ok := assets.Open(address)
		if !ok {
			t.Fatalf("there is no %s", link)
		}
		files++
		sum += zipped(content)
	}
	t.Logf("%d bytes in %d files", sum, files+1)
	if sum > 30_000 || files != 5 {
		t.Errorf("it loads %d bytes in %d files", sum, files+1)
	}
}

// The guide as a folder has all that its pages refer to, by relative addresses.
func TestWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := Write(folder, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	links, pages := 0, 0
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		pages++
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !strings.Contains(string(content), "1.2.3") {
			t.Errorf("%s does not name its version", file)
		}
		for _, link := range all(reference, string(content)) {
			to, err := url.Parse(link)
			if err != nil {
				return err
			}
			if to.Host != "" || to.Path == "" {
				continue
			}
			if links++; path.IsAbs(to.Path) {
				t.Errorf("%s links %s, which is absolute", file, link)
			}
			target, err := os.ReadFile(filepath.Join(filepath.Dir(file), filepath.FromSlash(to.Path)))
			if err != nil || to.Fragment != "" && !slices.Contains(all(identity, string(target)), to.Fragment) {
				t.Errorf("%s links %s: %v", file, link, err)
			}
		}
		return nil
	})
	if err != nil || pages < 30 || links < 2000 {
		t.Errorf("%d pages with %d links: %v", pages, links, err)
	}
	index, err := os.ReadFile(filepath.Join(folder, indexFile))
	if err != nil || !bytes.Contains(index, []byte("proxies.html#nginx")) {
		t.Errorf("the search has no index: %v", err)
	}
}
