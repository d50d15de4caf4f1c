package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/export"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// The settings are groups of flags, each with its own check. A command embeds the groups that it needs, and takes only their flags.
//
// A flag wins over its environment variable (GPUWHY_ and the flag's name in capitals, GPUWHY_ALERT_UTILIZATION), which wins over the file
// (the flag's name as a YAML key), which wins over the default. Variables and keys of other commands are ignored, since one
// file serves all. A group is declared next to the code that uses it, such as the fleet's, or else here. The tag "group" says where the help and docs/settings.md list a flag, the tag "docs" which page explains it.

// helpGroups are the groups in the order of the help and docs/settings.md. Flags without a group come first.
var helpGroups = []kong.Group{
	{Key: "reading", Title: "Reading:"},
	{Key: "serving", Title: "Serving:"},
	{Key: "access", Title: "Access:"},
	{Key: "past", Title: "The past:"},
	{Key: "alerts", Title: "Alerts:"},
	{Key: "fleet", Title: "Fleet:"},
	{Key: "export", Title: "Export:"},
}

// commonFlags are the flags of every command that has settings.
type commonFlags struct {
	File      configFile `name:"config" placeholder:"FILE" help:"Read settings from this YAML file; its keys are the flags' names."`
	LogFormat string     `default:"text" enum:"text,json" help:"text or json."`
	LogLevel  string     `default:"info" enum:"debug,info,warn,error" help:"debug, info, warn or error."`
}

func (f *commonFlags) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.LogLevel)) // the flag is one of its names
	options := &slog.HandlerOptions{Level: level}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// brief returns a log without what is only news to somebody who runs gpuwhy for long, such as which drivers this machine does not have.
func (f *commonFlags) brief(w io.Writer) *slog.Logger {
	common := *f
	if common.LogLevel == "info" {
		common.LogLevel = "warn"
	}
	return common.logger(w)
}

// clusterFlags say which cluster this machine belongs to.
type clusterFlags struct {
	Cluster string `group:"fleet" placeholder:"NAME" help:"The cluster that this machine belongs to. Machines of different clusters may share a name."`
}

// nameFlags say which machine this is.
type nameFlags struct {
	Node string `group:"reading" help:"This machine's name; its host name by default."`
	clusterFlags

	hostname string // this machine's; empty where it has none
}

// name returns the program's name.
func (f *nameFlags) name() string { return cmp.Or(f.Node, f.hostname) }

// notAddressable is the error of a name that can't be used in a URL.
const notAddressable = "choose another name: this one means something else in URLs"

func (f *nameFlags) check() (err error) {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if err := refuse(
		rule{len(f.Node) > 253 || strings.ContainsFunc(f.Node, control), "node", f.Node, "must be a name of at most 253 characters"},
		rule{!insight.Addressable(f.Node), "node", f.Node, notAddressable},
	); err != nil {
		return err
	}
	if f.hostname, err = os.Hostname(); err != nil && f.Node == "" {
		return fmt.Errorf("this machine has no host name: name it with --node: %w", err)
	}
	return f.clusterFlags.check()
}

// sourceFlags say where readings come from, and so whether the state is about a real machine.
type sourceFlags struct {
	Source []string `group:"reading" default:"auto" placeholder:"SOURCE" words:"@sources" help:"Where readings come from: auto for every GPU of this machine; some of nvml, nvidia-smi, amd and intel, separated by commas; simulate:PROFILE (rtx-4090, dgx-h100, fleet:N); or replay:DIR for a capture." docs:"captures.md"`
}

func (f *sourceFlags) check() error {
	wrong := f.wrong()
	return refuse(rule{wrong != "", "source", strings.Join(f.Source, ","), wrong})
}

// paceFlags say how often the machine is read. Answers about the past depend on it too.
type paceFlags struct {
	Interval     time.Duration `group:"reading" default:"5s" help:"Time between readings, 250ms to 1h."`
	IdleInterval time.Duration `group:"reading" placeholder:"DURATION" help:"Time between readings while nobody is looking: no page is open, and no program asks. From --interval to 1m; by default always --interval." docs:"performance.md#while-nobody-looks"`
}

