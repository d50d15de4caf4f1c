package manual

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// quoted is a text as one word of a shell of the Bourne family.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// bash says what can be offered, in a word for the script: "file", "dir", "words:a b", "list:a b", or "" for nothing.
func (v values) bash() string {
	switch {
	case v.files != "":
		return v.files
	case len(v.words) == 0:
		return ""
	case v.list:
		return "list:" + strings.Join(v.words, " ")
	}
	return "words:" + strings.Join(v.words, " ")
}

// Bash writes a completion script for bash, version 3.2 or later.
func (l *CommandLine) Bash(w io.Writer) error {
	var b strings.Builder
	name, all := l.App.Name, l.root().all()
	fmt.Fprintf(&b, "# Completion of %s %s in bash. '%s completion bash' writes it.\n\n", name, l.Version, name)
	b.WriteString("# What a command takes: commands below it, flags (those with a value end in =), and arguments in their order.\n_NAME_command() {\n\tcommands='' flags='' arguments=()\n\tcase $1 in\n")
	for _, c := range all {
		var commands, flags, arguments []string
		for _, below := range c.commands {
			commands = append(commands, below.node.Name)
		}
		for _, o := range c.flags {
			end := map[bool]string{true: "="}[o.takes]
			flags = append(flags, "--"+o.name+end)
			if o.short != "" {
				flags = append(flags, "-"+o.short+end)
			}
		}
		for _, a := range c.args {
			arguments = append(arguments, quoted(a.values.bash()))
		}
		fmt.Fprintf(&b, "\t%s) commands=%s flags=%s arguments=(%s) more=%s ;;\n", quoted(c.path), quoted(strings.Join(commands, " ")), quoted(strings.Join(flags, " ")),
			strings.Join(arguments, " "), map[bool]string{true: "1", false: "''"}[len(c.args) > 0 && c.args[len(c.args)-1].again])
	}
	b.WriteString("\tesac\n}\n\n# What the value of a flag ($2) of a command ($1) can be.\n_NAME_value() {\n\tvalue=''\n\tcase \"$1 $2\" in\n")
	for _, g := range grouped(all, func(o *option) string { return o.values.bash() }) {
		if g.key != "" {
			fmt.Fprintf(&b, "\t%s) value=%s ;;\n", strings.Join(g.patterns, " | "), quoted(g.key))
		}
	}
	b.WriteString("\tesac\n}\n" + bashFunctions)
	_, err := io.WriteString(w, strings.NewReplacer("_NAME", "_"+name, "NAME", name).Replace(b.String()))
	return err
}

// A group is flags with something in common.
type group struct {
	key      string
	patterns []string // for case, of a command and a flag
}

// grouped are the flags that take a value, by a property. The flag of a command comes before the flag of that name of all others.
func grouped(all []*command, property func(*option) string) (out []*group) {
	byName := map[string]map[string][]string{}
	var names []string
	for _, c := range all {
		for _, o := range c.flags {
			if !o.takes {
				continue
			}
			if byName[o.name] == nil {
				byName[o.name] = map[string][]string{}
				names = append(names, o.name)
			}
			for _, written := range o.written() {
				byName[o.name][property(o)] = append(byName[o.name][property(o)], c.path+" "+written)
			}
		}
	}
	add := func(key, pattern string) {
		i := slices.IndexFunc(out, func(g *group) bool { return g.key == key })
		if i < 0 {
			i = len(out)
			out = append(out, &group{key: key})
		}
		out[i].patterns = append(out[i].patterns, pattern)
	}
	for _, name := range names {
		for key, written := range byName[name] {
			alike := len(byName[name]) == 1
			if alike {
				add(key, "*' --"+name+"'")
			}
			for _, w := range written {
				if !alike || !strings.Contains(w, " --") { // a letter may mean something else in another command
					add(key, quoted(w))
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b *group) int { return strings.Compare(a.key, b.key) })
	for _, g := range out {
		slices.Sort(g.patterns)
	}
	return out
}

// written are the ways to write a flag.
func (o *option) written() []string {
	if o.short == "" {
		return []string{"--" + o.name}
	}
	return []string{"--" + o.name, "-" + o.short}
}

const bashFunctions = `
# Adds what begins with $2: files, folders or words.
_NAME_offer() {
	local kind=$1 cur=$2 front='' found
	case $kind in
	file) compopt -o filenames 2>/dev/null ;;
	dir) compopt -o filenames 2>/dev/null ;;
	list:*) [[ $cur == *,* ]] && front=${cur%,*}, cur=${cur##*,} ;;
	esac
	while IFS= read -r found; do
		COMPREPLY+=("$front$found")
	done < <(
		case $kind in
		file) compgen -f -- "$cur" ;;
		dir) compgen -d -- "$cur" ;;
		*:*) compgen -W "${kind#*:}" -- "$cur" ;;
		esac
	)
}

_NAME() {
	local commands flags more value command=NAME word pending='' place=0 i line cur whole
	local -a arguments before
	COMPREPLY=()
	# bash splits words at = and :, so they are taken from the line.
	line=${COMP_LINE:0:COMP_POINT}
	cur=${line##*[[:space:]]}
	IFS=$' \t\n' read -ra before <<<"${line%"$cur"}"
	_NAME_command "$command"
	for ((i = 1; i < ${#before[@]}; i++)); do
		word=${before[i]}
		if [[ -n $pending ]]; then
			pending=''
		elif [[ $word == -* ]]; then
			[[ $word != *=* && " $flags " == *" $word= "* ]] && pending=$word
		elif [[ " $commands " == *" $word "* ]]; then
			command+=" $word"
			_NAME_command "$command"
		else
			place=$((place + 1))
		fi
	done
	whole=$cur
	if [[ -z $pending && $cur == --*=* ]]; then
		pending=${cur%%=*}
		cur=${cur#*=}
	fi
	if [[ -n $pending ]]; then
		_NAME_value "$command" "$pending"
		_NAME_offer "$value" "$cur"
	elif [[ $cur == -* ]]; then
		_NAME_offer "words:$flags" "$cur"
		[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
	elif [[ -n $commands ]]; then
		_NAME_offer "words:$commands" "$cur"
	elif ((place < ${#arguments[@]})); then
		_NAME_offer "${arguments[place]}" "$cur"
	elif [[ -n $more ]]; then
		_NAME_offer "${arguments[${#arguments[@]} - 1]}" "$cur"
	fi
	# bash replaces only what follows the last = or :, if it splits words there.
	if [[ $whole == --*=* && $COMP_WORDBREAKS != *=* ]]; then
		COMPREPLY=("${COMPREPLY[@]/#/${whole%%=*}=}")
	fi
	if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
		COMPREPLY=("${COMPREPLY[@]#"${cur%:*}:"}")
	fi
}

complete -F _NAME NAME
`
