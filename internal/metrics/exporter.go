package metrics

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/negotiate"
)

// The families of names, as in Config.Families.
const (
	FamilyGPUWhy = "gpuwhy" // gpuwhy_*, and process_* and go_* of gpuwhy itself
	FamilyDCGM   = "dcgm"   // DCGM_FI_*, as dcgm-exporter writes them
)

// Families lists the names that Config.Families takes.
func Families() []string { return []string{FamilyGPUWhy, FamilyDCGM} }

const (
	staleAfter = 3 // intervals for which a snapshot's readings are served
	// maxAge is how long an answer is served again while there is no new snapshot.
	// What gpuwhy says about itself changes meanwhile.
	maxAge = 5 * time.Second
	// large is how many bytes of text are too many to keep until the next scrape, for example with hundreds of nodes: such an
	// answer is encoded for each request and compressed on the fly.
	large = 16 << 20
)

// Config is what an exporter needs. The functions are called by one goroutine
// at a time.
type Config struct {
	Newest        func() *insight.Fleet // the newest Moments; nil before the first
	Self          func() Self           // the state of the program itself
	Interval      time.Duration         // between readings
	Longest       time.Duration         // between readings, if not Interval; three of them are how long a snapshot is fresh
	Families      []string              // of names to serve; empty: both
	Node, Version string                // this machine's name and the program's version

	Now func() time.Time // time.Now where it is nil
	Log *slog.Logger     // slog.Default() where it is nil
}

// An Exporter answers GET and HEAD with the newest snapshot as Prometheus text or OpenMetrics,
// compressed if the client accepts gzip. A snapshot is encoded once for each format, however many
// clients ask at the same time.
type Exporter struct {
	cfg     Config
	ours    bool
	dcgm    bool
	runtime prometheus.Gatherer

	mu             sync.Mutex
	answer         *answer
	scrapes        uint64
	encodings      uint64
	size           int // of the text before, a guess at the next one's
	large          int // see there
	runtimeFailing bool
	zip            *gzip.Writer
}

// An answer is one snapshot in all formats that clients asked for.
type answer struct {
	fleet    *insight.Fleet
	fresh    int // nodes
	made     time.Time
	families []*dto.MetricFamily
	bodies   map[encoding][]byte
}

type encoding struct {
	format expfmt.Format
	gzip   bool
}

// New checks the configuration. For an unknown family it returns a [gpu.Advice]
// that names the known ones.
func New(cfg Config) (*Exporter, error) {
	if cfg.Newest == nil || cfg.Self == nil || cfg.Interval <= 0 {
		return nil, errors.New("metrics: a Config needs Newest, Self and an Interval")
	}
	for _, name := range cfg.Families {
		if !slices.Contains(Families(), name) {
			return nil, &gpu.Advice{
				What: "there is no metrics family " + strconv.Quote(name),
				Try:  "set --metrics-families to one or more of " + strings.Join(Families(), ", "),
			}
		}
	}
	if len(cfg.Families) == 0 {
		cfg.Families = Families()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	zip, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // there is such a level; a scrape crosses a local network once
	return &Exporter{
		cfg:     cfg,
		ours:    slices.Contains(cfg.Families, FamilyGPUWhy),
		dcgm:    slices.Contains(cfg.Families, FamilyDCGM),
		runtime: newRuntime(),
		zip:     zip,
		large:   large,
	}, nil
}

// newRuntime gathers what the program costs: process_*, and a few of go_*.
func newRuntime() prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(
			collectors.WithGoCollectorMemStatsMetricsDisabled(),
			collectors.WithoutGoCollectorRuntimeMetrics(collectors.MetricsAll.Matcher),
		),
	)
	return r
}

// ServeHTTP answers GET and HEAD; its caller lets no other method through.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	enc := accepted(r.Header)
	body := e.body(enc, auth.FromRequest(r).Audience)
	h := w.Header()
	h.Set("Content-Type", string(enc.format))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept")
	h.Add("Vary", "Accept-Encoding")
	if enc.gzip {
		h.Set("Content-Encoding", "gzip")
	}
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // a client that has gone is no error of ours
}

// body is the newest snapshot in an encoding, made for the first who asks. Those who may see only some machines get an own one, without
// what gpuwhy says of itself, which is about all of them.
func (e *Exporter) body(enc encoding, audience auth.Audience) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scrapes++
	if !audience.SeesAll() {
		seen := e.cfg.Newest().Seen(audience)
		b := newBuilder(false)
		if fresh := e.fresh(seen); len(fresh) > 0 {
			b.nodes(fresh, e.ours, e.dcgm)
		}
		if e.ours {
			collectOf(b, memberRows, seen.Moments(), func(m *insight.Moment) (string, time.Time) { return m.Snapshot.Node, e.cfg.Now() })
		}
		slices.SortFunc(b.families, func(x, y *dto.MetricFamily) int { return strings.Compare(x.GetName(), y.GetName()) })
		if enc.gzip {
			return e.compressed(func(w io.Writer) { encodeTo(w, b.families, enc.format) })
		}
		return encode(b.families, enc.format, 0)
	}
	a := e.current()
	if body, ok := a.bodies[enc]; ok {
		return body
	}
	if e.size > e.large {
		e.answer = nil
		e.encodings++
		if enc.gzip {
			return e.compressed(func(w io.Writer) { e.size = encodeTo(w, a.families, enc.format) })
		}
		text := encode(a.families, enc.format, e.size)
		e.size = len(text)
		return text
	}
	plain := encoding{format: enc.format}
	text, ok := a.bodies[plain]
	if !ok {
		text = encode(a.families, enc.format, e.size)
		e.encodings++
		e.size = len(text)
		a.bodies[plain] = text
		if len(text) > e.large {
			e.answer = nil
		}
	}
	if enc.gzip {
		a.bodies[enc] = e.compressed(func(w io.Writer) { _, _ = w.Write(text) })
	}
	return a.bodies[enc]
}

