package manual

import (
	"fmt"
	"io"
	"strings"
)

// zshText is a text within a specification of zsh's _arguments or _describe, where some characters mean something.
func zshText(text string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(text)
}

// Zsh writes a completion script for zsh, which works from a folder of $fpath and when it is sourced.
func (l *CommandLine) Zsh(w io.Writer) error {
	var b strings.Builder
	name, root := l.App.Name, l.root()
	fmt.Fprintf(&b, "#compdef %s\n# Completion of %s %s in zsh. '%s completion zsh' writes it.\n\n", name, name, l.Version, name)
	// A flag that several commands have in the same way is written once.
	names, known := map[string]string{}, map[string]bool{}
	var flags strings.Builder
	for _, c := range root.all() {
		for _, o := range c.flags {
			for _, spec := range o.zsh() {
				if names[spec] != "" {
					continue
				}
				id := o.name
				for n := 2; known[id]; n++ {
					id = fmt.Sprint(o.name, "_", n)
				}
				names[spec], known[id] = id, true
				fmt.Fprintf(&flags, "  %s %s\n", id, quoted(spec))
			}
		}
	}
	fmt.Fprintf(&b, "typeset -gA _NAME_flags\n_NAME_flags=(\n%s)\n", flags.String())
	b.WriteString(zshFunctions)
	for _, c := range root.all() {
		var ids []string
		for _, o := range c.flags {
			for _, spec := range o.zsh() {
				ids = append(ids, names[spec])
			}
		}
		fmt.Fprintf(&b, "\n%s() {\n", c.zshName())
		if len(c.commands) == 0 {
			fmt.Fprintf(&b, "  _NAME_arguments %s", quoted(strings.Join(ids, " ")))
			for i, a := range c.args {
				place := fmt.Sprint(i + 1)
				if a.again {
					place = "*"
				}
				if a.optional {
					place += ":"
				}
				fmt.Fprintf(&b, " %s", quoted(place+":"+zshText(a.name)+":"+a.values.zsh()))
			}
			b.WriteString("\n}\n")
			continue
		}
		b.WriteString("  local context state state_descr line\n  typeset -A opt_args\n")
		fmt.Fprintf(&b, "  _NAME_arguments %s '1: :->command' '*:: :->rest'\n", quoted(strings.Join(ids, " ")))
		b.WriteString("  case $state in\n  command)\n    local -a commands=(\n")
		for _, below := range c.commands {
			fmt.Fprintf(&b, "      %s\n", quoted(below.node.Name+":"+zshText(sentence(below.node.Help))))
		}
		b.WriteString("    )\n    _describe -t commands command commands\n    ;;\n  rest)\n    case $words[1] in\n")
		for _, below := range c.commands {
			fmt.Fprintf(&b, "    %s) %s ;;\n", below.node.Name, below.zshName())
		}
		b.WriteString("    esac\n    ;;\n  esac\n}\n")
	}
	b.WriteString("\nif [ \"$funcstack[1]\" = _NAME ]; then\n  _NAME \"$@\"\nelse\n  compdef _NAME NAME\nfi\n")
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), "NAME", name))
	return err
}

// zshName is the function that completes a command.
func (c *command) zshName() string {
	return "_" + strings.NewReplacer(" ", "_", "-", "_").Replace(c.path)
}

// zsh returns the specifications of a flag.
func (o *option) zsh() (specs []string) {
	end := "[" + zshText(o.help) + "]"
	if o.takes {
		end += ":" + zshText(o.label) + ":" + o.values.zsh()
	}
	front := ""
	switch {
	case o.again:
		front = "*"
	case o.short != "":
		front = "(-" + o.short + " --" + o.name + ")"
	}
	if o.short != "" {
		specs = append(specs, front+"-"+o.short+map[bool]string{true: "+"}[o.takes]+end)
	}
	return append(specs, front+"--"+o.name+map[bool]string{true: "="}[o.takes]+end)
}

func (v values) zsh() string {
	words := make([]string, len(v.words))
	for i, word := range v.words {
		words[i] = zshText(word)
	}
	switch {
	case v.files == "file":
		return "_files"
	case v.files == "dir":
		return "_files -/"
	case len(words) > 0 && v.list:
		return "_values -s , word " + strings.ReplaceAll(strings.Join(words, " "), `\`, `\\`) // this is read as words of a command first
	case len(words) > 0:
		return "(" + strings.Join(words, " ") + ")"
	}
	return ""
}

const zshFunctions = `
# _arguments with flags by their names in the list above.
_NAME_arguments() {
  local -a specs
  local id
  for id in ${(s: :)1}; do
    specs+=("$_NAME_flags[$id]")
  done
  shift
  _arguments -C -S $specs "$@"
}
`
