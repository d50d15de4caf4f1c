package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// definitions is the folder of what the packages are made of.
const definitions = "deploy/packages"

// pack makes the packages of a target.
func (r *release) pack(t target) error {
	kinds := []string{"deb", "rpm"}
	if t.static { // packages of old systems would be one more of each kind: those who need it take the archive
		kinds = nil
	}
	for _, kind := range kinds {
		if err := r.packAs(kind, t); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return r.packTar(t)
}

// config reads what the packages contain.
func (r *release) config(t target) (nfpm.Config, error) {
	text, err := os.ReadFile(filepath.Join(r.root, definitions, "nfpm.yaml"))
	if err != nil {
		return nfpm.Config{}, err
	}
	missing := ""
	c, err := nfpm.ParseWithEnvMapping(bytes.NewReader(text), func(name string) string {
		value, known := map[string]string{"ARCH": t.arch, "VERSION": r.version, "COMMON": r.common(), "DIR": filepath.Join(r.dir, t.String())}[name]
		if !known && !strings.HasPrefix(name, "NFPM_") { // nfpm asks for passwords of keys that we don't use
			missing = name
		}
		return value
	})
	if err == nil && missing != "" {
		err = fmt.Errorf("%s/nfpm.yaml: there is no ${%s}", definitions, missing)
	}
	return c, err
}

func (r *release) packAs(kind string, t target) (err error) {
	config, err := r.config(t)
	if err != nil {
		return err
	}
	info, err := config.Get(kind)
	if err != nil {
		return err
	}
	info.MTime = r.date
	for _, script := range []*string{&info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove} {
		if *script, err = r.script(*script); err != nil {
			return err
		}
	}
	for _, c := range info.Contents {
		if c.Source != "" && !filepath.IsAbs(c.Source) {
			c.Source = filepath.Join(r.root, c.Source)
		}
	}
	pages, err := r.pages()
	if err != nil {
		return err
	}
	for _, page := range pages {
		info.Contents = append(info.Contents, &files.Content{
			Source: page, Destination: "/usr/share/man/man1/" + filepath.Base(page), FileInfo: &files.ContentFileInfo{Mode: 0o644},
		})
	}
	packager, err := nfpm.Get(kind)
	if err != nil {
		return err
	}
	name := filepath.Join(r.out, packager.ConventionalFileName(info))
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return packager.Package(info, file)
}

// pages are the compressed man pages.
func (r *release) pages() ([]string, error) {
	return filepath.Glob(filepath.Join(r.common(), "man1", "*.gz"))
}

// script writes a script of a package, with the functions of all packages before it, and returns where it is.
func (r *release) script(name string) (string, error) {
	text := "#!/bin/sh\nset -e\n"
	for _, part := range []string{"common.sh", name} {
		content, err := os.ReadFile(filepath.Join(r.root, definitions, "scripts", part))
		if err != nil {
			return "", err
		}
		text += string(content)
	}
	whole := filepath.Join(r.dir, name)
	return whole, os.WriteFile(whole, []byte(text), 0o755)
}

// packTar makes the archive, which has a program to install it.
func (r *release) packTar(t target) error {
	setup, err := r.script("tar.setup")
	if err != nil {
		return err
	}
	entries := map[string]string{ // by the name in the archive
		"setup": setup, "bin/gpuwhy": r.program(t), "LICENSE": "LICENSE", "CHANGELOG.md": "CHANGELOG.md",
		"THIRD-PARTY-LICENSES":                        filepath.Join(r.dir, t.String(), "THIRD-PARTY-LICENSES"),
		"etc/gpuwhy/gpuwhy.yaml":                      definitions + "/gpuwhy.yaml",
		"lib/systemd/system/gpuwhy.service":           "deploy/gpuwhy.service",
		"lib/systemd/system/gpuwhy-agent.service":     "deploy/gpuwhy-agent.service",
		"lib/sysusers.d/gpuwhy.conf":                  definitions + "/gpuwhy.sysusers",
		"share/bash-completion/completions/gpuwhy":    filepath.Join(r.common(), "gpuwhy.bash"),
		"share/zsh/site-functions/_gpuwhy":            filepath.Join(r.common(), "gpuwhy.zsh"),
		"share/fish/vendor_completions.d/gpuwhy.fish": filepath.Join(r.common(), "gpuwhy.fish"),
	}
	pages, err := r.pages()
	if err != nil {
		return err
	}
	for _, page := range pages {
		entries["share/man/man1/"+filepath.Base(page)] = page
	}
	top := fmt.Sprintf("gpuwhy_%s_%s", r.version, t)
	file, err := os.Create(filepath.Join(r.out, top+".tar.gz"))
	if err != nil {
		return err
	}
	return errors.Join(r.writeTar(file, top, entries), file.Close())
}

// writeTar writes an archive whose bytes depend only on the files' contents and the release's date.
func (r *release) writeTar(out io.Writer, top string, entries map[string]string) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	names := []string{}
	for name := range entries {
		for ; name != "."; name = path.Dir(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range append([]string{"."}, slices.Compact(names)...) {
		header := &tar.Header{Name: path.Join(top, name), ModTime: r.date, Format: tar.FormatPAX, Mode: 0o644, Typeflag: tar.TypeReg}
		source, regular := entries[name]
		if !regular {
			header.Name, header.Mode, header.Typeflag = header.Name+"/", 0o755, tar.TypeDir
			if err := archive.WriteHeader(header); err != nil {
				return err
			}
			continue
		}
		if name == "setup" || strings.HasPrefix(name, "bin/") {
			header.Mode = 0o755
		}
		if !filepath.IsAbs(source) {
			source = filepath.Join(r.root, source)
		}
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		header.Size = int64(len(content))
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
