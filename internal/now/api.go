package now

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// Routes implements part.Server.
func (s *Site) Routes() []serve.Route {
	return slices.Concat(s.pages(), s.liveRoutes(), s.olderRoutes(), s.ownRoutes())
}

// liveRoutes are those of the live dashboard.
func (s *Site) liveRoutes() []serve.Route {
	return []serve.Route{
		serve.Read("/api/gpu/summary", s.summary, contract.ClientLive, "getSummary", "Get totals and the reason",
			apidoc.Text("Cheap enough to poll. Without a GPU, available is false and reason says what was tried and what to do."),
			serve.OK("The totals.", contract.Summary{}, "summary")),
		serve.Read("/api/gpu/metrics", s.update, contract.ClientLive, "getSnapshot", "Get the newest snapshot",
			apidoc.Text("All readings and processes: byte for byte what gpu_status_update carries."),
			apidoc.InQuery("node", "Only this machine, if there are several.", "workstation"),
			serve.OK("The snapshot. Without a GPU, available is false and gpus is empty.", contract.Update{}, "update"),
			serve.UnknownNode, serve.BadQuery, serve.NotReadYet),
		serve.Read("/api/machines", s.machines, contract.ClientLive, "listMachines", "List the machines, worst first",
			apidoc.Text("The machines in the order of the page: those that somebody should look at come first."),
			serve.OK("One entry per machine.", contract.Machines{}, "machines")),
		serve.Read("/api/gpu/metrics/{id}", serve.Each(s.Kit, contract.NewOneGPU), contract.ClientLive, "getDevice", "Get one GPU of the newest snapshot", oneGPU),
		serve.Read("/api/gpu/recent", s.minutes, contract.ClientLive, "getRecent", "Get the last 15 minutes",
			apidoc.Text("What charts start with: at most 300 points per series, all at the same times."),
			apidoc.InQuery("gpu", "Only this GPU, by index or UUID. May be repeated.", "0").Repeated(),
			serve.OK("One entry per GPU.", contract.Recent{}, "recent"), serve.AmbiguousDevice, serve.UnknownDevice, serve.BadDeviceQuery),

		serve.Read("/api/gpu/why", s.why, contract.ClientLive, "getWhy", "Explain why the fans run",
			apidoc.Text("The answer in one sentence, and every cause with its evidence, how certain it is and what would stop it."),
			serve.Either("The answer; without a GPU it says what was tried. With from or to: what happened in that time; as CSV, its chapters. The other parameters need from.", contract.Why{}, contract.PastWhy{}, "why"),
			s.Past.WhyParts()).Strict(),
		serve.Read("/api/gpu/why/{id}", serve.Each(s.Kit, contract.NewOneWhy), contract.ClientLive, "getWhyOfOne", "Explain why one GPU's fan runs",
			serve.OK("The answer about the GPU.", contract.OneWhy{}, "why_0"), serve.OneDevice),

		serve.Read("/picture.svg", s.picture, contract.ClientLive, "getPicture", "Get the answer as a picture",
			apidoc.Text("Who worked, the power drawn and the temperature over the last 15 minutes, in 1200 by 630 pixels, ready to share. The picture names the machine and the time, and says if the data is not real."),
			apidoc.InQuery("gpu", "The GPU to show, by index or UUID. Default: the GPU that the answer is about, or all of many.", "0"),
			apidoc.InQuery("theme", "light or dark. Default: light.", "dark"),
			apidoc.InQuery("token", "An API token for this address alone, where the address is shown to people who don't sign in.", "gpw_…"),
			serve.Typed(typeSVG, "The picture."), serve.AmbiguousDevice, serve.UnknownDevice, serve.Refused("A parameter is invalid.", errTheme), serve.NotReadYet),
	}
}

var oneGPU = apidoc.Parts{serve.OK("The GPU. A lost or unresponsive GPU has null readings.", contract.OneGPU{}, "gpu_metrics_0"), serve.OneDevice}

