package host

import (
	"bytes"
	_ "embed"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// jupyterKernel is the name shown for a notebook's kernel.
const jupyterKernel = "jupyter kernel"

// programOf returns what a person would call the thing that a process runs: a script, a module, a class, a program's file. An interpreter,
// or a program that runs another one, is named only if the thing it runs has no name, or can't be determined. comm is the kernel's name of
// the process; args are not empty.
//
// From the arguments it takes the last part of a file's name, the name of a module or a class, and known words. The result contains nothing
// else of them: no folder, no option, no value, and nothing that looks like a secret.
func programOf(comm string, args []string) string {
	name, args := titleOf(comm, args)
	if name == "" {
		name = knownPrograms().nameOf(args, mostRunners)
	}
	if name = short(name); name == "" || maskWithin(name) != name {
		name = short(baseName(comm))
	}
	if name == "" { // the kernel's name is not a file name
		before, _, _ := strings.Cut(comm, ":")
		name = short(strings.TrimSpace(before[strings.LastIndexByte(before, '/')+1:]))
	}
	return name
}

// mostRunners is the longest chain of programs that run another one.
const mostRunners = 16

//go:embed programs.yaml
var programsYAML []byte

// programs is what is known about programs by name; programs.yaml explains the fields.
type programs struct {
	Runners  []*runner
	Modules  map[string][]string
	Called   map[string]string
	Commands map[string][]string

	runners map[string]*runner
}

// A runner is a program that runs another one.
type runner struct {
	Names []string

	After       []string
	Else        bool
	Skip        int
	Assignments bool
	Plus        bool
	Script      []string
	Strict      bool

	Flags, Valued               string
	Long                        []string
	LongValued                  []string `yaml:"longValued"`
	Ends, Module, Command, File []string
}

var knownPrograms = sync.OnceValue(func() *programs {
	p := &programs{runners: map[string]*runner{}}
	decoder := yaml.NewDecoder(bytes.NewReader(programsYAML))
	decoder.KnownFields(true)
	if err := decoder.Decode(p); err != nil {
		panic("host: programs.yaml: " + err.Error())
	}
	for _, r := range p.Runners {
		for _, name := range r.Names {
			p.runners[name] = r
		}
	}
	return p
})

var (
	versioned   = lazy.Pattern(`^(python|pypy|perl|ruby|php|lua|node)[0-9][0-9.]*[a-z]?$`)
	wine        = lazy.Pattern(`^(?:wine(?:64)?(?:-preloader|-staging)?|wineloader|proton|umu-run)$`)
	isDebugger  = lazy.Pattern(`(?:^|/)debugpy/(?:launcher|adapter)/?$`)
	javaProgram = lazy.Pattern(`^javaw?$`)
)

// nameOf returns the name of the program with these arguments, or of what it runs. It is empty if they have none.
func (p *programs) nameOf(args []string, most int) string {
	if len(args) == 0 || most == 0 {
		return ""
	}
	own := baseName(args[0])
	if called, ok := p.Called[strings.TrimSuffix(own, ".py")]; ok {
		return called
	}
	key := own
	if m := versioned().FindStringSubmatch(own); m != nil {
		key = m[1]
	}
	var what string
	switch r := p.runners[key]; {
	case own == "":
	case wine().MatchString(key):
		what = windowsProgram(args[1:])
	case javaProgram().MatchString(key):
		what = p.class(args[1:])
	case isDebugger().MatchString(args[0]): // launcher PORT -- script
		own = "debugpy"
		if i := slices.Index(args, "--"); i >= 0 {
			what = p.run(p.runners["python"], args[i+1:], most-1)
		}
	case r != nil:
		what = p.run(r, args[1:], most-1)
	case len(args) > 1 && slices.Contains(p.Commands[key], args[1]):
		what = key + " " + args[1]
	}
	if what == "" {
		return own
	}
	return what
}

// run returns the name of what a runner runs; empty if that has no name or can't be determined: an unknown option may have a value, which
// then stands where the name would be.
func (p *programs) run(r *runner, args []string, most int) string {
	after, skip := len(r.After) == 0, r.Skip
	var options, module, command bool // no more of these follow
	for len(args) > 0 {
		word := args[0]
		switch {
		case word == "--" && !options:
			options = true
		case (isOption(word) || r.Plus && len(word) > 1 && word[0] == '+') && !options:
			o := r.option(append([]string{"-" + word[1:]}, args[1:]...))
			switch o.kind {
			case optionEnds:
				return ""
			case optionModule:
				if o.value != "" {
					return p.module(append([]string{o.value}, args[1:]...), most)
				}
				module = true
			case optionFile:
				return baseName(o.value)
			case optionCommand:
				command = true
			}
			args = args[o.words-1:]
		case r.Assignments && assigned().MatchString(word):
		case !after && slices.Contains(r.After, word):
			after = true
		case !after && !r.Else:
			return ""
		case skip > 0:
			skip--
		case module:
			return p.module(args, most)
		case r.Strict && !command && !r.isScript(word):
			return packageName(word)
		default:
			return p.nameOf(args, most)
		}
		args = args[1:]
	}
	return ""
}

var assigned = lazy.Pattern(`^[A-Za-z_]\w*=`)

func isOption(word string) bool { return len(word) > 1 && word[0] == '-' }

func (r *runner) isScript(word string) bool {
	word, _, _ = strings.Cut(word, "?")
	return slices.Contains(r.Script, path.Ext(word))
}

// An option is the meaning of an option, and how many words it and its value take.
type option struct {
	kind  optionKind
	words int
	value string // for optionModule and optionFile, if present
}

type optionKind int

const (
	optionOther optionKind = iota
	optionEnds             // nothing with a name is run, or it can't be determined
	optionModule
	optionFile
	optionCommand
)

// option parses the option at the start of args.
func (r *runner) option(args []string) option {
	word := args[0]
	name, value, joined := strings.Cut(word, "=")
	if !joined && len(args) > 1 {
		value = args[1]
	}
	words := 2
	if joined || len(args) == 1 {
		words = 1
	}
	switch {
	case slices.Contains(r.Ends, name):
		return option{kind: optionEnds}
	case slices.Contains(r.File, name):
		return option{optionFile, words, value}
	case slices.Contains(r.Command, name):
		return option{optionCommand, 1, ""}
	case slices.Contains(r.Module, name):
		return option{optionModule, 1, ""}
	case joined && strings.HasPrefix(word, "--"), slices.Contains(r.Long, name):
		return option{words: 1}
	case slices.Contains(r.LongValued, name):
		return option{words: words}
	case strings.HasPrefix(word, "--"):
		return r.unknown(args)
	}
	for i := 1; i < len(word); i++ {
		letter, attached := word[i:i+1], word[i+1:]
		switch {
		case slices.Contains(r.Ends, "-"+letter):
			return option{kind: optionEnds}
		case slices.Contains(r.Module, "-"+letter):
			return option{optionModule, 1, attached}
		case strings.Contains(r.Valued, letter) && attached == "":
			return option{words: min(2, len(args))}
		case strings.Contains(r.Valued, letter):
			return option{words: 1}
		case !strings.Contains(r.Flags, letter):
			return r.unknown(args)
		}
	}
	return option{words: 1}
}

// unknown guesses whether an option has a value. It has none before another option and before a script. Otherwise that can't be determined,
// unless scripts must have their file ending.
func (r *runner) unknown(args []string) option {
	switch {
	case len(args) == 1, isOption(args[1]), r.isScript(args[1]):
		return option{words: 1}
	case r.Strict:
		return option{words: 2}
	}
	return option{kind: optionEnds}
}

var moduleName = lazy.Pattern(`^[\pL_][\pL\pN_]*(?:\.[\pL_][\pL\pN_]*)*$`)

// module returns the name of the Python module at the start of args; the module's own arguments follow.
func (p *programs) module(args []string, most int) string {
	if len(args) == 0 || !moduleName().MatchString(args[0]) {
		return ""
	}
	if words, ok := p.Modules[args[0]]; ok {
		return p.nameOf(slices.Concat(words, args[1:]), most)
	}
	return p.called(args[0])
}

// called returns what people call a module or a class, or its own name.
func (p *programs) called(name string) string {
	for part := name; part != ""; {
		if called, ok := p.Called[part]; ok {
			return called
		}
		part = part[:max(0, strings.LastIndexByte(part, '.'))]
	}
	return name
}

// javaValued are the options of java whose value is the next word.
var javaValued = []string{
	"-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path", "--add-modules", "--limit-modules",
	"--add-opens", "--add-exports", "--add-reads", "--patch-module", "--enable-native-access", "--source",
}

var className = lazy.Pattern(`^[\pL_$][\pL\pN_$]*(?:[./][\pL_$][\pL\pN_$]*)*$`)

// knows reports whether a program is known.
func (p *programs) knows(name string) bool {
	return p.runners[name] != nil || p.Commands[name] != nil || versioned().MatchString(name)
}

// isCalled reports whether the kernel, which cuts names, uses this name for a program.
func isCalled(name, comm string) bool {
	return comm != "" && (name == comm || len(comm) == commLimit && strings.HasPrefix(name, comm))
}

// class returns what java runs: a jar, or the last part of the main class.
func (p *programs) class(args []string) string {
	for i := 0; i < len(args); i++ {
		word := args[i]
		next := append(args[i+1:len(args):len(args)], "")[0]
		switch {
		case word == "-jar":
			return baseName(next)
		case word == "-m" || word == "--module":
			_, next, _ = strings.Cut(next, "/")
			return p.lastOf(next)
		case slices.Contains(javaValued, word):
			i++
		case strings.HasPrefix(word, "--") && !strings.Contains(word, "=") && next != "" && !isOption(next):
			return "" // next may be its value
		case isOption(word):
		case path.Ext(word) == ".java":
			return baseName(word)
		default:
			return p.lastOf(word)
		}
	}
	return ""
}

// lastOf returns the last part of a class's name.
func (p *programs) lastOf(class string) string {
	if !className().MatchString(class) {
		return ""
	}
	class = strings.ReplaceAll(class, "/", ".")
	if called := p.called(class); called != class {
		return called
	}
	return class[strings.LastIndexByte(class, '.')+1:]
}

// windowsProgram returns the first file of a Windows program.
func windowsProgram(args []string) string {
	for _, arg := range args {
		if isWindows(arg) {
			return baseName(arg)
		}
	}
	return ""
}

func isWindows(file string) bool { return strings.EqualFold(path.Ext(file), ".exe") }

var packageSpec = lazy.Pattern(`^(?:npm|jsr):/?(?:@[\w.-]+/)?([\w.-]+)`)

// packageName returns the name of a package, which deno accepts in place of a script.
func packageName(spec string) string {
	if m := packageSpec().FindStringSubmatch(spec); m != nil {
		return m[1]
	}
	return ""
}

var drive = lazy.Pattern(`^[A-Za-z]:\\`)

// baseName returns the last part of a file's name or URL. For a file in a node package it is the package's name. It is empty if a text
// can't be a name, may contain a password ("user:password@host"), or is the number of an open file.
func baseName(file string) string {
	if strings.HasPrefix(file, "/proc/") || strings.HasPrefix(file, "/dev/fd/") {
		return ""
	}
	if scheme := strings.Index(file, "://"); scheme >= 0 {
		file, _, _ = strings.Cut(file, "?")
		file, _, _ = strings.Cut(file, "#")
		_, rest, ok := strings.Cut(file[min(scheme+3, len(file)):], "/")
		if !ok {
			return "" // a host, maybe with a password
		}
		file = rest
	}
	if drive().MatchString(file) || isWindows(file) {
		file = strings.ReplaceAll(file, `\`, "/")
	}
	if i := strings.LastIndex(file, "/node_modules/"); i >= 0 {
		parts := strings.Split(file[i+len("/node_modules/"):], "/")
		if len(parts) > 1 && (parts[0] == ".bin" || strings.HasPrefix(parts[0], "@")) {
			parts = parts[1:]
		}
		file = parts[0]
	}
	file = strings.TrimRight(file, "/")
	file = file[strings.LastIndexByte(file, '/')+1:]
	file, _, _ = strings.Cut(file, " -")                  // the program's arguments in a title
	file = strings.TrimSpace(strings.TrimLeft(file, "-")) // a login shell is "-bash"
	if strings.Trim(file, ".") == "" || strings.ContainsAny(file, "=:") {
		return ""
	}
	return file
}

// Titles that programs write over their arguments: "VLLM::EngineCore", "postgres: alice db".
var (
	partTitle  = lazy.Pattern(`^[A-Za-z]\w*::[\pL\pN_.:]*[\pL\pN_]`)
	colonTitle = lazy.Pattern(`^[\[(]?([\pL_][\pL\pN_.+-]*):(?:\s|$)`)
)

// titleOf returns the name of a program that has written a title over its arguments. If the program wrote its arguments as one text, or
// wrote nothing, it returns the arguments.
func titleOf(comm string, args []string) (title string, words []string) {
	if len(args) > 1 {
		return "", args
	}
	text := strings.TrimSpace(args[0])
	if text == "["+comm+"]" || text == comm && strings.ContainsAny(comm, "()[]") {
		return comm, nil // not arguments, but a name that looks like some
	}
	if m := partTitle().FindString(text); m != "" {
		return m, nil
	}
	if m := colonTitle().FindStringSubmatch(text); m != nil && comm != "" && (strings.HasPrefix(m[1], comm) || strings.HasPrefix(comm, m[1])) {
		return m[1], nil
	}
	whole, _, _ := strings.Cut(text, " -")
	if !strings.ContainsAny(whole, " \t") || isWindows(whole) || strings.Contains(whole, "/") && isCalled(baseName(whole), comm) {
		return "", append([]string{whole}, strings.Fields(text[len(whole):])...)
	}
	words = strings.Fields(text)
	first := baseName(words[0])
	// A title may also start with the kernel's name: "npm exec x".
	if strings.Contains(words[0], "/") || isCalled(first, comm) || first != "" && strings.HasPrefix(comm, first) || knownPrograms().knows(first) {
		return "", words
	}
	return "", []string{comm} // free text
}
