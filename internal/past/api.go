package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/when"
)

// A Site answers queries about the past: readings and their explanation, over time and at one time.
type Site struct {
	Kit       *serve.Kit
	Past      *history.Past  // nil where no past is kept
	Sizes     *history.Sizes // how much is kept; nil as Past is
	Price     float64        // of a kWh; 0: not known
	Shell     Shell
	Forecasts Forecasts
	// Then makes a stage with the learned state of the devices, for answers about a past time.
	Then func() (*insight.Stage, error)
	// Writing returns the state of writing the past. It may be nil.
	Writing func() contract.Part

	longs atomic.Int32 // long answers that are under way
}

// Name implements part.Part.
func (*Site) Name() string { return "past" }

// Kept reports whether a past is kept.
func (s *Site) Kept() bool { return s.Past != nil }

// Footprint is how much is kept; nil where that is not known.
func (s *Site) Footprint() *history.Footprint { return s.Sizes.Last() }

var (
	ofSpan = apidoc.Parts{
		apidoc.InQuery("from", "When the span begins. On its own it can name a span, such as last night, monday (that day) or since monday (until now). Default: the last 24 hours.", "last night"),
		apidoc.InQuery("to", "When the span ends. Default: now.", nil),
		apidoc.InQuery("tz", "The time zone for times in words. Default: the server's.", "Europe/Berlin"),
		apidoc.InQuery("gpu", "Only this GPU, by index or UUID, or by name: \"node-017 GPU 3\", a node, or a part of the product's name. May be repeated. An index means a machine that gpuwhy reads now, if possible.", "0").Repeated(),
		apidoc.InQuery("node", "Only this machine, if the history has several, for example after a machine was renamed.", nil),
		serve.BadParameter, serve.Refused("There is no history of this GPU, or none at all.", errNoHistory),
		serve.Refused("A parameter is invalid.", serve.Failure(stepOf("soon"))),
	}
	byUser     = apidoc.InQuery("user", "Only this user.", nil)
	asTable    = apidoc.InQuery("format", "csv for a table, instead of an Accept header.", "json")
	noDatabase = serve.Refused("The database can't be read now.",
		serve.Advise(http.StatusServiceUnavailable, gpu.Advice{What: "the database can't be reached"}))
	noDatabaseNow = serve.Refused("The database can't be read now, or too many lists are being read from it. Retry-After says when to try again.", errManyLong)
)

// WhyParts are what the documents say of [Site.Why].
func (*Site) WhyParts() apidoc.Parts {
	return apidoc.Parts{
		ofSpan, asTable,
		apidoc.InQuery("start", "How many chapters and causes to skip: the value of next from the previous answer, with the same from and to. An answer lists up to a thousand of each; /api/gpu/causes lists all.", nil), noDatabaseNow,
	}
}

