//go:build !race

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A documented is a piece of code in the documents.
type documented struct {
	page     string
	language string // of a block that names it, such as "sh"
	inline   bool   // within a sentence or a table
	text     string
}

// codeOfTheDocuments returns the code of the README and of all pages of the guide, in order.
func codeOfTheDocuments(t *testing.T) []documented {
	t.Helper()
	all, err := readDocuments()
	if err != nil || len(all) < 1000 {
		t.Fatalf("%d pieces of code were found: %v", len(all), err)
	}
	return all
}

var readDocuments = sync.OnceValues(func() (all []documented, err error) {
	pages := []string{"README.md"}
	err = fs.WalkDir(os.DirFS(top), "docs", func(name string, entry fs.DirEntry, err error) error {
		if name == "docs/adr" { // what was decided, with what was there before
			return fs.SkipDir
		}
		if err == nil && !entry.IsDir() && filepath.Ext(name) == ".md" {
			pages = append(pages, name)
		}
		return err
	})
	for _, page := range pages {
		content, failed := os.ReadFile(filepath.Join(top, page))
		if err = cmp.Or(err, failed); err != nil {
			return nil, err
		}
		err = ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(content)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			d := documented{page: page}
			switch n := n.(type) {
			case *ast.FencedCodeBlock:
				d.language = string(n.Language(content))
			case *ast.CodeBlock:
			case *ast.CodeSpan:
				d.inline = true
				for child := n.FirstChild(); child != nil; child = child.NextSibling() {
					if part, is := child.(*ast.Text); is {
						d.text += string(part.Value(content))
					}
				}
				all = append(all, d)
				return ast.WalkSkipChildren, nil
			default:
				return ast.WalkContinue, nil
			}
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				d.text += string(line.Value(content))
			}
			all = append(all, d)
			return ast.WalkContinue, nil
		})
	}
	return all, err
})

// wordsOf splits a line of a shell into its commands, each into its words, as sh does for the quotes that documents use. Comments, and
// variables before a command, are left out.
func wordsOf(line string) (commands [][]string) {
	var words []string
	var word strings.Builder
	began, quote := false, rune(0)
	endWord := func() {
		if began {
			words = append(words, word.String())
		}
		word.Reset()
		began = false
	}
	endCommand := func() {
		endWord()
		for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 0 && !slices.Contains([]string{"set", ".", "export"}, words[0]) {
			commands = append(commands, words)
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, began = r, true
		case r == '#' && !began:
			endCommand()
			return commands
		case r == ' ' || r == '\t':
			endWord()
		case strings.ContainsRune("&;|()", r) && !(r == '(' && strings.HasSuffix(word.String(), "$")):
			endCommand()
		default:
			word.WriteRune(r)
			began = true
		}
	}
	endCommand()
	return commands
}

func TestWordsOf(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`gpuwhy past "last night" 0  # the first`:                      `[[gpuwhy past last night 0]]`,
		`A=1 B='x y' gpuwhy why && systemctl x`:                        `[[gpuwhy why] [systemctl x]]`,
		`(set -a; . /etc/x; GPUWHY_A=/b exec bin/gpuwhy check-config)`: `[[exec bin/gpuwhy check-config]]`,
		`curl 'http://a/?b=c&d=e'`:                                     `[[curl http://a/?b=c&d=e]]`,
		`gpuwhy user change ann --scope ""`:                            `[[gpuwhy user change ann --scope ]]`,
	} {
		if got := fmt.Sprint(wordsOf(line)); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// A written is a command in the documents.
type written struct {
	documented
	words []string // of the command line, the program first
}

func (w written) String() string { return w.page + ": " + strings.Join(w.words, " ") }

// isOurs reports whether a command is one of gpuwhy.
func (w written) isOurs() bool { return w.words[0] == "gpuwhy" || w.words[0] == "bin/gpuwhy" }

// writtenCommands returns the commands of all blocks for a shell, and those of gpuwhy in sentences and tables.
func writtenCommands(t *testing.T) (all []written) {
	t.Helper()
	for _, d := range codeOfTheDocuments(t) {
		lines := strings.Split(strings.ReplaceAll(d.text, "\\\n", " "), "\n")
		ours := slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "gpuwhy ") })
		if d.language != "sh" && (d.language != "" || !ours || strings.Contains(d.text, "──")) { // no drawing
			continue
		}
		if d.inline && placeholder.MatchString(d.text) {
			continue
		}
		for _, line := range lines {
			for _, words := range wordsOf(line) {
				if words[0] == "exec" {
					words = words[1:]
				}
				all = append(all, written{d, words})
			}
		}
	}
	return all
}

