//go:build !race

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/blake2b"
)

// A releaseKey signs as minisign does: Ed25519 over the BLAKE2b hash.
type releaseKey struct {
	private ed25519.PrivateKey
	id      string
}

func newReleaseKey(t *testing.T) *releaseKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &releaseKey{private, "01234567"}
}

func (k *releaseKey) public() string {
	return base64.StdEncoding.EncodeToString([]byte("Ed" + k.id + string(k.private.Public().(ed25519.PublicKey))))
}

func (k *releaseKey) sign(text string) string {
	hash := blake2b.Sum512([]byte(text))
	signature := ed25519.Sign(k.private, hash[:])
	const trusted = "gpuwhy 0.9.0"
	all := ed25519.Sign(k.private, append(bytes.Clone(signature), trusted...))
	return "untrusted comment: a test's\n" + base64.StdEncoding.EncodeToString([]byte("ED"+k.id+string(signature))) +
		"\ntrusted comment: " + trusted + "\n" + base64.StdEncoding.EncodeToString(all) + "\n"
}

// installer is a system on which the installation script runs: its tools, and what the network has.
type installer struct {
	key   *releaseKey
	tools map[string]string // by their name; scripts in place of this machine's
	files map[string]string
	env   []string
}

// newInstaller returns a Debian 12 for amd64, and a release for it.
func newInstaller(t *testing.T) *installer {
	t.Helper()
	s := &installer{key: newReleaseKey(t), files: map[string]string{
		"gpuwhy_0.9.0-1_amd64.deb": "a package", "gpuwhy_0.9.0-1_arm64.deb": "another package", "gpuwhy-0.9.0-1.x86_64.rpm": "a package of rpm",
		"gpuwhy_0.9.0_linux_amd64.tar.gz": setupArchive(t, "shared"), "gpuwhy_0.9.0_linux_amd64_static.tar.gz": setupArchive(t, "static"),
	}}
	s.tools = map[string]string{
		"id": "echo 0", "uname": `[ "$1" = -s ] && echo Linux || echo x86_64`, "getconf": "echo glibc 2.36",
		"dpkg": "exit 1", "apt-get": `echo "apt-get $*"; for f; do :; done; cat "$f"`, "minisign": "",
	}
	s.release()
	s.env = []string{"GPUWHY_KEY=" + s.key.public()}
	return s
}

// release lists and signs the files.
func (s *installer) release() {
	list := ""
	for name, content := range s.files {
		if !strings.HasPrefix(name, "SHA256SUMS") {
			list += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(content)), name)
		}
	}
	s.files["SHA256SUMS"], s.files["SHA256SUMS.minisig"] = list, s.key.sign(list)
}

