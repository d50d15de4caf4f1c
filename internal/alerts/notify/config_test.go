package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
)

func load(t *testing.T, text string) Config {
	t.Helper()
	c := Defaults()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfig(t *testing.T) {
	c := load(t, `
group_wait: 0s
public_url: https://gpus.example.org/why/
targets:
  - {name: ops, url_env: SLACK, severity: warning, title: "{{.Severity}}: {{len .Events}}", message: "{{range .Events}}{{.Message}}{{end}}"}
  - {name: disk, url_file: /run/secrets/ntfy}
  - {name: hook, url: "generic://127.0.0.1:9000/gpus?disabletls=yes&template=json"}
  - {name: mail, url: "smtp://relay.example.org:25/?from=gpus@example.org&to=ops@example.org"}
`)
	if _, err := c.templates(); err != nil {
		t.Fatal(err)
	}
	if c.GroupWait != 0 || c.GroupInterval != Defaults().GroupInterval {
		t.Errorf("times are %v and %v", c.GroupWait, c.GroupInterval)
	}
}

// hostile is a secret that is put into every place.
const hostile = "s3cr3t-0123456789-t0ken"

func TestConfigRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, field string }{
		{"no name", `targets: [{url_env: A}]`, "targets[0].name"},
		{"secret as name", `targets: [{name: "https://` + hostile + `", url_env: A}]`, "targets[0].name"},
		{"two of a name", `targets: [{name: a, url_env: A}, {name: a, url_env: B}]`, "targets[1].name"},
		{"no address", `targets: [{name: a}]`, "targets[0].url"},
		{"two addresses", `targets: [{name: a, url_env: A, url_file: /b}]`, "targets[0].url"},
		{"slack in the file", `targets: [{name: a, url: "slack://hook:` + hostile + `@webhook"}]`, "targets[0].url"},
		{"webhook elsewhere", `targets: [{name: a, url: "generic://example.org/` + hostile + `"}]`, "targets[0].url"},
		{"header", `targets: [{name: a, url: "generic://127.0.0.1/x?@authorization=` + hostile + `"}]`, "targets[0].url"},
		{"password", `targets: [{name: a, url: "smtp://u:` + hostile + `@relay/?from=a@b&to=c@d"}]`, "targets[0].url"},
		{"topic elsewhere", `targets: [{name: a, url: "ntfy://ntfy.sh/` + hostile + `"}]`, "targets[0].url"},
		{"unknown service", `targets: [{name: a, url: "` + hostile + `://x"}]`, "targets[0].url"},
		{"the log", `targets: [{name: a, url: "logger://"}]`, "targets[0].url"},
		{"no address at all", `targets: [{name: a, url: "generic://%zz` + hostile + `"}]`, "targets[0].url"},
		{"address as variable", `targets: [{name: a, url_env: "slack://` + hostile + `"}]`, "targets[0].url_env"},
		{"address as file", `targets: [{name: a, url_file: "slack://` + hostile + `"}]`, "targets[0].url_file"},
		{"severity", `targets: [{name: a, url_env: A, severity: ` + hostile + `}]`, "targets[0].severity"},
		{"no template", `targets: [{name: a, url_env: A, title: "{{"}]`, "targets[0].title"},
		{"unknown field", `targets: [{name: a, url_env: A, message: "{{.Secret}}"}]`, "targets[0].message"},
		{"goes on", `targets: [{name: a, url_env: A, message: "{{range 1000000000}}{{end}}"}]`, "targets[0].message"},
		{"calls itself", `targets: [{name: a, url_env: A, message: '{{define "x"}}{{template "x"}}{{end}}{{template "x"}}'}]`, "targets[0].message"},
		{"wait", `group_wait: 1h`, "group_wait"},
		{"negative wait", `group_wait: -1s`, "group_wait"},
		{"interval", `group_interval: 0s`, "group_interval"},
		{"link with user", `public_url: "https://u:` + hostile + `@example.org/"`, "public_url"},
		{"link with query", `public_url: "https://example.org/?t=` + hostile + `"`, "public_url"},
		{"no link", `public_url: "` + hostile + `"`, "public_url"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := load(t, test.text)
			_, err := c.templates()
			e, ok := errors.AsType[*alert.Invalid](err)
			if !ok || e.Field != test.field {
				t.Fatalf("Check says %v, want it to be about %s", err, test.field)
			}
			if strings.Contains(err.Error(), hostile) {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	slack := "slack://hook:T00000000-B00000000-abcdefghijklmnopqrstuvwx@webhook"
	t.Setenv("NOTIFY_TEST_GOOD", slack)
	t.Setenv("NOTIFY_TEST_BAD", "slack://"+hostile)
	t.Setenv("NOTIFY_TEST_EMPTY", "")
	for _, test := range []struct {
		name   string
		target Target
		field  string // where it is wrong; empty: nowhere
	}{
		{"environment", Target{URLEnv: "NOTIFY_TEST_GOOD"}, ""},
		{"file", Target{URLFile: write("good", slack+"\n")}, ""},
		{"in place", Target{URL: "generic://127.0.0.1:1/?disabletls=yes"}, ""},
		{"no such variable", Target{URLEnv: "NOTIFY_TEST_NONE"}, "url_env"},
		{"empty variable", Target{URLEnv: "NOTIFY_TEST_EMPTY"}, "url_env"},
		{"variable that is not a valid address", Target{URLEnv: "NOTIFY_TEST_BAD"}, "url_env"},
		{"no such file", Target{URLFile: filepath.Join(dir, hostile)}, "url_file"},
		{"empty file", Target{URLFile: write("empty", "\n")}, "url_file"},
		{"folder", Target{URLFile: dir}, "url_file"},
		{"two lines", Target{URLFile: write("two", slack+"\n"+hostile)}, "url_file"},
		{"huge", Target{URLFile: write("huge", "generic://127.0.0.1/"+strings.Repeat(hostile, 1000))}, "url_file"},
		{"unknown", Target{URLFile: write("unknown", hostile+"://x")}, "url_file"},
		{"telegram token", Target{URLFile: write("telegram", "telegram://"+hostile+"@telegram?chats=1")}, "url_file"},
		{"discord", Target{URLFile: write("discord", "discord://"+hostile)}, "url_file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.target.Name = "a"
			c := Defaults()
			c.Targets = []Target{{Name: "first", URL: "generic://localhost/"}, test.target}
			if _, err := c.templates(); err != nil {
				t.Fatal(err)
			}
			err := c.Resolve()
			if test.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e, ok := errors.AsType[*alert.Invalid](err)
			if !ok || e.Field != "targets[1]."+test.field {
				t.Fatalf("Resolve says %v, want it to be about %s", err, test.field)
			}
			if strings.Contains(err.Error(), hostile) {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

func TestSecretHides(t *testing.T) {
	s := Secret("slack://" + hostile)
	holder := struct{ URL Secret }{s}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "url", s, "holder", holder)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "url", s, "holder", holder)
	inJSON, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	inYAML, err := yaml.Marshal(Config{Targets: []Target{{URL: s}}})
	if err != nil {
		t.Fatal(err)
	}
	printed := fmt.Sprint(s, holder, &holder) + fmt.Sprintf("%v %+v %#v %s %q %x %X %d", s, holder, holder, s, s, s, s, s)
	for _, text := range []string{log.String(), string(inJSON), string(inYAML), printed} {
		if strings.Contains(text, hostile) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", hostile)) {
			t.Errorf("the secret is in %s", text)
		}
	}
}