func (f *paceFlags) check() error {
	return refuse(
		rule{f.Interval < 250*time.Millisecond || f.Interval > time.Hour, "interval", f.Interval, "must be from 250ms to 1h"},
		rule{
			f.IdleInterval != 0 && f.Interval > time.Minute, "idle-interval", f.IdleInterval,
			"can't be used with an --interval of more than 1m: it must be from --interval to 1m",
		},
		rule{f.IdleInterval != 0 && (f.IdleInterval < f.Interval || f.IdleInterval > time.Minute), "idle-interval", f.IdleInterval, "must be from --interval to 1m"},
	)
}

// deadlineFlags say how long a device may take to answer.
type deadlineFlags struct {
	Deadline time.Duration `group:"reading" default:"2s" help:"How long a device may take to answer before it counts as slow. After twice that time, it counts as not answering." docs:"reliability.md"`
}

func (f *deadlineFlags) check() error {
	return refuse(rule{f.Deadline < 100*time.Millisecond || f.Deadline > time.Minute, "deadline", f.Deadline, "must be from 100ms to 1m"})
}

// deviceFlags say how devices are read.
type deviceFlags struct {
	NVMLLibrary    string `group:"reading" name:"nvml-library" placeholder:"PATH" help:"NVIDIA's management library, in place of the libnvidia-ml.so.1 that the loader finds."`
	NvidiaSMI      string `group:"reading" name:"nvidia-smi" placeholder:"PATH" help:"NVIDIA's program nvidia-smi, in place of the one in PATH. gpuwhy uses it if the library can't be loaded."`
	SysfsRoot      string `group:"reading" default:"${sysfs}" placeholder:"DIR" help:"Where the machine's sysfs is, if not /sys. AMD and Intel GPUs are read there, and sleeping cards are found there."`
	ProcRoot       string `group:"reading" default:"${procfs}" placeholder:"DIR" help:"Where the machine's procfs is, if not /proc. The processes on AMD and Intel GPUs are found there."`
	KernelLog      string `group:"reading" default:"${kmsg}" placeholder:"FILE" help:"The kernel log, where GPU drivers report errors." docs:"errors.md"`
	PCIeThroughput bool   `group:"reading" name:"pcie-throughput" help:"Measure PCIe traffic on GPUs whose hardware does not count it (before Hopper), at most every 10 s. Takes 40 ms of the driver's time for each GPU." docs:"performance.md#traffic-over-pcie"`
}

func (f *deviceFlags) check(source *sourceFlags) error {
	live, useless := source.live(), "has no effect with --source "+strings.Join(source.Source, ",")
	return refuse(
		rule{f.KernelLog == "" && isLinux, "kernel-log", f.KernelLog, "give a file, such as /dev/kmsg"},
		rule{!live && f.NVMLLibrary != "", "nvml-library", f.NVMLLibrary, useless},
		rule{!live && f.NvidiaSMI != "", "nvidia-smi", f.NvidiaSMI, useless},
		rule{!live && f.PCIeThroughput, "pcie-throughput", true, useless},
	)
}

// privacyFlags say what is shown about other people's processes, now and in the past.
type privacyFlags struct {
	ShowCommands string `group:"reading" default:"names" enum:"names,own,all,none" help:"Whose command lines are shown: names (gpuwhy's own user in full, everyone else's only by program or script), own, all or none. Arguments that look like secrets are masked."`
}

// readingFlags are the flags of commands that read the machine themselves.
type readingFlags struct {
	commonFlags
	paceFlags
	sourceFlags
	deviceFlags
	deadlineFlags
	nameFlags
	privacyFlags
}

func (f *readingFlags) check() error {
	return first(f.nameFlags.check, f.paceFlags.check, f.deadlineFlags.check, f.sourceFlags.check, func() error { return f.deviceFlags.check(&f.sourceFlags) })
}

// addressFlags say where gpuwhy is served.
type addressFlags struct {
	Listen   string `group:"serving" placeholder:"${listen}" help:"Address to serve on, ${listen} by default, or a Unix socket: unix:PATH. With port 0, gpuwhy picks a free port and prints it."`
	BasePath string `group:"serving" default:"/" help:"Path under which everything is served, for use behind a proxy."`
}

// defaultListen is the default address of the dashboard.
const defaultListen = "127.0.0.1:8003"

// address is where to serve.
func (f *addressFlags) address() string { return cmp.Or(f.Listen, defaultListen) }