// placeholder matches what stands for something else in a command: NODE, [--json], a|b, …
var placeholder = regexp.MustCompile(`\[|…|\||\b[A-Z]{1,}\b`)

// synopsis returns a command that fits a synopsis: with what "[--json]" allows, and the first of "a|b".
func synopsis(text string) string {
	text = strings.ReplaceAll(text, `\|`, "|")
	text = regexp.MustCompile(`([^\s\[]+?)(\|[^\s\]]+)+`).ReplaceAllString(text, "$1") // the first of several
	return strings.NewReplacer("[", "", "]", "", "TARGET…", "TARGET", "…", "x", "COMMAND", "why", "ACTION", "acknowledge").Replace(text)
}

// Every gpuwhy command that the documents name, in a block, a sentence or a table, is one that the program takes, with these flags.
func TestEveryDocumentedCommandParses(t *testing.T) {
	t.Parallel()
	app := grammar()
	check := func(where string, args []string) {
		node, rest := app.Node, args
		for len(rest) > 0 && child(node, rest[0]) != nil {
			node, rest = child(node, rest[0]), rest[1:]
		}
		if len(rest) == 0 || len(args) > 0 && args[0] == "helper" { // just its name; or what gpuwhy calls itself
			return
		}
		_, err := parse(args, io.Discard, io.Discard)
		if err != nil && args[len(args)-1] != "--help" && strings.HasPrefix(args[len(args)-1], "--") { // a flag may be named without its value
			_, err = parse(append(args, "1"), io.Discard, io.Discard)
		}
		if err != nil && err != errHelped { //nolint:errorlint // it is not wrapped
			t.Errorf("%s: gpuwhy %s: %v", where, strings.Join(args, " "), err)
		}
	}
	blocks, mentions := 0, 0
	for _, w := range writtenCommands(t) {
		if w.isOurs() && !w.inline {
			blocks++
			check(w.page, w.words[1:])
		}
	}
	for _, d := range codeOfTheDocuments(t) {
		if line, is := strings.CutPrefix(strings.TrimPrefix(d.text, "bin/"), "gpuwhy "); is && d.inline {
			mentions++
			line, _, _ = strings.Cut(line, " > ") // to a file
			for _, words := range wordsOf(synopsis("gpuwhy " + line)) {
				check(d.page, words[1:])
			}
		}
	}
	if blocks < 40 || mentions < 100 {
		t.Errorf("%d commands in blocks and %d others were found", blocks, mentions)
	}
}

// notRun are the commands of gpuwhy in blocks that TestEveryDocumentedCommandRuns can't run, by how they begin, with the reason.
var notRun = map[string]string{
	"gpuwhy why --url unix:":  "it asks a gpuwhy on a Unix socket, and this one has a port; TestUnixSocket has one",
	"gpuwhy history compact":  "it wants gpuwhy to be stopped first; TestTheDatabase runs it",
	"gpuwhy --source replay:": "it plays a capture, which this machine does not have; TestCaptureAndReplay plays one",
	"gpuwhy top":              "it stays until a key ends it; TestTopInATerminal and TestTopPrints run it",
	"gpuwhy doctor":           "what it finds depends on the machine; TestDoctor runs it",
	"gpuwhy capture":          "it records for minutes; TestCaptureAndReplay runs it",
	"gpuwhy fleet join-command gpu-2 --account-seed": "it needs the keys of somebody's NATS; TestFleetCommands has such keys",
}

