package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/a-h/templ"
	"github.com/klauspost/compress/gzip"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/negotiate"
)

// The content types of what the server makes itself.
const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeHTML    = "text/html; charset=utf-8"
	typeText    = "text/plain; charset=utf-8"
)

// How long a client may keep an answer. Most answers change with every snapshot,
// and clients ask for them again with their ETag. All answers share the values.
var (
	cacheRevalidate = []string{"private, no-cache"} // private: most answers are for whoever asks
	cacheNever      = []string{"no-store"}
	cacheForEver    = []string{"public, max-age=31536000, immutable"}
)

// worthZipping: a shorter body fits into one network packet anyway.
const worthZipping = 1024

// A body is an answer that is ready to be sent. The first client that accepts that has it compressed.
type body struct {
	plain  encoded
	zipped func() encoded // nil if it isn't worth it
}

// encoded is one representation of a body: its bytes, and its headers as the
// slices that a header map holds, which nobody changes.
type encoded struct {
	bytes                             []byte
	contentType, length, etag, coding []string
}

func newBody(contentType string, content []byte) *body {
	b := &body{plain: encode(contentType, content)}
	if len(content) >= worthZipping {
		b.zipped = sync.OnceValue(func() encoded { return encode(contentType, zip(content), "gzip") })
	}
	return b
}

func encode(contentType string, content []byte, coding ...string) encoded {
	sum := sha256.Sum256(content)
	return encoded{
		bytes:       content,
		contentType: []string{contentType},
		length:      []string{strconv.Itoa(len(content))},
		etag:        []string{`"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`},
		coding:      coding,
	}
}

// jsonBody encodes an answer, unless it is encoded already.
func jsonBody(answer any) (*body, error) {
	if encoded, ok := answer.(json.RawMessage); ok {
		return newBody(typeJSON, encoded), nil
	}
	content, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", answer, err)
	}
	return newBody(typeJSON, content), nil
}

// JSON answers with JSON made for this request. Clients revalidate it before they use it again.
func JSON(w http.ResponseWriter, r *http.Request, answer any) error {
	b, err := jsonBody(answer)
	return reply(w, r, cacheRevalidate, b, err)
}

// FreshJSON answers with JSON about this very moment. Clients must not cache it.
func FreshJSON(w http.ResponseWriter, r *http.Request, answer any) error {
	b, err := jsonBody(answer)
	return reply(w, r, cacheNever, b, err)
}

// Content answers with content of a content type, made for this request. Clients revalidate it before they use it again.
func Content(w http.ResponseWriter, r *http.Request, contentType string, content []byte) error {
	return reply(w, r, cacheRevalidate, newBody(contentType, content), nil)
}

func pageBody(ctx context.Context, page templ.Component) (*body, error) {
	var html bytes.Buffer
	if err := page.Render(ctx, &html); err != nil {
		return nil, fmt.Errorf("render the page: %w", err)
	}
	return newBody(typeHTML, html.Bytes()), nil
}

// HTML answers with a page that stays as it is until it is asked for again. If it can't be rendered, nothing of it is sent.
func HTML(w http.ResponseWriter, r *http.Request, page templ.Component) error {
	b, err := pageBody(r.Context(), page)
	return reply(w, r, cacheRevalidate, b, err)
}

// FreshHTML answers with a page that clients must not keep, such as one about whoever asks.
func FreshHTML(w http.ResponseWriter, r *http.Request, page templ.Component) error {
	b, err := pageBody(r.Context(), page)
	return reply(w, r, cacheNever, b, err)
}

// A rendering takes a page as it is made, for those who have an older one.
type rendering struct {
	http.ResponseWriter
	page []byte
}

// LiveHTML answers with a page that stays as the server would render it: its version is in its head. It is for the handler of a
// [LivePage]. If the page can't be rendered, nothing of it is sent.
func (k *Kit) LiveHTML(w http.ResponseWriter, r *http.Request, page templ.Component) error {
	var html bytes.Buffer
	if err := page.Render(r.Context(), &html); err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	if made, is := w.(*rendering); is {
		made.page = html.Bytes()
		return nil
	}
	content := html.Bytes()
	if changes, counted := r.Context().Value(changesKey{}).(uint64); counted && k.Live != nil && r.Method != http.MethodHead {
		address := strings.TrimPrefix(r.RequestURI, k.Root())
		version, err := k.Live.Add(address, auth.FromRequest(r).Sight(), content, changes)
		if err != nil {
			return fmt.Errorf("keep the page: %w", err)
		}
		content = bytes.Replace(content, []byte("</head>"), fmt.Appendf(nil, `<meta name="version" content=%q data-now="%d"/></head>`, version, k.Clock.Now().UnixMilli()), 1)
	}
	return reply(w, r, cacheRevalidate, newBody(typeHTML, content), nil)
}

