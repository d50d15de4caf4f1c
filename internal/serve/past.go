package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/negotiate"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/when"
)

const (
	typeCSV = "text/csv; charset=utf-8"
	// usualSpan is the span of requests that name no time.
	usualSpan = "24h"
)

// AnswerPast answers a question about the past without reading any device, as JSON or, with format=csv, as a table. path is a
// route about the past, without a base path. It uses Monitor, Past, Sizes, Price, Then, Clock and Log of cfg. If the API would
// refuse, the error is a [gpu.Advice]; after an error, what has been written is only a part of the answer.
func AnswerPast(ctx context.Context, cfg Config, path string, query url.Values, w io.Writer) error {
	s := &Server{cfg: cfg, log: cfg.Log}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	for _, route := range s.routes() {
		if answer, ok := route.Answer.(answering); ok && route.Path == path && route.Doc != nil && isPast(path, route.Doc.Tag) {
			return answer.handler(bare{w, http.Header{}}, r)
		}
	}
	return fmt.Errorf("%s is not an address for the past", path)
}

// bare is an answer without its header.
type bare struct {
	io.Writer
	header http.Header
}

// Header implements [http.ResponseWriter].
func (b bare) Header() http.Header { return b.header }

// WriteHeader implements [http.ResponseWriter].
func (bare) WriteHeader(int) {}

// A pastRequest asks for a span of time.
type pastRequest struct {
	store.Query
	values  url.Values
	devices map[store.Key]store.Device // that the store knows and the request is about
	csv     bool
}

// pastRequest reads what all questions about the past have in common: from, to, tz, gpu, node, user and format.
func (s *Server) pastRequest(r *http.Request) (*pastRequest, error) {
	if s.cfg.Past == nil {
		return nil, errNoHistory
	}
	values, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	q := &pastRequest{values: values, devices: map[store.Key]store.Device{}}
	now, err := s.zoned(values.Get("tz"))
	if err != nil {
		return nil, err
	}
	if q.From, q.To, err = spanOf(values.Get("from"), values.Get("to"), now); err != nil {
		return nil, noTime(err)
	}
	switch format := values.Get("format"); format {
	case "", "json", "csv":
		q.csv = format == "csv" || format == "" && negotiate.Type(r.Header, typeJSON, "text/csv") == "text/csv"
	default:
		return nil, unknown(unprocessable, "there is no format", format, []string{"json", "csv"}, "")
	}
	q.User = values.Get("user")
	return q, s.pastDevices(r, q)
}

// noTime is the error for a time that can't be understood.
func noTime(err error) error {
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		return &statusError{status: http.StatusUnprocessableEntity, advice: *advice}
	}
	return err
}

// span is what an answer says about its span.
func (q *pastRequest) span() contract.PastSpan {
	return contract.NewPastSpan(q.From, q.To, history.Kinds(q.devices, q.Query))
}

// zoned is the current time in a zone; the program's zone if the name is empty.
func (s *Server) zoned(name string) (time.Time, error) {
	now := s.cfg.Past.Now()
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
		return now, refuse(http.StatusUnprocessableEntity, "unknown time zone "+quote(name), "use a name such as Europe/Berlin or UTC, or an offset such as +02:00 (%2B02:00 in an address)")
	}
	return now.In(zone), nil
}

// zoneName returns the proper spelling of a name such as europe/berlin or utc.
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
func (s *Server) pastDevices(r *http.Request, q *pastRequest) error {
	all, err := s.cfg.Past.Store.Devices(r.Context())
	if err != nil {
		return pastError(err)
	}
	node := cmp.Or(nodeOf(r), q.values.Get("node"))
	for _, d := range all {
		if node == "" || d.Node == node {
			q.devices[d.Key()] = d
		}
	}
	if len(q.devices) == 0 && nodeOf(r) == "" && node != "" {
		var nodes []string
		for _, d := range all {
			nodes = append(nodes, d.Node)
		}
		slices.Sort(nodes)
		return unknown(http.StatusNotFound, "no history is kept for node", node, slices.Compact(nodes), "see /api/v1/gpu/nodes for current nodes")
	}
	for _, name := range q.values["gpu"] {
		keys, err := s.kept(q.devices, name)
		if err != nil {
			return err
		}
		q.Keys = append(q.Keys, keys...)
	}
	if len(q.Keys) == 0 && node != "" {
		q.Keys = slices.Collect(maps.Keys(q.devices))
	}
	return nil
}

