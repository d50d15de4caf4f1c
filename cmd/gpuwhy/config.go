package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/export"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/keep"
	"github.com/gpuwhy/gpuwhy/internal/scribe"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/internal/store"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
)

// Config is everything that can be set. A flag wins over its environment
// variable (GPUWHY_ and the flag's name in capitals, GPUWHY_ALERT_UTILIZATION),
// which wins over the file (the flag's name as a YAML key), which wins over the
// default.
type Config struct {
	File configFile `name:"config" placeholder:"FILE" help:"Read settings from this YAML file; its keys are the flags' names."`

	Listen         string        `placeholder:"${listen}" help:"Address to serve on, ${listen} by default. Port 0 takes a free one and prints it."`
	Interval       time.Duration `default:"5s" help:"Time between readings, 250ms to 1h."`
	IdleInterval   time.Duration `placeholder:"DURATION" help:"Time between readings while nobody looks: no page is open, and no program asks. From --interval to 1m; without it always --interval."`
	Source         []string      `default:"auto" placeholder:"SOURCE" help:"Where readings come from: auto for all that this machine has, or any of nvml, nvidia-smi, amd and intel, with commas; or simulate:PROFILE (rtx-4090, dgx-h100, fleet:N); or replay:DIR, a capture."`
	NVMLLibrary    string        `name:"nvml-library" placeholder:"PATH" help:"NVIDIA's management library, instead of the loader's own search for libnvidia-ml.so.1."`
	NvidiaSMI      string        `name:"nvidia-smi" placeholder:"PATH" help:"NVIDIA's program nvidia-smi, instead of the one in PATH. It is read where the library can't be loaded."`
	SysfsRoot      string        `default:"${sysfs}" placeholder:"DIR" help:"Where the machine's sysfs is, if not /sys: AMD and Intel GPUs are read there, and sleeping cards looked for."`
	ProcRoot       string        `default:"${procfs}" placeholder:"DIR" help:"Where the machine's procfs is, if not /proc: the processes of AMD and Intel GPUs are found there."`
	KernelLog      string        `default:"${kmsg}" placeholder:"FILE" help:"The kernel's log, which has errors of GPU drivers."`
	Deadline       time.Duration `default:"2s" help:"How long a device may take to answer before it counts as slow; after twice that it is not answering."`
	PCIeThroughput bool          `name:"pcie-throughput" help:"Measure traffic over PCIe on GPUs whose hardware does not count it (before Hopper): each 10 s at most, 40 ms of the driver's time for each GPU."`
	Node           string        `help:"This machine's name; the host name by default."`
	Clusters       string        `placeholder:"FILE" help:"Kubernetes clusters whose NVIDIA GPUs are read without an agent, as YAML; docs/fleet.md says what is in it."`

	AlertUtilization float64 `default:"50" help:"Utilization in percent above which high_gpu_usage_alert fires."`
	AlertRules       string  `placeholder:"FILE" help:"Rules of alerts, as YAML; read again on SIGHUP. 'gpuwhy check-config --schema' prints its schema."`

	BasePath    string   `default:"/" help:"Path under which everything is served, behind a proxy."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Web origin, such as https://example.org, whose pages may connect; repeatable."`
	AllowEmbed  []string `placeholder:"ORIGIN" help:"Web origin, such as https://wiki.example.org, whose pages may show the card of a GPU, /embed/gpu/UUID, in a frame, and /picture.svg as an image; repeatable."`
	AllowHost   []string `placeholder:"HOST" help:"Host name under which gpuwhy may be reached, beside loopback and the listen address; repeatable."`
	MaxViewers  int      `default:"1000" help:"WebSocket connections at most."`

	MaxViewersPerAddress int      `placeholder:"N" help:"WebSocket connections of one address at most, of IPv6 of one /64; 256 by default, and any number of this machine's own."`
	TrustedProxy         []string `placeholder:"CIDR" help:"Address or network of a proxy, such as 10.0.0.0/8, that says in X-Forwarded-For who its clients are; repeatable, or with commas."`

	MetricsFamilies []string `placeholder:"FAMILY" help:"Families of names on /metrics: gpuwhy, dcgm; both by default."`

	RemoteWrite            []string `placeholder:"URL" help:"Where to send all series by Prometheus remote write, such as https://prometheus.example.org/api/v1/write; repeatable."`
	RemoteWriteCredentials string   `placeholder:"FILE" help:"YAML file with username and password, bearer_token or headers for --remote-write."`
	OTLP                   []string `name:"otlp" placeholder:"URL" help:"Where to send all series by OTLP over HTTP, such as http://collector:4318, also under OpenTelemetry's names of hardware; repeatable."`
	OTLPCredentials        string   `name:"otlp-credentials" placeholder:"FILE" help:"The same file as --remote-write-credentials, for --otlp."`

	ShowCommands string `default:"names" enum:"names,own,all,none" help:"Whose command lines are shown: names (own ones, and of everybody the program's or script's name), own, all or none. Arguments that look like secrets are masked."`
	StateDir     string `placeholder:"DIR" help:"Where the past, what was learned of each GPU, alerts and silences are kept; none keeps nothing. By default $STATE_DIRECTORY, or $XDG_STATE_HOME/gpuwhy, or ~/.local/state/gpuwhy, and nothing of a simulation or a capture."`

	History          string  `default:"sqlite" placeholder:"WHERE" help:"Where the past is kept: sqlite, a file in --state-dir; postgres://USER@HOST/DATABASE, with the password in PGPASSWORD or in a file that PGPASSFILE names; or off."`
	HistoryRetention string  `default:"raw=48h,1m=30d,15m=2y" placeholder:"TIERS" help:"How long each reading, spans of a minute and spans of a quarter of an hour are kept."`
	ElectricityPrice float64 `placeholder:"PRICE" help:"The price of a kilowatt-hour, for what the past cost."`

	FleetURL         []string `name:"fleet" placeholder:"URL" help:"Where the NATS servers of the fleet are, such as tls://gpu-1.example.org:4222; repeatable, or with commas."`
	FleetCredentials string   `placeholder:"FILE" help:"Credentials for --fleet: a file that 'gpuwhy fleet join-command' made, a .creds file of NATS, or one with a token, user:password or an nkey seed. It may also have the certificate of the servers' CA."`
	FleetListen      string   `placeholder:"ADDRESS" help:"Be the NATS server of a fleet on this address, such as :4222, for machines that 'gpuwhy fleet join-command' lets join. Keys and messages are kept in --state-dir."`
	FleetHost        []string `placeholder:"NAME" help:"Name or address under which other machines reach --fleet-listen, if this machine does not know it itself; repeatable, or with commas."`
	Cluster          string   `placeholder:"NAME" help:"The cluster that this machine belongs to: machines of several clusters may have the same names."`
	Label            []string `placeholder:"KEY=VALUE" help:"A label of this machine in a fleet, such as rack=r12; repeatable, or with commas."`

	LogFormat string `default:"text" enum:"text,json" help:"text or json."`
	LogLevel  string `default:"info" enum:"debug,info,warn,error" help:"debug, info, warn or error."`

	origins  auth.Origins // of AllowOrigin
	frames   auth.Frames  // of AllowEmbed
	proxies  server.Proxies
	hosts    []string // of AllowHost, as requests have them
	hostname string   // this machine's; empty where it has none
	// ownStateDir says that nobody gave the state directory; notKept is why it can't be used.
	ownStateDir  bool
	notKept      error
	installation *keep.Installed // of the state directory, once it is taken; nil without one
	scribe       scribe.Scribe   // of the same
	fleetServer  broker.Server   // nil: this program is none
	retention    store.Retention
	fleet        []string          // of FleetURL, checked
	labels       map[string]string // of Label
	exports      []export.Destination
	clusters     *kube.File // of Clusters; nil without
}