// ErrNotLive is returned for the address of a page that does not change by itself.
var ErrNotLive = errors.New("the address is not that of a live page")

// Render makes the live page at an address below the base path, for all who see so much: a page names nobody who looks at it.
func (s *Server) Render(ctx context.Context, address string, sight auth.Sight) ([]byte, error) {
	who := sight.Principal()
	r, err := http.NewRequestWithContext(auth.NewContext(ctx, &who), http.MethodGet, "http://page"+s.kit.Root()+address, nil)
	if err != nil {
		return nil, ErrNotLive
	}
	r.Header.Set("Accept", "text/html")
	made := &rendering{ResponseWriter: nowhere{http.Header{}}}
	s.pages.ServeHTTP(made, r)
	if made.page == nil {
		return nil, ErrNotLive
	}
	return made.page, nil
}

// nowhere is a client that wants no answer.
type nowhere struct{ header http.Header }

// Header implements [http.ResponseWriter].
func (d nowhere) Header() http.Header { return d.header }

// Write implements [http.ResponseWriter].
func (d nowhere) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements [http.ResponseWriter].
func (d nowhere) WriteHeader(int) {}

// RefuseWith answers an error with page, which describes it. It returns an internal error instead.
func RefuseWith(w http.ResponseWriter, r *http.Request, err error, page templ.Component) error {
	e := asStatusError(err)
	if e.status == http.StatusInternalServerError {
		return err
	}
	var html bytes.Buffer
	if err := page.Render(r.Context(), &html); err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	if e.header != "" {
		w.Header().Set(e.header, e.value)
	}
	sendNow(w, r, e.status, typeHTML, html.Bytes())
	return nil
}

// PrefersJSON reports whether a client that may have JSON or a page prefers JSON. The answer depends on what it accepts.
func PrefersJSON(w http.ResponseWriter, r *http.Request) bool {
	addVary(w.Header(), byAccept)
	return negotiate.Type(r.Header, typeJSON, typeHTML) == typeJSON
}

// zippers have the level whose output is about as long as the standard library's, in three quarters of the time.
var zippers = sync.Pool{New: func() any {
	zw, _ := gzip.NewWriterLevel(io.Discard, 8) // there is that level
	return zw
}}

func zip(content []byte) []byte {
	var out bytes.Buffer
	zw := zippers.Get().(*gzip.Writer)
	defer zippers.Put(zw)
	zw.Reset(&out)
	// Writing to a buffer can't fail.
	_, _ = zw.Write(content)
	_ = zw.Close()
	return out.Bytes()
}

// reply answers with a body, or with 304 if the client has it; or it returns the error of making it.
func reply(w http.ResponseWriter, r *http.Request, cache []string, b *body, err error) error {
	if err != nil {
		return err
	}
	h := w.Header()
	e := b.plain
	if b.zipped != nil && negotiate.Gzip(r.Header) {
		e = b.zipped()
	}
	kept := cache[0] != cacheNever[0]
	h["Cache-Control"] = cache
	if b.zipped != nil {
		addVary(h, byEncoding)
	}
	if kept {
		h["Etag"] = e.etag
		if matches(r.Header["If-None-Match"], e.etag[0]) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	h["Content-Type"] = e.contentType
	if e.coding != nil {
		h["Content-Encoding"] = e.coding
	}
	h["Content-Length"] = e.length
	send(w, r, e.bytes)
	return nil
}

// sendNow answers with content that was just made. Clients must not cache it.
func sendNow(w http.ResponseWriter, r *http.Request, status int, contentType string, content []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(content)))
	h["Cache-Control"] = cacheNever
	w.WriteHeader(status)
	send(w, r, content)
}

// send writes content, but for HEAD. A write fails only if the client is gone.
func send(w http.ResponseWriter, r *http.Request, content []byte) {
	if r.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}

// matches reports whether an If-None-Match header names the ETag, or all.
func matches(ifNoneMatch []string, etag string) bool {
	for _, list := range ifNoneMatch {
		for candidate := range strings.SplitSeq(list, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// Request headers on which answers depend. All answers share the values.
var (
	byAccept   = []string{"Accept"}
	byEncoding = []string{"Accept-Encoding"}
)

// addVary adds one of them to Vary, once.
func addVary(h http.Header, names []string) {
	if vary := h["Vary"]; vary == nil {
		h["Vary"] = names
	} else if !slices.Contains(vary, names[0]) {
		h["Vary"] = slices.Concat(vary, names)
	}
}