var errNoHistory = refuse(http.StatusNotFound, "no history is kept", "start gpuwhy with its own --state-dir and without --history off")

// kept returns the keys of a GPU's history: under its machine's current name, then under earlier ones. An index means a node that
// is read now, if that has such a GPU.
func (s *Server) kept(devices map[store.Key]store.Device, name string) ([]store.Key, error) {
	name, keys := called(devices, name)
	if len(keys) > 0 {
		return keys, nil
	}
	id, err := parseID(name)
	if err != nil {
		return nil, err
	}
	var found, now []store.Key
	nodes := map[string]bool{}
	read := s.nodesRead()
	for k, d := range devices {
		if k.UUID == "" || id.uuid == "" && d.Index != id.index || id.uuid != "" && !strings.EqualFold(k.UUID, id.uuid) {
			continue
		}
		found, nodes[k.Node] = append(found, k), true
		if read[k.Node] {
			now = append(now, k)
		}
	}
	several := len(nodes) > 1
	if id.uuid == "" && several && len(now) > 0 {
		several = slices.ContainsFunc(now, func(k store.Key) bool { return k.Node != now[0].Node })
		found = now
	}
	switch {
	case len(found) == 0:
		var there []string
		for k, d := range devices {
			if k.UUID != "" {
				there = append(there, id.like(k.UUID, d.Index))
			}
		}
		slices.Sort(there)
		return nil, unknown(http.StatusNotFound, "no history is kept for GPU", name, slices.Compact(there), "see /api/gpu/devices for current GPUs")
	case id.uuid == "" && several:
		return nil, errSeveral(id.text)
	}
	if id.uuid == "" {
		found = append(found, before(devices, found, read)...)
	}
	slices.SortFunc(found, func(a, b store.Key) int {
		return cmp.Or(devices[b].Last.Compare(devices[a].Last), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID))
	})
	return found, nil
}

// before returns the keys of the same devices under earlier names of their machine. A UUID identifies one device unless it is
// made from a place; and simulated or recorded devices may exist twice at the same time.
func before(devices map[store.Key]store.Device, of []store.Key, read map[string]bool) (out []store.Key) {
	for _, k := range of {
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
	ofNode  = regexp.MustCompile(`^(.+?)(?: gpu |[ /])(\d+)$`)
)

// called returns the GPUs that people mean by a name: "node-017 GPU 3", "GPU 3 of node-017", all of "node-017", or all with
// "A100" in the product name. If there are none, the text may be an index or a UUID; "GPU 3" is an index.
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

// errSeveral refuses an index that GPUs of several nodes have had.
func errSeveral(index string) error {
	return refuse(http.StatusBadRequest, "there are several nodes, and each may have a GPU "+index,
		`name the GPU by its UUID, or as "NODE GPU `+index+`"; an address can name the node, with node=NAME`)
}

// nodesRead returns the nodes that are read now; before the first reading, or if nothing is read, this program's own
// node.
func (s *Server) nodesRead() map[string]bool {
	read := map[string]bool{}
	if s.cfg.Newest != nil {
		for _, n := range s.cfg.Newest().Nodes() {
			read[n.Node] = true
		}
	}
	if len(read) == 0 {
		read[s.cfg.Monitor.Node] = true
	}
	return read
}

// pastError turns a database error into an error answer.
func pastError(err error) error {
	if errors.Is(err, history.ErrTooFine) {
		return refuse(http.StatusUnprocessableEntity, "the time span is too long", "ask for a shorter one")
	}
	if errors.Is(err, history.ErrTooLong) {
		return refuse(http.StatusUnprocessableEntity, err.Error(), "choose a shorter one")
	}
	advice, ok := errors.AsType[*gpu.Advice](err)
	if !ok {
		return err
	}
	e := &statusError{status: http.StatusServiceUnavailable, advice: *advice}
	if errors.Is(err, history.ErrBusy) {
		e.header, e.value = "Retry-After", "5"
	}
	return e
}

// history answers with readings over time.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	q, err := s.pastRequest(r)
	if err != nil {
		return err
	}
	columns, machines, err := columnsOf(q.values["metric"])
	if err != nil {
		return err
	}
	all := store.DeviceColumns
	if machines {
		all = store.MachineColumns
	}
	step, err := stepOf(q.values.Get("step"))
	if err != nil {
		return err
	}
	other := func(k store.Key) bool { return (k.UUID == "") != machines }
	keys := slices.DeleteFunc(slices.Clone(q.Keys), other)
	devices := len(keys)
	if devices == 0 {
		devices = len(slices.DeleteFunc(slices.Collect(maps.Keys(q.devices)), other))
	}
	g, err := s.cfg.Past.BoundedGrid(q.From, q.To, step, devices*len(columns))
	if errors.Is(err, history.ErrTooFine) && (step > 0 || devices*len(columns) > 1) {
		return refuse(http.StatusUnprocessableEntity, err.Error(), "ask for fewer metrics or GPUs or a longer step, or leave the step out")
	}
	if err != nil {
		return pastError(err)
	}
	g = g.Clip(q.From)
	leave, err := s.cfg.Past.Room(r.Context(), g.Len()*devices*len(columns))
	if err != nil {
		return pastError(err)
	}
	defer leave()
	series, err := s.cfg.Past.History(r.Context(), g, keys, machines, columns)
	if err != nil {
		return pastError(err)
	}
	slices.SortStableFunc(series, func(a, b history.Series) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(q.devices[a.Key].Index, q.devices[b.Key].Index))
	})
	chosen := make(store.Columns, len(columns))
	for i, c := range columns {
		chosen[i] = all[c]
	}
	if q.csv {
		return writeCSV(w, r, q, historyHeader, historyRows(g, chosen, q.devices, series))
	}
	return serveJSON(w, r, contract.NewHistory(q.span(), g, chosen, q.devices, series), cacheNever)
}

