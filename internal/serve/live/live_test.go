package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
)

// apply is what static/live.js does, to a tree of this package's parser.
func apply(t require, n *html.Node, p any) {
	if p == nil {
		return
	}
	if text, is := p.(string); is {
		n.Data = text
		return
	}
	list := p.([]any)
	if attributes, is := list[0].([]any); is {
		for pairs := range slices.Chunk(attributes, 2) {
			set(t, n, pairs[0].(string), pairs[1])
		}
	}
	if kids, is := list[1].([]any); is {
		place(t, n, kids)
	}
	kids := slices.Collect(n.ChildNodes())
	for pairs := range slices.Chunk(list[2:], 2) {
		apply(t, kids[int(pairs[0].(float64))], pairs[1])
	}
}

type require interface{ Fatalf(string, ...any) }

func set(t require, n *html.Node, name string, value any) {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	switch v := value.(type) {
	case nil:
		n.Attr = slices.Delete(n.Attr, i, i+1)
		return
	case string:
		if i < 0 {
			n.Attr = append(n.Attr, html.Attribute{Key: name, Val: v})
			return
		}
		n.Attr[i].Val = v
	case []any:
		old, out := n.Attr[i].Val, ""
		for j := 0; j < len(v); j++ {
			if s, is := v[j].(string); is {
				out += s
				continue
			}
			begin, length := int(v[j].(float64)), int(v[j+1].(float64))
			out += old[begin : begin+length]
			j++
		}
		n.Attr[i].Val = out
	default:
		t.Fatalf("an attribute is %T", value)
	}
}

func place(t require, n *html.Node, kids []any) {
	old := slices.Collect(n.ChildNodes())
	var now []*html.Node
	for _, k := range kids {
		switch k := k.(type) {
		case float64:
			now = append(now, old[int(k)])
		case []any:
			first, count := int(k[0].(float64)), int(k[1].(float64))
			now = append(now, old[first:first+count]...)
		case map[string]any:
			now = append(now, &html.Node{Type: html.TextNode, Data: k["t"].(string)})
		case string:
			in := &html.Node{Type: html.ElementNode, Data: n.Data, DataAtom: n.DataAtom, Namespace: n.Namespace}
			made, err := html.ParseFragment(strings.NewReader(k), in)
			if err != nil || len(made) != 1 {
				t.Fatalf("%q is %d nodes: %v", k, len(made), err)
			}
			now = append(now, made[0])
		}
	}
	for _, k := range old {
		n.RemoveChild(k)
	}
	for _, k := range now {
		if k.Parent != nil {
			k.Parent.RemoveChild(k)
		}
		n.AppendChild(k)
	}
}

func bodyOf(t require, page string) *html.Node {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatalf("%v", err)
	}
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Body {
			return n
		}
	}
	t.Fatalf("no body in %q", page)
	return nil
}

// written has the attributes in order: their order says nothing.
func written(n *html.Node) string {
	for d := range n.Descendants() {
		slices.SortFunc(d.Attr, func(a, b html.Attribute) int { return strings.Compare(a.Key, b.Key) })
	}
	slices.SortFunc(n.Attr, func(a, b html.Attribute) int { return strings.Compare(a.Key, b.Key) })
	var out bytes.Buffer
	if err := html.Render(&out, n); err != nil {
		panic(err)
	}
	return out.String()
}

// drawPage makes pages that resemble each other: few names, few keys, few values.
func drawPage(t *rapid.T) string {
	var element func(depth int, svg bool) string
	element = func(depth int, svg bool) string {
		name := rapid.SampledFrom([]string{"p", "div", "ul", "b", "svg", "table"}).Draw(t, "name")
		if svg {
			name = rapid.SampledFrom([]string{"g", "path", "text"}).Draw(t, "name")
		}
		attributes := ""
		for _, a := range []string{"id", "data-key", "class", "d"} {
			if rapid.IntRange(0, 3).Draw(t, a) == 0 {
				value := fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "value"))
				if a == "d" {
					value = strings.Repeat("1 2 3 4 5 6 7 ", rapid.IntRange(0, 9).Draw(t, "times")) + value
				}
				attributes += fmt.Sprintf(" %s=%q", a, value)
			}
		}
		inner := ""
		if depth > 0 {
			for range rapid.IntRange(0, 4).Draw(t, "kids") {
				switch {
				case name == "table":
					inner += fmt.Sprintf("<tr data-key=%d><td>%d</td></tr>", rapid.IntRange(0, 3).Draw(t, "row"), rapid.IntRange(0, 3).Draw(t, "cell"))
				case rapid.Bool().Draw(t, "text"):
					inner += html.EscapeString(rapid.SampledFrom([]string{" ", "85 °C", "<b>", "a & b"}).Draw(t, "words"))
				case name == "p" || name == "b":
					inner += "<b>" + fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "cell")) + "</b>"
				default:
					inner += element(depth-1, svg || name == "svg")
				}
			}
		}
		return fmt.Sprintf("<%s%s>%s</%s>", name, attributes, inner, name)
	}
	page := fmt.Sprintf("<title>%d</title><body class=%d>", rapid.IntRange(0, 2).Draw(t, "title"), rapid.IntRange(0, 2).Draw(t, "class"))
	for range rapid.IntRange(0, 5).Draw(t, "kids") {
		page += element(3, false)
	}
	return page
}