// Routes implements part.Server.
func (s *Site) Routes() []serve.Route {
	read := func(path string, h serve.Handler, id, summary string, parts ...apidoc.Part) serve.Route {
		return serve.Read(path, h, contract.ClientPast, id, summary, parts...).Strict()
	}
	return []serve.Route{
		read("/api/gpu/history", s.history, "getHistory", "Get readings over time",
			apidoc.Text("Built from the coarsest rows that the step allows: readings, minutes or quarters of an hour. Where only coarser rows remain, all points within one row are the same. Gaps are null."),
			apidoc.InQuery("metric", "A metric, such as power_draw or power_watts. May be repeated. Default: the metrics of the charts.", "power_draw").Repeated(),
			apidoc.InQuery("step", "The time between two points, such as 30s or 5m. Default: chosen to fit.", "5m"),
			serve.Fresh("The points of each GPU.", contract.History{}, "history"), ofSpan, asTable, noDatabase),
		read("/api/gpu/readings", s.long(s.readings), "listReadings", "List stored readings",
			apidoc.Text("For programs that need all the data: every reading, or every minute, quarter of an hour or six hours, however many there are. For charts, use /api/gpu/history."),
			apidoc.InQuery("metric", "A metric, such as power_draw. May be repeated. Default: all GPU metrics.", "power_draw").Repeated(),
			apidoc.InQuery("tier", "raw, 1m, 15m or 6h. Default: the finest tier that covers the whole time.", "1m"),
			serve.Fresh("The readings.", contract.PastReadings{}, "readings"), ofSpan, asTable, noDatabaseNow),
		read("/api/gpu/history/size", s.size, "getHistorySize", "Get the size of the history",
			apidoc.Text("The stored data by kind, and about how large it will be once --history-retention is reached. Measured at most twice a minute."),
			serve.Fresh("The size.", contract.PastSize{}, "size"), serve.BadParameter, serve.Refused("No history is kept.", errNoHistory), noDatabase),
		read("/api/gpu/causes", s.long(s.causes), "listCauses", "List past causes",
			serve.Fresh("The causes, in the order in which they began.", contract.PastCauses{}, "causes"), ofSpan, asTable, noDatabaseNow),
		read("/api/gpu/sessions", s.long(s.sessions), "listSessions", "List processes that used GPUs",
			serve.Fresh("The sessions, in the order in which they began.", contract.PastSessions{}, "sessions"), ofSpan, byUser, asTable, noDatabaseNow),
		read("/api/gpu/usage", s.usage, "getUsage", "Get who used GPUs, and for how long",
			apidoc.InQuery("by", "What to group by: "+history.Choices()+".", "user"),
			serve.Fresh("The sums, in order of time held, longest first, also for GPUs.", contract.PastUsage{}, "usage"), ofSpan, byUser, asTable, noDatabase),
		read("/api/gpu/at", s.pastMoment, "getAt", "Get a machine at a past time",
			apidoc.InQuery("time", "The time. Default: now.", "yesterday 22:00"),
			apidoc.InQuery("tz", "The time zone for times in words. Default: the server's.", "Europe/Berlin"),
			apidoc.InQuery("node", "The machine. Required if there are several.", nil),
			serve.Fresh("The last snapshot up to that time, with its answer.", contract.PastMoment{}, "at"),
			serve.BadParameter,
			serve.Refused("There is no history for that time.", errNoHistory), serve.Refused("A parameter is invalid.", serve.Failure(stepOf("soon"))), noDatabase),
		read("/api/events", s.long(s.events), "listEvents", "List events",
			apidoc.InQuery("kind", "Only this kind: "+strings.Join(store.EventKinds, ", ")+". May be repeated.", "xid").Repeated(),
			serve.Fresh("The events, oldest first.", contract.PastEvents{}, "events"), ofSpan, asTable, noDatabaseNow),
		serve.Page("/past", s.page),
	}
}

