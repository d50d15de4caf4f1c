package host

import (
	"bytes"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// mask replaces a secret.
const mask = "***"

// commandLine joins arguments to one line that can be shown: without control characters,
// without values that look like secrets, and not longer than maxCommand. A secret is known
// by its name (--token X, Authorization: X), its shape (hf_…), the address around it (a
// webhook), or the program that gets it. A plain word for an unknown program stays.
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
	maskNamed(args)
	maskOptions(args)
	for i := range args {
		if strings.ContainsRune(args[i], ' ') {
			args[i] = maskCommand(args[i])
		}
		args[i] = maskWithin(args[i])
	}
}

// maskNamed masks what the name of a secret is given as a value, by whole arguments:
// within one, where a value ends depends on what it is part of (see nameValue).
func maskNamed(args []string) {
	before := ""
	for i, arg := range args {
		name, value, assigns := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(before, "-") && plainName(before) && !isFlag(arg) && secret(before, arg):
			args[i] = mask // --token …
		case assigns && value != "" && plainName(name) && secret(name, value):
			args[i] = name + "=" + mask // --password=…, HF_TOKEN=…
		}
		before = args[i]
	}
}

// Patterns of names with values within one argument, which may be a whole command
// ("sh -c …"), a header, a URL or JSON.
var (
	assignment = nameValue{
		lazy.Pattern(`([A-Za-z0-9_.-]+)=`),
		lazy.Pattern(`^(?:"[^"]*"|'[^']*'|[^\s&;"']+)`),
	}
	header = nameValue{
		lazy.Pattern(`([A-Za-z][A-Za-z0-9_-]*)"?'?\s*:\s*`),
		lazy.Pattern(`^(?:"[^"]*"|'[^']*'|(?:(?i:bearer|basic)\s+)?[^\s"',}]+)`),
	}
	flag = nameValue{
		lazy.Pattern(`(--?[A-Za-z][A-Za-z0-9_.-]*)\s+`),
		lazy.Pattern(`^(?:"[^"]*"|'[^']*'|[^\s"']+)`),
	}
)

// A nameValue has the pattern of a name and what follows it, and that of the value, which
// is searched for after the name of a secret alone: the time grows with the text's length.
type nameValue struct{ name, value *lazy.Regexp }

//go:embed secrets.yaml
var secretsYAML []byte

// secrets is how secrets are recognized.
type secrets struct {
	Parts  []*regexp.Regexp
	Shapes []string
	shaped *regexp.Regexp // one of Shapes
	Words  struct{ Anywhere, Last, Harmless, Tokens, Keys []string }

	Options   []passwordOption
	byProgram map[string]passwordOption
}

// A passwordOption is a short option whose value is a password.
type passwordOption struct {
	Programs []string
	Option   string // "-p"
	Apart    bool   // "-p X" too, not only "-pX"
	After    string // only after this word, a command of the program
}

var knownSecrets = sync.OnceValue(func() *secrets {
	s := &secrets{byProgram: map[string]passwordOption{}}
	decoder := yaml.NewDecoder(bytes.NewReader(secretsYAML))
	decoder.KnownFields(true)
	if err := decoder.Decode(s); err != nil {
		panic("host: secrets.yaml: " + err.Error())
	}
	s.shaped = regexp.MustCompile(`\b(?:` + strings.Join(s.Shapes, "|") + `)`)
	for _, o := range s.Options {
		for _, program := range o.Programs {
			s.byProgram[program] = o
		}
	}
	return s
})

func maskWithin(text string) string {
	for _, pattern := range knownSecrets().Parts {
		text = pattern.ReplaceAllStringFunc(text, func(found string) string {
			end := ""
			if strings.HasSuffix(found, "@") {
				end = "@"
			}
			return pattern.FindStringSubmatch(found)[1] + mask + end
		})
	}
	for _, pattern := range []nameValue{assignment, header, flag} {
		text = pattern.mask(text)
	}
	shaped := knownSecrets().shaped
	return shaped.ReplaceAllStringFunc(text, func(found string) string {
		if word := shaped.FindStringSubmatch(found)[shaped.SubexpIndex("word")]; word != "" && len(word) < 20 && !random(word[3:]) {
			return found
		}
		return mask
	})
}

// mask masks the values of secrets. The value of another name may contain a name itself:
// "--env=HF_TOKEN=…", "--verbose --token …".
func (n nameValue) mask(text string) string {
	var out strings.Builder
	for {
		at := n.name.FindStringSubmatchIndex(text)
		if at == nil {
			return out.String() + text
		}
		name := text[at[2]:at[3]]
		out.WriteString(text[:at[1]])
		text = text[at[1]:]
		if !mayBeSecret(name) {
			continue
		}
		value := n.value.FindString(text)
		text = text[len(value):]
		if secret(name, value) && value != "" && !isFlag(value) && !strings.Contains(value, mask) {
			value = mask
		} else if isFlag(value) { // the next name
			value, text = "", value+text
		}
		out.WriteString(value)
	}
}

