package rulefile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
)

// read is parse without the environment and other files: a target whose address
// is there has a good one. Resolve refuses a target with two before it reads any.
func read(text string) (*File, error) {
	return parse("alerts.yaml", []byte(text), alert.Defaults(), func(c *notify.Config) error {
		for i := range c.Targets {
			if t := &c.Targets[i]; t.URL == "" && (t.URLEnv == "") != (t.URLFile == "") {
				t.URL, t.URLEnv, t.URLFile = "generic://127.0.0.1/", "", ""
			}
		}
		return c.Resolve()
	})
}

// change is the defaults with one of them changed.
func change(name string, f func(*alert.Rule)) []alert.Rule {
	rules := alert.Defaults()
	i := slices.IndexFunc(rules, func(r alert.Rule) bool { return r.Name == name })
	f(&rules[i])
	return rules
}

func added(name string, w alert.Watch, f func(*alert.Rule)) []alert.Rule {
	r := alert.Default(name, w)
	f(&r)
	return append(alert.Defaults(), r)
}

func TestFiles(t *testing.T) {
	tests := map[string]struct {
		text string
		want []alert.Rule
	}{
		"nothing":       {"", alert.Defaults()},
		"only comments": {"# nothing yet\n", alert.Defaults()},
		"no rules":      {"rules: []", alert.Defaults()},
		"a default changes what it writes": {
			"rules:\n- name: high_gpu_usage\n  above: 80\n  repeat: 0s\n",
			change("high_gpu_usage", func(r *alert.Rule) { r.Threshold, r.Repeat = 80, 0 }),
		},
		"a default is switched on": {"rules: [{name: hot, enabled: true}]", change("hot", func(r *alert.Rule) { r.Enabled = true })},
		"zero is a value":          {"rules: [{name: too_hot, below: 0, margin: 0}]", change("too_hot", func(r *alert.Rule) { r.Threshold, r.Margin = 0, 0 })},
		"a rule of one's own": {
			"rules:\n- name: alice_busy\n  watch: utilization\n  above: 90\n  hold: 1h30m\n  severity: critical\n  scope: {users: [alice, bob*], gpus: [GPU-1]}\n  notify: [ops]\ntargets: [{name: ops, url_env: OPS}]\n",
			added("alice_busy", alert.Utilization, func(r *alert.Rule) {
				r.Threshold, r.Hold, r.Severity = 90, 90*time.Minute, alert.Critical
				r.Scope = alert.Scope{Users: []string{"alice", "bob*"}, GPUs: []string{"GPU-1"}}
				r.Targets = []string{"ops"}
			}),
		},
		"zero times": {
			"group_wait: 0\nrules:\n- {name: hot, hold: 0, clear: 0, cooldown: +0, repeat: -0}\n",
			change("hot", func(r *alert.Rule) { r.Hold, r.Clear, r.Cooldown, r.Repeat = 0, 0, 0, 0 }),
		},
		"a GPU by its index": {"rules: [{name: hot, scope: {gpus: [0, 12, '*4090*']}}]", change("hot", func(r *alert.Rule) { r.Scope.GPUs = []string{"0", "12", "*4090*"} })},
		"an alias of a time": {
			"group_wait: &wait 20s\nrules: [{name: hot, hold: *wait}]",
			change("hot", func(r *alert.Rule) { r.Hold = 20 * time.Second }),
		},
		"codes": {"rules: [{name: bus, watch: xid, codes: [79, 119]}]", added("bus", alert.XID, func(r *alert.Rule) { r.Codes = []int{79, 119} })},
		"an alias": {
			"rules:\n- name: a\n  watch: lost\n  scope: &where {nodes: [n1]}\n- name: memory_full\n  scope: *where\n",
			append(change("memory_full", func(r *alert.Rule) { r.Scope.Nodes = []string{"n1"} }), func() alert.Rule {
				r := alert.Default("a", alert.Lost)
				r.Scope.Nodes = []string{"n1"}
				return r
			}()),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := read(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Rules); diff != "" {
				t.Error(diff)
			}
			if err := bySchema(t, tt.text); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
		})
	}
}

// structural: the schema refuses it too.
const structural = true