// others are the programs of others in blocks for a shell, with how their lines are checked. All blocks are read by sh -n.
var others = map[string]string{
	"git": "sh -n", "cd": "sh -n", "make": "the Makefile has the target",
	"go": "the packages exist", "systemctl": "sh -n", "sudo": "sh -n", "usermod": "sh -n", "ssh": "sh -n", "tailscale": "sh -n",
	"oauth2-proxy": "sh -n", "docker": "sh -n; TestComposeFiles and TestDockerContextIsEnoughToBuild check the files", "curl": "the address answers",
	"minisign": "sh -n; TestInstallScript checks signatures", "sha256sum": "sh -n", "apt-get": "sh -n; 'make test-packages' installs packages", "journalctl": "sh -n",
	"helm": "the chart has the values", "kubectl": "the files exist, and the manifests have the service",
}

// A documented shell is a gpuwhy that runs for all commands of the documents.
type documentedShell struct {
	*program
	t     *testing.T
	home  string
	files map[string]string // in place of the names that documents use
}

// Every gpuwhy command in a block of the documents runs against a simulated machine, and every address that curl asks for answers. A command
// that would serve is checked by check-config, which checks all that the start checks. Commands of other programs are checked as far as
// that works without them.
func TestEveryDocumentedCommandRuns(t *testing.T) { //nolint:paralleltest // the settings of its commands are in the environment
	home, state := t.TempDir(), t.TempDir()
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer hook.Close()
	s := &documentedShell{t: t, home: home, files: map[string]string{}}
	s.write("alerts.yaml", "targets:\n- {name: chat, url_env: CHAT_URL}\n- {name: phone, url_env: CHAT_URL}\n")
	s.write("remote-write.yaml", "bearer_token: secret\n")
	s.write("recorder.creds", "user:password\n")
	rules := filepath.Join(home, "alerts.yaml")
	p := start(t, []string{"CHAT_URL=generic+" + hook.URL}, "--alert-rules="+rules, "--source=simulate:demo", "--interval=1s", "--node=gpu-1", "--state-dir="+state, "--fleet-listen=127.0.0.1:0", "--fleet-host=gpu-1.example.org")
	p.dial().next("gpu_status_update", nil)
	s.program = p
	address, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the past of the demonstration has been written", func() bool {
		return bytes.Contains(s.ask(http.MethodGet, "api/gpu/sessions?from=-1h", "", nil), []byte(`"anna"`))
	}, p.log)
	for name, value := range map[string]string{
		"HOME": home, "GPUWHY_STATE_DIR": state, "GPUWHY_LISTEN": address.Host, "CHAT_URL": "generic+" + hook.URL, "GPUWHY_SOURCE": "simulate:demo", "GPUWHY_NODE": "gpu-1", "GPUWHY_ALERT_RULES": rules,
	} {
		t.Setenv(name, value)
	}
	s.write("kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: lab\nclusters: [{name: lab, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: lab, user: {token: t}}]\ncontexts: [{name: lab, context: {cluster: lab, user: lab}}]\n")
	for _, d := range codeOfTheDocuments(t) { // the files that a page has the reader write
		if d.language == "yaml" {
			var any map[string]any
			if err := yaml.Unmarshal([]byte(d.text), &any); err != nil && yaml.Unmarshal([]byte("a:\n"+d.text), &any) != nil {
				t.Errorf("%s has a file that is no YAML: %v\n%s", d.page, err, d.text)
			}
			switch {
			case d.page == "docs/slack.md":
				s.write("slack.yaml", d.text)
				s.files["/etc/gpuwhy/alerts.yaml"] = s.files["slack.yaml"]
			case d.page == "docs/kubernetes.md" && strings.HasPrefix(d.text, "clusters:"):
				s.write("clusters.yaml", strings.ReplaceAll(d.text, "/etc/gpuwhy/lab.kubeconfig", filepath.Join(home, "kubeconfig")))
			}
		}
	}
	ran, foreign, seen := 0, map[string]int{}, map[string]bool{}
	for _, w := range writtenCommands(t) {
		switch line := strings.Join(w.words, " "); {
		case seen[line]: // on another page
			continue
		default:
			seen[line] = true
		}
		switch {
		case w.isOurs():
			if s.run(w) {
				ran++
			}
		case others[w.words[0]] == "":
			t.Errorf("%s: nothing is known of the program %s: how is its line checked?", w, w.words[0])
		default:
			foreign[w.words[0]]++
			s.look(w)
		}
	}
	for name, n := range foreign {
		t.Logf("%d lines of %s: %s", n, name, others[name])
	}
	for name := range others {
		if foreign[name] == 0 {
			t.Errorf("no document has a line of %s", name)
		}
	}
	t.Logf("%d commands of gpuwhy ran", ran)
	if ran < 35 {
		t.Errorf("only %d commands ran", ran)
	}
}

