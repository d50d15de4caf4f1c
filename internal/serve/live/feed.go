// Package live keeps pages in browsers as the server would render them now. A [Feed]
// holds the newest rendering of each page that somebody looks at, and what differs from
// the ones before, for a script that patches the page (static/live.js). It knows
// nothing of what pages say, and no socket.
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
	// MaxAddress is how many bytes the address of a page has at most that is kept.
	MaxAddress = 2048
	// kept is how many patches of a page are kept: a browser that is further behind gets the whole page.
	kept = 8
	// mostBytes is about how much all pages take: of more, those are forgotten that nobody has asked for longest.
	mostBytes = 64 << 20
	// treeBytes is about how many bytes the tree of a page takes for each byte of HTML.
	treeBytes = 12
	// unused is after how long a page is forgotten that nobody asks for.
	unused = time.Minute
	// gap is between two renderings of a page for changes, settle how long a change of one of several nodes waits
	// for those of the others. A page that takes long to render has a longer gap: idle times as long as that took, so that
	// one page takes a quarter of a processor at most. It is longest at most, since others may have the processor meanwhile.
	gap, settle = 200 * time.Millisecond, 150 * time.Millisecond
	idle        = 3
	longest     = 750 * time.Millisecond
	// fresh is how long a message is sent as it is: it has the time.
	fresh = time.Second
)

// Render renders the page at an address below the base path, such as "gpu/GPU-1?sort=power", for those who see so much.
// An error says that there is no such page, or why it can't be made.
type Render func(ctx context.Context, address string, to auth.Sight) ([]byte, error)

// A Feed has the pages that somebody looks at. Its methods may be called concurrently.
type Feed struct {
	render      Render
	clock       clock.Clock
	boot        string // tells the versions of this process apart from those of others
	gap, settle time.Duration
	idle        int // times as long as the last rendering took, which is at least between two

	mu     sync.Mutex
	pages  map[view]*page
	bytes  int    // what they take, about
	number uint64 // of the newest rendering of all
}

// New returns a Feed of pages that render makes. Several says that there are several nodes, of which each changes
// pages by itself.
func New(render Render, of clock.Clock, several bool) *Feed {
	boot := make([]byte, 6)
	_, _ = rand.Read(boot) // it never fails
	f := &Feed{render: render, clock: of, boot: hex.EncodeToString(boot), gap: gap, idle: idle, pages: map[view]*page{}}
	if several {
		f.settle = settle
	}
	return f
}

type view struct {
	address string
	to      auth.Sight
}

// A page is one page with its last renderings.
type page struct {
	mu      sync.Mutex
	version string        // of the newest rendering; empty before the first
	of      uint64        // the changes that the newest rendering has
	made    time.Duration // of the clock, when it was rendered for changes
	took    time.Duration // how long it then took until it was compared
	noticed time.Duration // of the clock, when changes were first asked for that it does not have; 0: none were
	whole   []byte
	body    *node // of whole; nil until it is compared
	title   string
	patches []step
	said    map[string]said // by the version that a browser has

	// Guarded by Feed.mu:
	used  time.Duration // of the clock
	bytes int
}

// A step is what makes the rendering of a version the next one.
type step struct {
	from  string
	patch []byte
}

// What was said to browsers with the same version, and when by the clock.
type said struct {
	text []byte
	at   time.Duration
}

// page is that of a view, which is used now.
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

// forget forgets a page. The caller holds mu.
func (f *Feed) forget(v view) {
	if p := f.pages[v]; p != nil {
		f.bytes -= p.bytes
		delete(f.pages, v)
	}
}

// weigh takes note of how much a page takes, and makes room. A page without a rendering is not kept. The caller holds the page's mu.
func (f *Feed) weigh(v view, p *page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pages[v] != p { // it was forgotten meanwhile
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
			if of := f.pages[oldest]; o != p && (of == nil || o.used < of.used) {
				oldest = other
			}
		}
		f.forget(oldest)
	}
}

// next is the version of another rendering. None comes twice.
func (f *Feed) next() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	return f.boot + "-" + strconv.FormatUint(f.number, 10)
}

// Add takes in a page that was rendered for somebody after so many changes, and returns its version; empty where it is
// not kept, since there is a newer one or its address is too long.
func (f *Feed) Add(address string, to auth.Sight, html []byte, changes uint64) (version string, err error) {
	if len(address) > MaxAddress {
		return "", nil
	}
	v := view{address, to}
	p := f.page(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer f.weigh(v, p)
	if p.version != "" && changes < p.of {
		return "", nil
	}
	if err := f.add(p, html, changes); err != nil {
		return "", err
	}
	return p.version, nil
}

// A Frame is what makes a page the newest one.
type Frame struct {
	// Message is what the script gets, as JSON: {"event":"page","data":…}; nil where the page is the newest already.
	Message []byte
	Version string // that the page has then
	Changes uint64 // that it has then; fewer than asked for where it was rendered a moment ago
}

// Frame returns what makes the page that a browser has the newest one. Changes is a number that grows whenever
// a page may have changed: where the newest rendering is of those changes, nothing is rendered. The message is
// the same for all who have the same version.
func (f *Feed) Frame(ctx context.Context, address string, to auth.Sight, have string, changes uint64) (out Frame, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Frame{}, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	v := view{address, to}
	p := f.page(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer f.weigh(v, p)
	if f.due(p, changes) {
		begun := f.clock.Elapsed()
		html, err := f.render(ctx, address, to)
		if err != nil {
			return Frame{}, fmt.Errorf("render %q: %w", address, err)
		}
		if err := f.add(p, html, changes); err != nil {
			return Frame{}, err
		}
		p.made = f.clock.Elapsed()
		p.took = p.made - begun
	}
	out = Frame{Version: p.version, Changes: p.of}
	if have != p.version {
		out.Message, err = f.say(p, address, have)
	}
	return out, err
}

// due reports whether a page is to be rendered for changes, and takes note of those that wait.
func (f *Feed) due(p *page, changes uint64) bool {
	now := f.clock.Elapsed()
	switch {
	case p.version == "":
		return true
	case p.of >= changes:
		return false
	case p.noticed == 0:
		p.noticed = max(now, 1)
	}
	return now-p.made >= max(f.gap, min(time.Duration(f.idle)*p.took, longest)) && now-p.noticed >= f.settle
}

// A message is what a script gets.
type message struct {
	Event string `json:"event"`
	Data  data   `json:"data"`
}

type data struct {
	Page    string            `json:"page"`
	From    string            `json:"from,omitempty"` // the version that patches are for
	To      string            `json:"to"`
	Now     int64             `json:"now"` // the server's clock, in milliseconds since 1970
	Title   string            `json:"title"`
	Patches []json.RawMessage `json:"patches,omitempty"` // of the body, one after the other
	HTML    string            `json:"html,omitempty"`    // the whole page, without From
}

// say makes the message for browsers that have a version; any that is not known stands for none.
func (f *Feed) say(p *page, address, have string) ([]byte, error) {
	first := slices.IndexFunc(p.patches, func(s step) bool { return s.from == have })
	if first < 0 {
		have = ""
	}
	now := f.clock.Elapsed()
	if s, was := p.said[have]; was && now-s.at < fresh {
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

// parse makes the tree of a page that has none yet.
func (p *page) parse() (err error) {
	if p.body == nil {
		p.body, p.title, err = parse(p.whole)
	}
	return err
}

// add takes in a rendering, if it is another one.
func (f *Feed) add(p *page, html []byte, changes uint64) error {
	p.of, p.made, p.noticed = changes, f.clock.Elapsed(), 0
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
