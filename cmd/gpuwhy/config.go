package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// Config is everything that can be set. A flag wins over its environment
// variable (GPUWHY_ and the flag's name in capitals, GPUWHY_ALERT_UTILIZATION),
// which wins over the file (the flag's name as a YAML key), which wins over the
// default.
type Config struct {
	File string `name:"config" placeholder:"FILE" help:"Read settings from this YAML file; its keys are the flags' names."`

	Listen         string        `default:"127.0.0.1:8003" help:"Address to serve on. Port 0 takes a free one and prints it."`
	Interval       time.Duration `default:"5s" help:"Time between readings, 250ms to 1h."`
	Source         string        `default:"auto" help:"Where readings come from: auto, nvml, or simulate:PROFILE (rtx-4090, dgx-h100, fleet:N)."`
	NVMLLibrary    string        `name:"nvml-library" placeholder:"PATH" help:"NVIDIA's management library, instead of the loader's own search for libnvidia-ml.so.1."`
	SysfsRoot      string        `default:"/sys" placeholder:"DIR" help:"Where the machine's sysfs is, if not /sys: sleeping cards are looked for there."`
	Deadline       time.Duration `default:"2s" help:"How long a device may take to answer before it counts as not answering."`
	PCIeThroughput bool          `name:"pcie-throughput" help:"Measure traffic over PCIe on GPUs whose hardware does not count it (before Hopper): each 10 s at most, 40 ms of the driver's time for each GPU."`
	Node           string        `help:"This machine's name; the host name by default."`

	AlertUtilization float64 `default:"50" help:"Utilization in percent above which high_gpu_usage_alert fires."`
	AlertRules       string  `placeholder:"FILE" help:"Rules of alerts, as YAML; read again on SIGHUP. 'gpuwhy check-config --schema' prints its schema."`

	BasePath    string   `default:"/" help:"Path under which everything is served, behind a proxy."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Web origin, such as https://example.org, whose pages may connect; repeatable."`
	AllowHost   []string `placeholder:"HOST" help:"Host name under which gpuwhy may be reached, beside loopback and the listen address; repeatable."`
	MaxViewers  int      `default:"1000" help:"WebSocket connections at most."`

	MetricsFamilies []string `placeholder:"FAMILY" help:"Families of names on /metrics: gpuwhy, dcgm; both by default."`

	ShowCommands string `default:"own" enum:"own,all,none" help:"Whose command lines are shown: own, all or none. Arguments that look like secrets are masked."`
	StateDir     string `placeholder:"DIR" help:"Where the last 15 minutes, what was learned of each GPU, alerts and silences are kept over a restart. By default nothing is kept."`

	LogFormat string `default:"text" enum:"text,json" help:"text or json."`
	LogLevel  string `default:"info" enum:"debug,info,warn,error" help:"debug, info, warn or error."`

	origins  auth.Origins // of AllowOrigin
	hostname string       // this machine's; empty where it has none
}

// The bounds of what can be set.
const (
	minInterval = 250 * time.Millisecond
	maxInterval = time.Hour
	minDeadline = 100 * time.Millisecond
	maxDeadline = time.Minute
	viewerLimit = 100_000
)

// check returns the errors in the whole configuration. It also makes the base path
// begin and end with a slash.
func (c *Config) check() error {
	for _, check := range []func() error{
		c.checkListen, c.checkTimes, c.checkAlert, c.checkSource, c.checkBasePath, c.checkAllowed, c.checkNode,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// bad is an error about one setting.
func bad(flag, value, what string) error {
	return fmt.Errorf("--%s %q: %s", flag, value, what)
}

func (c *Config) checkListen() error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return bad("listen", c.Listen, "give an address and a port, such as 127.0.0.1:8003")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return bad("listen", c.Listen, "the port must be a number from 0 to 65535")
	}
	if strings.ContainsAny(host, "/@") {
		return bad("listen", c.Listen, "give an address and a port, not a URL")
	}
	return nil
}

func (c *Config) checkTimes() error {
	if c.Interval < minInterval || c.Interval > maxInterval {
		return bad("interval", c.Interval.String(), "must be from 250ms to 1h")
	}
	if c.Deadline < minDeadline || c.Deadline > maxDeadline {
		return bad("deadline", c.Deadline.String(), "must be from 100ms to 1m")
	}
	return nil
}

func (c *Config) checkAlert() error {
	if !(c.AlertUtilization >= 0 && c.AlertUtilization < 100) { // also refuses NaN
		return bad("alert-utilization", fmt.Sprint(c.AlertUtilization), "must be 0 or more and less than 100")
	}
	if c.MaxViewers < 1 || c.MaxViewers > viewerLimit {
		return bad("max-viewers", fmt.Sprint(c.MaxViewers), "must be from 1 to 100000")
	}
	return nil
}

func (c *Config) checkSource() error {
	profile, simulated := strings.CutPrefix(c.Source, "simulate:")
	switch {
	case simulated:
		if _, err := sim.Nodes(profile, time.Now); err != nil {
			return bad("source", c.Source, err.Error())
		}
		if c.NVMLLibrary != "" {
			return bad("nvml-library", c.NVMLLibrary, "is of no use with --source "+c.Source)
		}
		if c.PCIeThroughput {
			return bad("pcie-throughput", "true", "is of no use with --source "+c.Source)
		}
	case c.Source != "auto" && c.Source != gpu.SourceNVML:
		return bad("source", c.Source, "must be auto, nvml or simulate:PROFILE")
	}
	return nil
}

func (c *Config) checkBasePath() error {
	if !strings.HasPrefix(c.BasePath, "/") {
		return bad("base-path", c.BasePath, "must begin with a slash")
	}
	if strings.ContainsAny(c.BasePath, "?#%\"'<>\\ {}") {
		return bad("base-path", c.BasePath, "must be a plain path, such as /gpuwhy/")
	}
	if c.BasePath = path.Clean(c.BasePath); c.BasePath != "/" {
		c.BasePath += "/"
	}
	return nil
}

// checkAllowed reads the origins; the server knows about hosts, and is built
// before anything starts.
func (c *Config) checkAllowed() (err error) {
	if c.origins, err = auth.ParseOrigins(c.AllowOrigin); err != nil {
		return fmt.Errorf("--allow-origin: %w", err)
	}
	return nil
}

// prepareStateDir makes sure that gpuwhy can write to the state directory.
func (c *Config) prepareStateDir() error {
	if c.StateDir == "" {
		return nil
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return bad("state-dir", c.StateDir, err.Error())
	}
	probe, err := os.CreateTemp(c.StateDir, ".probe-*")
	if err != nil {
		return bad("state-dir", c.StateDir, "can't be written to: "+err.Error())
	}
	probe.Close()
	return os.Remove(probe.Name())
}

func (c *Config) checkNode() error {
	name, err := os.Hostname()
	if err != nil && c.Node == "" {
		return fmt.Errorf("this machine has no host name: give one with --node: %w", err)
	}
	c.hostname = name
	if len(c.Node) > 253 || strings.ContainsFunc(c.Node, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return bad("node", c.Node, "must be a name of at most 253 characters")
	}
	return nil
}

func (c *Config) level() slog.Level {
	names := []string{"debug", "info", "warn", "error"}
	return slog.LevelDebug + slog.Level(4*slices.Index(names, c.LogLevel))
}
