// Package live keeps pages in browsers identical to what the server would render now.
// A [Feed] holds the newest rendering of each page that has a viewer, and the patches from
// earlier renderings, for the script that patches pages (static/live.js). It knows neither
// the content of pages nor sockets.
//
// # Messages
//
// A live page has its version in its head. The script opens ws?page=ADDRESS&have=VERSION and gets the patches from its version to the
// newest one, or the whole page as "html" if it is too far behind:
//
//	{"event":"page","data":{"page":ADDRESS,"from":VERSION,"to":VERSION,"title":TITLE,"patches":[…]}}
//
// The browser asks for another page with {"event":"show","data":{"page":ADDRESS,"have":VERSION}}; "fresh":true asks for a reading that
// begins now. Only pages use these two events, and they change with the pages: docs/protocol.md doesn't promise them.
//
// # Pace
//
// Nothing is rendered unless somebody looks. All who look at the same page, with the same access and audience, share a rendering. A page
// is rendered at most five times a second, and takes at most a quarter of a processor if a rendering takes no longer than a quarter of a
// second.
//
// # Keys
//
// Among siblings, an element is the earlier one with the same data-key or id. Without either, the first element of a name is the earlier
// first of that name. So whatever comes, goes or moves needs a key. Inside an element with data-own everything belongs to scripts:
// patches don't look into it.
package live

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
)

const (
	// MaxAddress is the longest address of a page that is kept, in bytes.
	MaxAddress = 2048
	// kept is the number of patches kept for a page: a browser further behind gets the whole page.
	kept = 8
	// mostBytes is about how much memory all pages may take: beyond it, the least recently requested pages are dropped.
	mostBytes = 64 << 20
	// treeBytes is about how many bytes a parsed page takes per byte of HTML.
	treeBytes = 12
	// unused is after how long a page without requests is dropped.
	unused = time.Minute
	// gap is the shortest time between two renderings of a page for changes, and settle how long a change of one of several
	// nodes waits for the others. A slow page has a longer gap, idle times its rendering time, so that a page takes at most a
	// quarter of a core. The gap is at most longest, since the rendering may have been slow for other reasons.
	gap, settle = 200 * time.Millisecond, 150 * time.Millisecond
	idle        = 3
	longest     = 750 * time.Millisecond
	// fresh is how long a message can be reused: it contains the time.
	fresh = time.Second
)

// Render renders the page at an address below the base path, such as "gpu/GPU-1?sort=power", for viewers with the given access.
// It returns an error if there is no such page, or if it can't be rendered.
type Render func(ctx context.Context, address string, sight auth.Sight) ([]byte, error)

// A Feed holds the pages that have viewers. Its methods may be called concurrently.
type Feed struct {
	render      Render
	clock       clock.Clock
	boot        string // distinguishes the versions of this process from others
	gap, settle time.Duration
	idle        int // gap between renderings, as a multiple of the last rendering time

	mu     sync.Mutex
	pages  map[view]*page
	bytes  int    // about how much memory they take
	number uint64 // number of the newest rendering of any page
}

// New returns a Feed of pages made by render. Several says that there are several nodes, each of which changes
// pages on its own.
func New(render Render, ticks clock.Clock, several bool) *Feed {
	boot := make([]byte, 6)
	_, _ = rand.Read(boot) // it never fails
	f := &Feed{render: render, clock: ticks, boot: hex.EncodeToString(boot), gap: gap, idle: idle, pages: map[view]*page{}}
	if several {
		f.settle = settle
	}
	return f
}

type view struct {
	address string
	sight   auth.Sight
}

// A page is one page with its latest renderings.
type page struct {
	mu      sync.Mutex
	version string        // version of the newest rendering; empty before the first
	changes uint64        // change number of the newest rendering
	made    time.Duration // clock time when it was last rendered for changes
	took    time.Duration // how long that rendering and its comparison took
	noticed time.Duration // clock time when newer changes were first requested; 0 if none were
	whole   []byte
	body    *node // parsed whole; nil until it is compared
	title   string
	patches []step
	said    map[string]said // latest messages, by the version that a browser has

	// Guarded by Feed.mu:
	used  time.Duration // clock time of the last request
	bytes int
}

// A step is the patch from one version to the next.
type step struct {
	version string
	patch   []byte
}

// A said is a message to browsers with one version, and its clock time.
type said struct {
	text []byte
	time time.Duration
}

// page returns the page of a view and marks it as used.
func (f *Feed) page(v view) *page {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Elapsed()
	for other, p := range f.pages {
		if now-p.used > unused {
			f.forget(other)
		}
	}
	p := f.pages[v]
	if p == nil {
		p = &page{}
		f.pages[v] = p
	}
	p.used = now
	return p
}

// forget drops a page. The caller holds mu.
func (f *Feed) forget(v view) {
	if p := f.pages[v]; p != nil {
		f.bytes -= p.bytes
		delete(f.pages, v)
	}
}

