package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/talk"
	"github.com/gpuwhy/gpuwhy/internal/fleet/uplink"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/state"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// fleetPort is the port of NATS servers.
const fleetPort = "4222"

// Limits of names, clusters and labels.
const (
	longestCluster = 128
	longestNode    = 253
	longestLabel   = 253
	mostLabels     = 64
)

var (
	labelKey  = lazy.Pattern(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)
	fleetName = lazy.Pattern(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,252})$`)
)

func (f *clusterFlags) check() error {
	if f.Cluster != "" && (len(f.Cluster) > longestCluster || strings.Contains(f.Cluster, ":") || broker.CheckName(f.Cluster) != nil) {
		return bad("cluster", f.Cluster, fmt.Sprintf("must be a name of at most %d bytes, without a colon", longestCluster))
	}
	return nil
}

// joiningFlags say which fleet a program belongs to.
type joiningFlags struct {
	FleetURL         []string `group:"fleet" name:"fleet" placeholder:"URL" help:"A NATS server of the fleet, such as tls://gpu-1.example.org:4222; repeatable, or separated by commas." docs:"fleet.md"`
	FleetCredentials string   `group:"fleet" placeholder:"FILE" help:"Credentials for --fleet: a file made by 'gpuwhy fleet join-command', a NATS .creds file, or a file with a token, user:password or nkey seed. It may also hold the certificate of the servers' CA."`

	fleet []string // of FleetURL, checked
}

func (f *joiningFlags) check() (err error) {
	if len(f.FleetURL) > 0 {
		f.fleet, err = bus.ParseURLs(f.FleetURL)
		return err
	}
	if f.FleetCredentials != "" {
		return bad("fleet-credentials", f.FleetCredentials, "has no effect without --fleet")
	}
	return nil
}

// brokerFlags make a program a fleet's server.
type brokerFlags struct {
	FleetListen string   `group:"fleet" placeholder:"ADDRESS" help:"Run the fleet's NATS server on this address, such as :4222. Machines join it with 'gpuwhy fleet join-command'. It keeps keys and messages in --state-dir." docs:"fleet.md#joining"`
	FleetHost   []string `group:"fleet" placeholder:"NAME" help:"Name or address at which other machines reach --fleet-listen, if this machine doesn't know it; repeatable, or separated by commas."`
}

func (f *brokerFlags) check() error {
	if f.FleetListen != "" {
		host, port, err := net.SplitHostPort(f.FleetListen)
		if err != nil || strings.ContainsAny(host, "/@") {
			return bad("fleet-listen", f.FleetListen, "give an address and a port, such as :4222")
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return bad("fleet-listen", f.FleetListen, "the port must be a number from 0 to 65535")
		}
	}
	for _, host := range f.FleetHost {
		if net.ParseIP(host) == nil && !fleetName().MatchString(host) {
			return bad("fleet-host", host, "give a name or an address, without a port")
		}
	}
	return nil
}

// labelFlags say what this machine tells others about itself.
type labelFlags struct {
	Label []string `group:"fleet" placeholder:"KEY=VALUE" help:"A label of this machine in a fleet, such as rack=r12; repeatable, or separated by commas."`

	labels map[string]string
}

func (f *labelFlags) check() error {
	if len(f.Label) > mostLabels {
		return bad("label", f.Label[mostLabels], fmt.Sprintf("a machine has at most %d labels", mostLabels))
	}
	f.labels = make(map[string]string, len(f.Label))
	for _, label := range f.Label {
		key, value, ok := strings.Cut(label, "=")
		switch _, twice := f.labels[key]; {
		case !ok || !labelKey().MatchString(key):
			return bad("label", label, "give a label such as rack=r12; a key may only have letters, digits and ._/-")
		case len(value) > longestLabel || value != "" && broker.CheckName(value) != nil:
			return bad("label", label, fmt.Sprintf("the value may have at most %d bytes, all printable", longestLabel))
		case twice:
			return bad("label", label, "the machine already has a label with this key")
		}
		f.labels[key] = value
	}
	return nil
}

// allowFlags say what hubs may ask for about this machine.
type allowFlags struct {
	FleetAllow []string `group:"fleet" placeholder:"WHAT" help:"What hubs may ask of this machine at most, whoever asks there: 'operate' (to read, and to acknowledge and silence alerts; the default) or 'read' for all hubs; NAME, or NAME=read, for one. Once a hub is named, others may ask nothing without a word for all. Repeatable, or separated by commas." docs:"fleet.md#what-a-hub-may-ask"`

	allow uplink.Allow
}

func (f *allowFlags) check() (err error) {
	if f.allow, err = uplink.ParseAllow(f.FleetAllow); err != nil {
		return fmt.Errorf("--fleet-allow: %w", err)
	}
	return nil
}

// hubKeyFile has the key with which a hub signs what it asks.
const hubKeyFile = "hub-key.json"

// signer returns what signs this hub's questions. Its key is in the state directory; without one it is made of the credentials, and
// without those it is new with each start, so nodes take it for another hub.
func (d *daemon) signer(credentials string, log *slog.Logger) (*talk.Signer, error) {
	name, key := bus.Identity(credentials)
	s := &talk.Signer{Name: cmp.Or(name, d.name()), Key: key}
	if d.installation == nil {
		if s.Key == nil {
			s.Name += " " + rand.Text()[:8]
			_, s.Key, _ = ed25519.GenerateKey(nil) // never fails
			log.Info("machines will take this hub for another one after its next start", "try", "give it a --state-dir, or credentials of 'gpuwhy fleet join-command --hub'")
		}
		return s, nil
	}
	var kept struct {
		Seed []byte `json:"seed"`
	}
	text, err := d.installation.Shelf.Read(hubKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		_, s.Key, _ = ed25519.GenerateKey(nil)
		kept.Seed = s.Key.Seed()
		if text, err = json.Marshal(kept); err == nil {
			err = d.installation.Shelf.Write(hubKeyFile, append(text, '\n'))
		}
		if err != nil {
			log.Warn("the key of this hub could not be kept: machines may take it for another hub after its next start", "err", err)
		}
		return s, nil
	}
	if err == nil {
		if err = json.Unmarshal(text, &kept); err == nil && len(kept.Seed) != ed25519.SeedSize {
			err = state.ErrDamaged
		}
	}
	if err != nil {
		return nil, &gpu.Advice{
			What: "the key of this hub in " + hubKeyFile + " in the state directory can't be read",
			Try:  "restore the file from a backup; if you delete it, remove this hub's entry from hubs.json on each machine", Err: err,
		}
	}
	s.Key = ed25519.NewKeyFromSeed(kept.Seed)
	return s, nil
}

// fleetCommand manages the members of a fleet.
type fleetCommand struct {
	JoinCommand fleetJoin   `cmd:"" help:"Print a command line to run on a machine so that it joins. Keep the line secret."`
	Remove      fleetRemove `cmd:"" help:"Revoke the credentials of a machine, hub or recorder. It is cut off within seconds."`
	List        fleetList   `cmd:"" help:"List the members of the fleet: since when each may join, and which were removed."`
}

// fleetDir returns the folder of the fleet's keys.
func (f *stateFlags) fleetDir() (string, error) {
	if f.StateDir == "" {
		return "", &gpu.Advice{What: "the fleet's keys are kept in a state directory, and none is given", Try: "name the state directory of the fleet's server with --state-dir"}
	}
	return filepath.Join(f.StateDir, broker.Dir), nil
}

// fleetAuthority opens the existing authority.
func (f *stateFlags) fleetAuthority() (*broker.Authority, error) {
	dir, err := f.fleetDir()
	switch {
	case err != nil:
		return nil, err
	case !broker.Exists(dir):
		return nil, &gpu.Advice{What: fmt.Sprintf("%s has no fleet keys", dir), Try: "name the state directory of the fleet's server with --state-dir, or start a fleet with 'gpuwhy fleet join-command'"}
	}
	return broker.OpenAuthority(dir)
}

type fleetJoin struct {
	Node        string `arg:"" help:"Name of the machine, hub or recorder."`
	Host        string `placeholder:"NAME" help:"Name or address at which the machine reaches the fleet's server; the server's certificate must have it. By default the first --fleet-host, or this machine's host name."`
	Hub         bool   `xor:"kind" help:"Let a hub join; it shows the fleet."`
	Recorder    bool   `xor:"kind" help:"Let a recorder join; it stores the fleet's past."`
	AccountSeed string `placeholder:"FILE" help:"Sign with this account seed, for existing NATS servers, which --fleet names."`
	Account     string `placeholder:"KEY" help:"Public key of the account, if the seed belongs to a signing key."`
	commonFlags
	stateFlags
	clusterFlags
	joiningFlags
	brokerFlags
	historyFlags
}

func (c *fleetJoin) check() error {
	return first(c.clusterFlags.check, c.joiningFlags.check, c.brokerFlags.check, c.historyFlags.check, func() error { return c.stateFlags.check(true) })
}

// Run prints a line for the shell of another machine.
func (c fleetJoin) Run(env *environment) error {
	kind, program, key := broker.Node, "agent", insight.Key(c.Cluster, c.Node)
	switch {
	case c.Hub:
		kind, program, key = broker.Hub, "hub", c.Node
	case c.Recorder:
		kind, program, key = broker.Recorder, "record", c.Node
	}
	switch {
	case len(c.Node) > longestNode || broker.CheckName(c.Node) != nil:
		return usageError{fmt.Errorf("%.300q: a name must have 1 to %d bytes, all printable", c.Node, longestNode)}
	case !insight.Addressable(c.Node):
		return usageError{fmt.Errorf("%q: %s", c.Node, notAddressable)}
	case strings.Contains(c.Node, ":"):
		return usageError{fmt.Errorf("%q: a name can't have a colon, which separates it from its cluster: give the cluster with --cluster", c.Node)}
	}
	urls, err := c.servers(env)
	if err != nil {
		return err
	}
	text, err := c.credentials(env, kind, key)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, joinLine(program, kind, urls, text, c.Node, c.Cluster, c.History))
	return err
}

// servers returns the URLs that the machine must use.
func (c fleetJoin) servers(env *environment) ([]string, error) {
	switch {
	case len(c.fleet) > 0 && c.Host != "":
		return nil, usageError{fmt.Errorf("--host has no effect with --fleet, which names the servers")}
	case len(c.fleet) > 0 && c.AccountSeed != "":
		return c.fleet, nil
	case c.AccountSeed != "":
		return nil, usageError{fmt.Errorf("--account-seed is for existing servers: name them with --fleet")}
	case c.Host != "" && net.ParseIP(c.Host) == nil && !fleetName().MatchString(c.Host):
		return nil, usageError{fmt.Errorf("--host %q: give a name or an address, without a port", c.Host)}
	}
	dir, err := c.fleetDir()
	if err != nil {
		return nil, err
	}
	if !broker.Exists(dir) && c.ownStateDir {
		return nil, &gpu.Advice{
			What: fmt.Sprintf("no fleet server has its keys in %s, the default folder", dir),
			Try: "run this as the server's user or as root, and name the server's folder with --state-dir; or, to start a fleet, run 'gpuwhy serve --fleet-listen :" +
				fleetPort + "' first",
		}
	}
	info, err := broker.InfoOf(env.ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(c.fleet) > 0 {
		return c.fleet, certified(info, c.fleet)
	}
	host, port := cmp.Or(c.Host, append(slices.Clone(c.FleetHost), ownHost())[0]), fleetPort
	if c.FleetListen != "" {
		_, port, _ = net.SplitHostPort(c.FleetListen) // checked
	}
	if info != nil {
		if host, port, err = c.asServed(env, info); err != nil {
			return nil, err
		}
	}
	if host == "" || port == "0" {
		return nil, usageError{fmt.Errorf("gpuwhy does not know where machines reach the server: give --host, and --fleet-listen with a port")}
	}
	return []string{"tls://" + net.JoinHostPort(host, port)}, nil
}

// asServed returns where machines reach a server that reports where it listens and which names its certificate has.
func (c fleetJoin) asServed(env *environment, info *broker.Info) (host, port string, err error) {
	_, given, _ := net.SplitHostPort(c.FleetListen) // checked, or none is given
	port = info.Port()
	switch {
	case info.Answers && given != "" && given != "0" && given != port:
		return "", "", &gpu.Advice{
			What: fmt.Sprintf("the fleet's server listens on port %s, but --fleet-listen says %s", port, given),
			Try:  "leave out --fleet-listen; if machines reach the server on another port, give --fleet tls://NAME:PORT",
		}
	case !info.Answers:
		if given != "" && given != "0" {
			port = given
		}
		fmt.Fprintf(env.stderr, "gpuwhy: the fleet's server is not running; the line uses port %s\n", port)
	}
	candidates := slices.Concat([]string{c.Host}, c.FleetHost, info.Hosts, []string{ownHost()})
	if candidates = slices.DeleteFunc(candidates, func(name string) bool { return name == "" }); len(candidates) == 0 {
		return "", port, nil
	}
	host = candidates[0]
	if !info.Answers && slices.Contains(c.FleetHost, host) { // its next certificate may have it
		return host, port, nil
	}
	return host, port, certified(info, []string{"tls://" + net.JoinHostPort(host, port)})
}

// certified returns an error for a host of URLs that the server's certificate lacks. If nothing is known about the server, it returns nil.
func certified(info *broker.Info, urls []string) error {
	for _, address := range urls {
		u, err := url.Parse(address)
		if err != nil || info == nil || info.Certified(u.Hostname()) {
			continue
		}
		return &gpu.Advice{
			What: fmt.Sprintf("the certificate of the fleet's server is not for %q, only for %s", u.Hostname(), strings.Join(info.Names, ", ")),
			Try:  "use one of these names, or start the server with --fleet-host " + u.Hostname(),
		}
	}
	return nil
}

// largestSeed is how large a seed file may be, in bytes.
const largestSeed = 4 << 10

func (c fleetJoin) credentials(env *environment, kind broker.Kind, key string) (text string, err error) {
	if c.AccountSeed != "" {
		seed, err := regular.Read(c.AccountSeed, largestSeed)
		if err != nil {
			return "", usageError{fmt.Errorf("--account-seed: %w", err)}
		}
		text, public, err := broker.Sign(seed, c.Account, kind, key)
		if err == nil {
			fmt.Fprintf(env.stderr, "gpuwhy: to remove it, ask the NATS administrator to revoke the user %s\n", public)
		}
		return text, err
	}
	dir, err := c.fleetDir()
	if err != nil {
		return "", err
	}
	if !broker.Exists(dir) {
		fmt.Fprintf(env.stderr, "gpuwhy: a new fleet starts in %s; run its server with 'gpuwhy serve --fleet-listen :%s' and that --state-dir\n", term.Printable(dir), fleetPort)
	}
	authority, err := broker.OpenAuthority(dir)
	if err != nil {
		return "", err
	}
	return authority.Join(kind, key)
}

// joinLine returns a shell line that writes the credentials to a file that others can't read, and starts the program.
func joinLine(program string, kind broker.Kind, urls []string, credentials, node, cluster, history string) string {
	file := `"$HOME"/.config/gpuwhy/` + map[broker.Kind]string{broker.Node: "fleet.creds", broker.Hub: "hub.creds", broker.Recorder: "recorder.creds"}[kind]
	line := `(umask 077 && mkdir -p "$HOME"/.config/gpuwhy && rm -f ` + file + ` && printf %s ` + base64.StdEncoding.EncodeToString([]byte(credentials)) +
		` | base64 -d > ` + file + `) && gpuwhy ` + program + ` --fleet=` + quoted(strings.Join(urls, ",")) + ` --fleet-credentials=` + file
	switch kind {
	case broker.Node:
		line += " --node=" + quoted(node)
		if cluster != "" {
			line += " --cluster=" + quoted(cluster)
		}
	case broker.Recorder:
		if !strings.HasPrefix(history, "postgres") {
			history = "postgres://USER@HOST/DATABASE"
		}
		line += " --history=" + quoted(history)
	}
	return line
}

// ownHost returns this machine's name; empty if it has none.
func ownHost() string {
	name, _ := os.Hostname() // without one the caller looks elsewhere
	return name
}

// quoted returns a text as one word for a shell. The text must have no control characters.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

type fleetRemove struct {
	Node string `arg:"" help:"The name, as 'gpuwhy fleet list' prints it; or only the part after the cluster, with --cluster."`
	commonFlags
	stateFlags
	clusterFlags
}

func (c *fleetRemove) check() error {
	return first(c.clusterFlags.check, func() error { return c.stateFlags.check(true) })
}

// Run revokes credentials.
func (c fleetRemove) Run(env *environment) error {
	authority, err := c.fleetAuthority()
	if err != nil {
		return err
	}
	name := insight.Key(c.Cluster, c.Node)
	if err := authority.Remove(name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "%s can no longer join the fleet.\n", term.Printable(name))
	return err
}

type fleetList struct {
	JSON bool `name:"json" help:"Print JSON."`
	commonFlags
	stateFlags
}

func (c *fleetList) check() error { return c.stateFlags.check(true) }

// Run lists who may join.
func (c fleetList) Run(env *environment) error {
	authority, err := c.fleetAuthority()
	if err != nil {
		return err
	}
	members, err := authority.Members()
	if err != nil {
		return err
	}
	if c.JSON {
		return term.JSON(env.stdout, members)
	}
	w := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tSINCE\tREMOVED")
	for _, m := range members {
		removed := ""
		if !m.Removed.IsZero() {
			removed = m.Removed.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", term.Printable(m.Name), m.Kind, m.Issued.Local().Format(time.DateTime), removed)
	}
	return w.Flush()
}