// url returns where programs on this machine reach a gpuwhy with these settings.
func (f *addressFlags) url() string { return ownURL(f.address(), f.BasePath) }

// longestSocket is how long the path of a Unix socket may be: systems allow 104 to 108 bytes, and it has a longer name while it is made.
const longestSocket = 90

var plainPath = regexp.MustCompile(`^[A-Za-z0-9._~/-]*$`)

// check makes the base path begin and end with a slash.
func (f *addressFlags) check() error {
	socket, unix := serve.UnixSocket(f.address())
	host, port, noAddress := net.SplitHostPort(f.address())
	_, noPort := strconv.ParseUint(port, 10, 16)
	if unix {
		host, noAddress, noPort = "", nil, nil
	}
	err := refuse(
		rule{unix && (!filepath.IsAbs(socket) || strings.Contains(socket, ":")), "listen", f.Listen, "the path of a socket must begin with a slash, and have no colon, such as unix:/run/gpuwhy/page"},
		rule{unix && len(socket) > longestSocket, "listen", f.Listen, fmt.Sprintf("the path of a socket may have at most %d characters", longestSocket)},
		rule{noAddress != nil, "listen", f.Listen, "give an address and a port, such as 127.0.0.1:8003"},
		rule{noPort != nil, "listen", f.Listen, "the port must be a number from 0 to 65535"},
		rule{strings.ContainsAny(host, "/@"), "listen", f.Listen, "give an address and a port, not a URL"},
		rule{!strings.HasPrefix(f.BasePath, "/"), "base-path", f.BasePath, "must begin with a slash"},
		rule{!plainPath.MatchString(f.BasePath), "base-path", f.BasePath, "may only have letters, digits and -._~/, such as /gpuwhy/"},
	)
	if f.BasePath = path.Clean(f.BasePath); f.BasePath != "/" {
		f.BasePath += "/"
	}
	return err
}

// servingFlags say how gpuwhy is served, and to whom.
type servingFlags struct {
	addressFlags
	AllowOrigin []string `group:"serving" placeholder:"ORIGIN" help:"Web origin, such as https://example.org, whose pages may connect; repeatable."`
	AllowEmbed  []string `group:"serving" placeholder:"ORIGIN" help:"Web origin, such as https://wiki.example.org, whose pages may embed a GPU's card, /embed/gpu/UUID, in a frame, and /picture.svg as an image; repeatable." docs:"deploy.md#a-card-in-another-page"`
	AllowHost   []string `group:"serving" placeholder:"HOST" help:"Host name under which clients may reach gpuwhy, besides loopback and the listen address; repeatable."`
	MaxViewers  int      `group:"serving" default:"1000" help:"Maximum number of WebSocket connections."`

	MaxViewersPerAddress int      `group:"serving" placeholder:"N" help:"Maximum number of WebSocket connections from one address, or from one /64 of IPv6. By default 256, and unlimited from this machine."`
	TrustedProxy         []string `group:"serving" placeholder:"CIDR" help:"Address or network of a proxy, such as 10.0.0.0/8, that names its clients in X-Forwarded-For; repeatable, or separated by commas." docs:"deploy.md#who-the-clients-of-a-proxy-are"`
	ProxyUser            []string `group:"serving" placeholder:"USER" help:"User of this machine that such a proxy runs as. Over loopback and a Unix socket, only the word of these users is then taken, whatever --trusted-proxy names; repeatable." docs:"access.md#a-proxy-on-the-same-machine"`

	origins auth.Origins  // of AllowOrigin
	frames  auth.Frames   // of AllowEmbed
	proxies serve.Proxies // of TrustedProxy and ProxyUser
	hosts   []string      // of AllowHost, as requests have them
}

