//go:build !race

package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// packaged are the settings that the packages' configuration file sets. All others are comments in it.
var packaged = map[string]string{"state-dir": "/var/lib/gpuwhy", "owner-group": "gpuwhy"}

const configHead = `# The settings of gpuwhy on this machine. The names are those of the flags (gpuwhy serve --help, man gpuwhy-serve).
# gpuwhy.service reads this file; a variable in /etc/default/gpuwhy wins over it.
#
# After a change:
#   systemctl reload gpuwhy     checks the settings, and changes nothing if one is wrong
#   systemctl restart gpuwhy    takes them
`

// configText returns a configuration file with every setting, as a comment unless set has it.
func configText(app *kong.Application, set map[string]string) string {
	var b strings.Builder
	b.WriteString(configHead)
	titles := map[string]string{}
	for _, g := range helpGroups {
		titles[g.Key] = strings.TrimSuffix(g.Title, ":")
	}
	last := ""
	for _, group := range append([]string{""}, keysOf(helpGroups)...) {
		for _, flag := range child(app.Node, "serve").Flags {
			if len(flag.Envs) == 0 || flag.Name == "config" || flag.Group == nil && group != "" || flag.Group != nil && flag.Group.Key != group {
				continue
			}
			if title := cmp.Or(titles[group], "Log"); title != last {
				fmt.Fprintf(&b, "\n# ---- %s ----\n", title)
				last = title
			}
			b.WriteByte('\n')
			for _, line := range folded(flag.Help, 120) {
				b.WriteString("# " + line + "\n")
			}
			if value, is := set[flag.Name]; is {
				fmt.Fprintf(&b, "%s: %s\n", flag.Name, value)
				continue
			}
			value := cmp.Or(flag.Default, flag.PlaceHolder)
			if flag.IsBool() {
				value = cmp.Or(flag.Default, "true")
			}
			b.WriteString(strings.TrimSpace("#"+flag.Name+": "+value) + "\n")
		}
	}
	return b.String()
}

func keysOf(groups []kong.Group) (keys []string) {
	for _, g := range groups {
		keys = append(keys, g.Key)
	}
	return keys
}

// folded breaks a text into lines.
func folded(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= width {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// The packages' configuration file has every setting, as a comment with its default. gpuwhy starts with it as it is, and takes
// each setting with a default once its mark is removed.
func TestConfigurationFile(t *testing.T) {
	t.Parallel()
	const name = "deploy/packages/gpuwhy.yaml"
	text := configText(grammar(), packaged)
	if *updateDocs {
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o644); err != nil { //nolint:gosec // it is for everybody
			t.Fatal(err)
		}
	}
	if readTop(t, name) != text {
		t.Errorf("%s is not what the program has: go test ./cmd/gpuwhy -run TestConfigurationFile -update", name)
	}
	if err := checked("serve", "--config="+filepath.Join(top, name)); err != nil {
		t.Errorf("as it is: %v", err)
	}
	defaults := text
	for _, flag := range child(grammar().Node, "serve").Flags {
		if flag.Default != "" {
			defaults = strings.ReplaceAll(defaults, "\n#"+flag.Name+": ", "\n"+flag.Name+": ")
		}
	}
	if strings.Count(defaults, "\n#") > strings.Count(text, "\n#")-10 {
		t.Fatal("fewer than ten settings have a default: this test does not see them")
	}
	if err := checked("serve", "--config="+rulesFile(t, defaults)); err != nil {
		t.Errorf("with all defaults: %v", err)
	}
}

// A specification is what this test reads of the packages' definition.
type specification struct {
	Contents []struct {
		Src, Dst, Type string
		FileInfo       struct{ Mode int } `yaml:"file_info"`
	}
	Overrides map[string]struct {
		Depends []string
		Scripts map[string]string
	}
}

// The packages install files that the repository has or that the tool makes, with their modes, and scripts that a shell can read.
func TestPackagesSpecification(t *testing.T) {
	t.Parallel()
	var spec specification
	if err := yaml.Unmarshal([]byte(readTop(t, "deploy/packages/nfpm.yaml")), &spec); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, c := range spec.Contents {
		there[c.Dst] = true
		if c.FileInfo.Mode&0o777 == 0 || c.FileInfo.Mode&0o022 != 0 {
			t.Errorf("%s has the mode %o", c.Dst, c.FileInfo.Mode)
		}
		if !strings.Contains(c.Src, "${") {
			if _, err := os.Stat(filepath.Join(top, c.Src)); err != nil {
				t.Error(err)
			}
		}
		if c.Type != "dir" && strings.HasPrefix(c.Dst, "/etc/") != (c.Type == "config|noreplace") {
			t.Errorf("%s is of the type %q", c.Dst, c.Type)
		}
	}
	for _, name := range []string{"/usr/bin/gpuwhy", "/etc/gpuwhy/gpuwhy.yaml", "/usr/lib/systemd/system/gpuwhy.service", "/usr/lib/systemd/system/gpuwhy-agent.service", "/usr/lib/sysusers.d/gpuwhy.conf"} {
		if !there[name] {
			t.Errorf("no package has %s", name)
		}
	}
	for kind, floor := range map[string]string{"deb": "libc6 (>= " + glibcFloor + ")", "rpm": "glibc >= " + glibcFloor} {
		if !slices.Contains(spec.Overrides[kind].Depends, floor) {
			t.Errorf("%s depends on %v, not on %s", kind, spec.Overrides[kind].Depends, floor)
		}
		if len(spec.Overrides[kind].Scripts) != 3 {
			t.Errorf("%s has the scripts %v", kind, spec.Overrides[kind].Scripts)
		}
	}
	scripts, err := filepath.Glob(filepath.Join(top, "deploy/packages/scripts/*"))
	if err != nil || len(scripts) != 8 {
		t.Fatalf("%v, %v", scripts, err)
	}
	for _, script := range append(scripts, filepath.Join(top, "deploy/install.sh")) {
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("sh -n: %v\n%s", err, out)
		}
	}
}

// glibcFloor is the oldest glibc that the packages run on: that of RHEL 9, before Ubuntu 22.04 (2.35) and Debian 12 (2.36).
const glibcFloor = "2.34"

// The program asks for no symbol that came to glibc after the floor.
func TestGlibc(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only the packages for Linux have a floor")
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	versions := 0
	for _, s := range symbols {
		version, found := strings.CutPrefix(s.Version, "GLIBC_")
		if !found {
			continue
		}
		versions++
		if later(version, glibcFloor) {
			t.Errorf("%s of %s is of glibc %s, and the packages promise to run on %s", s.Name, s.Library, version, glibcFloor)
		}
	}
	if versions == 0 {
		t.Error("the program asks for nothing of glibc: this test reads another program, or one without cgo")
	}
	if !later("2.36", glibcFloor) || later("2.4", glibcFloor) {
		t.Error("this test can't compare versions")
	}
}

// later reports whether a version of glibc is later than another one.
func later(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	return slices.CompareFunc(x, y, func(a, b string) int {
		m, _ := strconv.Atoi(a)
		n, _ := strconv.Atoi(b)
		return cmp.Compare(m, n)
	}) > 0
}