func TestBadFiles(t *testing.T) {
	tests := []struct {
		name, text string
		structural bool
		want       string
	}{
		{"no YAML", "rules:\n\t- x", false, "line 2: invalid YAML: found character that cannot start any token"},
		{"two documents", "rules: []\n---\nrules: []", false, "line 1: the file has several YAML documents, and only one is allowed"},
		{"a list", "- a", structural, "line 1: must be a map of keys and values"},
		{"unknown key", "rule: []", structural, `line 1: unknown key "rule" (did you mean "rules"?); known keys: rules, targets, group_wait, group_interval, public_url`},
		{"unknown key of a rule", "rules:\n- name: hot\n  hodl: 3s\n", structural,
			`line 3: rules[0]: unknown key "hodl" (did you mean "hold"?); known keys: name, watch, above, below, margin, hold, clear, cooldown, repeat, severity, scope, codes, ignore_codes, enabled, notify`},
		{"unknown key of a scope", "rules:\n- name: hot\n  scope:\n    gpu: [a]\n", structural, `line 4: rules[0]: scope: unknown key "gpu" (did you mean "gpus"?); known keys: nodes, gpus, users, processes`},
		{"twice a key", "rules:\n- name: hot\n  above: 80\n  above: 90\n", false, "line 4: rules[0]: above: appears twice"},
		{"no value", "rules:\n- name: hot\n  above:\n", structural, "line 3: rules[0]: above: has no value: set one, or leave it out"},
		{"no name", "rules:\n- above: 3\n", structural, "line 2: rules[0]: name: every rule needs one"},
		{"a bad name", "rules:\n- name: a b\n  watch: lost\n", structural, `line 2: rules[0] (a b): name: "a b" must be letters, digits, '_' and '-', at most 64 of them`},
		{"twice a name", "rules:\n- name: hot\n- name: hot\n", false, "line 3: rules[1] (hot): name: line 2 already has a rule with that name"},
		{"no watch", "rules:\n- name: mine\n", false, "line 2: rules[0] (mine): watch: required, because no default rule has that name: one of " + list(alert.Watches())},
		{"unknown watch", "rules:\n- name: mine\n  watch: smell\n", structural, `line 3: rules[0] (mine): watch: "smell" is not something gpuwhy can watch; use one of ` + list(alert.Watches())},
		{"a misspelt watch", "rules:\n- name: mine\n  watch: temprature\n", structural, `line 3: rules[0] (mine): watch: "temprature" is not something gpuwhy can watch (did you mean "temperature"?); use one of ` + list(alert.Watches())},
		{"a misspelt target", "rules:\n- name: hot\n  notify: [op]\ntargets: [{name: ops, url_env: OPS}]\n", false, `line 3: rules[0] (hot): notify: no target is named "op" (did you mean "ops"?); targets: ops`},
		{"another watch", "rules:\n- name: hot\n  watch: fan\n", false, "line 3: rules[0] (hot): watch: the rule with that name watches temperature: leave this out, or choose another name"},
		{"a word for a number", "rules:\n- name: hot\n  above: high\n", structural, `line 3: rules[0]: "high" is not a number`},
		{"a list for a number", "rules:\n- name: hot\n  above: [1]\n", structural, "line 3: rules[0]: a list is not a number"},
		{"a word for a list", "rules:\n- name: hot\n  notify: ops\n", structural, `line 3: rules[0]: "ops" is not a list of strings`},
		{"a word for rules", "rules: none", structural, `line 1: "none" is not a list`},
		{"a number for a time", "rules:\n- name: hot\n  hold: 30\n", structural, `line 3: rules[0]: "30" is not a duration: write it as 30s, 5m or 1h30m`},
		{"a long word for a time", "rules:\n- name: hot\n  hold: temperature_margin\n", structural, `line 3: rules[0]: "temperature_margin" is not a duration: write it as 30s, 5m or 1h30m`},
		{"a list for a time", "rules:\n- name: hot\n  hold: [1s]\n", structural, "line 3: rules[0]: a list is not a duration: write it as 30s, 5m or 1h30m"},
		{"lines for a time", "rules:\n- name: hot\n  hold: |\n    1s\n    2s\n", structural, `line 3: rules[0]: "1s\n2s\n" is not a duration: write it as 30s, 5m or 1h30m`},
		{"lines for a number", "rules:\n- name: hot\n  above: |\n    1\n    2\n", structural, `line 3: rules[0]: "1\n2\n" is not a number`},
		{"not a number", "rules:\n- name: hot\n  above: .nan\n", false, "line 3: rules[0] (hot): above: must be from -50 to 200 °C"},
		{"too much", "rules:\n- name: hot\n  hold: 1s\n  above: 900\n", false, "line 4: rules[0] (hot): above: must be from -50 to 200 °C"},
		{"the wrong side", "rules:\n- name: too_hot\n  above: 5\n", false, "line 3: rules[0] (too_hot): above: temperature_margin fires below its threshold: write below"},
		{"the other wrong side", "rules:\n- name: hot\n  below: 5\n", false, "line 3: rules[0] (hot): below: temperature fires above its threshold: write above"},
		{"a threshold of a condition", "rules:\n- name: lost\n  above: 5\n", false, "line 3: rules[0] (lost): above: lost is a condition: it has no threshold or margin"},
		{"a negative margin", "rules:\n- name: hot\n  margin: -1\n", structural, "line 3: rules[0] (hot): margin: must be from 0 to 250 °C"},
		{"a negative time", "rules:\n- name: hot\n  clear: -1s\n", structural, "line 3: rules[0] (hot): clear: must be from 0s to 720h"},
		{"repeats too often", "rules:\n- name: hot\n  repeat: 1s\n", false, "line 3: rules[0] (hot): repeat: must be 0s, for never, or at least 1m"},
		{"a hold of what is counted", "rules:\n- name: xid\n  hold: 1m\n", false, "line 3: rules[0] (xid): hold: xid is a count, so it has no hold time"},
		{"a cool-down of what is counted", "rules:\n- name: xid\n  cooldown: 1m\n", false, "line 3: rules[0] (xid): cooldown: xid is a count, and a cooldown would lose events: use a longer clear instead"},
		{"above all there is", "rules:\n- name: high_gpu_usage\n  above: 100\n", false, "line 3: rules[0] (high_gpu_usage): above: must be below 100 %, since nothing can be above that"},
		{"no code left", "rules:\n- {name: bus, watch: xid, codes: [79], ignore_codes: [79]}\n", false, "line 2: rules[0] (bus): ignore_codes: excludes every code in codes"},
		{"a scope that can't be", "rules:\n- name: hot\n  scope:\n    users: [a]\n", false, "line 4: rules[0] (hot): scope.users: does not apply to temperature"},
		{"a bad pattern", "rules:\n- name: hot\n  scope:\n    gpus: ['[']\n", false, `line 4: rules[0] (hot): scope.gpus: "[" is not a valid pattern`},
		{"codes of others", "rules:\n- name: hot\n  codes: [1]\n", false, "line 3: rules[0] (hot): codes: only rules that watch xid have codes"},
		{"a negative code", "rules:\n- name: xid\n  codes: [-1]\n", structural, "line 3: rules[0] (xid): codes: codes must be 0 or more"},
		{"a bad severity", "rules:\n- name: hot\n  severity: fatal\n", structural, `line 3: rules[0] (hot): severity: "fatal" must be one of [info warning critical]`},
		{"a target that is not there", "rules:\n- name: hot\n  notify: [ops]\n", false, `line 3: rules[0] (hot): notify: no target is named "ops"; no targets are defined`},
		{"targets that are not there", "rules:\n- name: hot\n  notify: [x, ops, y]\n- name: too_hot\n  notify: [z]\ntargets: [{name: ops, url_env: OPS}]\n", false,
			"line 3: rules[0] (hot): notify: no target is named \"x\"; targets: ops\nline 3: rules[0] (hot): notify: no target is named \"y\"; targets: ops\nline 5: rules[1] (too_hot): notify: no target is named \"z\"; targets: ops"},
		{"a target without a name", "targets:\n- url_env: OPS\n", structural, "line 2: targets[0].name: must be letters, digits, '_' and '-', at most 64 of them"},
		{"no address", "targets:\n- name: ops\n", structural, "line 2: targets[0].url: give exactly one of url, url_env and url_file"},
		{"two addresses", "targets:\n- name: ops\n  url_env: OPS\n  url_file: /run/ops\n", structural, "line 2: targets[0].url: give exactly one of url, url_env and url_file"},
		{"unknown key of a target", "targets:\n- name: ops\n  uri: x\n", structural, `line 3: targets[0]: unknown key "uri" (did you mean "url"?); known keys: name, url, url_env, url_file, severity, title, message`},
		{"a bad template", "targets:\n- name: ops\n  url_env: OPS\n  title: '{{'\n", false, "line 4: targets[0].title: "},
		{"a bad wait", "group_wait: 30\n", structural, `line 1: "30" is not a duration: write it as 30s, 5m or 1h30m`},
		{"a long wait", "# first\ngroup_wait: 1h\n", false, "line 2: group_wait: must be from 0s to 10m"},
		{"all at once", "rules:\n- name: hot\n  above: 900\n- name: xid\n  hold: 1m\n- nam: x\n", structural,
			"line 3: rules[0] (hot): above: must be from -50 to 200 °C\nline 5: rules[1] (xid): hold: xid is a count, so it has no hold time\n" +
				`line 6: rules[2]: unknown key "nam" (did you mean "name"?); known keys: name, watch, above, below, margin, hold, clear, cooldown, repeat, severity, scope, codes, ignore_codes, enabled, notify`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file, err := read(tt.text)
			if err == nil {
				t.Fatalf("it was taken: %+v", file)
			}
			got := strings.ReplaceAll(err.Error(), "alerts.yaml:", "line ")
			if strings.HasSuffix(tt.want, ": ") { // what follows is a library's
				got = got[:min(len(got), len(tt.want))]
			}
			if got != tt.want {
				t.Error(cmp.Diff(tt.want, got))
			}
			if refused := bySchema(t, tt.text) != nil; tt.structural && !refused {
				t.Error("the schema takes it")
			}
		})
	}
}