func (f *servingFlags) check() (err error) {
	if err := first(f.addressFlags.check, func() error {
		return refuse(
			rule{f.MaxViewers < 1 || f.MaxViewers > 100_000, "max-viewers", f.MaxViewers, "must be from 1 to 100000"},
			rule{
				f.MaxViewersPerAddress < 0 || f.MaxViewersPerAddress > 100_000,
				"max-viewers-per-address", f.MaxViewersPerAddress, "must be from 1 to 100000, or 0 for the default",
			},
		)
	}); err != nil {
		return err
	}
	if f.hosts, err = serve.ParseHosts(f.AllowHost); err != nil {
		return err
	}
	if f.origins, err = auth.ParseOrigins(f.AllowOrigin); err != nil {
		return fmt.Errorf("--allow-origin: %w", err)
	}
	if f.frames, err = auth.ParseFrames(f.AllowEmbed); err != nil {
		return fmt.Errorf("--allow-embed: %w", err)
	}
	if f.proxies, err = serve.ParseProxies(f.TrustedProxy); err != nil || len(f.ProxyUser) == 0 {
		return err
	}
	users := make([]peer.UID, len(f.ProxyUser))
	for i, name := range f.ProxyUser {
		if users[i], err = uidOf(name); err != nil {
			return bad("proxy-user", name, "this machine has no such user")
		}
	}
	f.proxies.Here = access.ProxyUsers(users)
	return nil
}

// uidOf finds a user of this machine by name or number.
func uidOf(name string) (peer.UID, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return peer.UID(n), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	return peer.UID(n), err
}

// stateFlags say where state is kept.
type stateFlags struct {
	StateDir string `group:"past" placeholder:"DIR" help:"State directory, for the past, what gpuwhy learned about each GPU, alerts and silences; none keeps nothing. By default $STATE_DIRECTORY, or $XDG_STATE_HOME/gpuwhy, or ~/.local/state/gpuwhy; for a simulation or a capture, none." docs:"past.md"`

	// ownStateDir says that the state directory is the default one; notKept is why it can't be used.
	ownStateDir bool
	notKept     error
}

// check chooses the default folder for a live machine if none is given.
func (f *stateFlags) check(live bool) error {
	if f.StateDir == "" && live {
		f.ownStateDir = true
		f.StateDir, f.notKept = defaultStateDir()
	}
	if strings.EqualFold(f.StateDir, nowhere) {
		f.StateDir = ""
	}
	return nil
}

// historyFlags say where the past is kept.
type historyFlags struct {
	History string `group:"past" default:"sqlite" placeholder:"WHERE" words:"sqlite,off" help:"Where the past is kept: sqlite for a file in --state-dir; postgres://USER@HOST/DATABASE, with the password in PGPASSWORD or in the file named by PGPASSFILE; or off." docs:"past.md#on-a-server"`
}

// keptFlags say where this machine's past is kept.
type keptFlags struct {
	nameFlags
	stateFlags
	historyFlags
}

func (f *keptFlags) check(live bool) error {
	return first(f.nameFlags.check, f.historyFlags.check, func() error { return f.stateFlags.check(live) })
}

// priceFlags say what the past cost.
type priceFlags struct {
	ElectricityPrice float64 `group:"past" placeholder:"PRICE" help:"Price of a kilowatt-hour, to show what the past cost."`
}

func (f *priceFlags) check() error {
	return refuse(rule{!(f.ElectricityPrice >= 0 && f.ElectricityPrice < 1e6), "electricity-price", f.ElectricityPrice, "must be 0 or more"})
}

// askingFlags are the flags of commands that ask about the past, or read it themselves.
type askingFlags struct {
	commonFlags
	clientFlags
	keptFlags
	retentionFlags
	priceFlags
	sourceFlags
	paceFlags
	privacyFlags
}

func (f *askingFlags) check() error {
	return first(f.clientFlags.check, f.paceFlags.check, f.priceFlags.check, f.sourceFlags.check, f.retentionFlags.check,
		func() error { return f.keptFlags.check(f.live()) })
}

// databaseFlags are the flags of commands about the database itself.
type databaseFlags struct {
	commonFlags
	keptFlags
	sourceFlags
}

func (f *databaseFlags) check() error {
	return first(f.sourceFlags.check, func() error { return f.keptFlags.check(f.live()) })
}

// alertFlags say when alerts fire, and where they are sent.
type alertFlags struct {
	AlertUtilization float64 `group:"alerts" default:"50" help:"Utilization in percent above which high_gpu_usage_alert fires."`
	AlertRules       string  `group:"alerts" placeholder:"FILE" help:"Alert rules, as YAML; read again on SIGHUP. 'gpuwhy check-config --schema' prints the schema." docs:"alerts.md"`
}

func (f *alertFlags) check() error {
	return refuse(rule{
		!(f.AlertUtilization >= 0 && f.AlertUtilization < 100), // also refuses NaN
		"alert-utilization", f.AlertUtilization, "must be 0 or more and less than 100",
	})
}

