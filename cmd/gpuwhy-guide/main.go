// Command gpuwhy-guide writes gpuwhy's guide as a folder of files, for a web server or to open in a browser as it is. "make site" runs it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/gpuwhy/gpuwhy/internal/guide"
	"github.com/gpuwhy/gpuwhy/internal/release"
)

func main() {
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "gpuwhy-guide: name the folder to write, as in gpuwhy-guide bin/site")
		os.Exit(2)
	}
	if err := guide.Write(flag.Arg(0), release.Version); err != nil {
		fmt.Fprintln(os.Stderr, "gpuwhy-guide:", err)
		os.Exit(1)
	}
}