// A page that is patched is the page that is rendered, whatever the two are.
func TestAPatchedPageIsTheRenderedPage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var next string
		f := New(func(context.Context, string, auth.Sight) ([]byte, error) { return []byte(next), nil }, clock.Clock{}, false)
		f.gap, f.idle = 0, 0
		next = drawPage(t)
		shown := bodyOf(t, next)
		have, err := f.Add("", auth.LocalOwner().Sight(), []byte(next), 0)
		if err != nil {
			t.Fatal(err)
		}
		for changes := range uint64(rapid.IntRange(1, 12).Draw(t, "steps")) {
			next = drawPage(t)
			skips := rapid.IntRange(0, 4).Draw(t, "skips") == 0
			frame, err := f.Frame(t.Context(), "", auth.LocalOwner().Sight(), have, changes+1)
			if err != nil {
				t.Fatal(err)
			}
			if skips {
				continue
			}
			have = frame.Version
			if frame.Message != nil {
				shown = show(t, shown, frame.Message)
			}
			if got, want := written(shown), written(bodyOf(t, next)); got != want {
				t.Fatalf("patched:\n%s\nrendered:\n%s\nby %s", got, want, frame.Message)
			}
		}
	})
}

func show(t require, shown *html.Node, text []byte) *html.Node {
	var m struct {
		Event string
		Data  struct {
			From, HTML string
			Patches    []any
		}
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Event != "page" {
		t.Fatalf("%s: %v", text, err)
	}
	if m.Data.HTML != "" {
		return bodyOf(t, m.Data.HTML)
	}
	for _, p := range m.Data.Patches {
		apply(t, shown, p)
	}
	return shown
}

func patchOf(t *testing.T, old, next string) string {
	t.Helper()
	a, _, err := parse([]byte(old))
	b, _, err2 := parse([]byte(next))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(encode(diff(a, b)))
}

// Patches are short.
func TestPatches(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("10 20 ", 30)
	for name, tt := range map[string]struct{ old, new, want string }{
		"nothing":         {"<p>1", "<p>1", `null`},
		"a text":          {"<p>1<p><b>2</b>", "<p>1<p><b>3</b>", `[0,0,1,[0,0,0,[0,0,0,"3"]]]`},
		"an attribute":    {"<p class=a id=x>", "<p id=x class=b>", `[0,0,0,[["class","b"],0]]`},
		"no attribute":    {"<p class=a>", "<p>", `[0,0,0,[["class",null],0]]`},
		"a new row":       {"<ul><li data-key=1><li data-key=2></ul>", "<ul><li data-key=1><li data-key=3>x<li data-key=2></ul>", `[0,0,0,[0,[0,"<li data-key=\"3\">x</li>",1]]]`},
		"rows move":       {"<ul><li data-key=1>1<li data-key=2>2</ul>", "<ul><li data-key=2>2<li data-key=1>1</ul>", `[0,0,0,[0,[1,0]]]`},
		"a row goes":      {"<ul><li id=1><li id=2><li id=3></ul>", "<ul><li id=2><li id=3></ul>", `[0,0,0,[0,[[1,2]]]]`},
		"all go":          {"<ul><li id=1></ul>", "<ul></ul>", `[0,0,0,[0,[]]]`},
		"a longer path":   {`<svg><path d="M` + long + `"></svg>`, `<svg><path d="M` + long + `30 40"></svg>`, `[0,0,0,[0,0,0,[["d",[0,181,"30 40"]],0]]]`},
		"a moved path":    {`<svg><path d="M1 2 ` + long + `"></svg>`, `<svg><path d="M` + long + `"></svg>`, `[0,0,0,[0,0,0,[["d",["M",5,180]],0]]]`},
		"without scripts": {`<noscript><p>1</p></noscript>`, `<noscript><p>2</p></noscript>`, `null`},
		"a script's own":  {`<p data-own>1</p>`, `<p data-own>2</p>`, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := patchOf(t, tt.old, tt.new); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// counted makes pages that say how often one was made.
func counted(made *int) Render {
	return func(_ context.Context, address string, _ auth.Sight) ([]byte, error) {
		switch address {
		case "none":
			return nil, errors.New("no such page")
		case "panics":
			panic("a mistake")
		}
		*made++
		return fmt.Appendf(nil, "<title>t</title><p>%d", *made), nil
	}
}

// A browser gets what it lacks, whatever it says that it has.
func TestFrames(t *testing.T) {
	t.Parallel()
	made := 0
	f := New(counted(&made), clock.Clock{}, false)
	f.gap, f.idle = 0, 0
	frame := func(have string, changes uint64) Frame {
		t.Helper()
		got, err := f.Frame(t.Context(), "", auth.Sight{}, have, changes)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	const whole, next = `"html"`, `"patches":[[0,0,0,[0,0,0,"2"]]]`
	first := frame("", 1)
	for name, tt := range map[string]struct{ have, want string }{
		"nothing": {"", whole}, "of another process": {"0123456789ab-1", whole}, "nonsense": {"x", whole}, "of the future": {first.Version + "0", whole},
	} {
		if got := frame(tt.have, 1); !strings.Contains(string(got.Message), tt.want) {
			t.Errorf("%s: %s", name, got.Message)
		}
	}
	if got := frame(first.Version, 1); got.Message != nil || made != 1 || len(f.pages[view{}].said) != 1 {
		t.Errorf("the newest: %s; made %d times; %d were said", got.Message, made, len(f.pages[view{}].said))
	}
	second := frame(first.Version, 2)
	if !strings.Contains(string(second.Message), next) || !strings.HasPrefix(string(second.Message), `{"event":"page","data":{"page":"","from":"`+first.Version) {
		t.Errorf("one behind: %s", second.Message)
	}
	for i := range uint64(kept) {
		frame("", i+3)
	}
	if got := frame(first.Version, 1); !strings.Contains(string(got.Message), whole) {
		t.Errorf("too far behind: %s", got.Message)
	}
	for _, address := range []string{"none", "panics"} {
		if _, err := f.Frame(t.Context(), address, auth.Sight{}, "", 1); err == nil {
			t.Errorf("%s: there is a frame", address)
		}
	}
	if len(f.pages) != 1 {
		t.Errorf("%d pages are kept, also those that are none", len(f.pages))
	}
}

// A page that was rendered before a change does not take the place of one that has it.
func TestAnOlderPageIsNotTaken(t *testing.T) {
	t.Parallel()
	made := 0
	f := New(counted(&made), clock.Clock{}, false)
	newest, err := f.Frame(t.Context(), "", auth.Sight{}, "", 7)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := f.Add("", auth.Sight{}, []byte("<p>before"), 6); version != "" || err != nil {
		t.Errorf("it is version %q: %v", version, err)
	}
	if got, err := f.Frame(t.Context(), "", auth.Sight{}, newest.Version, 7); got.Message != nil || err != nil {
		t.Errorf("then %s: %v", got.Message, err)
	}
	if version, err := f.Add("", auth.Sight{}, []byte("<p>after"), 8); version == "" || err != nil {
		t.Errorf("a newer one: %v", err)
	}
	if _, err := f.Frame(t.Context(), "", auth.Sight{}, newest.Version, 8); err != nil || made != 1 {
		t.Errorf("it was rendered %d times: %v", made, err)
	}
	if version, err := f.Add(strings.Repeat("x", MaxAddress+1), auth.Sight{}, []byte("<p>"), 8); version != "" || err != nil {
		t.Errorf("an address that is too long: %q, %v", version, err)
	}
}

// Of pages that nobody asks for nothing is kept, and a version never comes twice.
func TestPagesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(nil, clock.Program(), false)
		large := []byte("<p>" + strings.Repeat("x", 1<<20))
		seen := map[string]bool{}
		for i := range 3 * mostBytes >> 20 {
			version, err := f.Add(fmt.Sprint(i), auth.Sight{}, large, 1)
			if err != nil || seen[version] {
				t.Fatalf("version %q: %v", version, err)
			}
			seen[version] = true
		}
		if f.bytes > mostBytes || len(f.pages) > mostBytes>>20 {
			t.Errorf("%d pages are kept, %d bytes", len(f.pages), f.bytes)
		}
		time.Sleep(2 * unused)
		version, err := f.Add("0", auth.Sight{}, large, 1)
		if err != nil || seen[version] || len(f.pages) != 1 || f.bytes != len(large) {
			t.Errorf("later: version %q, %d pages, %d bytes: %v", version, len(f.pages), f.bytes, err)
		}
	})
}

// Nodes change pages one after the other: a page waits for all of them, and not for long.
func TestChangesOfSeveralNodesAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		f := New(counted(&made), clock.Program(), true)
		first, err := f.Frame(t.Context(), "", auth.Sight{}, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for changes := range uint64(10) {
			if got, err := f.Frame(t.Context(), "", auth.Sight{}, first.Version, changes+2); err != nil || got.Message != nil {
				t.Fatalf("change %d: %s, %v", changes, got.Message, err)
			}
			time.Sleep(settle / 10)
		}
		got, err := f.Frame(t.Context(), "", auth.Sight{}, first.Version, 11)
		if err != nil || got.Message == nil || got.Changes != 11 || made != 2 {
			t.Errorf("made %d times: %s, %v", made, got.Message, err)
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	row := func(v int) string {
		return fmt.Sprintf(`<li class="card" data-key="k%%d"><h3><a href="/gpu/x">GPU</a></h3><p><b>%d</b> <span>°C</span></p><svg><path d="%s %d"></path></svg></li>`, v, strings.Repeat("100 200 ", 180), v)
	}
	page := func(v int) []byte {
		var out strings.Builder
		out.WriteString("<title>t</title><ul>")
		for i := range 64 {
			fmt.Fprintf(&out, row(v), i)
		}
		return []byte(out.String())
	}
	pages := [][]byte{page(1), page(2)}
	f := New(nil, clock.Clock{}, false)
	b.SetBytes(int64(len(pages[0])))
	for i := 0; b.Loop(); i++ {
		if _, err := f.Add("", auth.Sight{}, pages[i%2], uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
}

// A page that takes long to render is rendered seldom: three times as long as that took later, 0.75 s at most.
func TestADearPageIsRenderedSeldom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ takes, gap time.Duration }{{0, gap}, {10 * time.Millisecond, gap}, {100 * time.Millisecond, 300 * time.Millisecond}, {10 * time.Second, longest}} {
		now, made := time.Hour, 0
		f := New(func(context.Context, string, auth.Sight) ([]byte, error) {
			made++
			now += tt.takes
			return fmt.Appendf(nil, "<p>%d", made), nil
		}, clock.Of(time.Now, func() time.Duration { return now }), false)
		changes := uint64(0)
		ask := func() int {
			changes++
			if _, err := f.Frame(t.Context(), "", auth.Sight{}, "", changes); err != nil {
				t.Fatal(err)
			}
			return made
		}
		ask()
		now += tt.gap - 1
		if n := ask(); n != 1 {
			t.Errorf("one that takes %v was rendered anew before %v had passed", tt.takes, tt.gap)
		}
		now++
		if n := ask(); n != 2 {
			t.Errorf("one that takes %v was rendered %d times when %v had passed", tt.takes, n, tt.gap)
		}
	}
}

// Those who may do or see different things share no rendering: neither the page nor what differs from it.
func TestPagesAreOfWhoAsked(t *testing.T) {
	t.Parallel()
	f := New(func(_ context.Context, _ string, sight auth.Sight) ([]byte, error) {
		return fmt.Appendf(nil, "<p>%s %d</p>", sight.Audience, sight.Access), nil
	}, clock.Clock{}, false)
	seen := map[string]auth.Sight{}
	for _, audience := range []auth.Audience{"", auth.Everything, "guests"} {
		for access := auth.Access(0); access <= auth.Administer; access++ {
			sight := auth.Sight{Audience: audience, Access: access}
			got, err := f.Frame(t.Context(), "", sight, "", 1)
			if err != nil {
				t.Fatal(err)
			}
			if other, shared := seen[string(got.Message)]; shared || !strings.Contains(string(got.Message), fmt.Sprintf("%s %d", audience, access)) {
				t.Errorf("%+v gets %s, as %+v does", sight, got.Message, other)
			}
			seen[string(got.Message)] = sight
			if again, err := f.Frame(t.Context(), "", sight, got.Version, 1); err != nil || again.Message != nil {
				t.Errorf("%+v: %s, %v", sight, again.Message, err)
			}
		}
	}
}
