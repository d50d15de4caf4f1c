package smi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The files of a recording: the output of the commands. fieldsFile is made from tableFile, so that a person can read and change it: a line
// for each field, with a value for each device, "temperature.gpu = 41 | 38" or "memory.used [MiB] = 512 MiB | 0 MiB".
const (
	helpFile   = "help-query-gpu"
	tableFile  = "query-gpu.csv"
	fieldsFile = "query-gpu"
	xmlFile    = "query.xml"
	pmonFile   = "pmon"
	listFile   = "list"
)

// A Printed is a file of a recording.
type Printed struct {
	Name string
	Args []string // of nvidia-smi
	Text []byte
	Err  error // why the command failed; it may still have printed something
}

// Record runs once each command that a source reads, and returns the output: the minimum for finding a source's mistake, and what
// [Recorded] answers from. Each command may take up to each, and print up to most bytes.
func Record(ctx context.Context, run Run, each time.Duration, most int) (all []Printed) {
	if run == nil {
		run = Program("")
	}
	ask := func(name string, args ...string) Printed {
		limit, cancel := context.WithTimeout(ctx, each)
		defer cancel()
		out, errs := &limited{most: most}, &limited{most: most}
		p := Printed{Name: name, Args: args, Err: run(limit, out, errs, args...)}
		if p.Text = append(out.Bytes(), errs.Bytes()...); out.cut {
			p.Err = fmt.Errorf("it printed more than %d bytes", most)
		}
		all = append(all, p)
		return p
	}
	help := ask(helpFile, "--help-query-gpu")
	if q := known(string(help.Text)); len(q) > 0 {
		table := ask(tableFile, "--query-gpu="+q.names(), "--format=csv")
		if text := q.upright(table.Text); len(text) > 0 {
			all = append(all, Printed{Name: fieldsFile, Text: text})
		}
	}
	ask(xmlFile, "-q", "-x")
	ask(pmonFile, "pmon", "-s", "um", "-c", "1")
	ask(listFile, "-L")
	return all
}

// upright turns the table into a line for each field. It is empty if a row is incomplete.
func (q query) upright(table []byte) []byte {
	rows := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(table), "\r", "")), "\n")
	titles := strings.Split(rows[0], ", ")
	if len(rows) < 2 || len(titles) != len(begins)+len(q)+len(ends) {
		return nil
	}
	var out bytes.Buffer
	cells := make([][]string, len(rows)-1)
	for i, text := range rows[1:] {
		values, matched := q.match(split(text), func() string { return "" })
		if r, ok := q.parse(text); !ok || !matched || r.unread != "" {
			return nil
		}
		cells[i] = values
	}
	for k, title := range titles {
		values := make([]string, len(cells))
		for i := range cells {
			values[i] = cells[i][k]
		}
		fmt.Fprintf(&out, "%s = %s\n", title, strings.Join(values, " | "))
	}
	return out.Bytes()
}

// An exit is a command's exit code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// ExitCode returns the code.
func (e exit) ExitCode() int { return int(e) }

// Recorded returns a Run that answers from a recording, the same each time. It refuses commands for only some of the devices, except
// --query-gpu.
func Recorded(files fs.FS) Run {
	return func(ctx context.Context, stdout, _ io.Writer, args ...string) error {
		r := &recorded{files: files, ctx: ctx, out: stdout}
		if err := ctx.Err(); err != nil {
			return err
		}
		return r.answer(args)
	}
}

type recorded struct {
	files fs.FS
	ctx   context.Context
	out   io.Writer
}

// fail ends a command as nvidia-smi does.
func (r *recorded) fail(code exit, text string) error {
	_, _ = io.WriteString(r.out, text+"\n") // the writer never fails
	return code
}

func (r *recorded) print(name, without string) error {
	text, err := fs.ReadFile(r.files, name)
	if err != nil {
		return r.fail(3, without)
	}
	_, _ = r.out.Write(text) // it never fails
	return nil
}

// again repeats do until the command is ended.
func (r *recorded) again(pause time.Duration, do func() error) error {
	tick := time.NewTicker(max(pause, time.Millisecond))
	defer tick.Stop()
	for {
		if err := do(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
}

func (r *recorded) answer(args []string) error {
	fields, ids, pause := "", "", -1
	var rest []string
	for _, arg := range args {
		name, v, _ := strings.Cut(arg, "=")
		switch name {
		case "--query-gpu":
			fields = v
		case "--id":
			ids = v
		case "--loop-ms":
			pause, _ = strconv.Atoi(v)
		default:
			rest = append(rest, arg)
		}
	}
	nounits := slices.Contains(rest, "--format=csv,noheader,nounits")
	switch {
	case slices.Contains(rest, "--help-query-gpu"):
		if text, err := fs.ReadFile(r.files, helpFile); err == nil {
			_, _ = r.out.Write(text)
			return nil
		}
		for _, c := range r.columns() {
			_, _ = fmt.Fprintf(r.out, "%q\nRecorded.\n\n", c.name)
		}
		return nil
	case fields != "" && nounits:
		table := func() error { return r.rows(strings.Split(fields, ","), ids) }
		if pause < 0 {
			return table()
		}
		return r.again(time.Duration(pause)*time.Millisecond, table)
	case ids != "" || slices.Contains(rest, "-i"):
		return r.fail(2, "Option is not supported: a recording has all devices.")
	case slices.Contains(rest, "pmon"):
		return r.again(time.Second, func() error {
			return r.print(pmonFile, "Not supported on the device(s)\nFailed to process command line")
		})
	case slices.Contains(rest, "-x"):
		return r.print(xmlFile, "Option \"-x\" is not supported: it was not recorded.")
	case slices.Contains(rest, "-L"):
		return r.print(listFile, "Option \"-L\" is not supported: it was not recorded.")
	}
	return r.fail(2, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.")
}

// A column is a field with a value for each device.
type column struct {
	name, unit string
	values     []string
}

func (r *recorded) columns() (all []column) {
	text, _ := fs.ReadFile(r.files, fieldsFile) // on an error there is no device
	for line := range strings.Lines(string(text)) {
		key, values, ok := strings.Cut(strings.TrimRight(line, "\r\n"), " = ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		name, unit, _ := strings.Cut(key, " [")
		all = append(all, column{name, strings.TrimSuffix(unit, "]"), strings.Split(values, " | ")})
	}
	return all
}

func (r *recorded) rows(fields []string, ids string) error {
	all := map[string]column{}
	for _, c := range r.columns() {
		all[c.name] = c
	}
	devices := len(all["index"].values)
	if devices == 0 {
		return r.fail(6, "No devices were found")
	}
	for _, f := range fields {
		if len(all[f].values) != devices {
			return r.fail(2, fmt.Sprintf("Field %q is not a valid field to query.", f))
		}
	}
	for i := range devices {
		address, _ := busAddress(value(all["pci.bus_id"].values[i]))
		names := []string{all["index"].values[i], all["uuid"].values[i], all["pci.bus_id"].values[i], address}
		if ids != "" && !slices.ContainsFunc(strings.Split(ids, ","), func(id string) bool { return slices.Contains(names, id) }) {
			continue
		}
		values := make([]string, len(fields))
		for k, f := range fields {
			values[k] = strings.TrimSuffix(all[f].values[i], " "+all[f].unit)
		}
		_, _ = fmt.Fprintln(r.out, strings.Join(values, ", "))
	}
	return nil
}