// setupArchive is an archive whose setup says what it is.
func setupArchive(t *testing.T, what string) string {
	t.Helper()
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	archive := tar.NewWriter(compressed)
	script := "#!/bin/sh\necho setup of " + what + ": $*\n"
	if err := errors.Join(archive.WriteHeader(&tar.Header{Name: "gpuwhy/setup", Mode: 0o755, Size: int64(len(script))})); err != nil {
		t.Fatal(err)
	}
	_, err := archive.Write([]byte(script))
	if err := errors.Join(err, archive.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// run runs the script there, and returns what it says.
func (s *installer) run(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, there := s.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !there {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(content)) // a client that has gone fails by itself
	}))
	defer server.Close()
	dir := t.TempDir()
	for _, name := range strings.Fields("sh cat sed grep wc head tail base64 sha256sum mktemp chmod rm mkdir tar gzip curl openssl minisign") {
		if _, faked := s.tools[name]; faked {
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err) // tools/needs lists those that a Debian may lack
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range s.tools {
		if script == "" { // this system lacks it
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "sh"), append([]string{filepath.Join(top, "deploy/install.sh")}, args...)...)
	cmd.Env = append([]string{"PATH=" + dir, "TMPDIR=" + t.TempDir(), "GPUWHY_FROM=" + server.URL}, s.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The script installs the package of a system if its checksum is in the list, and the list's signature is good. Otherwise it
// installs nothing and says why.
func TestInstallScript(t *testing.T) {
	t.Parallel()
	const installed = "setup of|apt-get install"
	for name, tt := range map[string]struct {
		change func(s *installer)
		args   string
		says   string // what it says; beginning with "!" if it must fail
	}{
		"by OpenSSL":   {func(*installer) {}, "", "apt-get install -y -q --allow-downgrades -o Dpkg::Options::=--force-confold ./gpuwhy_0.9.0-1_amd64.deb\na package"},
		"by minisign":  {func(s *installer) { delete(s.tools, "minisign"); s.tools["openssl"] = "" }, "", "./gpuwhy_0.9.0-1_amd64.deb\na package"},
		"an archive":   {func(s *installer) { s.env = append(s.env, "GPUWHY_PACKAGE=tar") }, "", "setup of shared: install"},
		"an old glibc": {func(s *installer) { s.tools["getconf"] = "echo glibc 2.31" }, "", "setup of static: install"},
		"no glibc":     {func(s *installer) { s.tools["getconf"] = "exit 1" }, "", "setup of static: install"},
		"no apt":       {func(s *installer) { s.tools["apt-get"] = "" }, "", "setup of shared: install"},

		"a changed package": {func(s *installer) { s.files["gpuwhy_0.9.0-1_amd64.deb"] = "evil" }, "", "!the checksum of gpuwhy_0.9.0-1_amd64.deb is wrong"},
		"a changed list": {func(s *installer) {
			s.files["gpuwhy_0.9.0-1_amd64.deb"] = "evil"
			signature := s.files["SHA256SUMS.minisig"]
			s.release()
			s.files["SHA256SUMS.minisig"] = signature
		}, "", "!the signature of"},
		"a changed list, by minisign": {func(s *installer) { delete(s.tools, "minisign"); s.files["SHA256SUMS"] += "\n" }, "", "!the signature of"},
		"another key":                 {func(s *installer) { s.key = newReleaseKey(t); s.release() }, "", "!the signature of"},
		"a short signature": {func(s *installer) {
			s.files["SHA256SUMS.minisig"] = "untrusted comment: x\n" + base64.StdEncoding.EncodeToString([]byte("ED01234567")) + "\n"
		}, "", "!the signature of"},
		"a signature of another kind": {func(s *installer) {
			s.files["SHA256SUMS.minisig"] = strings.Replace(s.files["SHA256SUMS.minisig"], "\nRU", "\nRW", 1)
		}, "", "!the signature of"},
		"no signature":        {func(s *installer) { delete(s.files, "SHA256SUMS.minisig") }, "", "!SHA256SUMS.minisig can't be downloaded"},
		"no key":              {func(s *installer) { s.env = nil }, "", "!this copy of install.sh has no key"},
		"an old OpenSSL":      {func(s *installer) { s.tools["openssl"] = "echo OpenSSL 1.1.1w 11 Sep 2023" }, "", "!install minisign, or OpenSSL 3 or newer"},
		"nothing that checks": {func(s *installer) { s.tools["openssl"] = "" }, "", "!install minisign or openssl"},
		"no such package":     {func(s *installer) { delete(s.files, "gpuwhy_0.9.0-1_amd64.deb"); s.release() }, "", "!has no package deb for amd64"},
		"another processor":   {func(s *installer) { s.tools["uname"] = `[ "$1" = -s ] && echo Linux || echo riscv64` }, "", "!there is no package for riscv64"},
		"another system":      {func(s *installer) { s.tools["uname"] = "echo Darwin" }, "", "!this script is for Linux"},
		"not root":            {func(s *installer) { s.tools["id"] = "echo 1000" }, "", "!run this as root"},
		"a wrong argument":    {func(*installer) {}, "--upgrade", "!it takes --uninstall or --purge"},
		"nothing to remove":   {func(*installer) {}, "--uninstall", "!gpuwhy isn't installed"},
		"remove":              {func(s *installer) { s.tools["dpkg"], s.tools["apt-get"] = "exit 0", `echo "apt-get $*"` }, "--uninstall", "apt-get remove -y -q gpuwhy"},
		"purge":               {func(s *installer) { s.tools["dpkg"], s.tools["apt-get"] = "exit 0", `echo "apt-get $*"` }, "--purge", "apt-get purge -y -q gpuwhy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newInstaller(t)
			tt.change(s)
			said, err := s.run(t, strings.Fields(tt.args)...)
			text, fails := strings.CutPrefix(tt.says, "!")
			if (err != nil) != fails || !strings.Contains(said, text) {
				t.Errorf("%v, it says:\n%s\nand not %q", err, said, text)
			}
			for what := range strings.SplitSeq(installed, "|") {
				if fails && strings.Contains(said, what) {
					t.Errorf("it installs something:\n%s", said)
				}
			}
		})
	}
}