// notAddressable is what is wrong with such a name.
const notAddressable = "must be another name: this stands in addresses for something else"

var plainPath = regexp.MustCompile(`^[A-Za-z0-9._~/-]*$`)

// check says what is wrong. Then the base path begins and ends with a slash.
func (c *Config) check() (err error) {
	host, port, noAddress := net.SplitHostPort(c.address())
	_, noPort := strconv.ParseUint(port, 10, 16)
	source := strings.Join(c.Source, ",")
	_, simulated := c.simulates()
	_, played := c.replays()
	notLive := simulated || played
	wrong := c.checkSource()
	ofNoUse := "is of no use with --source " + source
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	for _, check := range []struct {
		wrong bool
		flag  string
		value any
		what  string
	}{
		{noAddress != nil, "listen", c.Listen, "give an address and a port, such as 127.0.0.1:8003"},
		{noPort != nil, "listen", c.Listen, "the port must be a number from 0 to 65535"},
		{strings.ContainsAny(host, "/@"), "listen", c.Listen, "give an address and a port, not a URL"},
		{c.Interval < 250*time.Millisecond || c.Interval > time.Hour, "interval", c.Interval, "must be from 250ms to 1h"},
		{
			c.IdleInterval != 0 && c.Interval > time.Minute, "idle-interval", c.IdleInterval,
			"is of no use where --interval is more than 1m: it may be from --interval to 1m",
		},
		{c.IdleInterval != 0 && (c.IdleInterval < c.Interval || c.IdleInterval > time.Minute), "idle-interval", c.IdleInterval, "must be from --interval to 1m"},
		{c.KernelLog == "" && isLinux, "kernel-log", c.KernelLog, "give a file, such as /dev/kmsg"},
		{c.Deadline < 100*time.Millisecond || c.Deadline > time.Minute, "deadline", c.Deadline, "must be from 100ms to 1m"},
		{
			!(c.AlertUtilization >= 0 && c.AlertUtilization < 100), // also refuses NaN
			"alert-utilization", c.AlertUtilization, "must be 0 or more and less than 100",
		},
		{!(c.ElectricityPrice >= 0 && c.ElectricityPrice < 1e6), "electricity-price", c.ElectricityPrice, "must be 0 or more"},
		{c.MaxViewers < 1 || c.MaxViewers > 100_000, "max-viewers", c.MaxViewers, "must be from 1 to 100000"},
		{
			c.MaxViewersPerAddress < 0 || c.MaxViewersPerAddress > 100_000,
			"max-viewers-per-address", c.MaxViewersPerAddress, "must be from 1 to 100000, or 0 for the default",
		},
		{wrong != "", "source", source, wrong},
		{notLive && c.NVMLLibrary != "", "nvml-library", c.NVMLLibrary, ofNoUse},
		{notLive && c.NvidiaSMI != "", "nvidia-smi", c.NvidiaSMI, ofNoUse},
		{notLive && c.PCIeThroughput, "pcie-throughput", true, ofNoUse},
		{!strings.HasPrefix(c.BasePath, "/"), "base-path", c.BasePath, "must begin with a slash"},
		{!plainPath.MatchString(c.BasePath), "base-path", c.BasePath, "must have letters, digits and -._~/ alone, such as /gpuwhy/"},
		{len(c.Node) > 253 || strings.ContainsFunc(c.Node, control), "node", c.Node, "must be a name of at most 253 characters"},
		{!insight.Addressable(c.Node), "node", c.Node, notAddressable},
	} {
		if check.wrong {
			return bad(check.flag, fmt.Sprint(check.value), check.what)
		}
	}
	if c.BasePath = path.Clean(c.BasePath); c.BasePath != "/" {
		c.BasePath += "/"
	}
	if c.hosts, err = server.ParseHosts(c.AllowHost); err != nil {
		return err
	}
	if c.origins, err = auth.ParseOrigins(c.AllowOrigin); err != nil {
		return fmt.Errorf("--allow-origin: %w", err)
	}
	if c.frames, err = auth.ParseFrames(c.AllowEmbed); err != nil {
		return fmt.Errorf("--allow-embed: %w", err)
	}
	if c.proxies, err = server.ParseProxies(c.TrustedProxy); err != nil {
		return err
	}
	if err := c.checkHistory(); err != nil {
		return err
	}
	if err := c.checkFleet(); err != nil {
		return err
	}
	if c.exports, err = export.RemoteWrite(c.RemoteWrite, c.RemoteWriteCredentials); err != nil {
		return err
	}
	receivers, err := export.OTLP(c.OTLP, c.OTLPCredentials)
	if err != nil {
		return err
	}
	c.exports = append(c.exports, receivers...)
	if err := c.checkClusters(); err != nil {
		return err
	}
	if c.StateDir == "" && !notLive {
		c.ownStateDir = true
		c.StateDir, c.notKept = defaultStateDir()
	}
	if c.StateDir == nowhere {
		c.StateDir = ""
	}
	if c.FleetListen != "" && c.StateDir == "" {
		return bad("fleet-listen", c.FleetListen, "the server of a fleet keeps keys and messages: give --state-dir a folder")
	}
	if c.hostname, err = os.Hostname(); err != nil && c.Node == "" {
		return fmt.Errorf("this machine has no host name: give one with --node: %w", err)
	}
	return nil
}

// defaultListen is where the dashboard is, unless somebody says otherwise.
const defaultListen = "127.0.0.1:8003"

// address is where to serve.
func (c *Config) address() string { return cmp.Or(c.Listen, defaultListen) }

// bad is an error about one setting.
func bad(flag, value, what string) error {
	return fmt.Errorf("--%s %q: %s", flag, value, what)
}