// write writes a file that documents name.
func (s *documentedShell) write(name, content string) {
	s.t.Helper()
	file := filepath.Join(s.home, filepath.Base(name))
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.files[name] = file
}

// run runs a command of gpuwhy, and reports whether it could be run.
func (s *documentedShell) run(w written) bool {
	s.t.Helper()
	line := "gpuwhy " + strings.Join(w.words[1:], " ")
	if w.inline {
		if _, err := parse(w.words[1:], io.Discard, io.Discard); err != nil { // a name, which lacks what the command needs
			return false
		}
	}
	for begins, reason := range notRun {
		if strings.HasPrefix(line, begins) {
			s.t.Logf("not run: %s (%s)", w, reason)
			return false
		}
	}
	args := slices.Clone(w.words[1:])
	for i, arg := range args {
		if file, is := s.files[arg]; is {
			args[i] = file
		}
		if arg == "SILENCE" {
			args[i] = s.silence()
		}
		args[i] = strings.ReplaceAll(args[i], "…", "")
		if i > 0 && args[i-1] == "--proxy-user" {
			args[i] = "root" // who is on every machine
		}
	}
	serves := len(args) == 0 || strings.HasPrefix(args[0], "-")
	if !serves && slices.Contains([]string{"serve", "agent", "hub", "record"}, args[0]) {
		serves, args = true, args[1:]
	}
	if serves {
		args = append([]string{"check-config"}, args...)
	}
	if r := inside(args...); r.code != exitOK {
		s.t.Errorf("%s: as gpuwhy %s it exits with status %d: %s", w, strings.Join(args, " "), r.code, r.stderr)
	}
	return true
}

// silence returns the ID of a silence that there is now.
func (s *documentedShell) silence() string {
	s.t.Helper()
	var list struct {
		Silences []struct {
			ID string `json:"silence_id"`
		}
	}
	if err := json.Unmarshal(s.ask(http.MethodGet, "api/silences", "", nil), &list); err != nil || len(list.Silences) == 0 {
		s.t.Fatalf("there is no silence to end: %v", err)
	}
	return list.Silences[0].ID
}

// ask asks the program, and fails the test unless it answers well.
func (s *documentedShell) ask(method, path, body string, header http.Header) []byte {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		s.t.Errorf("%s %s: %s %s %v", method, path, answer.Status, content, err)
	}
	return content
}

// look checks a line of another program.
func (s *documentedShell) look(w written) {
	s.t.Helper()
	exists := func(name string) {
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			s.t.Errorf("%s: %v", w, err)
		}
	}
	switch w.words[0] {
	case "curl":
		s.curl(w)
	case "make":
		for _, target := range w.words[1:] {
			makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
			if err != nil {
				s.t.Fatal(err)
			}
			if !strings.Contains(target, "=") && !bytes.Contains(makefile, []byte("\n"+target+":")) {
				s.t.Errorf("%s: the Makefile has no target %s", w, target)
			}
		}
	case "kubectl", "go", "helm":
		for i, word := range w.words[1:] {
			before := w.words[i]
			switch {
			case strings.HasPrefix(word, "deploy/"), strings.HasPrefix(word, "./") && w.words[0] == "go":
				exists(word)
			case before == "--set" && slices.Contains(w.words, "deploy/helm/gpuwhy"):
				var values map[string]any
				content, err := os.ReadFile(filepath.Join(top, "deploy/helm/gpuwhy/values.yaml"))
				if err == nil {
					err = yaml.Unmarshal(content, &values)
				}
				name, _, _ := strings.Cut(word, "=")
				var value any = values
				for part := range strings.SplitSeq(name, ".") {
					within, is := value.(map[string]any)
					if value, is = within[part], is && within[part] != nil; !is {
						s.t.Errorf("%s: the chart has no value %s (%v)", w, name, err)
						break
					}
				}
			case strings.HasPrefix(word, "service/"):
				manifests, err := os.ReadFile(filepath.Join(top, "deploy/kubernetes/gpuwhy.yaml"))
				if err != nil || !bytes.Contains(manifests, []byte("name: "+strings.TrimPrefix(word, "service/")+"\n")) {
					s.t.Errorf("%s: the manifests have no %s (%v)", w, word, err)
				}
			}
		}
	}
}