// weigh accounts for the memory of a page and makes room. A page without a rendering is dropped. The caller holds the page's mu.
func (f *Feed) weigh(v view, p *page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pages[v] != p { // it was dropped meanwhile
		return
	}
	if p.version == "" {
		f.forget(v)
		return
	}
	f.bytes -= p.bytes
	p.bytes = len(p.whole)
	if p.body != nil {
		p.bytes += treeBytes * len(p.whole)
	}
	for _, s := range p.patches {
		p.bytes += len(s.patch)
	}
	for _, s := range p.said {
		p.bytes += len(s.text)
	}
	f.bytes += p.bytes
	for f.bytes > mostBytes && len(f.pages) > 1 {
		var oldest view
		for other, o := range f.pages {
			if current := f.pages[oldest]; o != p && (current == nil || o.used < current.used) {
				oldest = other
			}
		}
		f.forget(oldest)
	}
}

// next returns a new version. No version repeats.
func (f *Feed) next() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	return f.boot + "-" + strconv.FormatUint(f.number, 10)
}

// Add stores a page that was rendered for a request at a change number, and returns its version. The version is empty if the page is
// not kept: there is a newer one, or its address is too long.
func (f *Feed) Add(address string, sight auth.Sight, html []byte, changes uint64) (version string, err error) {
	if len(address) > MaxAddress {
		return "", nil
	}
	v := view{address, sight}
	p := f.page(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer f.weigh(v, p)
	if p.version != "" && changes < p.changes {
		return "", nil
	}
	if err := f.add(p, html, changes); err != nil {
		return "", err
	}
	return p.version, nil
}

// A Frame brings a page up to date.
type Frame struct {
	// Message is the JSON for the script: {"event":"page","data":…}; nil if the page is already up to date.
	Message []byte
	Version string // version of the page afterwards
	Changes uint64 // its change number afterwards; lower than requested if it was rendered a moment ago
}

// Frame returns what brings a browser's page up to date. Changes is a number that grows whenever a page may have
// changed: if the newest rendering has that number, nothing is rendered. Browsers with the same version get the same
// message.
func (f *Feed) Frame(ctx context.Context, address string, sight auth.Sight, have string, changes uint64) (out Frame, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Frame{}, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	v := view{address, sight}
	p := f.page(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer f.weigh(v, p)
	if f.due(p, changes) {
		begun := f.clock.Elapsed()
		html, err := f.render(ctx, address, sight)
		if err != nil {
			return Frame{}, fmt.Errorf("render %q: %w", address, err)
		}
		if err := f.add(p, html, changes); err != nil {
			return Frame{}, err
		}
		p.made = f.clock.Elapsed()
		p.took = p.made - begun
	}
	out = Frame{Version: p.version, Changes: p.changes}
	if have != p.version {
		out.Message, err = f.say(p, address, have)
	}
	return out, err
}

// due reports whether a page should be rendered for changes, and notes changes that have to wait.
func (f *Feed) due(p *page, changes uint64) bool {
	now := f.clock.Elapsed()
	switch {
	case p.version == "":
		return true
	case p.changes >= changes:
		return false
	case p.noticed == 0:
		p.noticed = max(now, 1)
	}
	return now-p.made >= max(f.gap, min(time.Duration(f.idle)*p.took, longest)) && now-p.noticed >= f.settle
}

// A message is what the script receives.
type message struct {
	Event string `json:"event"`
	Data  data   `json:"data"`
}

type data struct {
	Page    string            `json:"page"`
	From    string            `json:"from,omitempty"` // the version that the patches apply to
	To      string            `json:"to"`
	Now     int64             `json:"now"` // the server's clock, in milliseconds since 1970
	Title   string            `json:"title"`
	Patches []json.RawMessage `json:"patches,omitempty"` // patches of the body, in order
	HTML    string            `json:"html,omitempty"`    // the whole page, if there is no From
}

// say makes the message for browsers with a version. An unknown version counts as none.
func (f *Feed) say(p *page, address, have string) ([]byte, error) {
	first := slices.IndexFunc(p.patches, func(s step) bool { return s.version == have })
	if first < 0 {
		have = ""
	}
	now := f.clock.Elapsed()
	if s, was := p.said[have]; was && now-s.time < fresh {
		return s.text, nil
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	m := message{"page", data{Page: address, From: have, To: p.version, Now: f.clock.Now().UnixMilli(), Title: p.title}}
	if first >= 0 {
		for _, s := range p.patches[first:] {
			m.Data.Patches = append(m.Data.Patches, s.patch)
		}
	} else {
		m.Data.HTML = string(p.whole)
	}
	text := encode(m)
	p.said[have] = said{text, now}
	return text, nil
}

// parse parses the page if that has not been done yet.
func (p *page) parse() (err error) {
	if p.body == nil {
		p.body, p.title, err = parse(p.whole)
	}
	return err
}

// add stores a rendering if it differs.
func (f *Feed) add(p *page, html []byte, changes uint64) error {
	p.changes, p.made, p.noticed = changes, f.clock.Elapsed(), 0
	if p.version != "" && bytes.Equal(html, p.whole) {
		return nil
	}
	if p.version == "" {
		p.whole, p.said, p.version = html, map[string]said{}, f.next()
		return nil
	}
	if err := p.parse(); err != nil {
		return err
	}
	body, title, err := parse(html)
	if err != nil {
		return err
	}
	if diff := diff(p.body, body); diff != nil || title != p.title {
		if p.patches = append(p.patches, step{p.version, encode(diff)}); len(p.patches) > kept {
			p.patches = slices.Delete(p.patches, 0, 1)
		}
		p.version, p.said = f.next(), map[string]said{}
	}
	p.whole, p.body, p.title = html, body, title
	return nil
}
