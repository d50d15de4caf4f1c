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

// commandLine joins arguments into one line that is safe to show: without control characters, without values that look like secrets, and at
// most maxCommand long. A secret is recognized by its name (--token X, Authorization: X), its shape (hf_…), the address around it (a
// webhook), or the program that gets it. A plain word for an unknown program stays.
func commandLine(args []string) string {
	args = slices.Clone(args)
	for i := range args {
		args[i] = clean(args[i])
	}
	maskSecrets(args)
	return cut(strings.Join(args, " "), maxCommand)
}

// maskSecrets masks secrets in place.
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

// maskNamed masks the values given to names of secrets, by whole arguments. Within an argument, the end of a value depends on its context
// (see nameValue).
func maskNamed(args []string) {
	before := ""
	for i, arg := range args {
		name, value, assigns := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(before, "-") && plainName(before) && !isFlag(arg) && concealed(before, arg) != arg:
			args[i] = concealed(before, arg) // --token …
		case assigns && plainName(name):
			args[i] = name + "=" + concealedWhole(name, value) // --password=…, HF_TOKEN=…
		}
		before = args[i]
	}
}

// concealedWhole is [concealed] for a value that extends to the end of an argument. The value may begin with a name itself, as in
// "--env=HF_TOKEN=…".
func concealedWhole(name, value string) string {
	if inner, rest, assigns := strings.Cut(value, "="); assigns && inner != "" && plainName(inner) && kindOf(name) != nameOfSecret {
		return inner + "=" + concealed(inner, rest)
	}
	return concealed(name, value)
}

// Quoted texts, which may themselves be in quotes ("\"…\""), as shells, JSON, Python and SQL write them. An unclosed quote extends to the
// end.
const (
	escaped = `\\+"(?:[^"\\]|\\{2,}.)*?(?:\\?"|$)|\\+'(?:[^'\\]|\\{2,}.)*?(?:\\?'|$)`
	quoted  = `"(?:[^"\\]|\\.)*(?:"|\\?$)|'(?:[^'\\]|\\.)*(?:'|\\?$)|` + escaped
	// inQuotes is a quoted text with the prefix that Python and shells may write, and with whatever is glued to it.
	inQuotes = `(?:[bBfFrRuU$]{0,2}(?:` + quoted + `)(?:` + quoted + `|[^\s&;"'\\,)\]}]+)*)`
)

// Patterns of names with values within one argument, which may be a whole command ("sh -c …"), a header, a URL, JSON or Python.
var (
	assignment = nameValue{
		lazy.Pattern(`([A-Za-z0-9_.-]+)=`),
		lazy.Pattern(`^(?:` + inQuotes + `|(?:[^\s&;"'\\]|\\[^"'])+)`),
	}
	// spacedAssignment is "password = '…'", and "os.environ['HF_TOKEN'] = '…'".
	spacedAssignment = nameValue{
		lazy.Pattern(`([A-Za-z0-9_.-]+)(?:\\*["']\s*\])?\s*=\s*`),
		lazy.Pattern(`^` + inQuotes),
	}
	header = nameValue{
		lazy.Pattern(`([A-Za-z][A-Za-z0-9_-]*)(?:\\*["'])?\s*:\s*`),
		lazy.Pattern(`^(?:` + inQuotes + `|\[[^\]]*\]?|(?:(?i:bearer|basic)\s+)?(?:[^\s"',}{\[\\]|\\[^"'])[^\s"',}]*)`),
	}
	// call is "os.environ.setdefault('HF_TOKEN', '…')".
	call = nameValue{
		lazy.Pattern(`\(\s*\\*["']([A-Za-z0-9_.-]+)\\*["']\s*,\s*`),
		lazy.Pattern(`^` + inQuotes),
	}
	flag = nameValue{
		lazy.Pattern(`(--?[A-Za-z][A-Za-z0-9_.-]*)\s+`),
		lazy.Pattern(`^(?:` + inQuotes + `|(?:[^\s"'\\]|\\.)+)`),
	}
)

// longestLogin is how far the search for a name and a password goes, in bytes.
const longestLogin = 1 << 10

// A nameValue has the pattern of a name and what follows it, and the pattern of the value, which is only searched for after the name of a
// secret: the time grows with the length of the text.
type nameValue struct{ name, value func() *regexp.Regexp }

//go:embed secrets.yaml
var secretsYAML []byte

// secrets is how secrets are recognized; secrets.yaml explains the fields.
type secrets struct {
	Parts   []secretPart
	Shapes  []string
	Words   secretWords
	Options []passwordOption

	shaped    *regexp.Regexp // one of Shapes
	byProgram map[string][]passwordOption
}