// bySchema is the schema's verdict on a file, of which it takes one that has
// nothing in it.
func bySchema(t *testing.T, text string) error {
	t.Helper()
	var instance any
	if err := yaml.Unmarshal([]byte(text), &instance); err != nil {
		return err
	}
	if instance == nil {
		return nil
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("alerts.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("alerts.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(instance)
}

// The schema has every watch, and every key.
func TestSchemaIsComplete(t *testing.T) {
	for _, w := range alert.Watches() {
		if err := bySchema(t, "rules: [{name: a, watch: "+string(w)+"}]"); err != nil {
			t.Errorf("%s: %v", w, err)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "alerts.yaml")
	if _, err := Load(name, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Load(dir, nil); err == nil || err.Error() != dir+" is a folder, a pipe or a device: name a regular file that has the rules" {
		t.Errorf("a folder: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules:\n- name: hot\n  above: 900\n")
	if _, err := Load(name, alert.Defaults()); err == nil || err.Error() != name+":3: rules[0] (hot): above: must be from -50 to 200 °C" {
		t.Errorf("a bad file: %v", err)
	}
	write(strings.Repeat("#", largest+1))
	if _, err := Load(name, alert.Defaults()); err == nil || err.Error() != name+":1: the file is larger than 1 MiB: shorten it, or name another" {
		t.Errorf("a long file: %v", err)
	}
	write("targets:\n- {name: a, url_env: GPUWHY_TEST_NOWHERE}\n- {name: b, url_env: GPUWHY_TEST_SECRET}\n")
	t.Setenv("GPUWHY_TEST_SECRET", "hunter2://secret")
	if _, err := Load(name, alert.Defaults()); err == nil || !strings.Contains(err.Error(), name+":2: targets[0].url_env: ") || !strings.Contains(err.Error(), name+":3: targets[1].url_env: ") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("addresses that are not there: %v", err)
	}
	write("targets:\n- {name: a, url: 'generic://127.0.0.1:1/'}\n")
	if f, err := Load(name, alert.Defaults()); err != nil || len(f.Notify.Targets) != 1 {
		t.Errorf("a target: %+v, %v", f, err)
	}
	write("rules: []")
	if f, err := Load(name, alert.Defaults()); err != nil || len(f.Rules) != len(alert.Defaults()) {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestReadNothingElse(t *testing.T) {
	text := "targets: [{name: a, url_env: GPUWHY_TEST_NOWHERE}, {name: b, url_file: /nowhere/address}]"
	if _, err := read(text); err != nil {
		t.Error(err)
	}
}

// Whatever a file says: it is refused with lines that it has, or every rule of
// it can be in force. It opens no file that the text names.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		"rules:\n- name: hot\n  above: 80\n", "rules: [{name: a, watch: xid, codes: [79]}]", "rules: &a [*a]", "{", "- a",
		"rules:\n- name: a\n  watch: lost\n  scope: &where {nodes: [n1]}\n- name: memory_full\n  scope: *where\n",
		"targets: [{name: a, url_env: HOME}, {name: b, url_file: /dev/null}]", "group_wait: |\n  1s\n",
		"rules:\n- {name: too_hot, below: .inf}\n", "targets: [{name: a, url: 'ntfy://127.0.0.1/x', title: '{{.Rule}}'}]\ngroup_wait: 1s\n", "rules:\n- <<: {name: hot}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := read(string(text))
		if err != nil {
			var all Errors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("refused without a line: %v", err)
			}
			lines := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")) + 2
			for _, e := range all {
				if e.Line < 1 || e.Line > lines || e.What == "" {
					t.Errorf("line %d of %d: %q", e.Line, lines, e.What)
				}
			}
			return
		}
		names := map[string]bool{}
		for i := range file.Rules {
			if err := file.Rules[i].Check(); err != nil {
				t.Errorf("%+v: %v", file.Rules[i], err)
			}
			if names[file.Rules[i].Name] {
				t.Errorf("two rules are called %s", file.Rules[i].Name)
			}
			names[file.Rules[i].Name] = true
		}
	})
}
