// Package static holds the files that the pages load: styles, scripts and an
// icon of our own, uPlot for the charts and RapiDoc for the API's
// documentation, all embedded.
//
// The scripts are ES modules without a build step. They import one another by
// relative paths, so all files are served under one folder that is named by
// the hash of the whole tree: a browser may keep them for ever, and a new
// version is never mixed with an old one. Our own files are sent without their
// comments, and modules that are loaded together as one, made small.
package static

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

//go:embed *.css *.js *.svg vendor
var files embed.FS

// Asset is one file, ready to be sent.
type Asset struct {
	Bytes []byte
	// Gzip is the same compressed; nil where that is not smaller.
	Gzip        []byte
	ContentType string
	// ETag is quoted, and of Bytes.
	ETag string
}

// Assets are all files. They never change and may be read at the same time.
type Assets struct {
	tree   string
	byName map[string]Asset
}

// New reads and compresses the embedded files. The module words.js is handed
// in: it has the texts that pages are written with.
func New(words []byte) *Assets {
	a := &Assets{byName: map[string]Asset{}}
	contents, modules := map[string][]byte{}, map[string][]byte{"words.js": words}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		switch {
		case path.Dir(name) != ".":
			contents[name] = content
		case path.Ext(name) == ".js":
			modules[name] = strip(content)
		case path.Ext(name) == ".css":
			contents[name] = strip(content)
		default:
			contents[name] = content
		}
		return err
	})
	if err != nil {
		panic("static: the embedded files can't be read: " + err.Error())
	}
	for name, content := range join(modules) {
		contents[name] = shorten(name, content)
	}
	tree := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		content := contents[name]
		fmt.Fprintf(tree, "%s %d\n%s", name, len(content), content)
		if plain, packed := strings.CutSuffix(name, ".gz"); packed {
			a.byName[plain] = newPackedAsset(plain, content)
			continue
		}
		a.byName[name] = newAsset(name, content)
	}
	a.tree = hex.EncodeToString(tree.Sum(nil))[:12]
	return a
}

func newAsset(name string, content []byte) Asset {
	asset := plainAsset(name, content)
	if packed := compress(content); len(packed) < len(content) {
		asset.Gzip = packed
	}
	return asset
}

// newPackedAsset is a file that is embedded compressed, as a large library is:
// compressing it at every start would take longer than all the rest.
func newPackedAsset(name string, packed []byte) Asset {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic("static: " + name + ".gz: " + err.Error())
	}
	content, err := io.ReadAll(r)
	if err != nil {
		panic("static: " + name + ".gz: " + err.Error())
	}
	asset := plainAsset(name, content)
	asset.Gzip = packed
	return asset
}

func plainAsset(name string, content []byte) Asset {
	sum := sha256.Sum256(content)
	return Asset{Bytes: content, ContentType: contentType(name), ETag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// compress can't fail: it writes to memory, at a level that exists.
func compress(content []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("static: gzip: " + err.Error())
	}
	return b.Bytes()
}

// contentType does not ask the system's table of types, which differs from
// machine to machine.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return "text/plain; charset=utf-8"
	}
}

// URL is the address of the file of that name, such as "page.js", on a site
// whose base path begins and ends with "/".
func (a *Assets) URL(base, name string) string {
	return base + "static/" + a.tree + "/" + name
}

// Open finds the file at what follows "static/" in its address. Its content
// never changes: it may be cached as immutable. It is not found under the
// folder of another version.
func (a *Assets) Open(path string) (Asset, bool) {
	tree, name, _ := strings.Cut(path, "/")
	if tree != a.tree {
		return Asset{}, false
	}
	asset, ok := a.byName[name]
	return asset, ok
}