// A secretPart is a place in a text that holds a secret.
type secretPart struct {
	Has, Pattern string
	pattern      *regexp.Regexp
}

// secretWords are the words in names of secrets.
type secretWords struct {
	Stems, Innocent, Harmless, Without []string
	Endings                            []secretEnding
	Logins, Addresses                  []string
}

// A secretEnding is a word at the end of a secret's name.
type secretEnding struct {
	Word      string
	But, Only []string
	Glued     []string
	Whole     bool
}

// A passwordOption is a program's short option whose value is a password, or a word that is a password itself.
type passwordOption struct {
	Programs []string
	Option   string   // "-p"
	Apart    bool     // "-p X" too, not only "-pX"
	After    []string // only after one of these words, the program's commands
	Word     int      // a lone word of at least this many bytes is the password; 0: none
	Names    bool     // a word after the name of a secret is the password: "password X"
	Slash    bool     // the word is "name/password"

	begun bool // in this command line: one of After was seen, or After is empty
}

var knownSecrets = sync.OnceValue(func() *secrets {
	s := &secrets{byProgram: map[string][]passwordOption{}}
	decoder := yaml.NewDecoder(bytes.NewReader(secretsYAML))
	decoder.KnownFields(true)
	if err := decoder.Decode(s); err != nil {
		panic("host: secrets.yaml: " + err.Error())
	}
	for i := range s.Parts {
		s.Parts[i].pattern = regexp.MustCompile(s.Parts[i].Pattern)
	}
	s.shaped = regexp.MustCompile(`\b(?:` + strings.Join(s.Shapes, "|") + `)`)
	for _, o := range s.Options {
		for _, program := range o.Programs {
			s.byProgram[program] = append(s.byProgram[program], o)
		}
	}
	return s
})

// shortestShape is the length of the shortest of Shapes, in bytes.
const shortestShape = 9

func maskWithin(text string) string {
	known := knownSecrets()
	for small, i := strings.ToLower(text), 0; i < len(known.Parts); i++ {
		if part := &known.Parts[i]; strings.Contains(small, part.Has) {
			text = part.pattern.ReplaceAllString(text, "${1}"+mask+"${2}")
		}
	}
	if strings.Contains(text, "=") {
		text = assignment.mask(text)
		if strings.ContainsAny(text, `"'`) {
			text = spacedAssignment.mask(text)
		}
	}
	if strings.Contains(text, ",") && strings.ContainsAny(text, `"'`) {
		text = call.mask(text)
	}
	if strings.Contains(text, ":") {
		text = header.mask(text)
	}
	if strings.Contains(text, "-") && strings.Contains(text, " ") {
		text = flag.mask(text)
	}
	if len(text) < shortestShape {
		return text
	}
	return known.shaped.ReplaceAllStringFunc(text, func(found string) string {
		if word, is := strings.CutPrefix(found, "hf_"); is && len(found) < 20 && !random(word) {
			return found
		}
		return mask
	})
}

// mask masks the values of secrets. The value of another name may itself contain a name: "--env=HF_TOKEN=…", "--verbose --token …".
func (n nameValue) mask(text string) string {
	var out strings.Builder
	for {
		match := n.name().FindStringSubmatchIndex(text)
		if match == nil {
			return out.String() + text
		}
		name := text[match[2]:match[3]]
		out.WriteString(text[:match[1]])
		text = text[match[1]:]
		kind := kindOf(name)
		if kind == nameOfOther || strings.HasPrefix(text, "--") { // a value that is an option may be long, and is examined again
			continue
		}
		most := len(text)
		if kind != nameOfSecret { // if it is no login, another name may be in it: it is examined again
			if most = min(most, longestLogin); !strings.Contains(text[:most], ":") {
				continue
			}
		}
		value := n.value().FindString(text[:most])
		shown := concealed(name, value)
		if shown == value && (kind != nameOfSecret || isFlag(value)) {
			continue
		}
		out.WriteString(shown)
		text = text[len(value):]
	}
}

