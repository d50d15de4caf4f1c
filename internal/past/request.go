package past

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/when"
)

// usualSpan is what is answered where a request names no time.
const usualSpan = "24h"

// A request asks for a span of time.
type request struct {
	store.Query
	values  url.Values
	devices map[store.Key]store.Device // that the store knows, the request is about, and who asks may see
	csv     bool
	// limited says that who asks may see only some machines; commands, whose command lines.
	limited  bool
	commands auth.Commands
}

// nobody's keys are asked for beside others by who may see only some machines: without any key, all machines are meant.
var nobody = []store.Key{{}, {UUID: "none"}}

// request reads what all questions about the past have in common: from, to, tz, gpu, node, user and format.
func (s *Site) request(r *http.Request) (*request, error) {
	if s.Past == nil {
		return nil, errNoHistory
	}
	values, err := serve.ParseQuery(r)
	if err != nil {
		return nil, err
	}
	q := &request{
		values: values, devices: map[store.Key]store.Device{}, limited: !serve.SeesAll(r.Context()), commands: serve.Commands(r.Context()),
	}
	now, err := s.zoned(values.Get("tz"))
	if err != nil {
		return nil, err
	}
	if q.From, q.To, err = spanOf(values.Get("from"), values.Get("to"), now); err != nil {
		return nil, noTime(err)
	}
	switch format := values.Get("format"); format {
	case "", "json", "csv":
		q.csv = format == "csv" || format == "" && serve.PrefersCSV(r)
	default:
		return nil, serve.Unknown(http.StatusUnprocessableEntity, "there is no format", format, []string{"json", "csv"}, "")
	}
	q.User = values.Get("user")
	return q, s.pastDevices(r, q)
}

// noTime is the error of a time that can't be understood.
func noTime(err error) error {
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		return serve.Advise(http.StatusUnprocessableEntity, *advice)
	}
	return err
}

// span is what an answer says of its span.
func (q *request) span() contract.PastSpan {
	return contract.NewPastSpan(q.From, q.To, history.Kinds(q.devices, q.Query))
}

// zoned is now in a zone; that of the program if the name is empty.
func (s *Site) zoned(name string) (time.Time, error) {
	now := s.Past.Now()
	if name == "" {
		return now.In(time.Local), nil //nolint:gosmopolitan // people's own time is meant
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		zone, err = time.LoadLocation(zoneName(name))
	}
	if hours, unread := time.Parse("-07:00", name); unread == nil { // of a machine whose zone has no name
		_, offset := hours.Zone()
		zone, err = time.FixedZone(name, offset), nil
	}
	if err != nil {
		return now, serve.Refuse(http.StatusUnprocessableEntity, "unknown time zone "+serve.Quote(name), "use a name such as Europe/Berlin or UTC, or an offset such as +02:00 (%2B02:00 in an address)")
	}
	return now.In(zone), nil
}

// zoneName is how a name such as europe/berlin or utc is written.
func zoneName(name string) string {
	if !strings.Contains(name, "/") {
		return strings.ToUpper(name)
	}
	written, begins := []byte(strings.ToLower(name)), true
	for i, c := range written {
		if begins && 'a' <= c && c <= 'z' {
			written[i] = c - 'a' + 'A'
		}
		begins = strings.IndexByte("/_-", c) >= 0
	}
	return string(written)
}

// spanOf reads from and to. From alone can name a span, such as "last night".
func spanOf(from, to string, now time.Time) (time.Time, time.Time, error) {
	text := from
	switch {
	case from == "" && to == "":
		text = usualSpan
	case from == "":
		return time.Time{}, time.Time{}, &gpu.Advice{What: "to is given without from", Try: "add from, or leave both out"}
	case to != "":
		text += ".." + to
	}
	span, err := when.Parse(text, now)
	return span.From, span.To, err
}

