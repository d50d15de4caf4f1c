package manual

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// fishQuoted is a text as one word of fish.
func fishQuoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

// Fish writes a completion script for fish, version 3.4 or later.
func (l *CommandLine) Fish(w io.Writer) error {
	var b strings.Builder
	name, all := l.App.Name, l.root().all()
	fmt.Fprintf(&b, "# Completion of %s %s in fish. '%s completion fish' writes it.\n\n", name, l.Version, name)
	var paths, valued []string
	for _, c := range all {
		paths = append(paths, fishQuoted(c.path))
		for _, o := range c.flags {
			for _, written := range o.written() {
				if o.takes && !slices.Contains(valued, written) {
					valued = append(valued, written)
				}
			}
		}
	}
	fmt.Fprintf(&b, "set -g __NAME_commands %s\nset -g __NAME_valued %s\n", strings.Join(paths, " "), strings.Join(valued, " "))
	b.WriteString(fishFunctions)
	for _, c := range all {
		for _, below := range c.commands {
			fmt.Fprintf(&b, "complete -c NAME -n '__NAME_at %s' -a %s -d %s\n", inner(c.path), below.node.Name, fishQuoted(sentence(below.node.Help)))
		}
		for _, a := range c.args {
			if offered := a.values.fish(); offered != "" {
				fmt.Fprintf(&b, "complete -c NAME -n '__NAME_at %s'%s\n", inner(c.path), offered)
			}
		}
	}
	// A flag that several commands have in the same way is declared once, for all of them.
	var lines []string
	users := map[string][]string{}
	for _, c := range all {
		for _, o := range c.flags {
			line := " -l " + o.name
			if o.short != "" {
				line += " -s " + o.short
			}
			switch {
			case o.takes && o.values.files == "file":
				line += " -r"
			case o.takes:
				line += " -x"
			}
			line += o.values.fish() + " -d " + fishQuoted(o.help)
			if users[line] == nil {
				lines = append(lines, line)
			}
			users[line] = append(users[line], inner(c.path))
		}
	}
	for _, line := range lines {
		where := "-n '__NAME_at " + strings.Join(users[line], " ") + "'"
		if len(users[line]) == len(all) {
			where = ""
		}
		fmt.Fprintf(&b, "complete -c NAME %s%s\n", where, line)
	}
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), "NAME", name))
	return err
}

// inner is a path within a condition, which is in single quotes itself.
func inner(path string) string { return `"` + path + `"` }

func (v values) fish() string {
	switch {
	case v.files == "file":
		return " -F"
	case v.files == "dir":
		return " -a '(__fish_complete_directories (commandline -ct))'"
	case len(v.words) > 0:
		return " -a " + fishQuoted(strings.Join(v.words, " "))
	}
	return ""
}

const fishFunctions = `
# The command on the line: the words before the cursor, without flags and their values.
function __NAME_command
    set -l path NAME
    set -l value 0
    for word in (commandline -opc)[2..]
        if test $value = 1
            set value 0
        else if string match -q -- '-*' $word
            contains -- $word $__NAME_valued; and set value 1
        else if contains -- "$path $word" $__NAME_commands
            set path "$path $word"
        end
    end
    echo $path
end

function __NAME_at
    contains -- (__NAME_command) $argv
end

complete -c NAME -e
complete -c NAME -f
`
