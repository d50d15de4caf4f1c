// Command program is a fake nvidia-smi for tests: it plays the machine in its own folder. See package fakesmi.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	self, err := os.Executable()
	if err != nil {
		fail(255, err.Error())
	}
	m := &machine{dir: filepath.Dir(self), args: os.Args[1:]}
	m.out = bufio.NewWriterSize(&spoiler{m: m}, 1<<16) // a whole round at once, unless a fault holds it up
	m.note("start " + strings.Join(m.args, " "))
	m.play()
	m.out.Flush()
}

// command returns the command's name, as used in faults.
func (m *machine) command() string {
	switch {
	case m.given("--help-query-gpu"):
		return "help"
	case m.given("pmon"):
		return "pmon"
	case m.given("-q") && m.given("-x"):
		return "xml"
	default:
		return "query"
	}
}

// spoilt returns the faults of this command.
func (m *machine) spoilt() (kinds []string) {
	for _, f := range m.faults("command") {
		if command, kind, _ := strings.Cut(f, " "); command == m.command() {
			kinds = append(kinds, kind)
			m.note("spoilt " + f)
		}
	}
	return kinds
}

// struck ends or hangs the command if it has such a fault.
func (m *machine) struck() {
	for _, kind := range m.spoilt() {
		switch kind {
		case "missing":
			fail(2, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.")
		case "dies":
			os.Exit(139)
		case "hangs":
			m.hold("command", m.command()+" hangs")
		}
	}
}

// A spoiler spoils the program's output, one line at a time.
type spoiler struct {
	m    *machine
	rest string
}

func (s *spoiler) Write(b []byte) (int, error) {
	s.rest += string(b)
	kinds := s.m.spoilt()
	var out strings.Builder
	for {
		line, rest, whole := strings.Cut(s.rest, "\n")
		if !whole {
			if _, err := io.WriteString(os.Stdout, out.String()); err != nil {
				return 0, err
			}
			return len(b), nil
		}
		s.rest = rest
		for _, kind := range kinds {
			switch kind {
			case "cut":
				line = line[:len(line)/2]
			case "garbage":
				line = "\x00\xff\x1b[2J,, 99999999999999999999 %,<gpu>]]>"
			case "noise":
				line += "\nWARNING: infoROM is corrupted at gpu 0000:01:00.0, # pid 7, 8"
			}
		}
		out.WriteString(line + "\n")
	}
}

func fail(code int, text string) {
	_, _ = io.WriteString(os.Stdout, text+"\n")
	os.Exit(code)
}

type machine struct {
	dir   string
	args  []string
	out   *bufio.Writer
	rests bool // it loops without a device
}

// option returns the value of an option: "--id=1" or "-i 1".
func (m *machine) option(names ...string) (string, bool) {
	for i, arg := range m.args {
		for _, name := range names {
			if v, ok := strings.CutPrefix(arg, name+"="); ok && strings.HasPrefix(name, "--") {
				return v, true
			}
			if arg == name && i+1 < len(m.args) {
				return m.args[i+1], true
			}
		}
	}
	return "", false
}

func (m *machine) given(arg string) bool { return slices.Contains(m.args, arg) }

// note appends a line to the log, which lasts as long as the machine.
func (m *machine) note(text string) {
	f, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(f, "%d %s\n", os.Getpid(), text)
	_ = f.Close()
}

func (m *machine) file(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.dir, name))
	return string(text)
}

// faults returns the lines that begin with a word, without the word.
func (m *machine) faults(word string) (out []string) {
	for line := range strings.Lines(m.file("faults")) {
		if first, rest, _ := strings.Cut(strings.TrimSpace(line), " "); first == word {
			out = append(out, rest)
		}
	}
	return out
}

