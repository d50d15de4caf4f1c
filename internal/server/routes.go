package server

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// A route is an address, what answers there, and what the documents say of it.
// What answers to GET answers to HEAD too.
type route struct {
	method string
	path   string
	answer http.Handler
	// doc is left out for what is no part of the API: pages and their files.
	doc *apidoc.Operation
}

// The clients whose contracts the operations are.
const (
	tagLive       = "Live dashboard"
	tagAlerts     = "Alerts"
	tagAgent      = "Resource agent"
	tagFleet      = "Fleet manager"
	tagCluster    = "Cluster"
	tagManager    = "GPU manager"
	tagHealth     = "Health"
	tagPrometheus = "Prometheus"
	tagDocuments  = "Documents"
)

var tags = []apidoc.Tag{
	{Name: tagLive, Description: "What the dashboard and bots read: the newest snapshot, its totals, and the last minutes. The same comes over the WebSocket at /ws; see /docs/events."},
	{Name: tagAlerts, Description: "What fires, and what people say of it. News of alerts comes over the WebSocket too."},
	{Name: tagAgent, Description: "One machine's GPUs, as the resource agent served them."},
	{Name: tagFleet, Description: "The fleet manager's list."},
	{Name: tagCluster, Description: "GPUs and processes by cluster and node. What gpuwhy reads itself is the cluster \"local\"."},
	{Name: tagManager, Description: "Devices in short, and the driver."},
	{Name: tagHealth, Description: "Whether gpuwhy does its work."},
	{Name: tagPrometheus, Description: "For a scraper."},
	{Name: tagDocuments, Description: "These documents for programs."},
}

