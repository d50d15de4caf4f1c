package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Path expands a path as people write it in settings, with ~ for the home folder. It refuses control characters and
// anything that only a shell would expand. An empty path stays empty.
func Path(path string) (string, error) {
	const quotes = `"'` + "`“”‘’"
	first, _ := utf8.DecodeRuneInString(path)
	last, _ := utf8.DecodeLastRuneInString(path)
	switch {
	case path == "":
		return "", nil
	case strings.ContainsFunc(path, unicode.IsControl):
		return "", errors.New("remove the control character")
	case strings.TrimSpace(path) != path:
		return "", errors.New("remove the space around it")
	case strings.ContainsRune(quotes, first), strings.ContainsRune(quotes, last):
		return "", errors.New("remove the quotes: no shell strips them here")
	case first == '$', first == '%':
		return "", errors.New("variables are not expanded here: write the whole path")
	case path == "~" || strings.HasPrefix(path, "~/"):
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return "", errors.New("this user has no home folder: write the whole path")
		}
		return filepath.Join(home, path[1:]), nil
	case first == '~':
		return "", errors.New("gpuwhy does not look up other users' home folders: write the whole path")
	}
	return path, nil
}