// maskOptions masks passwords, in place: of known programs, in "-u name:X", and what looks
// like one after "-p" of any other program.
func maskOptions(words []string) {
	var program passwordOption
	command := true // the word program.After was there
	before := ""
	for i, word := range words {
		if o, ok := knownSecrets().byProgram[word[strings.LastIndexByte(word, '/')+1:]]; ok {
			program, command = o, o.After == ""
			before = word
			continue // no value, also after "time -p"
		}
		command = command || word == program.After
		value, attached := strings.CutPrefix(word, program.Option)
		switch {
		case program.Option != "" && command && program.Apart && before == program.Option:
			words[i], program = mask, passwordOption{} // given once: sshpass -p X ssh -p 22
		case program.Option != "" && command && attached && value != "":
			words[i], program = program.Option+mask, passwordOption{}
		default:
			words[i] = maskOption(before, word)
		}
		before = words[i]
	}
}

// maskOption masks a word that is the value of an option of any program.
func maskOption(before, word string) string {
	switch {
	case before == "-p" && passwordLike(word):
		return mask
	case strings.HasPrefix(before, "-pass") && strings.HasPrefix(word, "pass:"):
		return "pass:" + mask // openssl
	case slices.Contains([]string{"-u", "-U", "--user", "--proxy-user"}, before):
		return maskLogin(word)
	}
	for _, option := range []string{"--user=", "--proxy-user=", "-u"} {
		if login, ok := strings.CutPrefix(word, option); ok {
			return option + maskLogin(login)
		}
	}
	return word
}

// maskLogin masks the password of "name:password", and no "1000:1000" or address.
func maskLogin(login string) string {
	name, password, ok := strings.Cut(strings.Trim(login, `"'`), ":")
	if !ok || name == "" || password == "" || name == password || strings.HasPrefix(password, "//") ||
		strings.Trim(password, "0123456789") == "" && strings.Trim(name, "0123456789") == "" {
		return login
	}
	return name + ":" + mask
}

// passwordLike reports whether a word looks like nothing else that follows "-p": it has
// letters, digits and a sign of passwords, or small letters, capitals and digits alone.
func passwordLike(word string) bool {
	if len(word) < 8 || strings.ContainsAny(word, " /\\=:") {
		return false
	}
	odd := strings.ContainsAny(word, "!@#$%^&*?+~")
	plain := !strings.ContainsAny(word, "-_.,")
	small, capital, digit := kinds(word)
	return digit && (odd && (small || capital) || plain && small && capital)
}

// random reports whether letters and digits don't look like a word.
func random(word string) bool {
	small, capital, digit := kinds(word)
	return small && capital && digit || digit && len(word) >= 16
}

func kinds(word string) (small, capital, digit bool) {
	has := func(kind func(rune) bool) bool { return strings.ContainsFunc(word, kind) }
	return has(unicode.IsLower), has(unicode.IsUpper), has(unicode.IsDigit)
}

// shellWord matches a word of a command in one argument.
var shellWord = lazy.Pattern(`(?:"[^"]*"|'[^']*'|[^\s;|&"'])+`)

// maskCommand does what maskOptions does, in a command in one argument.
func maskCommand(text string) string {
	words := shellWord.FindAllString(text, -1)
	maskOptions(words)
	i := -1
	return shellWord.ReplaceAllStringFunc(text, func(string) string {
		i++
		return words[i]
	})
}

// plainName reports whether a text can be a name, such as "--token" or "+trainer.api_key".
func plainName(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.+", r)
	}) < 0
}

// isFlag reports whether an argument is an option rather than a value.
func isFlag(arg string) bool {
	return strings.HasPrefix(arg, "--") || len(arg) == 2 && arg[0] == '-'
}

// secret reports whether the value of that name is a secret. A number of passes is none,
// and the value of a name that ends in "api" must look like a key.
func secret(name, value string) bool {
	words := wordsOf(name)
	switch {
	case !mayBeSecret(name), words[len(words)-1] == "pass" && len(value) == 1:
		return false
	case words[len(words)-1] == "api":
		return !strings.Contains(value, "://") && (slices.Contains(words, "wandb") || random(value))
	}
	return true
}

// mayBeSecret reports whether a name such as "--hf-token" or "apiKey" can be a secret's.
func mayBeSecret(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	known := &knownSecrets().Words
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch {
	case slices.Contains(known.Harmless, last):
		return false
	case slices.ContainsFunc(words, func(w string) bool { return slices.Contains(known.Anywhere, w) }):
		return true
	case last == "token" && slices.Contains(known.Tokens, before), last == "key" && slices.Contains(known.Keys, before):
		return false
	default:
		return last == "api" && before != "" || slices.Contains(known.Last, last)
	}
}

// wordsOf splits a name at signs, and where a capital follows a small letter.
func wordsOf(name string) []string {
	var spaced strings.Builder
	var before rune
	for _, r := range name {
		switch {
		case r == '-' || r == '_' || r == '.' || r == '+':
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(r)
		before = r
	}
	return strings.Fields(strings.ToLower(spaced.String()))
}

// clean makes text safe to be shown, without line breaks, invalid UTF-8, control
// characters, and characters that change the direction of writing or that nobody sees.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			return -1
		case unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// short makes a name safe to be shown.
func short(name string) string { return cut(clean(name), maxName) }

// cut shortens text to that many bytes, with "…" at the end.
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
