// Package live keeps pages in browsers as the server would render them now. A [Feed]
// holds the newest rendering of each page that somebody looks at, and what differs from
// the ones before, for a script that patches the page (static/live.js). It knows
// nothing of what pages say, and no socket.
package live

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
)

const (
	// kept is how many patches of a page are kept: a browser that is further behind gets the whole page.
	kept = 8
	// mostPages is how many pages are kept, by address and audience. Of more, the one that
	// nobody has asked for longest is forgotten.
	mostPages = 512
	// gap is between two renderings of a page for changes: of many nodes each changes it.
	gap = 200 * time.Millisecond
)

// Render renders the page at an address below the base path, such as "gpu/GPU-1?sort=power", for an audience.
// An error says that there is no such page, or why it can't be made.
type Render func(ctx context.Context, address string, to auth.Audience) ([]byte, error)

// A Feed has the pages that somebody looks at. Its methods may be called concurrently.
type Feed struct {
	render Render
	clock  clock.Clock
	boot   string // tells the versions of this process apart from those of others
	gap    time.Duration

	mu    sync.Mutex
	pages map[view]*page
	used  uint64
}

// New returns a Feed of pages that render makes.
func New(render Render, of clock.Clock) *Feed {
	boot := make([]byte, 6)
	_, _ = rand.Read(boot) // it never fails
	return &Feed{render: render, clock: of, boot: hex.EncodeToString(boot), gap: gap, pages: map[view]*page{}}
}

type view struct {
	address string
	to      auth.Audience
}

// A page is one page with its last renderings.
type page struct {
	mu      sync.Mutex
	number  uint64        // of the newest rendering, from 1
	of      uint64        // the changes that the newest rendering has
	made    time.Duration // of the clock, when it was rendered for changes
	whole   []byte
	body    *node // of whole
	title   string
	patches [][]byte          // the last is what makes number-1 number
	frames  map[string][]byte // by the version that a browser has

	used uint64 // guarded by Feed.mu
}

func (f *Feed) page(v view) *page {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used++
	p := f.pages[v]
	if p == nil {
		if len(f.pages) >= mostPages {
			f.forget()
		}
		p = &page{}
		f.pages[v] = p
	}
	p.used = f.used
	return p
}

// forget forgets the page that was not used for longest.
func (f *Feed) forget() {
	var oldest view
	least := f.used
	for v, p := range f.pages {
		if p.used <= least {
			oldest, least = v, p.used
		}
	}
	delete(f.pages, oldest)
}

// Add takes in a page that was rendered for somebody, and returns its version.
func (f *Feed) Add(address string, to auth.Audience, html []byte) (version string, err error) {
	p := f.page(view{address, to})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.add(html); err != nil {
		return "", err
	}
	return f.version(p.number), nil
}

func (f *Feed) version(number uint64) string { return f.boot + "-" + strconv.FormatUint(number, 10) }

// numberOf is the number of a version of this Feed's; 0 of others.
func (f *Feed) numberOf(version string) uint64 {
	if len(version) <= len(f.boot) || version[:len(f.boot)] != f.boot {
		return 0
	}
	n, err := strconv.ParseUint(version[len(f.boot)+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// A Frame is what makes a page the newest one.
type Frame struct {
	Data    []byte // JSON; nil where the page is the newest already
	Version string // that the page has then
	Changes uint64 // that it has then; fewer than asked for where it was rendered a moment ago
}

// Frame returns what makes the page that a browser has the newest one. Changes is a number that grows whenever
// a page may have changed: where the newest rendering is of those changes, nothing is rendered. The data is
// the same for all who have the same version.
func (f *Feed) Frame(ctx context.Context, address string, to auth.Audience, have string, changes uint64) (Frame, error) {
	p := f.page(view{address, to})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of < changes && f.clock.Elapsed()-p.made >= f.gap || p.number == 0 {
		html, err := f.render(ctx, address, to)
		if err != nil {
			return Frame{}, fmt.Errorf("render %q: %w", address, err)
		}
		if err := p.add(html); err != nil {
			return Frame{}, err
		}
		p.of, p.made = changes, f.clock.Elapsed()
	}
	out := Frame{Version: f.version(p.number), Changes: p.of}
	if have == out.Version {
		return out, nil
	}
	if p.frames[have] == nil {
		p.frames[have] = f.encode(p, address, have)
	}
	out.Data = p.frames[have]
	return out, nil
}

// message is what a script gets.
type message struct {
	Page    string            `json:"page"`
	From    string            `json:"from,omitempty"` // the version that patches are for
	To      string            `json:"to"`
	Title   string            `json:"title"`
	Patches []json.RawMessage `json:"patches,omitempty"` // of the body, one after the other
	HTML    string            `json:"html,omitempty"`    // the whole page, without From
}

func (f *Feed) encode(p *page, address, have string) []byte {
	m := message{Page: address, To: f.version(p.number), Title: p.title}
	behind := p.number - f.numberOf(have)
	if n := f.numberOf(have); n > 0 && n <= p.number && behind <= uint64(len(p.patches)) {
		m.From = have
		for _, patch := range p.patches[len(p.patches)-int(behind):] {
			m.Patches = append(m.Patches, patch)
		}
	} else {
		m.HTML = string(p.whole)
	}
	return encode(m)
}

// add takes in a rendering, if it is another one.
func (p *page) add(html []byte) error {
	if p.number > 0 && string(html) == string(p.whole) {
		return nil
	}
	body, title, err := parse(html)
	if err != nil {
		return err
	}
	if p.number > 0 {
		if diff := diff(p.body, body); diff != nil || title != p.title {
			p.patches = append(p.patches, encode(diff))
			if len(p.patches) > kept {
				p.patches = slices.Delete(p.patches, 0, 1)
			}
			p.number++
		}
	} else {
		p.number = 1
	}
	p.whole, p.body, p.title, p.frames = html, body, title, map[string][]byte{}
	return nil
}
