// Command gpuwhy-guide writes gpuwhy's guide as a folder of files, for a web server or to open in a browser as it is. "make site" runs it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/gpuwhy/gpuwhy/internal/guide"
)

func main() {
	version := flag.String("version", "", "the version that the pages name")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "gpuwhy-guide: name the folder to write, as in gpuwhy-guide bin/site")
		os.Exit(2)
	}
	if err := guide.Write(flag.Arg(0), *version); err != nil {
		fmt.Fprintln(os.Stderr, "gpuwhy-guide:", err)
		os.Exit(1)
	}
}