// routes are all addresses, in the order of the documents.
func (s *Server) routes() []route {
	api := func(path string, h handler, doc apidoc.Operation) route { return s.route(http.MethodGet, path, h, doc) }
	page := func(path string, h handler) route { return route{http.MethodGet, path, s.handle(h), nil} }
	cluster := s.cluster()
	nodeParam := apidoc.Param{Name: "node", In: "path", Description: "Name of the machine.", Example: s.cfg.Monitor.Node}
	routes := []route{
		page("/{$}", s.home()),
		page("/static/{path...}", s.static()),
		page("/favicon.ico", s.favicon()),
		page("/robots.txt", robots),
		page("/docs", s.docsPage()),
		page("/docs/events", s.eventsPage()),
		page("/redoc", s.referencePage()),

		{http.MethodGet, "/ws", s.cfg.WS, nil}, // AsyncAPI describes it
		api("/api/gpu/summary", s.summary(), apidoc.Operation{
			ID: "getSummary", Tag: tagLive, Summary: "Totals of the newest snapshot, and why",
			Description: "Cheap enough to poll. Without a GPU available is false, and reason says what was tried and what to do.",
			Answers:     []apidoc.Answer{ok("The totals.", contract.Summary{}, "summary")},
		}),
		api("/api/gpu/metrics", s.update(), apidoc.Operation{
			ID: "getSnapshot", Tag: tagLive, Summary: "The newest snapshot",
			Description: "Everything that was read, with processes: byte for byte what gpu_status_update carries.",
			Answers:     []apidoc.Answer{ok("The snapshot; without a GPU available is false and gpus is empty.", contract.Update{}, "update")},
		}),
		api("/api/gpu/metrics/{id}", s.device(), apidoc.Operation{
			ID: "getDevice", Tag: tagLive, Summary: "One GPU of the newest snapshot",
			Params:  []apidoc.Param{deviceParam},
			Answers: []apidoc.Answer{ok("The GPU. One that is lost or does not answer has null readings.", contract.OneGPU{}, "gpu_metrics_0"), ambiguousDevice, unknownDevice, badDevice, nothingToRead},
		}),
		api("/api/gpu/recent", s.past(), apidoc.Operation{
			ID: "getRecent", Tag: tagLive, Summary: "The last 15 minutes",
			Description: "What charts start with: at most 300 points a series, which all share their times.",
			Params:      []apidoc.Param{{Name: "gpu", In: "query", Description: "Narrows to a GPU, by index or UUID; may be given several times.", Example: "0", Repeated: true}},
			Answers:     []apidoc.Answer{ok("One entry a GPU.", contract.Recent{}, "recent"), ambiguousDevice, unknownDevice, badDeviceQuery},
		}),

		api("/api/gpu/why", s.why(), apidoc.Operation{
			ID: "getWhy", Tag: tagLive, Summary: "Why the fans run",
			Description: "The answer in one sentence, and every cause behind it with the figures that it rests on, how sure it is, and what would stop it.",
			Answers:     []apidoc.Answer{ok("The answer; without a GPU it says what was tried.", contract.Why{}, "why")},
		}),
		api("/api/gpu/why/{id}", s.whyOne(), apidoc.Operation{
			ID: "getWhyOfOne", Tag: tagLive, Summary: "Why one GPU's fan runs",
			Params:  []apidoc.Param{deviceParam},
			Answers: []apidoc.Answer{ok("The answer about the GPU.", contract.OneWhy{}, "why_0"), ambiguousDevice, unknownDevice, badDevice, nothingToRead},
		}),

		api("/gpu/info", s.derived(func(f *insight.Fleet) any { return contract.NewGPUInfo(s.monitor(f), f) }), apidoc.Operation{
			ID: "getInfo", Tag: tagAgent, Summary: "Whether there are GPUs",
			Answers: []apidoc.Answer{ok("How many there are.", contract.GPUInfo{}, "gpu_info")},
		}),
		api("/gpu/metrics", s.metrics(), apidoc.Operation{
			ID: "getMetrics", Tag: tagAgent, Summary: "Every GPU of the machine",
			Answers: []apidoc.Answer{ok("The GPUs with their totals.", contract.GPUMetrics{}, "gpu_metrics"), nothingToRead},
		}),
		api("/gpu/metrics/{id}", s.device(), apidoc.Operation{
			ID: "getMetricsOfOne", Tag: tagAgent, Summary: "One GPU of the machine",
			Params:  []apidoc.Param{deviceParam},
			Answers: []apidoc.Answer{ok("The GPU. One that is lost or does not answer has null readings.", contract.OneGPU{}, "gpu_metrics_0"), ambiguousDevice, unknownDevice, badDevice, nothingToRead},
		}),

		api("/api/v1/monitoring/gpu-metrics", s.derived(func(f *insight.Fleet) any { return contract.NewFleet(s.monitor(f), f) }), apidoc.Operation{
			ID: "getFleet", Tag: tagFleet, Summary: "Every GPU in short",
			Answers: []apidoc.Answer{ok("The GPUs; an empty list where there is none.", contract.Fleet{}, "fleet")},
		}),

		api("/api/v1/gpu/nodes", cluster(s.clusterNodes), apidoc.Operation{
			ID: "listNodes", Tag: tagCluster, Summary: "Machines with GPUs",
			Params:  []apidoc.Param{clusterParam},
			Answers: []apidoc.Answer{ok("The machines, by name.", []contract.ClusterNode{}, "cluster_nodes"), emptyCluster, unknownCluster, badQuery, notReadYet},
		}),
		api("/api/v1/gpu/nodes/{cluster}/{node}", cluster(s.clusterNode), apidoc.Operation{
			ID: "getNodeOfCluster", Tag: tagCluster, Summary: "One machine of a cluster",
			Params: []apidoc.Param{
				{Name: "cluster", In: "path", Description: "Name of the cluster.", Example: contract.LocalCluster},
				nodeParam,
			},
			Answers: []apidoc.Answer{ok("The machine.", contract.ClusterNode{}, "cluster_node"), unknownNode, badQuery, notReadYet},
		}),
		api("/api/v1/gpu/nodes/{node}", cluster(s.clusterNode), apidoc.Operation{
			ID: "getNode", Tag: tagCluster, Summary: "One machine",
			Params:  []apidoc.Param{nodeParam, clusterParam},
			Answers: []apidoc.Answer{ok("The machine.", contract.ClusterNode{}, "cluster_node"), unknownNode, badQuery, notReadYet},
		}),
		api("/api/v1/gpu/processes", cluster(s.clusterProcesses), apidoc.Operation{
			ID: "listProcesses", Tag: tagCluster, Summary: "Processes on GPUs",
			Params: []apidoc.Param{
				clusterParam,
				{Name: "node_name", In: "query", Description: "Narrows to a machine. One that is not known has no processes."},
			},
			Answers: []apidoc.Answer{ok("The processes, by machine and GPU; one on two GPUs is there twice.", []contract.ClusterProcess{}, "cluster_processes"), emptyCluster, unknownCluster, badQuery, notReadYet},
		}),
		api("/api/v1/gpu/summary", cluster(s.clusterSummary), apidoc.Operation{
			ID: "getClusterSummary", Tag: tagCluster, Summary: "Totals of a cluster, or of all",
			Params:  []apidoc.Param{clusterParam},
			Answers: []apidoc.Answer{ok("The totals. Without GPUs counts and sums are 0, and averages null.", contract.ClusterSummary{}, "cluster_summary"), emptyCluster, unknownCluster, badQuery, notReadYet},
		}),

		api("/api/gpu/devices", s.derived(func(f *insight.Fleet) any { return contract.NewDevices(s.monitor(f), f) }), apidoc.Operation{
			ID: "listDevices", Tag: tagManager, Summary: "Devices in short",
			Answers: []apidoc.Answer{ok("The devices; one that fails says so and has null readings.", contract.Devices{}, "devices")},
		}),
		api("/api/gpu/driver", s.derived(func(f *insight.Fleet) any { return contract.NewDriverInfo(s.monitor(f), f) }), apidoc.Operation{
			ID: "getDriver", Tag: tagManager, Summary: "Versions of driver, CUDA and library",
			Answers: []apidoc.Answer{ok("The versions; null where no driver answers.", contract.DriverInfo{}, "driver")},
		}),

		api("/health", s.probe, apidoc.Operation{
			ID: "getHealth", Tag: tagHealth, Summary: "Whether gpuwhy answers", Fresh: true,
			Answers: []apidoc.Answer{ok("It does.", contract.Probe{}, "probe")},
		}),
		api("/health/live", s.probe, apidoc.Operation{
			ID: "getLiveness", Tag: tagHealth, Summary: "Liveness probe", Fresh: true,
			Answers: []apidoc.Answer{ok("It is alive.", contract.Probe{}, "probe")},
		}),
		api("/health/ready", s.ready, apidoc.Operation{
			ID: "getReadiness", Tag: tagHealth, Summary: "Readiness probe", Fresh: true,
			Answers: []apidoc.Answer{ok("There is a reading, or the verdict that none can be had.", contract.Probe{}, "probe"), notReadYet},
		}),
		api("/health/detailed", s.monitorHealth, apidoc.Operation{
			ID: "getDetailedHealth", Tag: tagHealth, Summary: "How each part of gpuwhy does", Fresh: true,
			Answers: []apidoc.Answer{ok("The parts.", contract.MonitorHealth{}, "health")},
		}),
		api("/api/health", s.monitorHealth, apidoc.Operation{
			ID: "getMonitorHealth", Tag: tagHealth, Summary: "The same under the live dashboard's address", Fresh: true,
			Answers: []apidoc.Answer{ok("The parts.", contract.MonitorHealth{}, "health")},
		}),

		{http.MethodGet, "/metrics", s.cfg.Metrics, &apidoc.Operation{
			ID: "getPrometheus", Tag: tagPrometheus, Summary: "Metrics for Prometheus", Fresh: true,
			Description: "Text format, or OpenMetrics where Accept asks for it. docs/metrics.md lists all names.",
			Answers: []apidoc.Answer{
				{Status: 200, Description: "The metrics.", ContentType: "text/plain"},
				{Status: 200, ContentType: "application/openmetrics-text"},
			},
		}},

		api("/openapi.json", s.openAPI(), apidoc.Operation{
			ID: "getOpenAPI", Tag: tagDocuments, Summary: "This document",
			Answers: []apidoc.Answer{{Status: 200, Description: "OpenAPI 3.1.", ContentType: typeJSON}},
		}),
		api("/openapi.yaml", s.openAPIYAML(), apidoc.Operation{
			ID: "getOpenAPIYAML", Tag: tagDocuments, Summary: "This document as YAML",
			Answers: []apidoc.Answer{{Status: 200, Description: "OpenAPI 3.1.", ContentType: typeYAML}},
		}),
		api("/asyncapi.json", s.asyncAPI(), apidoc.Operation{
			ID: "getAsyncAPI", Tag: tagDocuments, Summary: "The WebSocket protocol",
			Answers: []apidoc.Answer{{Status: 200, Description: "AsyncAPI 3.0.", ContentType: typeJSON}},
		}),
	}
	if s.cfg.Alerts != nil {
		routes = append(routes, s.alertRoutes()...)
	}
	return routes
}