// columnsOf finds the metrics that a request names: those of charts if it names none.
func columnsOf(names []string) (columns []int, machines bool, err error) {
	if len(names) == 0 {
		for i, c := range store.DeviceColumns {
			if c.Kept != "" {
				columns = append(columns, i)
			}
		}
		return columns, false, nil
	}
	for i, name := range names {
		c, ofMachine := store.DeviceColumns.Find(name), false
		if c < 0 {
			c, ofMachine = store.MachineColumns.Find(name), true
		}
		if c < 0 {
			return nil, false, unknown(unprocessable, "there is no metric", name, append(store.DeviceColumns.Names(), store.MachineColumns.Names()...), "")
		}
		if i > 0 && ofMachine != machines {
			return nil, false, refuse(http.StatusUnprocessableEntity, "one request can't ask for metrics of both GPUs and machines", "send two requests")
		}
		if machines = ofMachine; !slices.Contains(columns, c) {
			columns = append(columns, c)
		}
	}
	return columns, machines, nil
}

func stepOf(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	step, known := when.Length(text)
	var err error
	if !known {
		step, err = time.ParseDuration(text)
	}
	if seconds, isNumber := strconv.ParseFloat(text, 64); isNumber == nil {
		step, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || step < time.Second {
		return 0, refuse(http.StatusUnprocessableEntity, quote(text)+" is not a valid step", "use a second or more, such as 30s, 5m, 1.5h or 1d")
	}
	return step, nil
}

var historyHeader = []string{"time", "node", "gpu_uuid", "gpu_id", "gpu_name", "metric", "unit", "least", "mean", "most", "readings", "gpu_kind"}

func historyRows(g history.Grid, columns store.Columns, devices map[store.Key]store.Device, series []history.Series) iter.Seq2[[]string, error] {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return func(yield func([]string, error) bool) {
		for _, s := range series {
			d := devices[s.Key]
			for c := range columns {
				for point, v := range s.Values[c] {
					if v.Count > 0 && !yield([]string{
						g.Time(point).UTC().Format(time.RFC3339), s.Node, s.UUID, strconv.Itoa(d.Index), d.Name, columns[c].Name, columns[c].Unit,
						number(v.Least), number(v.Mean), number(v.Most), strconv.Itoa(v.Count), string(d.Kind),
					}, nil) {
						return
					}
				}
			}
		}
	}
}

// sessions answers with the processes that were on devices.
func (s *Server) sessions(w http.ResponseWriter, r *http.Request) error {
	q, err := s.pastRequest(r)
	if err != nil {
		return err
	}
	head := contract.PastSessions{PastSpan: q.span(), Sessions: []contract.PastSession{}}
	return stream(w, r, q, head, contract.SessionColumns, mapped(s.cfg.Past.Sessions(r.Context(), q.Query), func(e *store.Session) contract.PastSession {
		d := q.devices[e.Key]
		return contract.NewPastSession(e, &d)
	}))
}

// pastEvents answers with what happened.
func (s *Server) pastEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := s.pastRequest(r)
	if err != nil {
		return err
	}
	q.Kinds = q.values["kind"]
	for _, kind := range q.Kinds {
		if !slices.Contains(store.EventKinds, kind) {
			return unknown(unprocessable, "there is no event kind", kind, store.EventKinds, "")
		}
	}
	head := contract.PastEvents{PastSpan: q.span(), Events: []contract.PastEvent{}}
	return stream(w, r, q, head, contract.EventColumns, mapped(s.cfg.Past.Store.Events(r.Context(), q.Query), func(e *store.Event) contract.PastEvent {
		return contract.NewPastEvent(e, q.devices)
	}))
}

