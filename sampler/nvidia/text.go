package nvidia

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// longestText is how many bytes of a name or a sentence from the driver are kept.
const longestText = 128

// Clean returns a text from the driver fit for people: printable and of bounded length. It removes unprintable characters and invalid
// UTF-8.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ReplaceAll(strings.TrimSpace(s), "\t", " "))
	if len(s) > longestText {
		s = s[:longestText]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return strings.TrimSpace(s)
}

// Text returns a name, a number or a version from the driver; ok is false if none of it is usable: it is empty, a word for "none", or
// mostly bytes that are not text.
func Text(s string) (text string, ok bool) {
	text = Clean(s)
	const mark = "N/A"
	useful := strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	whole := 2*len(text) >= min(len(strings.TrimSpace(s)), longestText)
	return text, useful && whole && !strings.EqualFold(text, mark)
}

// key matches a UUID, which becomes part of addresses and labels. On Orin and Thor it has no "GPU-" prefix.
var (
	key     = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}$`)
	hexUUID = lazy.Pattern(`^(?:[A-Za-z]{2,8}-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// UUID returns the key of a device or a MIG instance; ok is false if the driver's text can't be a key.
func UUID(s string) (uuid string, ok bool) {
	uuid, ok = Text(s)
	return uuid, ok && uuid == strings.TrimSpace(s) && key().MatchString(uuid)
}

// IsUUID reports whether a text can only be the UUID of a device: "GPU-" and more, or 32 digits in groups.
func IsUUID(s string) bool {
	return hexUUID().MatchString(s) || strings.HasPrefix(s, "GPU-") && key().MatchString(s)
}

// Version returns the version in a text from the driver; newer drivers add to it: "610.47 [Deprecated; …]".
func Version(s string) (version string, ok bool) {
	s, _, _ = strings.Cut(strings.TrimSpace(s), " ")
	s, _, _ = strings.Cut(s, "[")
	version, ok = Text(strings.TrimRight(s, ",;"))
	return version, ok && strings.ContainsFunc(version, unicode.IsDigit)
}