// curl asks the program what a line of curl asks for.
func (s *documentedShell) curl(w written) {
	s.t.Helper()
	method, body, header, address := http.MethodGet, "", http.Header{}, ""
	for i := 1; i < len(w.words); i++ {
		next := ""
		if i+1 < len(w.words) {
			next = w.words[i+1]
		}
		switch word := w.words[i]; {
		case word == "-X":
			method, i = next, i+1
		case word == "-d":
			body, i = next, i+1
		case word == "-H":
			name, value, _ := strings.Cut(next, ": ")
			header.Set(name, value)
			i++
		case word == "-o", word == "--cookie-jar", word == "--data-urlencode":
			i++
		case strings.HasPrefix(word, "-"):
		default:
			address = word
		}
	}
	path, is := strings.CutPrefix(address, "http://127.0.0.1:8003/")
	if !is {
		s.t.Logf("not asked: %s (it is about a machine elsewhere)", w)
		return
	}
	s.ask(method, path, body, header)
}

// The tests that are named as reasons exist.
func TestReasonsNameTests(t *testing.T) {
	t.Parallel()
	var declared strings.Builder
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		declared.WriteString(readTop(t, "cmd/gpuwhy/"+file))
	}
	for _, reason := range slices.Concat(slices.Collect(maps.Values(notRun)), slices.Collect(maps.Values(others))) {
		for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(reason, -1) {
			if !strings.Contains(declared.String(), "func "+name+"(") {
				t.Errorf("there is no %s, which is to run what %q is about", name, reason)
			}
		}
	}
}

// All blocks for a shell are valid for sh.
func TestEveryDocumentedShellIsValid(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for i, d := range codeOfTheDocuments(t) {
		if d.language == "sh" {
			fmt.Fprintf(&all, "f%d() {\n: %s\n%s\n}\n", i, d.page, d.text)
		}
	}
	check := exec.CommandContext(t.Context(), "sh", "-n")
	check.Stdin = strings.NewReader(all.String())
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every picture in the documents is one that make screenshots takes, and every one that it takes is shown.
func TestEveryPictureIsTaken(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{"([a-z-]+\.png)", "`).FindAllStringSubmatch(readTop(t, "cmd/gpuwhy-gallery/screenshots_test.go"), -1) {
		taken["docs/screenshots/"+m[1]] = false
	}
	picture := regexp.MustCompile(`(?:\]\(|src=")([^")]*\.(?:png|jpg|gif|svg|webp))[")]`)
	err := fs.WalkDir(os.DirFS(top), ".", func(page string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(page) != ".md" || page != "README.md" && !strings.HasPrefix(page, "docs/") {
			return err
		}
		for _, m := range picture.FindAllStringSubmatch(readTop(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			name := filepath.ToSlash(filepath.Join(filepath.Dir(page), m[1]))
			if _, is := taken[name]; !is {
				t.Errorf("%s shows %s, which make screenshots does not take", page, m[1])
			}
			taken[name] = true
		}
		return nil
	})
	if err != nil || len(taken) < 3 {
		t.Errorf("%d pictures: %v", len(taken), err)
	}
	for name, shown := range taken {
		if !shown {
			t.Errorf("make screenshots takes %s, which no document shows", name)
		}
	}
}