// olderRoutes are those of the resource agent and of the GPU manager.
func (s *Site) olderRoutes() []serve.Route {
	return []serve.Route{
		serve.Read("/gpu/info", s.Kit.OnceRead(serve.Derived(s.Kit, contract.NewGPUInfo)),
			contract.ClientAgent, "getInfo", "Check for GPUs", serve.OK("The number of GPUs.", contract.GPUInfo{}, "gpu_info"), serve.NothingToRead),
		serve.Read("/gpu/metrics", s.metrics, contract.ClientAgent, "getMetrics", "Get all GPUs of the machine",
			serve.OK("The GPUs and their totals.", contract.GPUMetrics{}, "gpu_metrics"), serve.NothingToRead),
		serve.Read("/gpu/metrics/{id}", serve.Each(s.Kit, contract.NewOneGPU), contract.ClientAgent, "getMetricsOfOne", "Get one GPU of the machine", oneGPU),

		serve.Read("/api/gpu/devices", serve.Derived(s.Kit, contract.NewDevices),
			contract.ClientManager, "listDevices", "List devices in short form",
			serve.OK("The devices. A failing device says so and has null readings.", contract.Devices{}, "devices")),
		serve.Read("/api/gpu/driver", serve.Derived(s.Kit, contract.NewDriverInfo),
			contract.ClientManager, "getDriver", "Get driver, CUDA and library versions",
			serve.OK("The versions; null if no driver answers.", contract.DriverInfo{}, "driver")),
	}
}

// ownRoutes say how the program does.
func (s *Site) ownRoutes() []serve.Route {
	read := func(path string, h serve.Handler, id, summary string, parts ...apidoc.Part) serve.Route {
		return serve.Read(path, h, contract.ClientHealth, id, summary, parts...).ProgramOnly()
	}
	parts := serve.Fresh("The parts.", contract.MonitorHealth{}, "health")
	metrics := serve.Read("/metrics", serve.Plain(s.scrape(s.Metrics)), contract.ClientPrometheus, "getPrometheus", "Get metrics for Prometheus",
		apidoc.Text("Text format, or OpenMetrics if Accept asks for it. The guide lists all names, at /guide/metrics."), apidoc.Fresh{},
		serve.Typed("text/plain", "The metrics."), serve.Typed("application/openmetrics-text", "")).ProgramOnly()
	metrics.Needs = auth.Metrics
	if s.OpenMetrics {
		metrics = metrics.Open()
	}
	const nameless = "Without sign-in, the answer has all members and no names: those of machines and the texts of errors are empty or null."
	return []serve.Route{
		read("/health", s.probe, "getHealth", "Check that gpuwhy answers", apidoc.Text(nameless), serve.Fresh("It answers.", contract.Probe{}, "probe")).Open(),
		read("/health/live", s.probe, "getLiveness", "Liveness probe", serve.Fresh("It is alive.", contract.Probe{}, "probe")).Open(),
		read("/health/ready", s.Kit.OnceRead(s.probe), "getReadiness", "Readiness probe",
			serve.Fresh("There is a reading, or gpuwhy knows that none is possible.", contract.Probe{}, "probe"), serve.NotReadYet).Open(),
		read("/health/detailed", s.health, "getDetailedHealth", "Get the state of each part of gpuwhy", parts),
		read("/api/health", s.health, "getMonitorHealth", "The same, at the live dashboard's address", apidoc.Text(nameless), parts).Open(),
		metrics,
	}
}

// scrape lets those who have not signed in read the metrics of all machines, where these are open.
func (s *Site) scrape(metrics http.Handler) http.Handler {
	if !s.OpenMetrics {
		return metrics
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !auth.FromRequest(r).May(auth.Metrics) {
			r = r.WithContext(auth.NewContext(r.Context(), &auth.Principal{Access: auth.Metrics, Audience: auth.Everything}))
		}
		metrics.ServeHTTP(w, r)
	})
}

// why answers why the fans run, or ran if the request names a time.
func (s *Site) why(w http.ResponseWriter, r *http.Request) error {
	values, err := serve.ParseQuery(r)
	if err != nil {
		return err
	}
	if values.Has("from") || values.Has("to") {
		return s.Past.Why(w, r)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		return serve.Refuse(http.StatusBadRequest, name+" applies only to the past here", "add from, or ask about one GPU at /api/gpu/why/0")
	}
	return serve.Derived(s.Kit, contract.NewWhy)(w, r)
}

// metrics answers with every device, if there is one.
func (s *Site) metrics(w http.ResponseWriter, r *http.Request) error {
	a := s.Kit.Answers(r)
	if err := s.Kit.Readable(a.Fleet); err != nil {
		return err
	}
	return a.ServeUntilNext(w, r, nil, func() any { return contract.NewGPUMetrics(a.Monitor(), a.Fleet) })
}