// causes answers with the causes of the past and their times.
func (s *Server) causes(w http.ResponseWriter, r *http.Request) error {
	q, err := s.pastRequest(r)
	if err != nil {
		return err
	}
	head := contract.PastCauses{PastSpan: q.span(), Causes: []contract.PastCause{}}
	return stream(w, r, q, head, contract.CauseColumns, mapped(s.cfg.Past.Store.Causes(r.Context(), q.Query), func(c *store.Cause) contract.PastCause {
		return contract.NewPastCause(c, q.devices)
	}))
}

// readings answers with stored readings.
func (s *Server) readings(w http.ResponseWriter, r *http.Request) error {
	q, err := s.pastRequest(r)
	if err != nil {
		return err
	}
	if names := q.values["metric"]; len(names) > 0 {
		if q.Columns, q.Machines, err = columnsOf(names); err != nil {
			return err
		}
	}
	q.Keys = slices.DeleteFunc(q.Keys, func(k store.Key) bool { return (k.UUID == "") != q.Machines })
	if q.Tier, err = s.tierOf(r.Context(), q); err != nil {
		return err
	}
	all, spans := store.DeviceColumns, q.Tier != store.Raw
	if q.Machines {
		all = store.MachineColumns
	}
	columns := q.Columns
	if columns == nil {
		for i := range all {
			if !spans || all[i].Spans {
				columns = append(columns, i)
			}
		}
	}
	q.Reuse = true
	list := mapped(s.cfg.Past.Rows(r.Context(), q.Query), func(row *store.Row) contract.PastReading {
		d := q.devices[row.Key]
		return contract.NewPastReading(row, &d, all, columns, spans)
	})
	if q.csv {
		return writeCSV(w, r, q, contract.ReadingColumns(all, columns, spans), mapped(list, func(e *contract.PastReading) []string {
			return e.CSV(all, columns, spans)
		}))
	}
	head := contract.PastReadings{PastSpan: q.span(), Tier: q.Tier.String(), Readings: []contract.PastReading{}}
	return streamJSON(w, r, head, list)
}

// tierOf reads the name of a tier; without a name it is the finest that covers the whole time.
func (s *Server) tierOf(ctx context.Context, q *pastRequest) (store.Tier, error) {
	name := q.values.Get("tier")
	if name == "" {
		tier, err := s.cfg.Past.Finest(ctx, q.Query)
		if err != nil {
			err = pastError(err)
		}
		return tier, err
	}
	if tier, ok := store.ParseTier(name); ok {
		return tier, nil
	}
	return 0, unknown(unprocessable, "there is no tier", name, []string{"raw", "1m", "15m", "6h"}, "")
}

// historySize answers with how much is kept.
func (s *Server) historySize(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Sizes == nil {
		return errNoHistory
	}
	f, err := s.cfg.Sizes.Now(r.Context())
	if err != nil {
		return pastError(err)
	}
	return serveJSON(w, r, contract.NewPastSize(f), cacheNever)
}

