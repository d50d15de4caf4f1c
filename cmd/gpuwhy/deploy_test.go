//go:build !race

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// top is the repository's root.
const top = "../.."

func readTop(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Instructions for running gpuwhy name only settings that exist.
func TestDeploymentsNameSettingsThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	flag := regexp.MustCompile(`--[a-z][a-z-]*`)
	variable := regexp.MustCompile(`GPUWHY_[A-Z_]+`)
	for _, leaf := range grammar().Leaves(false) {
		for _, flag := range leaf.Flags {
			known["--"+flag.Name] = true
			for _, name := range flag.Envs {
				known[name] = true
			}
		}
	}
	known["--help"], known["--version"], known[tokenVariable] = true, true, true
	if !known["--listen"] || !known["GPUWHY_LISTEN"] {
		t.Fatalf("no setting is known: %v", known)
	}
	// Of docker, apt, git, useradd, helm, NATS and the like.
	for name := range strings.FieldsSeq(`--abbrev --always --build --build-arg --cap-add --cap-drop --check --dirty --device --format --gid --gpus --group-add --home-dir --from --name --now --no-create-home
		--no-healthcheck --pid --platform --read-only --restart --retries --security-opt --shell --source --start-period --system --tags --timeout --uid --user --offline --set-xauthrequest --reverse-proxy
		--create-namespace --from-file --namespace --set --bg --oidc --cookie-jar --data-urlencode --pass-user-headers --upstream --gpu-reset --ignore-missing --uninstall --purge GPUWHY_FROM GPUWHY_PACKAGE GPUWHY_KEY GPUWHY_EVENTS GPUWHY_PAST GPUWHY_OIDC`) {
		known[name] = true
	}
	for _, name := range []string{
		"Dockerfile", "README.md", "docs/commands.md", "docs/terminal.md", "docs/troubleshooting.md", "docs/deploy.md", "docs/past.md", "docs/fleet.md", "docs/access.md", "docs/security.md", "docs/install.md", "deploy/compose.yaml", "deploy/compose.fleet.yaml", "deploy/compose.agent.yaml", "deploy/compose.agentless.yaml", "deploy/gpuwhy.service", "deploy/gpuwhy-agent.service",
		"deploy/nginx/gpuwhy.conf", "deploy/nginx/gpuwhy-below.conf", "deploy/nginx/gpuwhy-signed-in.conf",
	} {
		text := readTop(t, name)
		for _, used := range append(flag.FindAllString(text, -1), variable.FindAllString(text, -1)...) {
			if !known[strings.TrimRight(used, "_-")] {
				t.Errorf("%s names %s, which gpuwhy does not have", name, used)
			}
		}
	}
}

// composeFile is everything that the compose files may have: an unknown key is an error.
type composeFile struct {
	Services map[string]composeService
	Volumes  map[string]any
}

type composeService struct {
	Build       struct{ Context string }
	Image       string
	Command     []string
	Restart     string
	PID         string `yaml:"pid"`
	Ports       []string
	Environment map[string]string
	Volumes     []string
	Deploy      struct {
		Resources struct {
			Limits       struct{ Memory string }
			Reservations struct {
				Devices []struct {
					Driver, Count string
					Capabilities  []string
				}
			}
		}
	}
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
}

// composeValue matches a variable in a compose file, with its default or with the reason why it must be set.
var composeValue = regexp.MustCompile(`\$\{([A-Z_]+)(:[-?])([^}]*)\}`)

// The services of all compose files have no more rights than they need, and start with their settings.
func TestComposeFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(top, "deploy/compose*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			var file composeFile
			decoder := yaml.NewDecoder(strings.NewReader(readTop(t, "deploy/"+filepath.Base(name))))
			decoder.KnownFields(true)
			if err := decoder.Decode(&file); err != nil {
				t.Fatal(err)
			}
			if len(file.Services) != 1 {
				t.Errorf("it has %d services", len(file.Services))
			}
			for _, service := range file.Services {
				service.check(t, file.Volumes)
			}
		})
	}
}