// pastDevices finds the devices that a request is about: those that it names, or all of its node.
func (s *Site) pastDevices(r *http.Request, q *request) error {
	all, err := s.Past.Store.Devices(r.Context())
	if err != nil {
		return pastError(err)
	}
	if q.limited {
		all = slices.DeleteFunc(slices.Clone(all), func(d store.Device) bool { return !s.Kit.Sees(r.Context(), d.Node) })
	}
	node := cmp.Or(serve.Node(r), q.values.Get("node"))
	for _, d := range all {
		if node == "" || d.Node == node {
			q.devices[d.Key()] = d
		}
	}
	if len(q.devices) == 0 && serve.Node(r) == "" && node != "" {
		var nodes []string
		for _, d := range all {
			nodes = append(nodes, d.Node)
		}
		slices.Sort(nodes)
		return serve.Unknown(http.StatusNotFound, "no history is kept for node", node, slices.Compact(nodes), "see /api/v1/gpu/nodes for current nodes")
	}
	for _, name := range q.values["gpu"] {
		keys, err := s.kept(q.devices, name)
		if err != nil {
			return err
		}
		q.Keys = append(q.Keys, keys...)
	}
	if len(q.Keys) == 0 && (node != "" || q.limited) {
		q.Keys = slices.Collect(maps.Keys(q.devices))
	}
	if q.limited {
		q.Keys = append(q.Keys, nobody...)
	}
	return nil
}

var errNoHistory = serve.Refuse(http.StatusNotFound, "no history is kept", "start gpuwhy with its own --state-dir and without --history off")

// kept is what is kept of a GPU, by the name that its machine has now and then by earlier ones. An index is one of a node that is
// read now, where there is such a GPU.
func (s *Site) kept(devices map[store.Key]store.Device, name string) ([]store.Key, error) {
	name, keys := called(devices, name)
	if len(keys) > 0 {
		return keys, nil
	}
	id, err := serve.ParseID(name)
	if err != nil {
		return nil, err
	}
	var found, now []store.Key
	nodes := map[string]bool{}
	read := s.nodesRead()
	for k, d := range devices {
		if k.UUID == "" || id.UUID == "" && d.Index != id.Index || id.UUID != "" && !strings.EqualFold(k.UUID, id.UUID) {
			continue
		}
		found, nodes[k.Node] = append(found, k), true
		if read[k.Node] {
			now = append(now, k)
		}
	}
	several := len(nodes) > 1
	if id.UUID == "" && several && len(now) > 0 {
		several = slices.ContainsFunc(now, func(k store.Key) bool { return k.Node != now[0].Node })
		found = now
	}
	switch {
	case len(found) == 0:
		var there []string
		for k, d := range devices {
			if k.UUID != "" {
				there = append(there, id.Like(k.UUID, d.Index))
			}
		}
		slices.Sort(there)
		return nil, serve.Unknown(http.StatusNotFound, "no history is kept for GPU", name, slices.Compact(there), "see /api/gpu/devices for current GPUs")
	case id.UUID == "" && several:
		return nil, errSeveral(id.Text)
	}
	if id.UUID == "" {
		found = append(found, before(devices, found, read)...)
	}
	slices.SortFunc(found, func(a, b store.Key) int {
		return cmp.Or(devices[b].Last.Compare(devices[a].Last), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID))
	})
	return found, nil
}

// before are the keys of the same devices from when their machine had another name. A UUID is one device, but where it is made of a
// place; and what is simulated or recorded may be so twice at the same time.
func before(devices map[store.Key]store.Device, keys []store.Key, read map[string]bool) (out []store.Key) {
	for _, k := range keys {
		if d := devices[k]; read[k.Node] && gpu.OneDevice(k.UUID) {
			for other, o := range devices {
				if o.UUID == d.UUID && !read[other.Node] && o.Kind == d.Kind && (d.Kind == gpu.Live || !o.Last.After(d.First)) {
					out = append(out, other)
				}
			}
		}
	}
	return out
}

var (
	indexOf = regexp.MustCompile(`^gpu (\d+)(?: of (.+))?$`)
	number  = regexp.MustCompile(`^-?[0-9]+$`)
	ofNode  = regexp.MustCompile(`^(.+?)(?: gpu |[ /])(\d+)$`)
)

