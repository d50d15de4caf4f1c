// Command packages builds gpuwhy for Linux and makes what a release consists of: deb, rpm and tar packages, a list of their
// components (SBOM), the installation script, and a signed list of checksums. Run it in the root of the repository: make packages.
//
// Two runs over the same commit make the same files, byte for byte: all times are the commit's.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A target is one build of the program.
type target struct {
	arch   string // as Go names it
	static bool   // without cgo: for systems with an older glibc or none, where nvidia-smi stands in for NVIDIA's library
}

// targets are all builds, in the order of building.
var targets = []target{{"amd64", false}, {"arm64", false}, {"amd64", true}, {"arm64", true}}

// String is how file names have it.
func (t target) String() string {
	if t.static {
		return "linux_" + t.arch + "_static"
	}
	return "linux_" + t.arch
}

// A release is what the packages are made of.
type release struct {
	root    string // of the repository
	dir     string // for what is built, and thrown away
	out     string // for the packages
	version string // without a leading v
	commit  string // in full; with "-dirty" if files differ from it
	date    time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("packages", flag.ContinueOnError)
	var (
		r        = release{}
		root     = flags.String("root", ".", "the repository's root")
		out      = flags.String("out", "bin/packages", "folder for the packages; what it has is removed")
		only     = flags.String("only", "", "build only these, separated by commas: linux_amd64, linux_amd64_static, linux_arm64, linux_arm64_static")
		key      = flags.String("key", os.Getenv("SIGNING_KEY"), "file with the secret key of minisign that signs the checksums (default: the variable SIGNING_KEY)")
		password = flags.String("password-file", os.Getenv("SIGNING_PASSWORD_FILE"), "file with the password of that key (default: the variable SIGNING_PASSWORD_FILE)")
		unsigned = flags.Bool("unsigned", false, "sign nothing: nobody can install the result with the installation script")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if (*key == "") != *unsigned {
		return errors.New("give the signing key (SIGNING_KEY=FILE), or say that nothing is to be signed (-unsigned)")
	}
	var signer *signer
	if *key != "" { // before minutes of building
		if signer, err = readKey(*key, *password); err != nil {
			return err
		}
	}
	if r.root, err = filepath.Abs(*root); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(*out); err != nil {
		return err
	}
	if err := r.fromGit(ctx); err != nil {
		return err
	}
	chosen := targets
	if *only != "" {
		names := strings.Split(*only, ",")
		chosen = slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return !slices.Contains(names, t.String()) })
		if len(chosen) != len(names) {
			return fmt.Errorf("-only %s: there is no such build", *only)
		}
	}
	if r.dir, err = os.MkdirTemp("", "gpuwhy-packages-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.make(ctx, chosen); err != nil {
		return err
	}
	return r.finish(signer)
}

// fromGit reads what the release is from the repository.
func (r *release) fromGit(ctx context.Context) error {
	source, err := os.ReadFile(filepath.Join(r.root, "internal/release/release.go"))
	if err != nil {
		return err
	}
	_, rest, found := strings.Cut(string(source), "\nconst Version = \"")
	if !found {
		return errors.New("internal/release/release.go has no version")
	}
	r.version, _, _ = strings.Cut(rest, `"`)
	if r.commit, err = r.output(ctx, nil, "git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"); err != nil {
		return err
	}
	date, err := r.output(ctx, nil, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return err
	}
	r.date = r.date.UTC()
	return nil
}

// make builds the program for each target and packs it.
func (r *release) make(ctx context.Context, chosen []target) error {
	if !slices.ContainsFunc(chosen, target.runsHere) {
		return fmt.Errorf("one of the builds must run on this machine (%s), to print the man pages and completions", runtime.GOARCH)
	}
	for _, t := range chosen {
		fmt.Println("building", t)
		if err := r.build(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	here := chosen[slices.IndexFunc(chosen, target.runsHere)]
	if err := r.describe(ctx, here); err != nil {
		return err
	}
	for _, t := range chosen {
		if err := r.licenses(ctx, t); err != nil {
			return err
		}
		if err := r.components(t); err != nil {
			return err
		}
		if err := r.pack(t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

func (t target) runsHere() bool { return t.arch == runtime.GOARCH }

// finish writes the installation script, the checksums and their signature.
func (r *release) finish(signer *signer) error {
	if signer != nil {
		script, err := os.ReadFile(filepath.Join(r.root, "deploy/install.sh"))
		if err != nil {
			return err
		}
		const line = "\nkey=${GPUWHY_KEY:-}\n"
		if strings.Count(string(script), line) != 1 {
			return errors.New("deploy/install.sh has no place for the key")
		}
		text := strings.Replace(string(script), line, "\nkey="+signer.public+"\n", 1)
		if err := os.WriteFile(filepath.Join(r.out, "install.sh"), []byte(text), 0o755); err != nil {
			return err
		}
	}
	sums, err := checksums(r.out)
	if err != nil {
		return err
	}
	list := filepath.Join(r.out, "SHA256SUMS")
	if err := os.WriteFile(list, sums, 0o644); err != nil {
		return err
	}
	if signer == nil {
		fmt.Println("NOT SIGNED: the checksums in", list)
		return nil
	}
	if err := os.WriteFile(list+".minisig", signer.sign(sums, "gpuwhy "+r.version), 0o644); err != nil {
		return err
	}
	fmt.Println("signed the checksums in", list, "with", signer.public)
	return nil
}

// checksums lists the files of a folder as sha256sum does, in the order of their names.
func checksums(dir string) (list []byte, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		list = fmt.Appendf(list, "%s  %s\n", hex.EncodeToString(sum[:]), entry.Name())
	}
	return list, nil
}

// output runs a program in the repository and returns what it prints.
func (r *release) output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = r.root, append(os.Environ(), env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