// exportFlags say under which names series are exported, and where they are sent.
type exportFlags struct {
	MetricsFamilies []string `group:"export" placeholder:"FAMILY" words:"gpuwhy,dcgm" help:"Families of metric names on /metrics: gpuwhy, dcgm; both by default." docs:"metrics.md"`

	OpenMetrics bool `group:"export" help:"Let everyone read /metrics who reaches --listen. By default that takes a token, where people sign in." docs:"access.md#tokens"`

	RemoteWrite            []string `group:"export" placeholder:"URL" help:"Where to send all series with Prometheus remote write, such as https://prometheus.example.org/api/v1/write; repeatable." docs:"metrics.md#sending-them-elsewhere"`
	RemoteWriteCredentials string   `group:"export" placeholder:"FILE" help:"YAML file with username and password, bearer_token or headers for --remote-write."`
	OTLP                   []string `group:"export" name:"otlp" placeholder:"URL" help:"Where to send all series with OTLP over HTTP, such as http://collector:4318, also under OpenTelemetry's hardware metric names; repeatable." docs:"metrics.md#sending-them-elsewhere"`
	OTLPCredentials        string   `group:"export" name:"otlp-credentials" placeholder:"FILE" help:"YAML file for --otlp, with the same keys as --remote-write-credentials."`

	exports []export.Destination
}

func (f *exportFlags) check() (err error) {
	if f.exports, err = export.RemoteWrite(f.RemoteWrite, f.RemoteWriteCredentials); err != nil {
		return err
	}
	receivers, err := export.OTLP(f.OTLP, f.OTLPCredentials)
	f.exports = append(f.exports, receivers...)
	return err
}

// programFlags are the flags of a program that runs until it is stopped, and may serve a page.
type programFlags struct {
	commonFlags
	servingFlags
	tlsFlags
	accessFlags
	vouchingFlags
	paceFlags
	deadlineFlags
	keptFlags
	ledgerFlags
	auditFlags
	retentionFlags
	priceFlags
	privacyFlags
	alertFlags
	joiningFlags
	brokerFlags
	clusterFileFlags
	exportFlags
}

func (f *programFlags) check(live bool) error {
	vouching := func() error { return f.vouchingFlags.check(f.proxies, f.BasePath) }
	if err := first(f.servingFlags.check, f.accessFlags.check, vouching, f.paceFlags.check, f.deadlineFlags.check, f.alertFlags.check, f.priceFlags.check, f.retentionFlags.check, f.joiningFlags.check,
		f.brokerFlags.check, f.ledgerFlags.check, f.auditFlags.check, f.exportFlags.check, f.clusterFileFlags.check, func() error { return f.keptFlags.check(live) },
		func() error { return f.tlsFlags.check(f.StateDir) }); err != nil {
		return err
	}
	_, unix := serve.UnixSocket(f.address())
	return refuse(rule{unix && f.secure(), "listen", f.Listen, "nobody can read what passes through a Unix socket: leave out --tls-cert, --tls-self-signed and --acme-domain"},
		rule{f.FleetListen != "" && f.StateDir == "", "fleet-listen", f.FleetListen, "the fleet's server keeps keys and messages: name a folder for them with --state-dir"})
}

// serveFlags are all settings, including those of a program that reads this machine.
type serveFlags struct {
	programFlags
	sourceFlags
	deviceFlags
	labelFlags
	allowFlags
}

func (f *serveFlags) check() error {
	return first(f.sourceFlags.check, func() error { return f.deviceFlags.check(&f.sourceFlags) }, f.labelFlags.check, f.allowFlags.check,
		func() error { return f.programFlags.check(f.live()) })
}

// first returns the first error of checks, and runs no more after it.
func first(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// bad returns an error about one setting.
func bad(flag, value, what string) error {
	return fmt.Errorf("--%s %q: %s", flag, value, what)
}

// A rule says what is wrong with a setting's value, if wrong is true.
type rule struct {
	wrong bool
	flag  string
	value any
	what  string
}

// refuse returns an error about the first wrong value.
func refuse(rules ...rule) error {
	for _, r := range rules {
		if r.wrong {
			return bad(r.flag, fmt.Sprint(r.value), r.what)
		}
	}
	return nil
}