// route is one of the API's.
func (s *Server) route(method, path string, h handler, doc apidoc.Operation) route {
	doc.Method = method
	return route{method, path, s.handle(h), &doc}
}

func ok(description string, of any, example string) apidoc.Answer {
	return apidoc.Answer{Status: http.StatusOK, Description: description, ContentType: typeJSON, Of: of, Example: example}
}

// What several operations have in common.
var (
	deviceParam  = apidoc.Param{Name: "id", In: "path", Description: "The GPU's index, or its UUID.", Example: "0"}
	clusterParam = apidoc.Param{Name: "cluster_id", In: "query", Description: "Narrows to a cluster; all of them if it is left out.", Example: contract.LocalCluster}

	noGPU = gpu.Nodes{{Source: gpu.SourceNVML}}

	ambiguousDevice = refused(http.StatusBadRequest, "There are several machines, and an index may be a GPU of each.", ambiguous("7"))
	unknownDevice   = refused(http.StatusNotFound, "There is no such GPU.", refuse(http.StatusNotFound, `there is no GPU "7"`, "/api/gpu/devices lists all"))
	badDevice       = refused(http.StatusUnprocessableEntity, "It is neither an index nor a UUID.", errOf(parseID("first")))
	badDeviceQuery  = refused(http.StatusUnprocessableEntity, "It is neither an index nor a UUID, or the query can't be read.", errOf(parseID("first")))
	badQuery        = refused(http.StatusUnprocessableEntity, "The query can't be read, as where it has a semicolon.", errOf(parseQuery(&http.Request{URL: &url.URL{RawQuery: "cluster_id=a;b"}})))
	nothingToRead   = refused(http.StatusServiceUnavailable, "No GPU can be read, or none was read yet; detail says why.", refuse(http.StatusServiceUnavailable, "no GPU can be read", contract.Reason(noGPU)))
	notReadYet      = refused(http.StatusServiceUnavailable, "The first reading is still under way.", new(Server).readable(nil))
	emptyCluster    = refused(http.StatusBadRequest, "The cluster that was named has no node with a GPU.", refuse(http.StatusBadRequest, `the cluster "local" has no node with a GPU`, contract.Reason(noGPU)))
	unknownCluster  = refused(http.StatusNotFound, "There is no such cluster.", refuse(http.StatusNotFound, `there is no cluster "other"`, `leave cluster_id out, or use "local"`))
	unknownNode     = refused(http.StatusNotFound, "There is no such cluster, or no such machine with a GPU in it.", refuse(http.StatusNotFound, `there is no node "other" with a GPU`, "/api/v1/gpu/nodes lists all"))
	otherProblem    = refused(http.StatusMisdirectedRequest, "Another error, such as 421 for a host name that is not gpuwhy's. A browser gets a page instead.", foreignHost("gpu.example.org"))
)

