// Command generate writes the files in static/dist, which the program serves:
// a script for each page, one with the modules that several pages use, and the
// style sheets, bundled and minified by esbuild. It is a command of its own so that esbuild is no part of gpuwhy.
//
// "make generate" runs it in the folder static.
package main

import (
	"fmt"
	"os"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate() error {
	result := api.Build(api.BuildOptions{
		EntryPoints:       []string{"page.js", "pastpage.js", "palette.js", "theme.js", "docs.js", "app.css", "docs.css", "pastpage.css"},
		Outdir:            "dist",
		Bundle:            true,
		Splitting:         true,
		ChunkNames:        "shared",               // the modules that both pages use
		External:          []string{"./vendor/*"}, // the page loads these files when it needs them
		Format:            api.FormatESModule,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		Charset:           api.CharsetUTF8,
		LogLevel:          api.LogLevelWarning,
		Write:             true,
	})
	if n := len(result.Errors) + len(result.Warnings); n > 0 {
		return fmt.Errorf("esbuild found %d problems", n)
	}
	return nil
}