// current makes a new answer for new Moments, or where one became stale.
func (e *Exporter) current() *answer {
	newest, now := e.cfg.Newest(), e.cfg.Now()
	fresh := e.fresh(newest)
	if a := e.answer; a != nil && a.fleet == newest && a.fresh == len(fresh) && now.Sub(a.made) < maxAge {
		return a
	}
	e.answer = &answer{
		fleet: newest, fresh: len(fresh), made: now,
		families: e.gather(newest, fresh),
		bodies:   make(map[encoding][]byte),
	}
	return e.answer
}

// gather makes all families, ordered by name.
func (e *Exporter) gather(all *insight.Fleet, fresh gpu.Nodes) []*dto.MetricFamily {
	b := newBuilder(false)
	e.gatherOwn(b, all, len(fresh) > 0)
	if len(fresh) > 0 {
		b.nodes(fresh, e.ours, e.dcgm)
	}
	slices.SortFunc(b.families, func(x, y *dto.MetricFamily) int { return strings.Compare(x.GetName(), y.GetName()) })
	return b.families
}

// gatherOwn makes the families about the program itself, and about the nodes of a fleet.
func (e *Exporter) gatherOwn(b *builder, all *insight.Fleet, fresh bool) {
	if !e.ours {
		return
	}
	self, program := e.cfg.Self(), func() (string, time.Time) { return e.cfg.Node, e.cfg.Now() }
	ownRows.Of(&own{
		config: &e.cfg, nodes: all.Nodes(), fresh: fresh, Self: self, scrapes: e.scrapes, encodings: e.encodings,
	}).collect(b, program)
	for _, told := range self.Parts {
		told.collect(b, program)
	}
	b.families = append(b.families, e.gatherRuntime()...)
	if moments := all.Moments(); len(moments) > 1 || len(moments) == 1 && moments[0].Link.Remote {
		collectOf(b, memberRows, moments, func(m *insight.Moment) (string, time.Time) { return m.Snapshot.Node, e.cfg.Now() })
	}
}

// fresh lists the nodes whose snapshots are so new that their readings are told.
func (e *Exporter) fresh(all *insight.Fleet) (fresh gpu.Nodes) {
	now := e.cfg.Now()
	for _, m := range all.Moments() {
		if !m.Silent() && now.Sub(m.Snapshot.Time) <= e.StaleAfter(m) {
			fresh = append(fresh, m.Snapshot)
		}
	}
	return fresh
}

// StaleAfter is how long a Moment's readings are exported: three intervals of the program that reads the node.
func (e *Exporter) StaleAfter(m *insight.Moment) time.Duration {
	return staleAfter * max(e.cfg.Interval, e.cfg.Longest, m.Link.Every)
}

// gatherRuntime returns what could be read, and logs once what could not.
func (e *Exporter) gatherRuntime() []*dto.MetricFamily {
	families, err := e.runtime.Gather()
	if err != nil && !e.runtimeFailing {
		e.cfg.Log.Warn("metrics of this process are missing", "err", err)
	}
	e.runtimeFailing = err != nil
	return families
}

func (e *Exporter) compressed(write func(io.Writer)) []byte {
	var out bytes.Buffer
	e.zip.Reset(&out)
	// Writing to a buffer can't fail.
	write(e.zip)
	_ = e.zip.Close()
	return out.Bytes()
}

// encode makes the text of the families, which needs about size bytes.
func encode(families []*dto.MetricFamily, format expfmt.Format, size int) []byte {
	var out bytes.Buffer
	out.Grow(size + size/16)
	encodeTo(&out, families, format)
	return out.Bytes()
}

// counting counts what is written to a writer that can't fail.
type counting struct {
	io.Writer
	n int
}

func (c *counting) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.Writer.Write(p)
}

// encodeTo writes the families to a writer that can't fail, and returns how many bytes they are.
func encodeTo(w io.Writer, families []*dto.MetricFamily, format expfmt.Format) int {
	out := bufio.NewWriterSize(w, 64<<10)
	written := &counting{Writer: out}
	// Our names need no escaping; saying so spares a copy of everything.
	enc := expfmt.NewEncoder(written, format+"; escaping=allow-utf-8")
	open := format.FormatType() == expfmt.TypeOpenMetrics
	for _, f := range families {
		if open {
			f = keepName(f)
		}
		if err := enc.Encode(f); err != nil {
			panic(fmt.Sprintf("metrics: %s can't be written: %v", f.GetName(), err))
		}
	}
	if c, ok := enc.(expfmt.Closer); ok {
		_ = c.Close() // it writes the end
	}
	_ = out.Flush()
	return written.n
}

// formats are the formats that we write, the preferred one first.
var formats = []expfmt.Format{expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtText}

func accepted(h http.Header) encoding {
	enc := encoding{format: expfmt.FmtText, gzip: negotiate.Gzip(h)}
	got := expfmt.NegotiateAccept(h, formats...) // with an escaping, which we have no use for
	for _, f := range formats {
		if strings.HasPrefix(string(got), string(f)) {
			enc.format = f
		}
	}
	return enc
}
