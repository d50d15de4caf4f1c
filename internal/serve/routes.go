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

// A Route is an address with its handler and its text in the documents. GET stands for HEAD too.
type Route struct {
	Method string
	Path   string
	Needs  auth.Access // what a principal needs to use it
	Answer http.Handler
	// Doc is nil for addresses that are no part of the API: pages and their files.
	Doc *apidoc.Operation
	// Live says that the page is kept up to date for those who look at it, see [Server.Render].
	Live bool
}

// The clients whose contracts the operations are.
var (
	tagLive       = apidoc.Tag{Name: "Live dashboard", Description: "What the dashboard and bots read: the newest snapshot, its totals, and the last minutes. The same comes over the WebSocket at /ws; see /docs/events."}
	tagAlerts     = apidoc.Tag{Name: "Alerts", Description: "What fires, and what people say of it. News of alerts comes over the WebSocket too."}
	tagPast       = apidoc.Tag{Name: "The past", Description: "What is kept of the past. Times are RFC 3339, also without seconds or zone, seconds since 1970, or words such as \"yesterday at 22:00\", \"last night\" or \"1.5h\"."}
	tagAgent      = apidoc.Tag{Name: "Resource agent", Description: "One machine's GPUs, as the resource agent served them."}
	tagFleet      = apidoc.Tag{Name: "Fleet manager", Description: "The fleet manager's list."}
	tagCluster    = apidoc.Tag{Name: "Cluster", Description: "GPUs and processes by cluster and node. A machine that is in no cluster is in \"local\"."}
	tagManager    = apidoc.Tag{Name: "GPU manager", Description: "Devices in short, and the driver."}
	tagHealth     = apidoc.Tag{Name: "Health", Description: "Whether gpuwhy does its work."}
	tagPrometheus = apidoc.Tag{Name: "Prometheus", Description: "For a scraper."}
	tagDocuments  = apidoc.Tag{Name: "Documents", Description: "These documents for programs."}
)