// refused is an answer with an error, which is its example.
func refused(status int, description string, err error) apidoc.Answer {
	advice := gpu.AsAdvice(err)
	return apidoc.Answer{Status: status, Description: description, Detail: advice.Text()}
}

func errOf[T any](_ T, err error) error { return err }

const introduction = `What gpuwhy knows of a machine's GPUs, from the newest snapshot: no request waits for a driver.

Every **measured value may be null**, which is not 0: the device does not report it, and ` + "`quality`" + ` says why where that is
known. Units are in the names: ` + "`*_mb`" + ` is MiB (2^20 bytes). Times are RFC 3339, UTC. Members that are not known to a client are to
be ignored: more may come, none goes.

What says something of alerts and silences is a POST or a DELETE, from gpuwhy's own pages and from programs alone: JSON with no
members but those named, or a browser's form, which is answered with a 303. Every address that can be read answers HEAD too, and all answer OPTIONS. An answer has an ETag; asked for with If-None-Match it is a 304 until there is
another. Health and metrics are about this very moment, and have none. Errors are application/problem+json whose ` + "`detail`" + ` says what to do. The live events are [a document of their
own](docs/events).`

// document makes the OpenAPI document of the routes.
func (s *Server) document() (*apidoc.Document, []string) {
	var routes []apidoc.Route
	for _, r := range s.routes() {
		if r.doc != nil {
			routes = append(routes, apidoc.Route{Path: r.path, Operation: *r.doc})
		}
	}
	doc, faults := apidoc.OpenAPI(apidoc.API{
		Title: "gpuwhy", Description: introduction, Version: s.cfg.Monitor.Version, License: "Apache-2.0",
		Base: s.cfg.BasePath, Tags: tags,
		Problem: problem{}, OtherProblem: otherProblem,
		ProblemExample: func(status int, detail string) json.RawMessage { return problemJSON(status, gpu.Advice{What: detail}) },
	}, routes)
	return doc, append(faults, apidoc.Faults(routes)...)
}