func (service *composeService) check(t *testing.T, volumes map[string]any) {
	t.Helper()
	kind, reads := "serve", true
	if len(service.Command) > 0 {
		kind, reads = service.Command[0], service.Command[0] == "agent"
	}
	if gpus := service.Deploy.Resources.Reservations.Devices; reads != (len(gpus) == 1 && gpus[0].Driver == "nvidia" && gpus[0].Count == "all" && gpus[0].Capabilities[0] == "gpu") {
		t.Errorf("GPUs of gpuwhy %s: %+v", kind, gpus)
	}
	if reads != (service.PID == "host") {
		t.Errorf("pid is %q", service.PID)
	}
	limits := map[string]string{"512M": "400MiB", "1G": "800MiB"}
	if limit := limits[service.Deploy.Resources.Limits.Memory]; limit == "" || service.Environment["GOMEMLIMIT"] != limit {
		t.Errorf("its memory has the limits %+v and %q", service.Deploy.Resources.Limits, service.Environment["GOMEMLIMIT"])
	}
	if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Equal(service.SecurityOpt, []string{"no-new-privileges:true"}) {
		t.Errorf("read_only %v, cap_drop %v, security_opt %v", service.ReadOnly, service.CapDrop, service.SecurityOpt)
	}
	for _, port := range service.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") && service.Environment["GPUWHY_SIGN_IN"] != "true" {
			t.Errorf("the port %s is published on more than loopback, and nobody signs in", port)
		}
	}
	for _, volume := range service.Volumes {
		name, _, _ := strings.Cut(volume, ":")
		if _, ok := volumes[name]; !ok && !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "./") {
			t.Errorf("the volume %s is not declared", name)
		}
	}

	// What is a file in the container.
	given := map[string]string{
		"GPUWHY_CLUSTERS":          "clusters: [{id: lab, url: 'https://127.0.0.1:1', token_file: " + rulesFile(t, "token") + "}]",
		"GPUWHY_FLEET_CREDENTIALS": "alice:secret",
	}
	env := []string{"HOSTNAME="}
	for name, value := range service.Environment {
		value = composeValue.ReplaceAllStringFunc(value, func(text string) string {
			parts := composeValue.FindStringSubmatch(text)
			if parts[2] == ":-" {
				return parts[3]
			}
			return map[string]string{"GPUWHY_FLEET": "tls://127.0.0.1:4222", "GPUWHY_FLEET_HOST": "gpu-1.example.org", "HOSTNAME": "gpu-2"}[parts[1]]
		})
		if text, is := given[name]; is {
			value = rulesFile(t, text)
		}
		if name == "GPUWHY_STATE_DIR" {
			value = t.TempDir()
		}
		env = append(env, name+"="+value)
	}
	if kind != "serve" {
		if r := command(t, env, "check-config"); r.code != exitOK {
			t.Errorf("check-config: %+v", r)
		}
		return
	}
	// Its settings start a gpuwhy whose health can be asked for from inside.
	if listen := service.Environment["GPUWHY_LISTEN"]; listen != "0.0.0.0:8003" {
		t.Errorf("inside of the container it listens on %s", listen)
	}
	p := start(t, env, "--listen=127.0.0.1:0", "--source=simulate:dgx-h100")
	p.dial().next("gpu_status_update", nil)
	address := strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/")
	if r := command(t, append(env, "GPUWHY_LISTEN="+address), "healthcheck"); r.code != exitOK || r.stdout != "ready\n" {
		t.Errorf("healthcheck: %+v", r)
	}
}

// The image is built from the files that .dockerignore lets through: it has everything
// that the program imports and embeds.
func TestDockerContextIsEnoughToBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for line := range strings.Lines(readTop(t, ".dockerignore")) {
		name, let := strings.CutPrefix(strings.TrimSpace(line), "!")
		if !let {
			continue
		}
		if err := filepath.WalkDir(filepath.Join(top, name), func(path string, entry os.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path == filepath.Join(top, "cmd/gpuwhy-gallery/testdata"):
				return filepath.SkipDir
			case entry.IsDir() || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			target := filepath.Join(dir, strings.TrimPrefix(path, top))
			if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
				return err
			}
			return os.WriteFile(target, content, 0o600)
		}); err != nil {
			t.Fatal(err)
		}
	}
	var says bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if .Error}}{{.Error}}{{end}}", "./cmd/gpuwhy")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &says, &says
	if err := cmd.Run(); err != nil || strings.TrimSpace(says.String()) != "" {
		t.Errorf("%v\n%s", err, says.String())
	}
}

// systemd itself reads the units.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpuwhy.service", "gpuwhy-agent.service"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); systemdUnit(t, name) })
	}
}

func systemdUnit(t *testing.T, name string) {
	text := readTop(t, "deploy/"+name)
	unit := filepath.Join(t.TempDir(), name)
	here := strings.ReplaceAll(text, "=/usr/bin/gpuwhy ", "="+binary+" ")
	if !strings.Contains(here, "\nExecStart="+binary+" ") {
		t.Fatal("it starts another program")
	}
	if err := os.WriteFile(unit, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// In tenths, of ten: what the unit leaves open that systemd knows how to close.
	const exposure = "20"
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold="+exposure, "--no-pager", unit).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
	if !strings.Contains(text, "\nMemoryMax=512M\n") || !strings.Contains(text, "\nEnvironment=GOMEMLIMIT=400MiB\n") {
		t.Error("its memory has no limits")
	}
	// What would hide processes, the host's figures or the driver's nodes.
	for line := range strings.SplitSeq(text, "\n") {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "DeviceAllow", "DevicePolicy", "ProtectClock", "PrivateUsers", "PrivateNetwork":
			t.Errorf("the unit sets %s", line)
		case "ProcSubset":
			if value != "all" {
				t.Errorf("the unit sets %s", line)
			}
		case "ProtectProc":
			if value != "default" {
				t.Errorf("the unit sets %s", line)
			}
		}
	}
}