// update answers with the newest snapshot; that of one node in the bytes that the socket sends.
func (s *Site) update(w http.ResponseWriter, r *http.Request) error {
	query, err := serve.ParseQuery(r)
	if err != nil {
		return err
	}
	if name := query.Get("node"); name != "" {
		if r, err = s.Kit.About(r, name); err != nil {
			return err
		}
	}
	a := s.Kit.Answers(r)
	return a.Serve(w, r, nil, func() any {
		if nodes := a.Fleet.Nodes(); len(nodes) == 1 {
			// There may be a newer one by now, and newer answers then. It does no harm here.
			if encoded := s.Kit.Hub.Update(nodes[0].Node, auth.FromRequest(r).Audience); encoded != nil {
				return json.RawMessage(encoded)
			}
		}
		return contract.NewFleetUpdate(a.Named(), a.Fleet)
	})
}

// summary is made again when the number of alerts changes, shortly after a snapshot.
func (s *Site) summary(w http.ResponseWriter, r *http.Request) error {
	a, alerts := s.Kit.Answers(r), s.alerts(r.Context()).Firing(serve.Node(r))
	return a.Serve(w, r, alerts, func() any { return contract.NewSummary(a.Monitor(), a.Fleet, alerts) })
}

// machines lists the machines, and says on which of them whoever asks may act.
func (s *Site) machines(w http.ResponseWriter, r *http.Request) error {
	a, sight := s.Kit.Answers(r), auth.FromRequest(r).Sight()
	return a.Serve(w, r, sight, func() any {
		return contract.NewMachines(a.Fleet, func(m *insight.Moment) bool { return sight.MayOn(auth.Operate, m.Machine()) })
	})
}

// minutes answers with the recent past of all devices, or of those in the query.
func (s *Site) minutes(w http.ResponseWriter, r *http.Request) error {
	query, err := serve.ParseQuery(r)
	if err != nil {
		return err
	}
	a := s.Kit.Answers(r)
	if names := query["gpu"]; len(names) > 0 {
		return s.minutesOfSome(a.Fleet, names, w, r)
	}
	return a.Serve(w, r, s.Recent.Generation(), func() any {
		m := a.Monitor()
		var keep func(node, uuid string, _ int) bool
		if s.Kit.Monitor.Several && !m.Several {
			keep = func(node, _ string, _ int) bool { return node == m.Node }
		} else if !serve.SeesAll(r.Context()) {
			keep = func(node, _ string, _ int) bool { return s.Kit.Sees(r.Context(), node) }
		}
		return contract.NewRecent(m, a.Fleet, s.Recent.View(keep))
	})
}

func (s *Site) minutesOfSome(f *insight.Fleet, names []string, w http.ResponseWriter, r *http.Request) error {
	type key struct{ node, uuid string }
	wanted := make(map[key]bool, len(names))
	for _, name := range names {
		id, err := serve.ParseID(name)
		if err != nil {
			return err
		}
		if f == nil {
			continue // no device is known yet, nor any past
		}
		p, err := id.Find(f)
		if err != nil {
			return err
		}
		wanted[key{p.Device.Node, p.Device.UUID}] = true
	}
	view := s.Recent.View(func(node, uuid string, _ int) bool { return wanted[key{node, uuid}] })
	return serve.JSON(w, r, contract.NewRecent(s.Kit.MonitorFor(r.Context()).Of(f), f, view))
}

// probe is for who only asks whether there is an answer.
func (s *Site) probe(w http.ResponseWriter, r *http.Request) error {
	p := contract.NewProbe(s.Kit.MonitorFor(r.Context()), s.measured(r))
	if !auth.FromRequest(r).May(auth.Read) {
		p = p.Nameless()
	}
	return serve.FreshJSON(w, r, p)
}

// measured has the Moments whose health somebody is told of: those that they see, and all of them for strangers, who are told no names.
func (s *Site) measured(r *http.Request) *insight.Fleet {
	if auth.FromRequest(r).May(auth.Read) {
		return s.Kit.Fleet(r.Context())
	}
	return s.Kit.Hub.Newest()
}

// parts are those of the program as somebody may know them who asks.
func (s *Site) parts(r *http.Request) map[string]contract.Part {
	if who := auth.FromRequest(r); who.MayOnAll(auth.Administer) {
		return s.Parts()
	}
	return contract.Discreet(s.Parts())
}

func (s *Site) health(w http.ResponseWriter, r *http.Request) error {
	h := contract.NewMonitorHealth(s.Kit.MonitorFor(r.Context()), s.measured(r), s.parts(r), s.Kit.Uptime())
	if who := auth.FromRequest(r); !who.May(auth.Read) || !who.Audience.SeesAll() { // errors may name any machine
		h = h.Nameless()
	}
	return serve.FreshJSON(w, r, h)
}