// usage answers with sums over who used devices.
func (s *Server) usage(w http.ResponseWriter, r *http.Request) error {
	q, err := s.pastRequest(r)
	if err != nil {
		return err
	}
	by := history.ByUser
	if text := q.values.Get("by"); text != "" {
		if by, err = history.ParseGrouping(text); err != nil {
			ways := make([]string, len(history.Ways))
			for i, way := range history.Ways {
				ways[i] = string(way)
			}
			return refuse(unprocessable, err.Error()+nearest.Hint(text, ways), "leave it out to group by user")
		}
	}
	list, err := s.cfg.Past.Usage(r.Context(), by, q.Query)
	if err != nil {
		return pastError(err)
	}
	answer := contract.NewPastUsage(q.span(), by, s.cfg.Price, q.devices, list)
	if q.csv {
		return writeCSV(w, r, q, contract.UsageColumns, func(yield func([]string, error) bool) {
			for i := range answer.Rows {
				if !yield(answer.Rows[i].CSV(answer.Kinds), nil) {
					return
				}
			}
		})
	}
	return serveJSON(w, r, answer, cacheNever)
}

// why answers why the fans run, or ran if the request names a time.
func (s *Server) why(w http.ResponseWriter, r *http.Request) error {
	values, err := parseQuery(r)
	if err != nil {
		return err
	}
	if !values.Has("from") && !values.Has("to") && s.cfg.Newest != nil {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			return refuse(http.StatusBadRequest, name+" applies only to the past here", "add from, or ask about one GPU at /api/gpu/why/0")
		}
		return derived(s, contract.NewWhy)(w, r)
	}
	q, err := s.pastRequest(r)
	if err != nil {
		return err
	}
	first, err := startOf(q.values.Get("start"))
	if err != nil {
		return err
	}
	story, err := s.cfg.Past.Why(r.Context(), q.Query, history.Names(q.devices))
	if err != nil {
		return pastError(err)
	}
	if q.csv { // has all
		return writeCSV(w, r, q, contract.ChapterColumns, mapped(elements(story.Chapters), func(c *history.Chapter) []string {
			return contract.NewPastChapter(story, c, q.devices).CSV()
		}))
	}
	causes, err := s.someCauses(r.Context(), q, first)
	if err != nil {
		return pastError(err)
	}
	return serveJSON(w, r, contract.NewPastWhy(q.span(), story, causes, first, q.devices), cacheNever)
}

// startOf reads how many causes and chapters to skip.
func startOf(text string) (int, error) {
	n, err := strconv.Atoi(cmp.Or(text, "0"))
	if err != nil || n < 0 {
		return 0, refuse(http.StatusUnprocessableEntity, quote(text)+" is not a valid start", "use the value of next from the previous answer")
	}
	const furthest = 1e9 // nobody has so many
	return min(n, furthest), nil
}

// someCauses returns the causes of a span from a number on: up to one more than an answer lists.
func (s *Server) someCauses(ctx context.Context, q *pastRequest, first int) (out []store.Cause, err error) {
	of := q.Query
	of.First = first + contract.MostCauses + 1
	n := 0
	for c, err := range s.cfg.Past.Causes(ctx, of) {
		if err != nil {
			return nil, err
		}
		if n++; n > first {
			out = append(out, c)
		}
	}
	return out, nil
}

// forecast answers with the forecasts of the devices that a request names, or of all.
func (s *Server) forecast(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Past == nil {
		return errNoHistory
	}
	query, err := parseQuery(r)
	if err != nil {
		return err
	}
	f := s.newest(r).fleet
	var parts []insight.Part
	for _, name := range query["gpu"] {
		id, err := parseID(name)
		if err != nil {
			return err
		}
		p, err := id.find(f)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		parts = slices.Collect(f.Parts())
	}
	of := s.cfg.Forecast
	if of == nil {
		of = func(insight.Part) *outlook.Outlook { return nil }
	}
	now := s.cfg.Past.Now().In(time.Local) //nolint:gosmopolitan // people's own hours are meant
	return serveJSON(w, r, contract.NewForecasts(s.monitor(f), f, parts, of, now), cacheNever)
}