// maskOptions masks passwords in place: of known programs, of "set NAME X", and what looks like a password after "-p" of any other program.
func maskOptions(words []string) {
	var options []passwordOption // of the program
	phrase := false              // within a recovery phrase
	before, setting := "", false
	for i, word := range words {
		if known, ok := knownSecrets().byProgram[word[strings.LastIndexByte(word, '/')+1:]]; ok {
			options, before = slices.Clone(known), word
			continue // not a value, not even after "time -p"
		}
		phrase = phrase && isPhrase(word) || strings.HasPrefix(before, "-") && kindOf(before) == nameOfSecret && wordOf(before, "mnemonic", "phrase", "words")
		masked := ""
		for j := range options {
			o := &options[j]
			if o.begun = o.begun || len(o.After) == 0; !o.begun {
				continue
			}
			if masked = o.mask(before, word); masked == "" {
				continue
			}
			if o.Option != "" {
				options = slices.Delete(options, j, j+1) // only one value: sshpass -p X ssh -p 22
			}
			break
		}
		for j := range options {
			options[j].begun = options[j].begun || slices.Contains(options[j].After, word)
		}
		switch {
		case masked != "":
			words[i] = masked
		case phrase && !strings.HasPrefix(word, "-"):
			words[i] = mask
		case setting && word != "=" && plainName(before) && kindOf(before) == nameOfSecret:
			words[i] = concealed(before, word)
		default:
			words[i] = maskOption(before, word)
		}
		// "set NAME X", "setenv NAME X", "set -gx NAME X"
		setting = strings.EqualFold(before, "set") || before == "setenv" || setting && strings.HasPrefix(before, "-")
		before = word
	}
}

// mask returns a word as it may be shown; empty if the option does not apply to it.
func (o *passwordOption) mask(before, word string) string {
	value, attached := strings.CutPrefix(word, o.Option)
	isOption := strings.HasPrefix(word, "-")
	switch {
	case o.Option != "" && o.Apart && before == o.Option:
		return mask
	case o.Option != "" && attached && value != "":
		return o.Option + mask
	case o.Word > 0 && len(word) >= o.Word && !isOption && !slices.Contains(o.After, word) && !strings.Contains(word, "://"):
		return mask
	case o.Names && !isOption && plainName(before) && kindOf(before) == nameOfSecret:
		return concealed(before, word)
	case o.Slash && !isOption && strings.IndexByte(word, '/') > 0:
		return maskSlash(word)
	}
	return ""
}

// maskOption masks a word that is the value of a short option of any program.
func maskOption(before, word string) string {
	switch {
	case before == "-p" && passwordLike(word):
		return mask
	case strings.HasPrefix(before, "-pass") && strings.HasPrefix(word, "pass:"):
		return "pass:" + mask // openssl
	case before == "-U" && strings.Contains(word, "%"): // smbclient
		name, _, _ := strings.Cut(word, "%")
		return name + "%" + mask
	case before == "-u", before == "-U":
		return maskLogin(word)
	case before == "-x": // curl
		return maskAddress(word)
	}
	if login, ok := strings.CutPrefix(word, "-u"); ok {
		return "-u" + maskLogin(login)
	}
	return word
}

// maskLogin masks the password in "name:password" and "name:password@host", but not in "1000:1000" or an address.
func maskLogin(login string) string {
	inner, host := strings.Trim(login, `"'`), ""
	if atSign := strings.LastIndexByte(inner, '@'); atSign > strings.IndexByte(inner, ':') {
		inner, host = inner[:atSign], inner[atSign:]
	}
	name, password, ok := strings.Cut(inner, ":")
	if !ok || name == "" || password == "" || name == password || strings.HasPrefix(password, "//") || password == mask ||
		strings.Trim(password, "0123456789") == "" && strings.Trim(name, "0123456789") == "" {
		return login
	}
	return name + ":" + mask + host
}

// maskAddress masks the password in "name:password@host", without a scheme: [secretPart] handles addresses with one.
func maskAddress(address string) string {
	colon, atSign := strings.IndexByte(address, ':'), strings.LastIndexByte(address, '@')
	if colon < 0 || atSign < colon || strings.Contains(address, "://") || strings.Contains(address, "@sha256:") {
		return address
	}
	return maskLogin(address)
}

// maskSlash masks the password in "name/password@database".
func maskSlash(login string) string {
	name, rest, _ := strings.Cut(login, "/")
	if name == "" || rest == "" {
		return login
	}
	if atSign := strings.LastIndexByte(rest, '@'); atSign >= 0 {
		return name + "/" + mask + rest[atSign:]
	}
	return name + "/" + mask
}

// isPhrase reports whether a word may be part of a recovery phrase.
func isPhrase(word string) bool {
	return word == mask || word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz\"'") == ""
}

// passwordLike reports whether a word looks like nothing else that follows "-p": it has letters, digits and special characters, or consists
// of small letters, capitals and digits.
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
	contains := func(kind func(rune) bool) bool { return strings.ContainsFunc(word, kind) }
	return contains(unicode.IsLower), contains(unicode.IsUpper), contains(unicode.IsDigit)
}

// shellWord matches a word of a command in one argument.
var shellWord = lazy.Pattern(`(?:"[^"]*"|'[^']*'|[^\s;|&"'])+`)

