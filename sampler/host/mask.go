package host

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mask is what is shown in place of a secret.
const mask = "***"

// commandLine makes one line of arguments, fit to be shown: without control
// characters, without the values of what looks like a secret, and not longer
// than maxCommand. Masking is a help, not a promise: a secret that looks like
// any other word ("mysql -phunter2") can't be told.
func commandLine(args []string) string {
	args = slices.Clone(args)
	for i := range args {
		args[i] = clean(args[i])
	}
	maskSecrets(args)
	return cut(strings.Join(args, " "), maxCommand)
}

// maskSecrets masks in place.
func maskSecrets(args []string) {
	for i, arg := range args {
		name, value, assigns := strings.Cut(arg, "=")
		switch {
		case assigns && value != "" && plainName(name) && secretName(name):
			args[i] = name + "=" + mask // --password=…, HF_TOKEN=…
		case !assigns && strings.HasPrefix(arg, "-") && plainName(arg) && secretName(arg) &&
			i+1 < len(args) && !isFlag(args[i+1]):
			args[i+1] = mask // --token …
		default:
			args[i] = maskWithin(arg)
		}
	}
}

// Patterns of secrets within an argument, which may be a whole command ("sh -c
// …"), a header, a URL or JSON. The groups named "name" have to be names of
// secrets for the group "value" to be masked.
var (
	userInURL  = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*):[^\s/@]+@`)
	bearer     = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}`)
	assignment = regexp.MustCompile(`([A-Za-z0-9_.-]+)(=)("[^"]*"|'[^']*'|[^\s&;"']+)`)
	header     = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_-]*)("?'?\s*:\s*)("[^"]*"|'[^']*'|(?:(?i:bearer|basic)\s+)?[^\s"',}]+)`)
	flag       = regexp.MustCompile(`(--?[A-Za-z][A-Za-z0-9_.-]*)(\s+)("[^"]*"|'[^']*'|[^\s"']+)`)
	shaped     = regexp.MustCompile(`\b(?:` + strings.Join([]string{
		`sk-[A-Za-z0-9_-]{8,}`,               // OpenAI, Anthropic
		`(?:sk|rk|pk)_(?:live|test)_\w{8,}`,  // Stripe
		`hf_[A-Za-z0-9]{8,}`,                 // Hugging Face
		`gh[pousr]_\w{8,}`,                   // GitHub
		`github_pat_\w{8,}`,                  // GitHub
		`glpat-[A-Za-z0-9_-]{8,}`,            // GitLab
		`xox[abeprs]-[A-Za-z0-9-]{8,}`,       // Slack
		`(?:AKIA|ASIA)[A-Z0-9]{12,}`,         // AWS
		`AIza[A-Za-z0-9_-]{20,}`,             // Google
		`nvapi-[A-Za-z0-9_-]{8,}`,            // NVIDIA
		`eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]{4,}`, // a JSON Web Token
	}, "|") + `)`)
)

func maskWithin(text string) string {
	text = userInURL.ReplaceAllString(text, "$1:"+mask+"@")
	for _, pattern := range []*regexp.Regexp{assignment, header, flag} {
		text = pattern.ReplaceAllStringFunc(text, func(found string) string {
			g := pattern.FindStringSubmatch(found)
			if !secretName(g[1]) || isFlag(g[3]) || strings.Contains(g[3], mask) {
				return found
			}
			return g[1] + g[2] + mask
		})
	}
	text = bearer.ReplaceAllString(text, "$1 "+mask)
	return shaped.ReplaceAllString(text, mask)
}

// plainName reports whether a text can be the name of an option or a variable.
func plainName(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}) < 0
}

// isFlag reports whether an argument is an option rather than a value.
func isFlag(arg string) bool {
	return strings.HasPrefix(arg, "--") || len(arg) == 2 && arg[0] == '-'
}

// Words of names: of a secret wherever they stand, and at the end of a name
// alone, since "--token-ids" and "--auth-type" are none. What ends in
// harmlessWords says where a secret is kept.
var (
	secretWords   = []string{"password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials", "apikey"}
	lastWords     = []string{"token", "key", "pass", "pwd", "auth", "authorization", "bearer", "cookie", "authtoken", "accesstoken", "accesskey", "secretkey"}
	harmlessWords = []string{"file", "path", "dir", "name", "env"}
)

// secretName reports whether a name such as "--hf-token" or "apiKey" is that
// of a secret.
func secretName(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	if slices.Contains(harmlessWords, last) {
		return false
	}
	return slices.Contains(lastWords, last) ||
		slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretWords, w) })
}

// wordsOf takes a name apart at signs, and where small letters meet a capital.
func wordsOf(name string) []string {
	var spaced strings.Builder
	var before rune
	for _, r := range name {
		switch {
		case r == '-' || r == '_' || r == '.':
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(r)
		before = r
	}
	return strings.Fields(strings.ToLower(spaced.String()))
}

// clean makes text fit to be shown: line breaks become spaces, and what is not
// valid UTF-8, a control character, or turns the direction of writing becomes
// the replacement character.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// cut shortens text to that many bytes, the last of which say that it was cut.
func cut(text string, limit int) string {
	const more = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