// at answers with a node as it was at a time.
func (s *Server) at(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Past == nil {
		return errNoHistory
	}
	values, err := parseQuery(r)
	if err != nil {
		return err
	}
	now, err := s.zoned(values.Get("tz"))
	if err != nil {
		return err
	}
	asked, err := when.Time(cmp.Or(values.Get("time"), "now"), now)
	if err != nil {
		return noTime(err)
	}
	node, err := s.oneNode(r.Context(), cmp.Or(values.Get("node"), nodeOf(r)))
	if err != nil {
		return err
	}
	m, err := s.then(r.Context(), node, asked)
	if err != nil {
		return err
	}
	return serveJSON(w, r, contract.NewPastMoment(asked, m), cacheNever)
}

var errWhichNode = refuse(http.StatusBadRequest, "there are several nodes, and the request names none", "add node=NAME, or use an address below /node/{name}/")

// oneNode returns the named node; without a name, the only node, if there is just one.
func (s *Server) oneNode(ctx context.Context, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	devices, err := s.cfg.Past.Store.Devices(ctx)
	if err != nil {
		return "", pastError(err)
	}
	nodes := map[string]bool{}
	for _, d := range devices {
		nodes[d.Node] = true
	}
	if nodes[s.cfg.Monitor.Node] || len(nodes) == 0 {
		return s.cfg.Monitor.Node, nil
	}
	if len(nodes) > 1 {
		return "", errWhichNode
	}
	for name = range nodes {
	}
	return name, nil
}

// then is a node as it was at a time.
func (s *Server) then(ctx context.Context, node string, at time.Time) (*insight.Moment, error) {
	stage, err := s.cfg.Then()
	if err != nil {
		return nil, err
	}
	m, err := s.cfg.Past.Moment(ctx, node, at, stage)
	if gap, ok := errors.AsType[*history.NotSeenError](err); ok {
		return nil, refuse(http.StatusNotFound, "gpuwhy was not reading "+quote(node)+" at "+at.Format(time.RFC3339),
			"the last snapshot before that is from "+gap.Before.In(at.Location()).Format(time.RFC3339))
	}
	if errors.Is(err, history.ErrNotSeen) {
		return nil, refuse(http.StatusNotFound, "there is no snapshot of "+quote(node)+" at "+at.Format(time.RFC3339),
			"see /api/gpu/history for the times with readings; whole snapshots are kept as long as single readings")
	}
	if err != nil {
		return nil, pastError(err)
	}
	return m, nil
}

