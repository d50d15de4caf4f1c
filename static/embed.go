// Package static holds the files that pages load: scripts, styles, an icon, and
// RapiDoc for the API's documentation.
//
// The scripts are written as ES modules. The command generate bundles them into
// the folder dist, which is committed, so that a build of gpuwhy takes Go alone.
// Scripts import one another and the libraries in the folder vendor by relative
// paths, so all files are served under one folder. Its name is the hash of all
// files: a browser may keep them forever, and never mixes two versions.
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

// types are content types by extension: the system's table differs by machine.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
	".md": "text/plain; charset=utf-8", "": "text/plain; charset=utf-8",
}

// Assets are all files. They never change, and any number of goroutines may read
// them.
type Assets struct {
	tree   string
	byName map[string]func() []byte // a file is read, and a library unpacked, when it is first asked for: that takes memory and time
}

// New reads the embedded files. What it can't read is a mistake of the build, and it
// panics.
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

// URL is the address of the file of that name, such as "page.js", on a site
// whose base path begins and ends with "/".
func (a *Assets) URL(base, name string) string {
	return base + "static/" + a.tree + "/" + name
}

// Open finds a file by what follows "static/" in its address.
// Its content never changes: it may be cached as immutable. It is not found
// under the folder of another version.
func (a *Assets) Open(address string) (content []byte, contentType string, ok bool) {
	tree, name, _ := strings.Cut(address, "/")
	made, ok := a.byName[name]
	if !ok || tree != a.tree {
		return nil, "", false
	}
	return made(), types[path.Ext(name)], true
}
