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
		case strings.HasPrefix(before, "-") && plainName(before) && !isFlag(arg) && concealed(before, arg) != arg:
			args[i] = concealed(before, arg) // --token …
		case assigns && plainName(name):
			args[i] = name + "=" + concealedWhole(name, value) // --password=…, HF_TOKEN=…
		}
		before = args[i]
	}
}

// concealedWhole is [concealed] of a value that goes on to the end of an argument. It may begin with a name itself, as that
// of "--env=HF_TOKEN=…" does.
func concealedWhole(name, value string) string {
	if inner, rest, assigns := strings.Cut(value, "="); assigns && inner != "" && plainName(inner) && kindOf(name) != nameOfSecret {
		return inner + "=" + concealed(inner, rest)
	}
	return concealed(name, value)
}

// Texts in quotes, which may themselves be in quotes ("\"…\""), as a shell, JSON, Python and SQL write them. A quote that nobody
// closes goes on to the end.
const (
	escaped = `\\+"(?:[^"\\]|\\{2,}.)*?(?:\\?"|$)|\\+'(?:[^'\\]|\\{2,}.)*?(?:\\?'|$)`
	quoted  = `"(?:[^"\\]|\\.)*(?:"|\\?$)|'(?:[^'\\]|\\.)*(?:'|\\?$)|` + escaped
	// inQuotes is a text in quotes with what Python and shells write before it, and with what is glued to it.
	inQuotes = `(?:[bBfFrRuU$]{0,2}(?:` + quoted + `)(?:` + quoted + `|[^\s&;"'\\,)\]}]+)*)`
)

// Patterns of names with values within one argument, which may be a whole command
// ("sh -c …"), a header, a URL, JSON or Python.
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

// longestLogin is how much is searched for a name and a password, in bytes.
const longestLogin = 1 << 10

// A nameValue has the pattern of a name and what follows it, and that of the value, which
// is searched for after the name of a secret alone: the time grows with the text's length.
type nameValue struct{ name, value func() *regexp.Regexp }

//go:embed secrets.yaml
var secretsYAML []byte

// secrets is how secrets are recognized; secrets.yaml says what the fields mean.
type secrets struct {
	Parts   []secretPart
	Shapes  []string
	Words   secretWords
	Options []passwordOption

	shaped    *regexp.Regexp // one of Shapes
	byProgram map[string][]passwordOption
}

// A secretPart is a place in a text where a secret stands.
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

// A secretEnding is a word that the name of a secret ends in.
type secretEnding struct {
	Word      string
	But, Only []string
	Glued     []string
	Whole     bool
}

// A passwordOption is a short option of a program whose value is a password, or a word that is one.
type passwordOption struct {
	Programs []string
	Option   string   // "-p"
	Apart    bool     // "-p X" too, not only "-pX"
	After    []string // only after one of these words, commands of the program
	Word     int      // a word alone of so many bytes is the password; 0: none
	Names    bool     // a word after the name of a secret is the password: "password X"
	Slash    bool     // a word is "name/password"

	begun bool // in a command line: one of After was there, or there is none
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

// shortestShape is how long the shortest of Shapes is, in bytes.
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

// mask masks the values of secrets. The value of another name may contain a name itself:
// "--env=HF_TOKEN=…", "--verbose --token …".
func (n nameValue) mask(text string) string {
	var out strings.Builder
	for {
		at := n.name().FindStringSubmatchIndex(text)
		if at == nil {
			return out.String() + text
		}
		name := text[at[2]:at[3]]
		out.WriteString(text[:at[1]])
		text = text[at[1]:]
		kind := kindOf(name)
		if kind == nameOfOther || strings.HasPrefix(text, "--") { // a value that is an option may be long, and is looked at again
			continue
		}
		most := len(text)
		if kind != nameOfSecret { // what is no login may have another name in it, and is looked at again
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

// maskOptions masks passwords, in place: of known programs, of "set NAME X", and what looks
// like one after "-p" of any other program.
func maskOptions(words []string) {
	var options []passwordOption // of the program
	phrase := false              // the words of a phrase go on
	before, setting := "", false
	for i, word := range words {
		if known, ok := knownSecrets().byProgram[word[strings.LastIndexByte(word, '/')+1:]]; ok {
			options, before = slices.Clone(known), word
			continue // no value, also after "time -p"
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
				options = slices.Delete(options, j, j+1) // given once: sshpass -p X ssh -p 22
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

// mask is a word as it may be shown; empty where the option is not about it.
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

// maskLogin masks the password of "name:password" and of "name:password@host", and no "1000:1000" or address.
func maskLogin(login string) string {
	inner, host := strings.Trim(login, `"'`), ""
	if at := strings.LastIndexByte(inner, '@'); at > strings.IndexByte(inner, ':') {
		inner, host = inner[:at], inner[at:]
	}
	name, password, ok := strings.Cut(inner, ":")
	if !ok || name == "" || password == "" || name == password || strings.HasPrefix(password, "//") || password == mask ||
		strings.Trim(password, "0123456789") == "" && strings.Trim(name, "0123456789") == "" {
		return login
	}
	return name + ":" + mask + host
}

// maskAddress masks the password of "name:password@host", without a scheme: [secretPart] knows those with one.
func maskAddress(address string) string {
	colon, at := strings.IndexByte(address, ':'), strings.LastIndexByte(address, '@')
	if colon < 0 || at < colon || strings.Contains(address, "://") || strings.Contains(address, "@sha256:") {
		return address
	}
	return maskLogin(address)
}

// maskSlash masks the password of "name/password@database".
func maskSlash(login string) string {
	name, rest, _ := strings.Cut(login, "/")
	if name == "" || rest == "" {
		return login
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		return name + "/" + mask + rest[at:]
	}
	return name + "/" + mask
}

// isPhrase reports whether a word may be one of a recovery phrase.
func isPhrase(word string) bool {
	return word == mask || word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz\"'") == ""
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

// A nameKind is what the value of a name is.
type nameKind int

const (
	nameOfOther   nameKind = iota
	nameOfSecret           // "--hf-token", "PGPASSWORD"
	nameOfLogin            // "--user": "name:password"
	nameOfAddress          // "--proxy": "name:password@host"
)

// concealed is the value of a name as it may be shown. It is the one decision about values; kindOf is the one
// about names.
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
	case bare == "lambda": // of Python: "sort(key=lambda …)"
		return value
	case is("pass") && number && len(bare) < 3: // of two passes, the first
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

// kindOf is the one decision about names, such as "--hf-token", "apiKey" and "PGPASSWORD".
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

// hasStem reports whether a word of a name has a stem of a secret's, and not as part of another word.
func (k *secretWords) hasStem(word string) bool {
	return slices.ContainsFunc(k.Stems, func(stem string) bool {
		_, rest, found := strings.Cut(word, stem)
		return found && !slices.Contains(k.Innocent, rest) && !slices.Contains(k.Harmless, strings.TrimPrefix(rest, "s")) && !slices.Contains(k.Harmless, rest)
	})
}

// ends reports whether a name whose last words these are ends so.
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

// wordOf reports whether a name's last word ends in one of some.
func wordOf(name string, some ...string) bool {
	words := wordsOf(name)
	return len(words) > 0 && slices.ContainsFunc(some, func(w string) bool { return strings.HasSuffix(words[len(words)-1], w) })
}

// wordsOf splits a name at signs, and where a capital follows a small letter. Figures at the end of a word are no part
// of it.
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
