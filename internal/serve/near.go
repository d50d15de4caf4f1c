package serve

import (
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/nearest"
)

// mostNames is how many names an error lists, and mostListed how long that list is, in bytes, where all are listed elsewhere.
const (
	mostNames  = 80
	mostListed = 160
)

// Unknown refuses an unknown name. what begins the error ("there is no metric"); the advice lists the names that exist, or the one
// that was probably meant. where says where all names are listed, in case there are too many; it may be empty.
func Unknown(status int, what, name string, names []string, where string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" })
	try := "use " + eitherOf(names)
	switch {
	case len(names) == 0, where != "" && len(try) > mostListed:
		try = where
	case where != "":
		try += "; " + where
	}
	return Refuse(status, what+" "+Quote(name)+nearest.Hint(name, names), try)
}

// eitherOf is "raw, 1m, 15m or 6h".
func eitherOf(names []string) string {
	switch n := len(names); {
	case n == 0:
		return "none"
	case n == 1:
		return names[0]
	case n > mostNames:
		return "one of " + strings.Join(names[:mostNames], ", ") + " or others"
	default:
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
}