// routes are all addresses, in the order of the documents.
func (s *Server) routes() []Route {
	nodeParam := apidoc.InPath("node", "Name of the machine.", s.cfg.Monitor.Node)
	oneGPU := apidoc.Parts{ok("The GPU. One that is lost or does not answer has null readings.", contract.OneGPU{}, "gpu_metrics_0"), ofOne}
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
		s.read("/api/gpu/summary", s.summary, tagLive, "getSummary", "Totals of the newest snapshot, and why",
			apidoc.Text("Cheap enough to poll. Without a GPU available is false, and reason says what was tried and what to do."),
			ok("The totals.", contract.Summary{}, "summary")),
		s.read("/api/gpu/metrics", s.update, tagLive, "getSnapshot", "The newest snapshot",
			apidoc.Text("Everything that was read, with processes: byte for byte what gpu_status_update carries."),
			apidoc.InQuery("node", "Narrows to a machine, where there are several.", s.cfg.Monitor.Node),
			ok("The snapshot; without a GPU available is false and gpus is empty.", contract.Update{}, "update"),
			refused("There is no such machine.", noNode("other")), badQuery, notReadYet),
		s.read("/api/gpu/metrics/{id}", each(s, contract.NewOneGPU), tagLive, "getDevice", "One GPU of the newest snapshot", oneGPU),
		s.read("/api/gpu/recent", s.recent, tagLive, "getRecent", "The last 15 minutes",
			apidoc.Text("What charts start with: at most 300 points a series, which all share their times."),
			apidoc.InQuery("gpu", "Narrows to a GPU, by index or UUID; may be given several times.", "0").Repeated(),
			ok("One entry a GPU.", contract.Recent{}, "recent"), ambiguousDevice, unknownDevice, badDeviceQuery),

		s.read(whyPath, s.why, tagLive, "getWhy", "Why the fans run",
			apidoc.Text("The answer in one sentence, and every cause behind it with the figures that it rests on, how sure it is, and what would stop it."),
			either("The answer; without a GPU it says what was tried. With from or to: what went on in that time, as CSV its chapters. The other parameters need from.", contract.Why{}, contract.PastWhy{}, "why"), ofSpan, asTable,
			apidoc.InQuery("start", "How many of the first chapters and causes are left out: next of the answer before, whose from and to are asked about again. An answer lists a thousand of each; /api/gpu/causes lists all.", nil), noDatabaseNow),
		s.read("/api/gpu/why/{id}", each(s, contract.NewOneWhy), tagLive, "getWhyOfOne", "Why one GPU's fan runs",
			ok("The answer about the GPU.", contract.OneWhy{}, "why_0"), ofOne),

		s.read("/picture.svg", s.picture, tagLive, "getPicture", "The answer as a picture",
			apidoc.Text("Who worked, what that drew and how warm it got, over the last 15 minutes: 1200 by 630 pixels, to be sent to somebody. It says of which machine and time it is, and whether that is real."),
			apidoc.InQuery("gpu", "The GPU that it is about, by index or UUID; the one that the answer is about if it is left out, or all of many.", "0"),
			apidoc.InQuery("theme", "light or dark; light if it is left out.", "dark"),
			as(typeSVG, "The picture."), ambiguousDevice, unknownDevice, refused("A parameter can't be read.", errTheme), notReadYet),

		s.read("/api/gpu/history", s.history, tagPast, "getHistory", "Readings over time",
			apidoc.Text("Made of the coarsest rows that the step allows: readings, minutes or quarters of an hour. Where only coarser rows are left, points within one of them are the same. Gaps are null."),
			apidoc.InQuery("metric", "A quantity, such as power_draw or power_watts; may be given several times. Those of charts if it is left out.", "power_draw").Repeated(),
			apidoc.InQuery("step", "The time between two points, such as 30s or 5m; chosen if it is left out.", "5m"),
			now("The points of each GPU.", contract.History{}, "history"), ofSpan, asTable, noDatabase),
		s.read("/api/gpu/readings", s.long(s.readings), tagPast, "listReadings", "Readings as they are kept",
			apidoc.Text("For programs that take all of it: each reading, or each minute, quarter of an hour or six hours, however many there are. Charts need /api/gpu/history."),
			apidoc.InQuery("metric", "A quantity, such as power_draw; may be given several times. All of GPUs if it is left out.", "power_draw").Repeated(),
			apidoc.InQuery("tier", "raw, 1m, 15m or 6h; the finest that is kept for all of the time if it is left out.", "1m"),
			now("The readings.", contract.PastReadings{}, "readings"), ofSpan, asTable, noDatabaseNow),
		s.read("/api/gpu/history/size", s.historySize, tagPast, "getHistorySize", "How much is kept",
			apidoc.Text("What is kept by kind, and about how much it will be once it is kept for as long as --history-retention says. Measured at most twice a minute."),
			now("The size.", contract.PastSize{}, "size"), badParameter, refused("Nothing is kept.", errNoHistory), noDatabase),
		s.read("/api/gpu/causes", s.long(s.causes), tagPast, "listCauses", "What the answer was",
			now("The causes, by when they began.", contract.PastCauses{}, "causes"), ofSpan, asTable, noDatabaseNow),
		s.read("/api/gpu/sessions", s.long(s.sessions), tagPast, "listSessions", "Processes that were on GPUs",
			now("The sessions, by when they began.", contract.PastSessions{}, "sessions"), ofSpan, byUser, asTable, noDatabaseNow),
		s.read("/api/gpu/usage", s.usage, tagPast, "getUsage", "Who used GPUs, and for how long",
			apidoc.InQuery("by", "What to sum by: "+history.Choices()+".", "user"),
			now("The sums, the longest held first, also of GPUs.", contract.PastUsage{}, "usage"), ofSpan, byUser, asTable, noDatabase),
		s.read("/api/gpu/forecast", s.forecast, tagPast, "getForecast", "What comes next",
			apidoc.Text("When a memory is full, a GPU slows itself down or is quiet, what a month uses and costs, and when a GPU is usually free. Each is shown only where it was better, in this machine's own past, than both naive forecasts; see docs/forecast.md."),
			apidoc.InQuery("gpu", "Narrows to a GPU, by index or UUID; may be given several times.", "0").Repeated(),
			now("The forecasts of each GPU.", contract.Forecasts{}, "forecasts"),
			badParameter, refused("There is no such GPU, or no past is kept.", errNoHistory), badDeviceQuery),
		s.read("/api/gpu/at", s.at, tagPast, "getAt", "A machine as it was",
			apidoc.InQuery("time", "The time; now if it is left out.", "yesterday 22:00"),
			apidoc.InQuery("tz", "The time zone in which words are understood; the server's if it is left out.", "Europe/Berlin"),
			apidoc.InQuery("node", "The machine; needed where there are several.", nil),
			now("The newest snapshot that is not later, with its answer.", contract.PastMoment{}, "at"),
			badParameter,
			refused("Nothing is kept of that time.", errNoHistory), refused("A parameter can't be read.", errOf(stepOf("soon"))), noDatabase),
		s.read("/api/events", s.long(s.pastEvents), tagPast, "listEvents", "What happened",
			apidoc.InQuery("kind", "Narrows to a kind: "+strings.Join(store.EventKinds, ", ")+"; may be given several times.", "xid").Repeated(),
			now("The events, the oldest first.", contract.PastEvents{}, "events"), ofSpan, asTable, noDatabaseNow),

		s.read("/gpu/info", s.onceRead(derived(s, contract.NewGPUInfo)),
			tagAgent, "getInfo", "Whether there are GPUs", ok("How many there are.", contract.GPUInfo{}, "gpu_info"), nothingToRead),
		s.read("/gpu/metrics", s.metrics, tagAgent, "getMetrics", "Every GPU of the machine",
			ok("The GPUs with their totals.", contract.GPUMetrics{}, "gpu_metrics"), nothingToRead),
		s.read("/gpu/metrics/{id}", each(s, contract.NewOneGPU), tagAgent, "getMetricsOfOne", "One GPU of the machine", oneGPU),

		s.read("/api/v1/monitoring/gpu-metrics", derived(s, contract.NewFleet),
			tagFleet, "getFleet", "Every GPU in short", ok("The GPUs; an empty list where there is none.", contract.Fleet{}, "fleet")),

		s.read("/api/v1/gpu/nodes", s.cluster(s.clusterNodes), tagCluster, "listNodes", "Machines with GPUs",
			ok("The machines, by name.", []contract.ClusterNode{}, "cluster_nodes"), clusterParam, ofCluster),
		s.read("/api/v1/gpu/nodes/{cluster}/{node}", s.cluster(s.clusterNode), tagCluster, "getNodeOfCluster", "One machine of a cluster",
			apidoc.InPath("cluster", "Name of the cluster.", contract.LocalCluster), nodeParam, oneNode),
		s.read("/api/v1/gpu/nodes/{node}", s.cluster(s.clusterNode), tagCluster, "getNode", "One machine",
			nodeParam, clusterParam, oneNode),
		s.read("/api/v1/gpu/processes", s.cluster(s.clusterProcesses), tagCluster, "listProcesses", "Processes on GPUs",
			ok("The processes, by machine and GPU; one on two GPUs is there twice.", []contract.ClusterProcess{}, "cluster_processes"),
			clusterParam, apidoc.InQuery("node_name", "Narrows to a machine. One that is not known has no processes.", nil), ofCluster),
		s.read("/api/v1/gpu/summary", s.cluster(s.clusterSummary), tagCluster, "getClusterSummary", "Totals of a cluster, or of all",
			ok("The totals. Without GPUs counts and sums are 0, and averages null.", contract.ClusterSummary{}, "cluster_summary"),
			clusterParam, ofCluster),

		s.read("/api/gpu/devices", derived(s, contract.NewDevices),
			tagManager, "listDevices", "Devices in short",
			ok("The devices; one that fails says so and has null readings.", contract.Devices{}, "devices")),
		s.read("/api/gpu/driver", derived(s, contract.NewDriverInfo),
			tagManager, "getDriver", "Versions of driver, CUDA and library",
			ok("The versions; null where no driver answers.", contract.DriverInfo{}, "driver")),

		s.read("/health", s.probe, tagHealth, "getHealth", "Whether gpuwhy answers", now("It does.", contract.Probe{}, "probe")),
		s.read("/health/live", s.probe, tagHealth, "getLiveness", "Liveness probe", now("It is alive.", contract.Probe{}, "probe")),
		s.read("/health/ready", s.onceRead(s.probe), tagHealth, "getReadiness", "Readiness probe",
			now("There is a reading, or the verdict that none can be had.", contract.Probe{}, "probe"), notReadYet),
		s.read("/health/detailed", s.monitorHealth, tagHealth, "getDetailedHealth", "How each part of gpuwhy does", parts),
		s.read("/api/health", s.monitorHealth, tagHealth, "getMonitorHealth", "The same under the live dashboard's address", parts),

		{Method: http.MethodGet, Path: "/metrics", Needs: auth.Read, Answer: s.cfg.Metrics, Doc: new(apidoc.Op(tagPrometheus.Name, "getPrometheus", "Metrics for Prometheus",
			apidoc.Text("Text format, or OpenMetrics where Accept asks for it. docs/metrics.md lists all names."), apidoc.Fresh{},
			as("text/plain", "The metrics."), as("application/openmetrics-text", "")))},

		s.read("/openapi.json", once(s.openAPI), tagDocuments, "getOpenAPI", "This document", as(typeJSON, "OpenAPI 3.1.")),
		s.read("/openapi.yaml", once(s.openAPIYAML), tagDocuments, "getOpenAPIYAML", "This document as YAML", as(typeYAML, "OpenAPI 3.1.")),
		s.read("/asyncapi.json", once(s.asyncAPI), tagDocuments, "getAsyncAPI", "The WebSocket protocol", as(typeJSON, "AsyncAPI 3.0.")),
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

// whyPath is about now, or with a span about the past.
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

// either is like ok, for an answer of one of two types.
func either(description string, of, or any, example string) apidoc.Answer {
	a := ok(description, of, example)
	a.Or = or
	return a
}

// now is like ok, for an answer about the present, which clients must not keep.
func now(description string, of any, example string) apidoc.Parts {
	return apidoc.Parts{apidoc.Fresh{}, ok(description, of, example)}
}

// as is an answer that none of our structs describes, with its content type.
func as(contentType, description string) apidoc.Answer {
	return apidoc.Answer{Status: http.StatusOK, Description: description, ContentType: contentType}
}

// What several operations have in common.
var (
	deviceParam  = apidoc.InPath("id", "The GPU's index, or its UUID.", "0")
	clusterParam = apidoc.InQuery("cluster_id", "Narrows to a cluster; all of them if it is left out.", contract.LocalCluster)

	noGPU = gpu.Nodes{{Source: gpu.SourceNVML}}

	ambiguousDevice = refused("There are several machines, and an index may be a GPU of each.", ambiguous("7"))
	unknownDevice   = refused("There is no such GPU.", errOf(deviceID{text: "7", index: 7}.find(nil)))
	badDevice       = refused("It is neither an index nor a UUID.", errOf(parseID("first")))
	badDeviceQuery  = refused("It is neither an index nor a UUID, or the query can't be read.", errOf(parseID("first")))
	badParameter    = refused("A parameter is unknown here, is given twice or has no value; or there are several machines, and what is asked for may be of each.",
		checkParams("/api/gpu/history", nil, url.Values{"user": {"anna"}}))
	badQuery = refused("The query can't be read, as where it has a semicolon.",
		errOf(parseQuery(&http.Request{URL: &url.URL{RawQuery: "cluster_id=a;b"}})))
	nothingToRead = refused("No GPU can be read, or none was read yet; detail says why.",
		refuse(http.StatusServiceUnavailable, "no GPU can be read", contract.Reason(noGPU)))
	notReadYet     = refused("The first reading is still under way.", new(Server).readable(nil))
	noGPUInCluster = refused("The cluster that was named has no node with a GPU.", emptyCluster(contract.LocalCluster, noGPU))
	unknownCluster = refused("There is no such cluster.", new(Server).noCluster(nil, "other"))
	unknownNode    = refused("There is no such cluster, or no such machine with a GPU in it.", noGPUNode("other"))
	otherProblem   = refused("Another error, such as 421 for a host name that is not gpuwhy's. A browser gets a page instead.",
		foreignHost("gpu.example.org"))

	ofSpan = apidoc.Parts{
		apidoc.InQuery("from", "When the span begins; alone it can name a span, such as last night, monday (that day) or since monday (until now). The last 24 hours if it is left out.", "last night"),
		apidoc.InQuery("to", "When the span ends; now if it is left out.", nil),
		apidoc.InQuery("tz", "The time zone in which words are understood; the server's if it is left out.", "Europe/Berlin"),
		apidoc.InQuery("gpu", "Narrows to a GPU, by index or UUID, or as people call it: \"node-017 GPU 3\", a node, or a part of the product's name. It may be given several times. An index is first one of a machine that is read now.", "0").Repeated(),
		apidoc.InQuery("node", "Narrows to a machine, where several are kept, as after it got another name.", nil),
		badParameter, refused("Nothing is kept of such a GPU, or nothing at all.", errNoHistory),
		refused("A parameter can't be read.", errOf(stepOf("soon"))),
	}
	byUser     = apidoc.InQuery("user", "Narrows to a user.", nil)
	asTable    = apidoc.InQuery("format", "csv for a table, in place of an Accept header.", "json")
	noDatabase = refused("The database can't be read now.",
		&statusError{status: http.StatusServiceUnavailable, advice: gpu.Advice{What: "the database can't be reached"}})
	noDatabaseNow = refused("The database can't be read now, or too many lists are being read from it: Retry-After says when to ask again.", errManyLong)
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
