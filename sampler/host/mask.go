package host

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mask replaces a secret.
const mask = "***"

// commandLine joins arguments to one line that can be shown: without control characters,
// without values that look like secrets, and not longer than maxCommand. Masking is no
// guarantee. It recognizes a secret by the name before it (--token X, api_key=X,
// Authorization: X), by its shape (hf_…, eyJ….….…), by the address around it (a
// webhook), or by the program that gets it (see passwordOptions). A plain word for an
// unknown program stays.
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
	done := make([]bool, len(args)) // masked completely, because of the name before
	for i, arg := range args {
		name, value, assigns := strings.Cut(arg, "=")
		switch {
		case done[i]:
		case assigns && value != "" && plainName(name) && secret(name, value):
			args[i] = name + "=" + mask // --password=…, HF_TOKEN=…
		case !assigns && strings.HasPrefix(arg, "-") && plainName(arg) &&
			i+1 < len(args) && !isFlag(args[i+1]) && secret(arg, args[i+1]):
			args[i+1], done[i+1] = mask, true // --token …
		}
	}
	maskOptions(args)
	for i := range args {
		if strings.ContainsRune(args[i], ' ') {
			args[i] = maskCommand(args[i])
		}
		args[i] = maskWithin(args[i])
	}
}

// Patterns of names with values within one argument, which may be a whole command
// ("sh -c …"), a header, a URL or JSON.
var (
	assignment = nameValue{
		regexp.MustCompile(`([A-Za-z0-9_.-]+)=`),
		regexp.MustCompile(`^(?:"[^"]*"|'[^']*'|[^\s&;"']+)`),
	}
	header = nameValue{
		regexp.MustCompile(`([A-Za-z][A-Za-z0-9_-]*)"?'?\s*:\s*`),
		regexp.MustCompile(`^(?:"[^"]*"|'[^']*'|(?:(?i:bearer|basic)\s+)?[^\s"',}]+)`),
	}
	flag = nameValue{
		regexp.MustCompile(`(--?[A-Za-z][A-Za-z0-9_.-]*)\s+`),
		regexp.MustCompile(`^(?:"[^"]*"|'[^']*'|[^\s"']+)`),
	}
)

// A nameValue has the pattern of a name and what follows it, and the pattern of the
// value. The value is only searched for after the name of a secret, so that the time is
// proportional to the length of any text.
type nameValue struct{ name, value *regexp.Regexp }

// Patterns of which everything but the first group is masked.
var secretParts = []*regexp.Regexp{
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s/]+@`),                  // a password in a URL
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[A-Za-z0-9_.~%-]{20,}@`),              // a token in the user's place
	regexp.MustCompile(`(?i)(\b(?:proxy-)?authorization\s*:\s*)[^"']+`),                   // a header, whatever its scheme
	regexp.MustCompile(`(?i)(\b(?:set-)?cookie\s*:\s*)[^"']+`),                            //
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{6,}`),               //
	regexp.MustCompile(`(?i)([?&;](?:[a-z0-9]+-)*(?:sig|signature|se?cret)=)[^\s&;#"']+`), // of a signed address
	regexp.MustCompile(`(?i)(hooks\.slack\.com/[a-z]+/)[^\s?#"']+`),
	regexp.MustCompile(`(?i)(discord(?:app)?\.com/api/(?:v\d+/)?webhooks/)[^\s?#"']+`),
	regexp.MustCompile(`(?i)(api\.telegram\.org/(?:file/)?bot)[^\s/?#"']+`),
	regexp.MustCompile(`(?i)(office\.com/webhook[a-z0-9]*/)[^\s?#"']+`),
	regexp.MustCompile(`(?i)(hooks\.zapier\.com/hooks/catch/)[^\s?#"']+`),
	regexp.MustCompile(`(?i)(maker\.ifttt\.com/\S*/key/)[^\s?#"']+`),
	regexp.MustCompile(`(?i)(/open-apis/bot/v\d+/hook/)[^\s?#"']+`), // Feishu, Lark
	regexp.MustCompile(`(?i)(hc-ping\.com/)[^\s?#"']+`),
	regexp.MustCompile(`(/hooks/)[A-Za-z0-9]{20,}`), // Mattermost, Rocket.Chat
	regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----).*`),
}

// shaped are tokens with a known shape. The group "word" may also be an ordinary word
// ("hf_finetune"): see random.
var shaped = regexp.MustCompile(`\b(?:` + strings.Join([]string{
	`sk-(?:proj|svcacct|admin|ant|or|lf|None)-[A-Za-z0-9_-]{8,}`, // OpenAI, Anthropic and others
	`sk-[A-Za-z0-9]{12,}`,                  // OpenAI, of before
	`(?:sk|rk|pk)_(?:live|test)_\w{8,}`,    // Stripe
	`(?P<word>hf_[A-Za-z0-9]{8,})`,         // Hugging Face
	`gh[pousr]_\w{8,}`,                     // GitHub
	`github_pat_\w{8,}`,                    // GitHub
	`glpat-[A-Za-z0-9_-]{8,}`,              // GitLab
	`xox[abeprs]-[A-Za-z0-9-]{8,}`,         // Slack
	`(?:AKIA|ASIA)[A-Z0-9]{12,}`,           // AWS
	`AIza[A-Za-z0-9_-]{20,}`,               // Google
	`ya29\.[A-Za-z0-9_-]{20,}`,             // Google
	`nvapi-[A-Za-z0-9_-]{8,}`,              // NVIDIA
	`(?:gsk|r8|npm|dckr_pat)_[\w-]{20,}`,   // Groq, Replicate, npm, Docker
	`eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)+`, // a JSON Web Token
}, "|") + `)`)

func maskWithin(text string) string {
	for _, pattern := range secretParts {
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

// A passwordOption is a short option whose value is a password.
type passwordOption struct {
	option string // "-p"
	apart  bool   // "-p X" too, not only "-pX"
	after  string // only after this word, a command of the program
}

// passwordOptions are the options by program, since "-p" means a port, a partition, a
// prompt or a precision elsewhere. For mysql "-p X" asks for the password of database X.
var passwordOptions = func() map[string]passwordOption {
	out := map[string]passwordOption{}
	for names, o := range map[string]passwordOption{
		"sshpass": {option: "-p", apart: true},
		"mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlslap mysqlpump mysqlbinlog mysqlsh mycli " +
			"mariadb mariadb-dump mariadb-admin mariadb-import mariadb-show mariadb-check mariadb-binlog": {option: "-p"},
		"mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat rabbitmqadmin racadm": {option: "-p", apart: true},
		"7z 7za 7zr 7zz rar unrar":                             {option: "-p"},
		"docker podman nerdctl buildah skopeo helm az oc oras": {option: "-p", apart: true, after: "login"},
		"redis-cli valkey-cli":                                 {option: "-a", apart: true},
		"ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami":  {option: "-w", apart: true},
		"zip unzip ipmitool sqlcmd":                            {option: "-P", apart: true},
	} {
		for name := range strings.FieldsSeq(names) {
			out[name] = o
		}
	}
	return out
}()

// maskOptions masks the values of short options, in place: the password of a known
// program, the password in "-u name:X", and after "-p" of any other program a value that
// looks like a password.
func maskOptions(words []string) {
	var program passwordOption
	command := true // the word program.after was there
	for i, word := range words {
		if o, ok := passwordOptions[word[strings.LastIndexByte(word, '/')+1:]]; ok {
			program, command = o, o.after == ""
			continue
		}
		command = command || word == program.after
		before := ""
		if i > 0 {
			before = words[i-1]
		}
		value, attached := strings.CutPrefix(word, program.option)
		switch {
		case program.option != "" && command && program.apart && before == program.option:
			words[i], program = mask, passwordOption{} // given once: sshpass -p X ssh -p 22
		case program.option != "" && command && attached && value != "":
			words[i], program = program.option+mask, passwordOption{}
		case before == "-p" && passwordLike(word):
			words[i] = mask
		case strings.HasPrefix(before, "-pass") && strings.HasPrefix(word, "pass:"):
			words[i] = "pass:" + mask // openssl
		case before == "-u" || before == "-U" || before == "--user" || before == "--proxy-user":
			words[i] = maskLogin(word)
		default:
			for _, option := range []string{"--user=", "--proxy-user=", "-u"} {
				if login, ok := strings.CutPrefix(word, option); ok {
					words[i] = option + maskLogin(login)
					break
				}
			}
		}
	}
}

// maskLogin masks the password of "name:password", but neither the group of "1000:1000"
// nor an address.
func maskLogin(login string) string {
	name, password, ok := strings.Cut(strings.Trim(login, `"'`), ":")
	if !ok || name == "" || password == "" || name == password || strings.HasPrefix(password, "//") ||
		strings.Trim(password, "0123456789") == "" && strings.Trim(name, "0123456789") == "" {
		return login
	}
	return name + ":" + mask
}

