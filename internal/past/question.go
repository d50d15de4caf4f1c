package past

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/when"
)

// A Question is what the page of the past is asked. Where Trouble is set, it can't be answered, and only Node, Asked and Unclear
// are there.
type Question struct {
	Node    string     // the page is about that node; empty: about all
	Asked   url.Values // what the address says, without what is empty
	NotKept bool       // nothing is kept at all
	Trouble *gpu.Advice
	Unclear bool // the trouble is with the question, not with what is kept

	From, To time.Time // in the zone that is asked for
	Devices  map[store.Key]store.Device
	Keys     []store.Key // the devices that are named; none: all
	At       time.Time   // the time at which the machine is to be shown; zero: none
	Compare  *Comparison
}

// A Comparison is what a span is compared with: another span, of which only the begin is told, or another device.
type Comparison struct {
	Name  string
	Begin time.Time  // zero: the same span
	Key   *store.Key // nil: the same devices
}

// pagePast has the parameters of the page of the past.
var pagePast = apidoc.Op("", "", "", ofSpan, asTable,
	apidoc.InQuery("at", "The time to show the machine at.", nil), apidoc.InQuery("play", "Seconds to move forward.", nil),
	apidoc.InQuery("compare", "The span to compare with.", nil))

// page is the page of the past. What can't be read of the address is said on it, beside the form.
func (s *Site) page(w http.ResponseWriter, r *http.Request) error {
	q, err := s.asked(r)
	if q.NotKept { // it is as asked for
		err = nil
	}
	page, failed := s.shown(r.Context(), q)
	if failed != nil {
		err = pastError(failed)
	}
	if err == nil {
		return serve.HTML(w, r, page)
	}
	return serve.RefuseWith(w, r, err, page)
}

// asked is what the page is asked, and why that can't be answered.
func (s *Site) asked(r *http.Request) (*Question, error) {
	q, err := s.question(r)
	if err != nil {
		status, trouble := serve.AsRefusal(err)
		q = &Question{
			Node: serve.Node(r), Asked: q.Asked, NotKept: s.Past == nil, Trouble: &trouble, Unclear: status < http.StatusInternalServerError,
		}
	}
	return q, err
}

// question reads the address. It returns the question even with an error.
func (s *Site) question(r *http.Request) (*Question, error) {
	q := &Question{Node: serve.Node(r), Asked: url.Values{}}
	asked, err := serve.ParseQuery(r)
	if err != nil {
		return q, err
	}
	for name, values := range asked { // a form sends its empty fields, too
		if values = slices.DeleteFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }); len(values) > 0 {
			q.Asked[name] = values
		}
	}
	if err := serve.Taken(r, pagePast.Params, q.Asked); err != nil {
		return q, err
	}
	q.Asked.Del("format")
	plain := r.Clone(r.Context())
	plain.URL.RawQuery = q.Asked.Encode()
	span, err := s.request(plain)
	if err != nil {
		return q, err
	}
	q.From, q.To, q.Devices = span.From, span.To, span.devices
	if len(q.Asked["gpu"]) > 0 || q.Asked.Has("node") {
		q.Keys = slices.DeleteFunc(span.Keys, func(k store.Key) bool { return slices.Contains(nobody, k) })
	}
	now := s.Past.Now().In(q.From.Location())
	if text := q.Asked.Get("at"); text != "" {
		if q.At, err = when.Time(text, now); err != nil {
			return q, noTime(err)
		}
	}
	if text := q.Asked.Get("compare"); text != "" {
		q.Compare, err = s.comparison(q, text, now)
	}
	return q, err
}

// comparison reads what a span is to be compared with: a device, such as "gpu 3", the same clocks of the day or the week
// before, or a span that begins at another time.
func (s *Site) comparison(q *Question, text string, now time.Time) (*Comparison, error) {
	words := strings.ToLower(strings.TrimSpace(text))
	if name, isDevice := strings.CutPrefix(words, "gpu "); isDevice {
		name = strings.TrimSpace(name)
		keys, err := s.kept(q.Devices, name)
		if err != nil {
			return nil, err
		}
		key := keys[0]
		if i := slices.IndexFunc(keys, func(k store.Key) bool { // its machine may have had another name then
			d := q.Devices[k]
			return d.First.Before(q.To) && d.Last.After(q.From)
		}); i >= 0 {
			key = keys[i]
		}
		return &Comparison{Name: "GPU " + name, Key: &key}, nil
	}
	switch words {
	case "yesterday", "day before":
		return &Comparison{Name: "the day before", Begin: q.From.AddDate(0, 0, -1)}, nil
	case "last week", "week before":
		return &Comparison{Name: "the week before", Begin: q.From.AddDate(0, 0, -7)}, nil
	}
	span, err := when.Parse(text, now)
	if err != nil {
		return nil, serve.Refuse(http.StatusUnprocessableEntity, err.Error(), `use yesterday, "last week", "gpu 3" or another time`)
	}
	return &Comparison{Name: text, Begin: span.From}, nil
}
