// Package static holds the files that the pages load: our own scripts, styles and
// icons, and RapiDoc for the API documentation.
//
// The scripts are written as ES modules. The command generate bundles them into
// the folder dist, which is committed, so building gpuwhy needs only Go.
// Scripts import one another and the libraries in the folder vendor by relative
// paths, so all files are served under one folder. Its name is the hash of all
// files: browsers may cache them forever and never mix two versions.
package static

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

//go:generate go run ./generate
//go:embed dist vendor icon.svg icon-192.png icon-512.png
var files embed.FS

// types maps extensions to content types: the system's table differs between machines.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
	".md": "text/plain; charset=utf-8", "": "text/plain; charset=utf-8",
}

// Assets holds all files. They never change, and its methods may be called
// concurrently.
type Assets struct {
	tree   string
	byName map[string]func() []byte // read or unpacked on first use, to save memory and time
}

// New reads the embedded files. It panics if it can't read one, which is a mistake in
// the build.
func New() *Assets {
	a := &Assets{byName: map[string]func() []byte{}}
	tree, buf := sha256.New(), make([]byte, 32<<10)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := files.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		fmt.Fprintf(tree, "%s %d\n", name, info.Size())
		if _, err := io.CopyBuffer(tree, file, buf); err != nil {
			return err
		}
		short, packed := strings.CutSuffix(strings.TrimPrefix(name, "dist/"), ".gz")
		a.byName[short] = sync.OnceValue(func() []byte {
			content, err := files.ReadFile(name)
			if err != nil {
				panic("static: an embedded file can't be read again: " + err.Error())
			}
			if packed { // a large library
				return unpack(content)
			}
			return content
		})
		return nil
	})
	if err != nil {
		panic("static: the embedded files can't be read: " + err.Error())
	}
	a.tree = hex.EncodeToString(tree.Sum(nil))[:12]
	return a
}

func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		packed, err = io.ReadAll(r)
	}
	if err != nil {
		panic("static: an embedded file can't be unpacked: " + err.Error())
	}
	return packed
}

// URL returns the address of a file by name, such as "page.js", on a site whose
// base path begins and ends with "/".
func (a *Assets) URL(base, name string) string {
	return base + "static/" + a.tree + "/" + name
}

// Open finds a file by the part of its address after "static/". The content of
// an address never changes, so it may be cached as immutable. A file is not
// found under the folder of another version.
func (a *Assets) Open(address string) (content []byte, contentType string, ok bool) {
	tree, name, _ := strings.Cut(address, "/")
	made, ok := a.byName[name]
	if !ok || tree != a.tree {
		return nil, "", false
	}
	return made(), types[path.Ext(name)], true
}
