package manual

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// roff is a text in a man page, in lines of at most 79 characters. A line that begins with a dot or a quote would be a request of roff.
func roff(text string) string {
	const longest = 79
	var lines []string
	for word := range strings.FieldsSeq(strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)) {
		last := len(lines) - 1
		if last >= 0 && len(lines[last])+1+len(word) <= longest {
			lines[last] += " " + word
			continue
		}
		if word[0] == '.' || word[0] == '\'' {
			word = `\&` + word
		}
		lines = append(lines, word)
	}
	return strings.Join(lines, "\n")
}

// asArgument is a text as one argument of a request.
func asArgument(text string) string {
	return `"` + strings.NewReplacer("\n", " ", `"`, `\(dq`).Replace(roff(text)) + `"`
}

// Man writes a man page of section 1 for the program and for each command into a folder, which it makes. It returns the names of the files.
func (l *CommandLine) Man(dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, c := range l.root().all() {
		name := pageOf(c) + ".1"
		page, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return nil, err
		}
		if err := cmp.Or(l.page(page, c), page.Close()); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// pageOf is the name of a command's page: gpuwhy-history-export.
func pageOf(c *command) string { return strings.ReplaceAll(c.path, " ", "-") }

func (l *CommandLine) page(w io.Writer, c *command) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(".TH %s 1 %q %s %s", asArgument(strings.ToUpper(pageOf(c))), l.Date, asArgument(l.App.Name+" "+l.Version), asArgument(l.Manual))
	line(".SH NAME")
	line("%s", roff(pageOf(c)+" - "+strings.TrimSuffix(c.node.Help, ".")))
	line(".SH SYNOPSIS")
	line(".B %s", roff(c.path))
	if len(c.commands) > 0 {
		line(`.I "command"`)
	}
	for _, f := range c.node.Flags {
		if f.Required {
			line(`.BI %s`, asArgument("--"+f.Name+"=")+" "+asArgument(f.FormatPlaceHolder()))
		}
	}
	for _, p := range c.node.Positional {
		text := `\fI` + roff(p.Name) + `\fR`
		if p.IsCumulative() {
			text += " ..."
		}
		if !p.Required {
			text = "[" + text + "]"
		}
		line("%s", text)
	}
	if len(c.flags) > 0 {
		line(`[\fIflags\fR]`)
	}
	line(".SH DESCRIPTION")
	line("%s", roff(c.node.Help))
	for part := range strings.SplitSeq(c.node.Detail, "\n\n") {
		if part != "" {
			line(".PP")
			line("%s", roff(part))
		}
	}
	if len(c.commands) > 0 {
		line(".SH COMMANDS")
		for _, below := range c.commands {
			line(".TP")
			line(`\fB%s\fR(1)`, roff(pageOf(below)))
			line("%s", roff(below.node.Help))
		}
	}
	if len(c.node.Positional) > 0 {
		line(".SH ARGUMENTS")
		for _, p := range c.node.Positional {
			line(".TP")
			line(`\fI%s\fR`, roff(p.Name))
			line("%s", roff(cmp.Or(p.Help, "See above.")))
		}
	}
	l.options(&b, c)
	line(".SH EXIT STATUS")
	for _, e := range l.Exits {
		text := e.Text
		if e.Of != nil {
			text = cmp.Or(e.Of(c.node), text)
		}
		line(".TP")
		line(".B %d", e.Code)
		line("%s", roff(text))
	}
	line(".SH SEE ALSO")
	others := []string{}
	for _, other := range l.root().all() {
		if strings.HasPrefix(c.path, other.path+" ") || len(c.commands) == 0 && parent(other.path) == parent(c.path) && other.path != c.path && parent(c.path) != l.App.Name {
			others = append(others, `\fB`+roff(pageOf(other))+`\fR(1)`)
		}
	}
	if len(others) > 0 {
		line("%s", strings.Join(others, ", "))
	}
	for i, see := range l.See {
		if i > 0 || len(others) > 0 {
			line(".PP")
		}
		line("%s: %s", roff(see[0]), roff(see[1]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func parent(path string) string {
	if i := strings.LastIndex(path, " "); i >= 0 {
		return path[:i]
	}
	return ""
}

// options writes the flags of a command, by their groups.
func (l *CommandLine) options(b *strings.Builder, c *command) {
	flags := slices.Clone(c.node.Flags)
	if c.node.Parent == nil {
		flags = append(flags, l.Root...)
	}
	group := func(f *kong.Flag) int {
		return slices.IndexFunc(l.Groups, func(g Group) bool { return f.Group != nil && f.Group.Key == g.Key })
	}
	flags = slices.DeleteFunc(flags, func(f *kong.Flag) bool { return f.Hidden || f.Name == l.App.HelpFlag.Name })
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int { return group(a) - group(b) })
	b.WriteString(".SH OPTIONS\n")
	before := -1
	for _, f := range append([]*kong.Flag{l.App.HelpFlag}, flags...) {
		if at := group(f); at != before {
			before = at
			fmt.Fprintf(b, ".SS %s\n", asArgument(strings.TrimSuffix(l.Groups[at].Title, ":")))
		}
		b.WriteString(".TP\n")
		written := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Short != 0 {
			written = `\fB` + roff("-"+string(f.Short)) + `\fR, ` + written
		}
		if !f.IsBool() && !f.IsCounter() {
			written += `=\fI` + roff(strings.Trim(f.FormatPlaceHolder(), `"`)) + `\fR`
		}
		b.WriteString(written + "\n" + roff(f.Help) + "\n")
		var more []string
		if f.Enum != "" && !strings.Contains(f.Help, f.EnumSlice()[0]) {
			more = append(more, "One of "+strings.Join(f.EnumSlice(), ", ")+".")
		}
		if f.Default != "" {
			more = append(more, "Default: "+f.Default+".")
		}
		if len(f.Tag.Envs) > 0 {
			more = append(more, "Environment: "+strings.Join(f.Tag.Envs, ", ")+".")
		}
		if len(more) > 0 {
			b.WriteString(roff(strings.Join(more, " ")) + "\n")
		}
	}
}