// elements yields the elements of a list as one that can fail.
func elements[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// mapped makes each element another one.
func mapped[S, D any](list iter.Seq2[S, error], to func(*S) D) iter.Seq2[D, error] {
	return func(yield func(D, error) bool) {
		for e, err := range list {
			var d D
			if err == nil {
				d = to(&e)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// stream sends a list as it is read: as CSV, or as the last member of head, which has it empty. An error before the first element
// is answered as such; after that the connection is cut, so that nobody mistakes a part for the whole.
func stream[T interface{ CSV() []string }](w http.ResponseWriter, r *http.Request, q *pastRequest, head any, columns []string, list iter.Seq2[T, error]) error {
	if q.csv {
		return writeCSV(w, r, q, columns, mapped(list, func(e *T) []string { return (*e).CSV() }))
	}
	return streamJSON(w, r, head, list)
}

func streamJSON[T any](w http.ResponseWriter, r *http.Request, head any, list iter.Seq2[T, error]) error {
	begin, err := json.Marshal(head)
	if err != nil {
		return err
	}
	open, found := bytes.CutSuffix(begin, []byte("[]}"))
	if !found {
		return errors.New("the list is not the last member of its answer")
	}
	before := append(open, '[')
	return transmit(w, r, typeJSON, list, func(out io.Writer, e *T) error {
		text, err := json.Marshal(e)
		if err == nil {
			_, err = out.Write(append(before, text...))
		}
		before = []byte(",\n")
		return err
	}, func(out io.Writer, some bool) error {
		end := []byte("]}\n")
		if !some {
			end = append(before, end...)
		}
		_, err := out.Write(end)
		return err
	})
}

// file returns the file name of a downloaded table: its content, its grouping, its machine and GPU if there is only one, and its
// time.
func (q *pastRequest) file(what, by string) string {
	name := "gpuwhy-" + what
	if by != "" {
		name += "-by-" + by
	}
	keys := q.Keys // those that were asked for
	if len(keys) == 0 {
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
	return strings.Map(func(r rune) rune { // that no system and no header takes for anything else
		if r > unicode.MaxASCII || r != '-' && r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return '_'
		}
		return r
	}, name) + ".csv"
}

func writeCSV(w http.ResponseWriter, r *http.Request, q *pastRequest, columns []string, rows iter.Seq2[[]string, error]) error {
	w.Header().Set("Content-Disposition", `attachment; filename="`+q.file(path.Base(r.URL.Path), q.values.Get("by"))+`"`)
	var out *csv.Writer
	line := func(to io.Writer, row []string) error {
		if out == nil {
			out = csv.NewWriter(to)
			if err := out.Write(columns); err != nil {
				return err
			}
		}
		if row == nil {
			out.Flush()
			return out.Error()
		}
		for i := range row {
			row[i] = plain(row[i])
		}
		return out.Write(row)
	}
	return transmit(w, r, typeCSV, rows, func(to io.Writer, row *[]string) error { return line(to, *row) },
		func(to io.Writer, _ bool) error { return line(to, nil) })
}

// plain keeps a spreadsheet from taking a text for a formula and a terminal from taking it for a command: unprintable
// characters, such as ESC or a line feed in a name, become U+FFFD.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	if _, err := strconv.ParseFloat(text, 64); err != nil && text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

// transmit sends elements one after the other, and then the end; some says whether there were any.
func transmit[T any](
	w http.ResponseWriter, r *http.Request, contentType string, list iter.Seq2[T, error], one func(io.Writer, *T) error, end func(w io.Writer, some bool) error,
) error {
	var out io.Writer
	w = &patient{ResponseWriter: w}
	for e, err := range list {
		if err != nil && out == nil {
			return pastError(err)
		}
		if out == nil {
			out = begin(w, r, contentType)
			defer done(out)
		}
		if err == nil {
			err = one(out, &e)
		}
		if err != nil {
			return &cutError{err}
		}
		if r.Method == http.MethodHead {
			return nil
		}
	}
	some := out != nil
	if !some {
		out = begin(w, r, contentType)
		defer done(out)
	}
	if err := end(out, some); err != nil {
		return &cutError{err}
	}
	if zw, zipped := out.(*gzip.Writer); zipped {
		if err := zw.Close(); err != nil {
			return &cutError{err}
		}
	}
	return nil
}

// A cutError ends an answer that has begun.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

// A patient writer gives each part of an answer the full time limit: a long answer may take long, as long as somebody reads it.
type patient struct {
	http.ResponseWriter
	renewed time.Time
}

func (p *patient) Write(b []byte) (int, error) {
	if now := time.Now(); now.Sub(p.renewed) > time.Second {
		p.renewed = now
		_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(now.Add(writeTimeout)) // not every writer has one
	}
	return p.ResponseWriter.Write(b)
}

const (
	// mostLong is the most long answers at a time: each holds the database while somebody reads it.
	mostLong = 8
	// retryLong is when to ask again, in seconds.
	retryLong = "10"
)

var errManyLong = &statusError{
	status: http.StatusServiceUnavailable,
	advice: gpu.Advice{What: "too many lists are being read at once", Try: "try again when one has finished, or use /api/gpu/history"},
	header: "Retry-After", value: retryLong,
}

// long limits how many long lists are answered at the same time.
func (s *Server) long(answer handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		defer s.longs.Add(-1)
		if s.longs.Add(1) > mostLong {
			return errManyLong
		}
		return answer(w, r)
	}
}

// begin sends the header, and returns where the body goes.
func begin(w http.ResponseWriter, r *http.Request, contentType string) io.Writer {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h["Cache-Control"] = cacheNever
	addVary(h, byEncoding)
	switch {
	case r.Method == http.MethodHead:
		return io.Discard
	case negotiate.Gzip(r.Header):
		h.Set("Content-Encoding", "gzip")
		zw := zippers.Get().(*gzip.Writer)
		zw.Reset(w)
		return zw
	default:
		return w
	}
}

// done returns what begin has taken from the pool.
func done(out io.Writer) {
	if zw, zipped := out.(*gzip.Writer); zipped {
		zw.Reset(io.Discard)
		zippers.Put(zw)
	}
}