func (m *machine) play() {
	m.struck()
	for _, text := range m.faults("noise") {
		fmt.Fprintln(m.out, text)
	}
	switch {
	case m.given("--help-query-gpu"):
		m.help()
	case m.given("pmon"):
		m.broken()
		m.pmon()
	case m.given("-q") && m.given("-x"):
		m.broken()
		m.xml()
	case m.given("-L"):
		m.broken()
		fmt.Fprint(m.out, m.file("list"))
	default:
		fields, ok := m.option("--query-gpu")
		if !ok {
			fail(2, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.")
		}
		m.broken()
		m.query(strings.Split(fields, ","))
	}
}

// broken prints the error of a driver that does not answer: "fail 9 NVIDIA-SMI has failed …".
func (m *machine) broken() {
	for _, f := range m.faults("fail") {
		code, text, _ := strings.Cut(f, " ")
		n, _ := strconv.Atoi(code)
		fail(n, text)
	}
	m.hold("silent", "")
}

// hold waits as long as a fault lasts.
func (m *machine) hold(word, about string) {
	held := func() bool { return slices.Contains(m.faults(word), about) }
	if !held() {
		return
	}
	m.flush()
	m.note(fmt.Sprintf("held %s %s %s", m.command(), word, about))
	for held() {
		time.Sleep(2 * time.Millisecond)
		if os.Getppid() == 1 {
			os.Exit(1)
		}
	}
	m.note("released")
}

// rest notes when a loop loses its last device and when it has one again.
func (m *machine) rest(rests bool) {
	if rests != m.rests {
		m.rests = rests
		m.note(map[bool]string{true: "rests", false: "goes on"}[rests])
	}
}

// A column is a field with a value for each device.
type column struct {
	name, unit string
	values     []string
}

func (m *machine) columns() (all []column) {
	for line := range strings.Lines(m.file("query-gpu")) {
		key, values, ok := strings.Cut(strings.TrimRight(line, "\n"), " = ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		name, unit, _ := strings.Cut(key, " [")
		all = append(all, column{name, strings.TrimSuffix(unit, "]"), strings.Split(values, " | ")})
	}
	return all
}

func find(all []column, name string) (column, bool) {
	i := slices.IndexFunc(all, func(c column) bool { return c.name == name })
	if i < 0 {
		return column{}, false
	}
	return all[i], true
}

func (m *machine) help() {
	fmt.Fprint(m.out, "List of valid properties to query for the switch \"--query-gpu\":\n\n")
	for _, c := range m.columns() {
		also := ""
		if rest, ok := strings.CutPrefix(c.name, "clocks_event_reasons."); ok {
			also = ` or "clocks_throttle_reasons.` + rest + `"`
		}
		fmt.Fprintf(m.out, "%q%s\nMade up: what %s means. See \"nvidia-smi -h\" or \"man nvidia-smi\".\n\n", c.name, also, c.name)
	}
}

// chosen returns the devices that the command is for.
func (m *machine) chosen(all []column) (devices []int) {
	ids, some := m.option("--id", "-i")
	address, _ := find(all, "pci.bus_id")
	uuid, _ := find(all, "uuid")
	for i, a := range address.values {
		short := strings.ToLower(strings.TrimPrefix(a, "0000"))
		if m.gone(short) {
			continue
		}
		if !some || slices.ContainsFunc(strings.Split(ids, ","), func(id string) bool {
			return id == strconv.Itoa(i) || strings.EqualFold(id, a) || strings.EqualFold(id, short) || id == uuid.values[i]
		}) {
			devices = append(devices, i)
		}
	}
	return devices
}

// gone reports whether a device was taken out.
func (m *machine) gone(address string) bool { return slices.Contains(m.faults("gone"), address) }

// handle prints that a device is lost, as nvidia-smi does at its start; with "lost-ends" it then ends.
func (m *machine) handle(ids string, some bool) {
	for _, word := range []string{"lost-ends", "lost-goes-on"} {
		for _, address := range m.faults(word) {
			if some && !strings.Contains(strings.ToLower(ids), address) {
				continue
			}
			text := "Unable to determine the device handle for GPU " + address +
				": GPU is lost.  Reboot the system to recover this GPU"
			if word == "lost-ends" {
				m.out.Flush()
				fail(15, text)
			}
			fmt.Fprintln(m.out, text)
		}
	}
}

func (m *machine) query(fields []string) {
	all := m.columns()
	for _, f := range fields {
		refused := slices.Contains(m.faults("refuse"), f)
		if _, ok := find(all, f); (!ok && !alias(all, f)) || refused {
			fail(2, fmt.Sprintf("Field %q is not a valid field to query.\n", f))
		}
	}
	ids, some := m.option("--id", "-i")
	m.handle(ids, some)
	begun := m.chosen(all)
	if len(begun) == 0 {
		m.out.Flush()
		fail(6, "No devices were found")
	}
	if format, _ := m.option("--format"); !strings.Contains(format, "noheader") {
		m.titles(all, fields)
	}
	pause, loops := m.option("--loop-ms")
	ms, _ := strconv.Atoi(pause)
	for {
		all = m.columns()
		still := m.chosen(all)
		rows := 0
		for _, i := range begun {
			if slices.Contains(still, i) {
				m.row(all, fields, i)
				rows++
			}
		}
		m.flush()
		m.rest(rows == 0)
		if !loops || len(m.faults("once")) > 0 {
			return
		}
		time.Sleep(time.Duration(ms) * time.Millisecond)
		m.struck()
		if len(m.faults("die")) > 0 {
			m.broken()
			os.Exit(1)
		}
	}
}

// titles prints the line above a table: each field with its unit.
func (m *machine) titles(all []column, fields []string) {
	format, _ := m.option("--format")
	names := make([]string, len(fields))
	for k, f := range fields {
		names[k] = f
		if c, ok := find(all, f); ok && c.unit != "" && !strings.Contains(format, "nounits") {
			names[k] += " [" + c.unit + "]"
		}
	}
	fmt.Fprintln(m.out, strings.Join(names, ", "))
}

// alias reports whether the field is requested by an older name.
func alias(all []column, f string) bool {
	rest, ok := strings.CutPrefix(f, "clocks_throttle_reasons.")
	_, known := find(all, "clocks_event_reasons."+rest)
	return ok && known
}

func (m *machine) flush() {
	if m.out.Flush() != nil || os.Getppid() == 1 {
		os.Exit(1) // nobody is listening any more
	}
}

func (m *machine) row(all []column, fields []string, i int) {
	address, _ := find(all, "pci.bus_id")
	short := strings.ToLower(strings.TrimPrefix(address.values[i], "0000"))
	m.note("read " + short)
	m.hold("hang", short)
	for _, f := range m.faults("slow") {
		m.flush()
		ms, _ := strconv.Atoi(f)
		time.Sleep(time.Duration(ms) * time.Millisecond)
	}
	format, _ := m.option("--format")
	values := make([]string, len(fields))
	for k, f := range fields {
		c, ok := find(all, f)
		if !ok {
			c, _ = find(all, strings.Replace(f, "clocks_throttle_reasons.", "clocks_event_reasons.", 1))
		}
		v := c.values[i]
		if strings.Contains(format, "nounits") {
			v = strings.TrimSuffix(v, " "+c.unit)
		}
		if slices.Contains(m.faults("lost"), short) && !slices.Contains(known, f) {
			v = "[GPU is lost]"
		}
		values[k] = v
	}
	line := strings.Join(values, ", ")
	if slices.Contains(m.faults("cut"), short) {
		line = line[:len(line)/2]
	}
	fmt.Fprintln(m.out, line)
	for _, text := range m.faults("between") {
		fmt.Fprintln(m.out, text)
	}
}

// known are the fields that a lost device still has.
var known = []string{"index", "uuid", "name", "pci.bus_id", "count", "driver_version"}

// pmon and the XML each print lines for a device.
func (m *machine) pmon() {
	if len(m.faults("no-pmon")) > 0 {
		fail(3, "Not supported on the device(s)\nFailed to process command line")
	}
	pause := time.Second
	for _, f := range m.faults("pmon-ms") {
		ms, _ := strconv.Atoi(f)
		pause = time.Duration(ms) * time.Millisecond
	}
	for {
		m.struck()
		all := m.columns()
		chosen := m.chosen(all)
		address, _ := find(all, "pci.bus_id")
		devices := 0
		for line := range strings.Lines(m.file("pmon")) {
			first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			i, err := strconv.Atoi(first)
			if err == nil && !slices.Contains(chosen, i) {
				continue
			}
			if err == nil && i < len(address.values) {
				short := strings.ToLower(strings.TrimPrefix(address.values[i], "0000"))
				m.note("pmon " + short)
				m.hold("hang", short)
				devices++
			}
			fmt.Fprint(m.out, line)
		}
		m.flush()
		if _, limited := m.option("-c"); limited {
			return
		}
		m.rest(devices == 0)
		time.Sleep(pause)
	}
}

func (m *machine) xml() {
	all := m.columns()
	chosen := m.chosen(all)
	address, _ := find(all, "pci.bus_id")
	skip := false
	for line := range strings.Lines(m.file("query.xml")) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), `<gpu id="`); ok {
			i := slices.IndexFunc(address.values, func(a string) bool { return strings.HasPrefix(id, a) })
			if skip = !slices.Contains(chosen, i); !skip {
				short := strings.ToLower(strings.TrimPrefix(address.values[i], "0000"))
				m.note("xml " + short)
				m.hold("hang", short)
			}
		}
		if !skip {
			fmt.Fprint(m.out, line)
		}
		if strings.TrimSpace(line) == "</gpu>" {
			skip = false
			if len(m.faults("cut-xml")) > 0 {
				return
			}
		}
	}
}
