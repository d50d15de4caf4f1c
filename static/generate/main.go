// Command generate bundles the scripts and style sheets of static into static/dist, which the program serves. esbuild makes a script for
// each page, one with the modules that several pages use, and the style sheets, all minified. It also writes colors.css, of the table of
// colors and looks in views/picture. It is a command of its own so that esbuild is no part of gpuwhy.
//
// "make generate" runs it in the folder static.
package main

import (
	"fmt"
	"os"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/gpuwhy/gpuwhy/views/picture"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate() error {
	if err := os.WriteFile("colors.css", []byte(picture.Stylesheet()), 0o644); err != nil {
		return err
	}
	result := api.Build(api.BuildOptions{
		EntryPoints:       []string{"page.js", "palette.js", "passkey.js", "theme.js", "docs.js", "guide.js", "app.css", "docs.css", "guide.css", "pastpage.css"},
		Outdir:            "dist",
		Bundle:            true,
		Splitting:         true,
		ChunkNames:        "[name]",               // the modules that one page loads when it needs them
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
