package hub

import (
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A page is what a viewer shows instead of updates and events. Its address does not change; only
// the writer uses the other fields.
type page struct {
	address string
	have    string // the version that the viewer has
	seen    uint64 // the changes that this version includes
	failed  bool   // the viewer has been told that the page is not available
}

// pageGap is the least time before a viewer gets another turn for a page that was just rendered.
const pageGap = 100 * time.Millisecond

// maxAddress is the longest address of a page, in bytes.
const maxAddress = 2048

// parsePage parses the data of show.
func parsePage(data map[string]json.RawMessage) (p *page, fresh bool, err error) {
	address, ok := text(data["page"])
	have, _ := text(data["have"])
	switch {
	case !ok:
		return nil, false, errors.New("data needs the member \"page\", a string")
	case len(address) > maxAddress || len(have) > maxID:
		return nil, false, errTooLong
	}
	for name := range data {
		if name != "page" && name != "have" && name != "fresh" {
			return nil, false, errors.New("data may only have the members page, have and fresh")
		}
	}
	fresh, err = parseBool(data, "fresh")
	return &page{address: address, have: have}, fresh, err
}

// pageOf returns the page that a connection is for; nil if none.
func pageOf(asked url.Values) (*page, error) {
	p := &page{address: asked.Get("page"), have: asked.Get("have")}
	switch {
	case !asked.Has("page"):
		return nil, nil
	case len(p.address) > maxAddress || len(p.have) > maxID:
		return nil, errTooLong
	}
	return p, nil
}

var errTooLong = errors.New("the page's address or version is too long")

// show makes the viewer show another page, or the same page from another version.
func (m *mailbox) show(p *page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.page.Store(p)
	m.wake()
}

// ErrNoPage is returned by Config.Page for an address without a page.
var ErrNoPage = errors.New("there is no such page")

// turn makes the message that brings a page up to date, if it is not.
func (h *Hub) turn(sight auth.Sight, p *page) (message, bool) {
	changes := h.changes.Load()
	if p.seen >= changes {
		return message{}, false
	}
	text, version, included, err := h.cfg.Page(p.address, sight, p.have, changes)
	if err != nil {
		p.seen = changes
		if !errors.Is(err, ErrNoPage) { // which is not an error: a device was removed
			h.paging.begin(err)
		}
		if p.failed {
			return message{}, false
		}
		p.failed = true
		said := refused(&refusal{codeUnavailable, "this page is no longer available: reload it"}, nil)
		said.kind = kindState // it answers no request
		return said, true
	}
	h.paging.end()
	p.seen, p.have, p.failed = included, version, false
	if text == nil {
		return message{}, false
	}
	return message{head: appendHeader(make([]byte, 0, maxHeader), len(text)), tail: text}, true
}

// readNow reads the nodes that the viewer sees, for its page. Viewers that may not request a reading see the
// existing one.
func (v *viewer) readNow() {
	a := v.hub.acts[eventRequest]
	if a == nil {
		return
	}
	_, err := a.Do(v.ctx, v.ask(everything, nil))
	switch _, denied := errors.AsType[*refusal](err); {
	case err == nil:
		v.hub.refreshing.end()
	case !denied && v.ctx.Err() == nil:
		v.hub.refreshing.begin(err)
	}
}