// passwordLike reports whether a word looks like a password and like nothing else that
// follows "-p": it has letters, digits and a sign that only passwords have, or small
// letters, capitals and digits without a sign.
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
	return strings.ContainsFunc(word, unicode.IsLower), strings.ContainsFunc(word, unicode.IsUpper), strings.ContainsFunc(word, unicode.IsDigit)
}

// shellWord matches a word of a command in one argument.
var shellWord = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s;|&"'])+`)

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

// plainName reports whether a text can be the name of an option or a variable, or the key
// of a configuration ("+trainer.api_key").
func plainName(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.+", r)
	}) < 0
}

// isFlag reports whether an argument is an option rather than a value.
func isFlag(arg string) bool {
	return strings.HasPrefix(arg, "--") || len(arg) == 2 && arg[0] == '-'
}

// Words in names of secrets: anywhere in the name, or only at its end, since
// "--token-ids" and "--auth-type" are no secrets. A name that ends in one of harmlessWords
// says where a secret is. Models have tokens and data has keys: the words ordinaryTokens
// and ordinaryKeys precede those.
var (
	secretWords    = []string{"password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials", "apikey"}
	lastWords      = []string{"token", "key", "pass", "pwd", "auth", "authorization", "bearer", "cookie", "jwt", "authtoken", "accesstoken", "accesskey", "secretkey"}
	harmlessWords  = []string{"file", "path", "dir", "name", "env"}
	ordinaryTokens = []string{"max", "min", "num", "pad", "eos", "bos", "unk", "mask", "sep", "cls", "per", "image", "video", "stop", "end", "start", "new", "next", "special"}
	ordinaryKeys   = []string{"sort", "primary", "foreign", "group", "partition", "cache", "public", "input", "output", "label", "text", "image", "prompt", "data", "reward", "target", "feature", "state", "index", "json"}
)

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

// mayBeSecret reports whether a name such as "--hf-token", "apiKey" or "wandb.api" can be
// that of a secret.
func mayBeSecret(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch {
	case slices.Contains(harmlessWords, last):
		return false
	case slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretWords, w) }):
		return true
	case last == "token" && slices.Contains(ordinaryTokens, before), last == "key" && slices.Contains(ordinaryKeys, before):
		return false
	default:
		return last == "api" && before != "" || slices.Contains(lastWords, last)
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

// clean makes text safe to be shown: line breaks become spaces. Invalid UTF-8, control
// characters and characters that change the direction of writing become the replacement
// character.
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