// called are the GPUs that people call so: "node-017 GPU 3", "GPU 3 of node-017", all of "node-017", or all with "A100" in the name of
// the product. Where there are none the text may be an index or a UUID; "GPU 3" is an index.
func called(devices map[store.Key]store.Device, text string) (name string, keys []store.Key) {
	words := strings.ToLower(strings.Join(strings.Fields(text), " "))
	node, index := "", ""
	if m := indexOf.FindStringSubmatch(words); m != nil && m[2] == "" {
		return m[1], nil
	} else if m != nil {
		node, index = m[2], m[1]
	} else if m := ofNode.FindStringSubmatch(words); m != nil {
		node, index = m[1], m[2]
	}
	if number.MatchString(words) || len(words) < 2 {
		return text, nil
	}
	ways := []func(d *store.Device) bool{
		func(d *store.Device) bool { return strings.EqualFold(d.Node, node) && strconv.Itoa(d.Index) == index },
		func(d *store.Device) bool { return strings.EqualFold(d.Node, words) },
		func(d *store.Device) bool { return strings.Contains(strings.ToLower(d.Name), words) },
	}
	for _, is := range ways {
		for k, d := range devices {
			if k.UUID != "" && is(&d) {
				keys = append(keys, k)
			}
		}
		if len(keys) > 0 {
			break
		}
	}
	slices.SortFunc(keys, func(a, b store.Key) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(devices[a].Index, devices[b].Index), cmp.Compare(a.UUID, b.UUID))
	})
	return text, keys
}

// errSeveral refuses an index of which several nodes have had a GPU.
func errSeveral(index string) error {
	return serve.Refuse(http.StatusBadRequest, "there are several nodes, and each may have a GPU "+index,
		`name the GPU by its UUID, or as "NODE GPU `+index+`"; an address can name the node, with node=NAME`)
}

// nodesRead are the nodes that are read now: before the first reading, and where nothing is read, that of this program.
func (s *Site) nodesRead() map[string]bool {
	read := map[string]bool{}
	for _, n := range s.Kit.Hub.Newest().Nodes() {
		read[n.Node] = true
	}
	if len(read) == 0 {
		read[s.Kit.Monitor.Node] = true
	}
	return read
}

// pastError is an error of the database on the wire; nil for none.
func pastError(err error) error {
	if _, told := errors.AsType[*serve.StatusError](err); told {
		return err
	}
	if errors.Is(err, history.ErrTooFine) {
		return serve.Refuse(http.StatusUnprocessableEntity, "the time span is too long", "ask for a shorter one")
	}
	if errors.Is(err, history.ErrTooLong) {
		return serve.Refuse(http.StatusUnprocessableEntity, err.Error(), "choose a shorter one")
	}
	advice, ok := errors.AsType[*gpu.Advice](err)
	if !ok {
		return err
	}
	refused := serve.Advise(http.StatusServiceUnavailable, *advice)
	if errors.Is(err, history.ErrBusy) {
		refused = refused.RetryAfter("5")
	}
	return refused
}

// file is what a table is called when it is saved: by what it has, by what its rows are, of which machine and GPU if it is of one, and of when.
func (q *request) file(what, grouping string) string {
	name := "gpuwhy-" + what
	if grouping != "" {
		name += "-by-" + grouping
	}
	keys := q.Keys // those that were asked for
	if len(keys) == 0 || q.limited {
		keys = slices.Collect(maps.Keys(q.devices))
	}
	if len(keys) > 0 && !slices.ContainsFunc(keys, func(k store.Key) bool { return k.Node != keys[0].Node }) {
		const longest = 60 // the whole name fits into what file systems take
		node := keys[0].Node
		name += "-" + node[:min(len(node), longest)]
	}
	if len(keys) == 1 && keys[0].UUID != "" {
		name += "-gpu-" + strconv.Itoa(q.devices[keys[0]].Index)
	}
	const form = "20060102T150405"
	name += "-" + q.From.Format(form) + "-" + q.To.Format(form)
	return serve.FileName(name) + ".csv"
}