// Answer writes the answer to a question about the past where nothing is read now, as JSON or with format=csv as a table. path is that
// of a route about the past, below no base path. The kit may have a [serve.Still] without Moments. Its error is a [gpu.Advice] where
// the API would refuse; what was written before an error is a part of the answer.
func (s *Site) Answer(ctx context.Context, path string, query url.Values, w io.Writer) error {
	who := auth.LocalOwner() // who runs the program that asks
	r, err := http.NewRequestWithContext(auth.NewContext(ctx, &who), http.MethodGet, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	why := serve.Read("/api/gpu/why", s.Why, contract.ClientLive, "", "", s.WhyParts()).Strict()
	for _, route := range append(s.Routes(), why) {
		if route.Path == path && route.Doc != nil {
			return route.Answer(bare{w, http.Header{}}, r)
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

// history answers with readings over time.
func (s *Site) history(w http.ResponseWriter, r *http.Request) error {
	q, err := s.request(r)
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
	g, err := s.Past.BoundedGrid(q.From, q.To, step, devices*len(columns))
	if errors.Is(err, history.ErrTooFine) && (step > 0 || devices*len(columns) > 1) {
		return serve.Refuse(http.StatusUnprocessableEntity, err.Error(), "ask for fewer metrics or GPUs or a longer step, or leave the step out")
	}
	if err != nil {
		return pastError(err)
	}
	g = g.Clip(q.From)
	leave, err := s.Past.Room(r.Context(), g.Len()*devices*len(columns))
	if err != nil {
		return pastError(err)
	}
	defer leave()
	series, err := s.Past.History(r.Context(), g, keys, machines, columns)
	if err != nil {
		return pastError(err)
	}
	series = slices.DeleteFunc(series, func(s history.Series) bool { return slices.Contains(nobody, s.Key) })
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
	return serve.FreshJSON(w, r, contract.NewHistory(q.span(), g, chosen, q.devices, series))
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
			return nil, false, serve.Unknown(http.StatusUnprocessableEntity, "there is no metric", name, append(store.DeviceColumns.Names(), store.MachineColumns.Names()...), "")
		}
		if i > 0 && ofMachine != machines {
			return nil, false, serve.Refuse(http.StatusUnprocessableEntity, "one request can't ask for metrics of both GPUs and machines", "send two requests")
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
		return 0, serve.Refuse(http.StatusUnprocessableEntity, serve.Quote(text)+" is not a valid step", "use a second or more, such as 30s, 5m, 1.5h or 1d")
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
func (s *Site) sessions(w http.ResponseWriter, r *http.Request) error {
	q, err := s.request(r)
	if err != nil {
		return err
	}
	head := contract.PastSessions{PastSpan: q.span(), Sessions: []contract.PastSession{}}
	return stream(w, r, q, head, contract.SessionColumns, mapped(s.Past.Sessions(r.Context(), q.Query), func(e *store.Session) contract.PastSession {
		d := q.devices[e.Key]
		if q.commands != auth.Shown && !q.commands.Whole(e.User) {
			e.Command = ""
		}
		return contract.NewPastSession(e, &d)
	}))
}

// events answers with what happened.
func (s *Site) events(w http.ResponseWriter, r *http.Request) error {
	q, err := s.request(r)
	if err != nil {
		return err
	}
	q.Kinds = q.values["kind"]
	for _, kind := range q.Kinds {
		if !slices.Contains(store.EventKinds, kind) {
			return serve.Unknown(http.StatusUnprocessableEntity, "there is no event kind", kind, store.EventKinds, "")
		}
	}
	head := contract.PastEvents{PastSpan: q.span(), Events: []contract.PastEvent{}}
	return stream(w, r, q, head, contract.EventColumns, mapped(s.Past.Store.Events(r.Context(), q.Query), func(e *store.Event) contract.PastEvent {
		return contract.NewPastEvent(e, q.devices)
	}))
}

// causes answers with what the answer was, and from when to when.
func (s *Site) causes(w http.ResponseWriter, r *http.Request) error {
	q, err := s.request(r)
	if err != nil {
		return err
	}
	head := contract.PastCauses{PastSpan: q.span(), Causes: []contract.PastCause{}}
	return stream(w, r, q, head, contract.CauseColumns, mapped(s.Past.Store.Causes(r.Context(), q.Query), func(c *store.Cause) contract.PastCause {
		return contract.NewPastCause(c, q.devices)
	}))
}

// readings answers with readings as they are kept.
func (s *Site) readings(w http.ResponseWriter, r *http.Request) error {
	q, err := s.request(r)
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
	list := mapped(s.Past.Rows(r.Context(), q.Query), func(row *store.Row) contract.PastReading {
		d := q.devices[row.Key]
		return contract.NewPastReading(row, &d, all, columns, spans)
	})
	if q.csv {
		return writeCSV(w, r, q, contract.ReadingColumns(all, columns, spans), mapped(list, func(e *contract.PastReading) []string {
			return e.CSV(all, columns, spans)
		}))
	}
	head := contract.PastReadings{PastSpan: q.span(), Tier: q.Tier.String(), Readings: []contract.PastReading{}}
	return serve.StreamJSON(w, r, head, list)
}

// tierOf reads the name of a tier; without a name it is the finest that is kept for all of the time.
func (s *Site) tierOf(ctx context.Context, q *request) (store.Tier, error) {
	name := q.values.Get("tier")
	if name == "" {
		tier, err := s.Past.Finest(ctx, q.Query)
		if err != nil {
			err = pastError(err)
		}
		return tier, err
	}
	if tier, ok := store.ParseTier(name); ok {
		return tier, nil
	}
	return 0, serve.Unknown(http.StatusUnprocessableEntity, "there is no tier", name, []string{"raw", "1m", "15m", "6h"}, "")
}

// size answers with how much is kept.
func (s *Site) size(w http.ResponseWriter, r *http.Request) error {
	if s.Sizes == nil {
		return errNoHistory
	}
	if !serve.SeesAll(r.Context()) {
		return serve.ErrNotAll
	}
	f, err := s.Sizes.Now(r.Context())
	if err != nil {
		return pastError(err)
	}
	return serve.FreshJSON(w, r, contract.NewPastSize(f))
}

// usage answers with sums over who used devices.
func (s *Site) usage(w http.ResponseWriter, r *http.Request) error {
	q, err := s.request(r)
	if err != nil {
		return err
	}
	grouping := history.ByUser
	if text := q.values.Get("by"); text != "" {
		if grouping, err = history.ParseGrouping(text); err != nil {
			ways := make([]string, len(history.Ways))
			for i, way := range history.Ways {
				ways[i] = string(way)
			}
			return serve.Refuse(http.StatusUnprocessableEntity, err.Error()+nearest.Hint(text, ways), "leave it out to group by user")
		}
	}
	list, err := s.Past.Usage(r.Context(), grouping, q.Query)
	if err != nil {
		return pastError(err)
	}
	answer := contract.NewPastUsage(q.span(), grouping, s.Price, q.devices, list)
	if q.csv {
		return writeCSV(w, r, q, contract.UsageColumns, func(yield func([]string, error) bool) {
			for i := range answer.Rows {
				if !yield(answer.Rows[i].CSV(answer.Kinds), nil) {
					return
				}
			}
		})
	}
	return serve.FreshJSON(w, r, answer)
}

// Why answers why the fans ran in the span that a request names, or in the usual one.
func (s *Site) Why(w http.ResponseWriter, r *http.Request) error {
	q, err := s.request(r)
	if err != nil {
		return err
	}
	first, err := startOf(q.values.Get("start"))
	if err != nil {
		return err
	}
	story, err := s.Past.Why(r.Context(), q.Query, history.Names(q.devices))
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
	return serve.FreshJSON(w, r, contract.NewPastWhy(q.span(), story, causes, first, q.devices))
}

// startOf reads how many causes and chapters are left out.
func startOf(text string) (int, error) {
	n, err := strconv.Atoi(cmp.Or(text, "0"))
	if err != nil || n < 0 {
		return 0, serve.Refuse(http.StatusUnprocessableEntity, serve.Quote(text)+" is not a valid start", "use the value of next from the previous answer")
	}
	const furthest = 1e9 // nobody has so many
	return min(n, furthest), nil
}

// someCauses are the causes of a span from a number on: one more than an answer lists, where there are so many.
func (s *Site) someCauses(ctx context.Context, q *request, first int) (out []store.Cause, err error) {
	query := q.Query
	query.First = first + contract.MostCauses + 1
	n := 0
	for c, err := range s.Past.Causes(ctx, query) {
		if err != nil {
			return nil, err
		}
		if n++; n > first {
			out = append(out, c)
		}
	}
	return out, nil
}

// pastMoment answers with a node as it was at a time.
func (s *Site) pastMoment(w http.ResponseWriter, r *http.Request) error {
	if s.Past == nil {
		return errNoHistory
	}
	values, err := serve.ParseQuery(r)
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
	node, err := s.oneNode(r.Context(), cmp.Or(values.Get("node"), serve.Node(r)))
	if err != nil {
		return err
	}
	m, err := s.then(r.Context(), node, asked)
	if err != nil {
		return err
	}
	return serve.FreshJSON(w, r, contract.NewPastMoment(asked, m))
}

var errWhichNode = serve.Refuse(http.StatusBadRequest, "there are several nodes, and the request names none", "add node=NAME, or use an address below /node/{name}/")

// oneNode is the node of that name; without one it is the only node, if there is but one.
func (s *Site) oneNode(ctx context.Context, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	devices, err := s.Past.Store.Devices(ctx)
	if err != nil {
		return "", pastError(err)
	}
	nodes := map[string]bool{}
	for _, d := range devices {
		if s.Kit.Sees(ctx, d.Node) {
			nodes[d.Node] = true
		}
	}
	own := s.Kit.MonitorFor(ctx).Node
	if nodes[own] || len(nodes) == 0 {
		return own, nil
	}
	if len(nodes) > 1 {
		return "", errWhichNode
	}
	for name = range nodes {
	}
	return name, nil
}

// then is a node as it was at a time.
func (s *Site) then(ctx context.Context, node string, asked time.Time) (*insight.Moment, error) {
	stage, err := s.Then()
	if err != nil {
		return nil, err
	}
	m, err := s.momentOf(ctx, node, asked, stage)
	if gap, ok := errors.AsType[*history.NotSeenError](err); ok {
		return nil, serve.Refuse(http.StatusNotFound, "gpuwhy was not reading "+serve.Quote(node)+" at "+asked.Format(time.RFC3339),
			"the last snapshot before that is from "+gap.Before.In(asked.Location()).Format(time.RFC3339))
	}
	if errors.Is(err, history.ErrNotSeen) {
		return nil, serve.Refuse(http.StatusNotFound, "there is no snapshot of "+serve.Quote(node)+" at "+asked.Format(time.RFC3339),
			"see /api/gpu/history for the times with readings; whole snapshots are kept as long as single readings")
	}
	if err != nil {
		return nil, pastError(err)
	}
	return m, nil
}

// momentOf is a node as somebody sees it who asks. There is nothing of a node that he may not see.
func (s *Site) momentOf(ctx context.Context, node string, at time.Time, stage *insight.Stage) (*insight.Moment, error) {
	if !s.Kit.Sees(ctx, node) {
		return nil, history.ErrNotSeen
	}
	m, err := s.Past.Moment(ctx, node, at, stage)
	if err != nil {
		return nil, err
	}
	who, _ := auth.FromContext(ctx)
	return m.For(who.Audience), nil
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

// mapped makes each element another one, and errors those on the wire.
func mapped[S, D any](list iter.Seq2[S, error], change func(*S) D) iter.Seq2[D, error] {
	return func(yield func(D, error) bool) {
		for e, err := range list {
			var d D
			if err == nil {
				d = change(&e)
			}
			if !yield(d, pastError(err)) || err != nil {
				return
			}
		}
	}
}

// stream sends a list as it is read: as CSV, or as the last member of head, which has it empty. An error before the first element
// is an answer of its own; after that the connection is cut, so that nobody takes a part for the whole.
func stream[T interface{ CSV() []string }](w http.ResponseWriter, r *http.Request, q *request, head any, columns []string, list iter.Seq2[T, error]) error {
	if q.csv {
		return writeCSV(w, r, q, columns, mapped(list, func(e *T) []string { return (*e).CSV() }))
	}
	return serve.StreamJSON(w, r, head, list)
}

func writeCSV(w http.ResponseWriter, r *http.Request, q *request, columns []string, rows iter.Seq2[[]string, error]) error {
	return serve.StreamCSV(w, r, q.file(path.Base(r.URL.Path), q.values.Get("by")), columns, rows)
}

const (
	// mostLong is how many long answers are under way at most: each holds the database while somebody reads it.
	mostLong = 8
	// retryLong is when to ask again, in seconds.
	retryLong = "10"
)

var errManyLong = serve.Refuse(http.StatusServiceUnavailable, "too many lists are being read at once", "try again when one has finished, or use /api/gpu/history").
	RetryAfter(retryLong)

// long answers with a list that may be long: only so many at once.
func (s *Site) long(answer serve.Handler) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		defer s.longs.Add(-1)
		if s.longs.Add(1) > mostLong {
			return errManyLong
		}
		return answer(w, r)
	}
}
