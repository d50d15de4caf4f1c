package serve

import (
	"context"
	_ "embed"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// A Route is an address with its handler and its text in the documents. GET includes HEAD.
type Route struct {
	Method string
	Path   string
	Needs  auth.Access // what a principal needs to use it
	Answer http.Handler
	// Doc is nil for addresses that are not part of the API: pages and their files.
	Doc *apidoc.Operation
	// Live says that the page updates itself while somebody looks at it, see [Server.Render].
	Live bool
}

// The clients whose contracts the operations serve.
var (
	tagLive       = apidoc.Tag{Name: "Live dashboard", Description: "What the dashboard and bots read: the newest snapshot, its totals and the last minutes. The WebSocket at /ws sends the same; see /docs/events."}
	tagAlerts     = apidoc.Tag{Name: "Alerts", Description: "Alerts, acknowledgments and silences. The WebSocket sends changes of alerts too."}
	tagPast       = apidoc.Tag{Name: "The past", Description: "The stored history. Times are RFC 3339 (seconds and zone may be left out), seconds since 1970, or words such as \"yesterday at 22:00\", \"last night\" or \"1.5h\"."}
	tagAgent      = apidoc.Tag{Name: "Resource agent", Description: "One machine's GPUs, in the resource agent's format."}
	tagFleet      = apidoc.Tag{Name: "Fleet manager", Description: "The fleet manager's list."}
	tagCluster    = apidoc.Tag{Name: "Cluster", Description: "GPUs and processes by cluster and node. A machine outside any cluster is in \"local\"."}
	tagManager    = apidoc.Tag{Name: "GPU manager", Description: "Short list of devices, and the driver."}
	tagHealth     = apidoc.Tag{Name: "Health", Description: "Whether gpuwhy is working."}
	tagPrometheus = apidoc.Tag{Name: "Prometheus", Description: "For a scraper."}
	tagDocuments  = apidoc.Tag{Name: "Documents", Description: "These documents in machine-readable form."}
)

// routes are all addresses, in the order of the documents.
func (s *Server) routes() []Route {
	nodeParam := apidoc.InPath("node", "Name of the machine.", s.cfg.Monitor.Node)
	oneGPU := apidoc.Parts{ok("The GPU. A lost or unresponsive GPU has null readings.", contract.OneGPU{}, "gpu_metrics_0"), ofOne}
	oneNode := apidoc.Parts{ok("The machine.", contract.ClusterNode{}, "cluster_node"), unknownNode, badQuery, notReadYet}
	parts := now("The parts.", contract.MonitorHealth{}, "health")
	routes := []Route{
		s.livePage("/{$}", s.home()),
		s.page("/static/{path...}", s.asset(func(r *http.Request) string { return r.PathValue("path") })),
		s.page("/favicon.ico", s.asset(func(*http.Request) string { return "icon.svg" })), // browsers ask for it unasked
		s.page("/robots.txt", once(robots)),
		s.page("/docs", s.docsPage()),
		s.page("/docs/events", rendered(func() templ.Component { return s.cfg.EventsPage(s.events()) })),
		s.page("/redoc", rendered(func() templ.Component { return s.cfg.ReferencePage(s.document()) })),
		s.livePage("/gpu/{id}", s.devicePage),
		s.page("/past", s.pastPage),
		s.livePage("/embed/gpu/{id}", s.embedPage),
		s.page("/manifest.webmanifest", once(s.manifest)),

		{Method: http.MethodGet, Path: "/ws", Needs: auth.Read, Answer: s.handle(s.socket)}, // AsyncAPI describes it
		s.read("/api/gpu/summary", s.summary, tagLive, "getSummary", "Get totals and the reason",
			apidoc.Text("Cheap enough to poll. Without a GPU, available is false and reason says what was tried and what to do."),
			ok("The totals.", contract.Summary{}, "summary")),
		s.read("/api/gpu/metrics", s.update, tagLive, "getSnapshot", "Get the newest snapshot",
			apidoc.Text("All readings and processes: byte for byte what gpu_status_update carries."),
			apidoc.InQuery("node", "Only this machine, if there are several.", s.cfg.Monitor.Node),
			ok("The snapshot. Without a GPU, available is false and gpus is empty.", contract.Update{}, "update"),
			refused("There is no such machine.", noNode("other")), badQuery, notReadYet),
		s.read("/api/gpu/metrics/{id}", each(s, contract.NewOneGPU), tagLive, "getDevice", "Get one GPU of the newest snapshot", oneGPU),
		s.read("/api/gpu/recent", s.recent, tagLive, "getRecent", "Get the last 15 minutes",
			apidoc.Text("What charts start with: at most 300 points per series, all at the same times."),
			apidoc.InQuery("gpu", "Only this GPU, by index or UUID. May be repeated.", "0").Repeated(),
			ok("One entry per GPU.", contract.Recent{}, "recent"), ambiguousDevice, unknownDevice, badDeviceQuery),

		s.read(whyPath, s.why, tagLive, "getWhy", "Explain why the fans run",
			apidoc.Text("The answer in one sentence, and every cause with its evidence, how certain it is and what would stop it."),
			either("The answer; without a GPU it says what was tried. With from or to: what happened in that time; as CSV, its chapters. The other parameters need from.", contract.Why{}, contract.PastWhy{}, "why"), ofSpan, asTable,
			apidoc.InQuery("start", "How many chapters and causes to skip: the value of next from the previous answer, with the same from and to. An answer lists up to a thousand of each; /api/gpu/causes lists all.", nil), noDatabaseNow),
		s.read("/api/gpu/why/{id}", each(s, contract.NewOneWhy), tagLive, "getWhyOfOne", "Explain why one GPU's fan runs",
			ok("The answer about the GPU.", contract.OneWhy{}, "why_0"), ofOne),

		s.read("/picture.svg", s.picture, tagLive, "getPicture", "Get the answer as a picture",
			apidoc.Text("Who worked, the power drawn and the temperature over the last 15 minutes, in 1200 by 630 pixels, ready to share. The picture names the machine and the time, and says if the data is not real."),
			apidoc.InQuery("gpu", "The GPU to show, by index or UUID. Default: the GPU that the answer is about, or all of many.", "0"),
			apidoc.InQuery("theme", "light or dark. Default: light.", "dark"),
			as(typeSVG, "The picture."), ambiguousDevice, unknownDevice, refused("A parameter is invalid.", errTheme), notReadYet),

		s.read("/api/gpu/history", s.history, tagPast, "getHistory", "Get readings over time",
			apidoc.Text("Built from the coarsest rows that the step allows: readings, minutes or quarters of an hour. Where only coarser rows remain, all points within one row are the same. Gaps are null."),
			apidoc.InQuery("metric", "A metric, such as power_draw or power_watts. May be repeated. Default: the metrics of the charts.", "power_draw").Repeated(),
			apidoc.InQuery("step", "The time between two points, such as 30s or 5m. Default: chosen to fit.", "5m"),
			now("The points of each GPU.", contract.History{}, "history"), ofSpan, asTable, noDatabase),
		s.read("/api/gpu/readings", s.long(s.readings), tagPast, "listReadings", "List stored readings",
			apidoc.Text("For programs that need all the data: every reading, or every minute, quarter of an hour or six hours, however many there are. For charts, use /api/gpu/history."),
			apidoc.InQuery("metric", "A metric, such as power_draw. May be repeated. Default: all GPU metrics.", "power_draw").Repeated(),
			apidoc.InQuery("tier", "raw, 1m, 15m or 6h. Default: the finest tier that covers the whole time.", "1m"),
			now("The readings.", contract.PastReadings{}, "readings"), ofSpan, asTable, noDatabaseNow),
		s.read("/api/gpu/history/size", s.historySize, tagPast, "getHistorySize", "Get the size of the history",
			apidoc.Text("The stored data by kind, and about how large it will be once --history-retention is reached. Measured at most twice a minute."),
			now("The size.", contract.PastSize{}, "size"), badParameter, refused("No history is kept.", errNoHistory), noDatabase),
		s.read("/api/gpu/causes", s.long(s.causes), tagPast, "listCauses", "List past causes",
			now("The causes, in the order in which they began.", contract.PastCauses{}, "causes"), ofSpan, asTable, noDatabaseNow),
		s.read("/api/gpu/sessions", s.long(s.sessions), tagPast, "listSessions", "List processes that used GPUs",
			now("The sessions, in the order in which they began.", contract.PastSessions{}, "sessions"), ofSpan, byUser, asTable, noDatabaseNow),
		s.read("/api/gpu/usage", s.usage, tagPast, "getUsage", "Get who used GPUs, and for how long",
			apidoc.InQuery("by", "What to group by: "+history.Choices()+".", "user"),
			now("The sums, in order of time held, longest first, also for GPUs.", contract.PastUsage{}, "usage"), ofSpan, byUser, asTable, noDatabase),
		s.read("/api/gpu/forecast", s.forecast, tagPast, "getForecast", "Get forecasts",
			apidoc.Text("When memory fills up, when a GPU throttles or becomes quiet, what a month uses and costs, and when a GPU is usually free. A forecast is shown only if it beat both simple guesses on this machine's own past; see docs/forecast.md."),
			apidoc.InQuery("gpu", "Only this GPU, by index or UUID. May be repeated.", "0").Repeated(),
			now("The forecasts of each GPU.", contract.Forecasts{}, "forecasts"),
			badParameter, refused("There is no such GPU, or no history is kept.", errNoHistory), badDeviceQuery),
		s.read("/api/gpu/at", s.at, tagPast, "getAt", "Get a machine at a past time",
			apidoc.InQuery("time", "The time. Default: now.", "yesterday 22:00"),
			apidoc.InQuery("tz", "The time zone for times in words. Default: the server's.", "Europe/Berlin"),
			apidoc.InQuery("node", "The machine. Required if there are several.", nil),
			now("The last snapshot up to that time, with its answer.", contract.PastMoment{}, "at"),
			badParameter,
			refused("There is no history for that time.", errNoHistory), refused("A parameter is invalid.", errOf(stepOf("soon"))), noDatabase),
		s.read("/api/events", s.long(s.pastEvents), tagPast, "listEvents", "List events",
			apidoc.InQuery("kind", "Only this kind: "+strings.Join(store.EventKinds, ", ")+". May be repeated.", "xid").Repeated(),
			now("The events, oldest first.", contract.PastEvents{}, "events"), ofSpan, asTable, noDatabaseNow),

		s.read("/gpu/info", s.onceRead(derived(s, contract.NewGPUInfo)),
			tagAgent, "getInfo", "Check for GPUs", ok("The number of GPUs.", contract.GPUInfo{}, "gpu_info"), nothingToRead),
		s.read("/gpu/metrics", s.metrics, tagAgent, "getMetrics", "Get all GPUs of the machine",
			ok("The GPUs and their totals.", contract.GPUMetrics{}, "gpu_metrics"), nothingToRead),
		s.read("/gpu/metrics/{id}", each(s, contract.NewOneGPU), tagAgent, "getMetricsOfOne", "Get one GPU of the machine", oneGPU),

		s.read("/api/v1/monitoring/gpu-metrics", derived(s, contract.NewFleet),
			tagFleet, "getFleet", "List GPUs in short form", ok("The GPUs; an empty list if there are none.", contract.Fleet{}, "fleet")),

		s.read("/api/v1/gpu/nodes", s.cluster(s.clusterNodes), tagCluster, "listNodes", "List machines with GPUs",
			ok("The machines, by name.", []contract.ClusterNode{}, "cluster_nodes"), clusterParam, ofCluster),
		s.read("/api/v1/gpu/nodes/{cluster}/{node}", s.cluster(s.clusterNode), tagCluster, "getNodeOfCluster", "Get one machine of a cluster",
			apidoc.InPath("cluster", "Name of the cluster.", contract.LocalCluster), nodeParam, oneNode),
		s.read("/api/v1/gpu/nodes/{node}", s.cluster(s.clusterNode), tagCluster, "getNode", "Get one machine",
			nodeParam, clusterParam, oneNode),
		s.read("/api/v1/gpu/processes", s.cluster(s.clusterProcesses), tagCluster, "listProcesses", "List processes on GPUs",
			ok("The processes, by machine and GPU. A process on two GPUs appears twice.", []contract.ClusterProcess{}, "cluster_processes"),
			clusterParam, apidoc.InQuery("node_name", "Only this machine. An unknown machine has no processes.", nil), ofCluster),
		s.read("/api/v1/gpu/summary", s.cluster(s.clusterSummary), tagCluster, "getClusterSummary", "Get totals of one or all clusters",
			ok("The totals. Without GPUs, counts and sums are 0 and averages are null.", contract.ClusterSummary{}, "cluster_summary"),
			clusterParam, ofCluster),

		s.read("/api/gpu/devices", derived(s, contract.NewDevices),
			tagManager, "listDevices", "List devices in short form",
			ok("The devices. A failing device says so and has null readings.", contract.Devices{}, "devices")),
		s.read("/api/gpu/driver", derived(s, contract.NewDriverInfo),
			tagManager, "getDriver", "Get driver, CUDA and library versions",
			ok("The versions; null if no driver answers.", contract.DriverInfo{}, "driver")),

		s.read("/health", s.probe, tagHealth, "getHealth", "Check that gpuwhy answers", now("It answers.", contract.Probe{}, "probe")),
		s.read("/health/live", s.probe, tagHealth, "getLiveness", "Liveness probe", now("It is alive.", contract.Probe{}, "probe")),
		s.read("/health/ready", s.onceRead(s.probe), tagHealth, "getReadiness", "Readiness probe",
			now("There is a reading, or gpuwhy knows that none is possible.", contract.Probe{}, "probe"), notReadYet),
		s.read("/health/detailed", s.monitorHealth, tagHealth, "getDetailedHealth", "Get the state of each part of gpuwhy", parts),
		s.read("/api/health", s.monitorHealth, tagHealth, "getMonitorHealth", "The same, at the live dashboard's address", parts),

		{Method: http.MethodGet, Path: "/metrics", Needs: auth.Read, Answer: s.cfg.Metrics, Doc: new(apidoc.Op(tagPrometheus.Name, "getPrometheus", "Get metrics for Prometheus",
			apidoc.Text("Text format, or OpenMetrics if Accept asks for it. docs/metrics.md lists all names."), apidoc.Fresh{},
			as("text/plain", "The metrics."), as("application/openmetrics-text", "")))},

		s.read("/openapi.json", once(s.openAPI), tagDocuments, "getOpenAPI", "Get this document", as(typeJSON, "OpenAPI 3.1.")),
		s.read("/openapi.yaml", once(s.openAPIYAML), tagDocuments, "getOpenAPIYAML", "Get this document as YAML", as(typeYAML, "OpenAPI 3.1.")),
		s.read("/asyncapi.json", once(s.asyncAPI), tagDocuments, "getAsyncAPI", "Get the WebSocket protocol", as(typeJSON, "AsyncAPI 3.0.")),
	}
	for _, path := range slices.Sorted(maps.Keys(s.cfg.OtherPages)) {
		routes = append(routes, s.livePage("/"+path, s.otherPage(path)))
	}
	routes = append(routes, s.alertRoutes()...)
	routes = append(routes, s.actionRoutes(func(k action.Kind) bool { return !ofKind("alert")(k) && !ofKind("silence")(k) })...)
	if s.cfg.BasePath != "" {
		routes = append(routes, s.page("", s.toBase))
	}
	return routes
}

// whyPath is about the present, or, with a span, about the past.
const whyPath = "/api/gpu/why"

// read is a route of the API that changes nothing.
func (s *Server) read(path string, h handler, tag apidoc.Tag, id, summary string, parts ...apidoc.Part) Route {
	op := apidoc.Op(tag.Name, id, summary, parts...)
	if isPast(path, tag.Name) {
		h = taking(op.Params, h)
	}
	return Route{Method: http.MethodGet, Path: path, Needs: auth.Read, Answer: s.handle(h), Doc: &op}
}

// isPast reports whether a route answers about the past or what comes next.
func isPast(path, tag string) bool { return tag == tagPast.Name || path == whyPath }

// page is an address for people.
func (s *Server) page(path string, h handler) Route {
	return Route{Method: http.MethodGet, Path: path, Needs: auth.Read, Answer: s.handle(h)}
}

// livePage is a page whose handler answers by serveLive.
func (s *Server) livePage(path string, h handler) Route {
	r := s.page(path, func(w http.ResponseWriter, r *http.Request) error {
		if s.cfg.Changes != nil { // before anything is read of what it shows
			r = r.WithContext(context.WithValue(r.Context(), changesKey{}, s.cfg.Changes()))
		}
		return h(w, r)
	})
	r.Live = true
	return r
}

type changesKey struct{}

func ok(description string, of any, example string) apidoc.Answer {
	return apidoc.Answer{Status: http.StatusOK, Description: description, ContentType: typeJSON, Of: of, Example: example}
}

// either is like ok, for an answer with one of two types.
func either(description string, of, or any, example string) apidoc.Answer {
	a := ok(description, of, example)
	a.Or = or
	return a
}

// now is like ok, for an answer about the present, which clients must not keep.
func now(description string, of any, example string) apidoc.Parts {
	return apidoc.Parts{apidoc.Fresh{}, ok(description, of, example)}
}

// as is an answer without a Go type, with its content type.
func as(contentType, description string) apidoc.Answer {
	return apidoc.Answer{Status: http.StatusOK, Description: description, ContentType: contentType}
}

// What several operations have in common.
var (
	deviceParam  = apidoc.InPath("id", "The GPU's index or UUID.", "0")
	clusterParam = apidoc.InQuery("cluster_id", "Only this cluster. Default: all.", contract.LocalCluster)

	noGPU = gpu.Nodes{{Source: gpu.SourceNVML}}

	ambiguousDevice = refused("There are several machines, so an index is ambiguous.", ambiguous("7"))
	unknownDevice   = refused("There is no such GPU.", errOf(deviceID{text: "7", index: 7}.find(nil)))
	badDevice       = refused("The value is neither an index nor a UUID.", errOf(parseID("first")))
	badDeviceQuery  = refused("The value is neither an index nor a UUID, or the query is invalid.", errOf(parseID("first")))
	badParameter    = refused("A parameter is unknown, given twice or empty; or there are several machines and the request is ambiguous.",
		checkParams("/api/gpu/history", nil, url.Values{"user": {"anna"}}))
	badQuery = refused("The query is invalid, for example because it has a semicolon.",
		errOf(parseQuery(&http.Request{URL: &url.URL{RawQuery: "cluster_id=a;b"}})))
	nothingToRead = refused("No GPU can be read, or none has been read yet; detail says why.",
		refuse(http.StatusServiceUnavailable, "no GPU can be read", contract.Reason(noGPU)))
	notReadYet     = refused("The first reading is still in progress.", new(Server).readable(nil))
	noGPUInCluster = refused("The named cluster has no node with a GPU.", emptyCluster(contract.LocalCluster, noGPU))
	unknownCluster = refused("There is no such cluster.", new(Server).noCluster(nil, "other"))
	unknownNode    = refused("There is no such cluster, or no such machine with a GPU in it.", noGPUNode("other"))
	otherProblem   = refused("Another error, such as 421 for a host name that is not gpuwhy's. Browsers get a page instead.",
		foreignHost("gpu.example.org"))

	ofSpan = apidoc.Parts{
		apidoc.InQuery("from", "When the span begins. On its own it can name a span, such as last night, monday (that day) or since monday (until now). Default: the last 24 hours.", "last night"),
		apidoc.InQuery("to", "When the span ends. Default: now.", nil),
		apidoc.InQuery("tz", "The time zone for times in words. Default: the server's.", "Europe/Berlin"),
		apidoc.InQuery("gpu", "Only this GPU, by index or UUID, or by name: \"node-017 GPU 3\", a node, or a part of the product's name. May be repeated. An index means a machine that gpuwhy reads now, if possible.", "0").Repeated(),
		apidoc.InQuery("node", "Only this machine, if the history has several, for example after a machine was renamed.", nil),
		badParameter, refused("There is no history of this GPU, or none at all.", errNoHistory),
		refused("A parameter is invalid.", errOf(stepOf("soon"))),
	}
	byUser     = apidoc.InQuery("user", "Only this user.", nil)
	asTable    = apidoc.InQuery("format", "csv for a table, instead of an Accept header.", "json")
	noDatabase = refused("The database can't be read now.",
		&statusError{status: http.StatusServiceUnavailable, advice: gpu.Advice{What: "the database can't be reached"}})
	noDatabaseNow = refused("The database can't be read now, or too many lists are being read from it. Retry-After says when to try again.", errManyLong)
	ofOne         = apidoc.Parts{deviceParam, ambiguousDevice, unknownDevice, badDevice, nothingToRead}
	ofCluster     = apidoc.Parts{noGPUInCluster, unknownCluster, badQuery, notReadYet}
)

// refused is an answer with an error, which is its example.
func refused(description string, err error) apidoc.Answer {
	e := asStatusError(err)
	return apidoc.Answer{Status: e.status, Description: description, Detail: e.advice.Text()}
}

func errOf[T any](_ T, err error) error { return err }

//go:embed introduction.md
var introduction string

// document makes the document of the routes.
func (s *Server) document() *apidoc.Document {
	var operations []apidoc.Operation
	for _, r := range s.routes() {
		if r.Doc != nil {
			r.Doc.Path, r.Doc.Method = r.Path, r.Method
			operations = append(operations, *r.Doc)
		}
	}
	return apidoc.OpenAPI(apidoc.API{
		Description: strings.TrimSpace(introduction), Version: s.cfg.Monitor.Version,
		Base: s.cfg.BasePath, Problem: newProblem, OtherProblem: otherProblem,
		Tags: []apidoc.Tag{tagLive, tagPast, tagAlerts, tagAgent, tagFleet, tagCluster, tagManager, tagHealth, tagPrometheus, tagDocuments},
	}, operations)
}