// maskCommand is maskOptions for a command in one argument.
func maskCommand(text string) string {
	words := shellWord().FindAllString(text, -1)
	maskOptions(words)
	i := -1
	return shellWord().ReplaceAllStringFunc(text, func(string) string {
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

// A nameKind is the kind of a name's value.
type nameKind int

const (
	nameOfOther   nameKind = iota
	nameOfSecret           // "--hf-token", "PGPASSWORD"
	nameOfLogin            // "--user": "name:password"
	nameOfAddress          // "--proxy": "name:password@host"
)

// concealed returns the value of a name as it may be shown. Every decision about values is made here; every decision about names in kindOf.
func concealed(name, value string) string {
	switch kindOf(name) {
	case nameOfOther:
		return value
	case nameOfLogin:
		return maskLogin(value)
	case nameOfAddress:
		return maskAddress(value)
	}
	words := wordsOf(name)
	bare := strings.Trim(value, `"'`)
	number := strings.Trim(bare, "0123456789") == ""
	is := func(word string) bool { return strings.HasSuffix(words[len(words)-1], word) }
	switch {
	case bare == "", isFlag(value), strings.Contains(value, mask), slices.Contains([]string{"true", "false", "none", "null"}, strings.ToLower(bare)):
		return value
	case bare == "lambda": // Python: "sort(key=lambda …)"
		return value
	case is("pass") && number && len(bare) < 3: // the number of a pass
		return value
	case is("pin") && number && len(bare) < 3:
		return value
	case is("pwd") && strings.HasPrefix(bare, "/"): // a folder
		return value
	case is("pat") && strings.ContainsAny(bare, "*/"): // a pattern
		return value
	case is("token") && len(bare) > 2 && strings.ContainsRune("<[", rune(bare[0])) && strings.ContainsRune(">]", rune(bare[len(bare)-1])):
		return value // a model's
	case is("sig") && (number && len(bare) < 3 || strings.Trim(bare, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""): // a signal
		return value
	case words[len(words)-1] == "api" && (strings.Contains(value, "://") || !slices.Contains(words, "wandb") && !random(value)):
		return value
	}
	return mask
}

// kindOf makes every decision about names, such as "--hf-token", "apiKey" and "PGPASSWORD".
func kindOf(name string) nameKind {
	words := wordsOf(name)
	if len(words) == 0 {
		return nameOfOther
	}
	known := &knownSecrets().Words
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch {
	case slices.Contains(known.Harmless, last), len(words) > 1 && slices.Contains(known.Without, words[0]):
		return nameOfOther
	case slices.ContainsFunc(words, known.hasStem), last == "api" && before != "":
		return nameOfSecret
	}
	for i := range known.Endings {
		if known.Endings[i].ends(last, before) {
			return nameOfSecret
		}
	}
	switch {
	case slices.Contains(known.Logins, last):
		return nameOfLogin
	case slices.Contains(known.Addresses, last):
		return nameOfAddress
	}
	return nameOfOther
}

// hasStem reports whether a word of a name contains a secret's stem, and not as part of another word.
func (k *secretWords) hasStem(word string) bool {
	return slices.ContainsFunc(k.Stems, func(stem string) bool {
		_, rest, found := strings.Cut(word, stem)
		return found && !slices.Contains(k.Innocent, rest) && !slices.Contains(k.Harmless, strings.TrimPrefix(rest, "s")) && !slices.Contains(k.Harmless, rest)
	})
}

// ends reports whether a name with these last words has this ending.
func (e *secretEnding) ends(last, before string) bool {
	front, found := strings.CutSuffix(last, e.Word)
	switch {
	case !found, front != "" && e.Whole, front != "" && e.Glued != nil && !slices.Contains(e.Glued, front):
		return false
	case front == "":
		front = before
	}
	return (e.Only == nil || slices.Contains(e.Only, front)) && !slices.Contains(e.But, front)
}

// wordOf reports whether a name's last word ends in one of the given words.
func wordOf(name string, some ...string) bool {
	words := wordsOf(name)
	return len(words) > 0 && slices.ContainsFunc(some, func(w string) bool { return strings.HasSuffix(words[len(words)-1], w) })
}

// wordsOf splits a name at separators, and where a capital follows a small letter. It drops digits at the end of a word.
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
	words := strings.Fields(strings.ToLower(spaced.String()))
	for i := range words {
		words[i] = strings.TrimRight(words[i], "0123456789")
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

// clean makes text safe to show, without line breaks, invalid UTF-8, control characters, and characters that change the writing direction
// or are invisible.
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

// short makes a name safe to show.
func short(name string) string { return cut(clean(name), maxName) }

// cut shortens text to at most limit bytes, with "…" at the end.
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
