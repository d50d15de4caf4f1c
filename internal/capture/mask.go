package capture

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A mask replaces names of people, machines and programs. A name gets the same replacement
// everywhere, so that a reader can still follow what happens: "user-1", "process-3".
type mask struct {
	off   bool              // nothing is replaced
	names map[string]string // by kind and name
	count map[string]int    // by kind
	words map[string]string // every name, for texts
}

func newMask(off bool) *mask {
	return &mask{off: off, names: map[string]string{}, count: map[string]int{}, words: map[string]string{}}
}

// The kinds of names, as people read them in a list.
const (
	aUser, aHost, aBoot, aProcess, aCommand = "user", "host", "boot", "process", "command"
	aContainer, anImage, aPod               = "container", "image", "pod"
	aNamespace, aUnit, aSlice               = "namespace", "unit", "slice"
	aMount, aDisk, anInterface              = "mount", "disk", "interface"
	aSerial                                 = "serial number or UUID"
)

// isOurs reports whether a name is a program in gpuwhy's own sentences. It reveals nothing
// about anybody, and without it the sentences would be about "process-2".
func isOurs(name string) bool { return name == "gpuwhy" || name == "nvidia-smi" }

// replace replaces a name.
func (m *mask) replace(kind, name string) string {
	if m.off || name == "" || isOurs(name) {
		return name
	}
	key := kind + "\x00" + name
	masked, known := m.names[key]
	if !known {
		m.count[kind]++
		if masked = fmt.Sprintf("%s-%d", strings.ReplaceAll(kind, " ", "-"), m.count[kind]); kind == aSerial {
			masked = zeros(name, m.count[kind])
		}
		m.learn(key, name, masked)
	}
	return masked
}

func (m *mask) learn(key, name, masked string) {
	m.names[key] = masked
	if _, known := m.words[name]; !known {
		m.words[name] = masked
	}
}

// zeros returns a number in the form of a serial number or UUID: 0000-00000007.
func zeros(like string, n int) string {
	digits := fmt.Sprint(n)
	out := []rune(strings.Map(func(r rune) rune {
		if r == '-' {
			return r
		}
		return '0'
	}, like))
	for i := len(out) - 1; i >= 0 && digits != ""; i-- {
		if out[i] == '0' {
			out[i], digits = rune(digits[len(digits)-1]), digits[:len(digits)-1]
		}
	}
	return string(out)
}

// reading replaces a name that may be absent.
func (m *mask) reading(kind string, r *gpu.Reading[string]) {
	*r = gpu.Map(*r, func(name string) string { return m.replace(kind, name) })
}

var (
	aUUID = lazy.Pattern(`(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	// AMD's cards have a number of 16 digits.
	aNumber = lazy.Pattern(`(?i)\b(GPU|MIG)-([0-9a-f]{16})\b`)
	aHome   = lazy.Pattern(`(/home/|/Users/|\\Users\\)([^/\\\s:"']+)`)
	anID    = lazy.Pattern(`(?i)\b[0-9a-f]{64}\b`) // of a container
)

// uuid replaces the number in a device's UUID. A key made from the device's place stays as it is.
func (m *mask) uuid(id string) string {
	switch out := m.numbers(id); {
	case out != id, id == "", strings.HasPrefix(id, "PCI-"), strings.Contains(id, "-index-"):
		return out
	default:
		kind, rest, found := strings.Cut(id, "-")
		if !found {
			return m.replace(aSerial, id)
		}
		return kind + "-" + m.replace(aSerial, rest)
	}
}

// numbers replaces all UUIDs in a text.
func (m *mask) numbers(text string) string {
	if m.off {
		return text
	}
	text = aUUID().ReplaceAllStringFunc(text, func(id string) string { return m.replace(aSerial, strings.ToLower(id)) })
	return aNumber().ReplaceAllStringFunc(text, func(id string) string {
		return id[:4] + m.replace(aSerial, strings.ToLower(id[4:]))
	})
}

// text replaces every known name, UUIDs, and the names of home folders.
func (m *mask) text(text string) string {
	if m.off || text == "" {
		return text
	}
	text = aHome().ReplaceAllStringFunc(text, func(home string) string {
		parts := aHome().FindStringSubmatch(home)
		return parts[1] + m.replace(aUser, parts[2])
	})
	text = anID().ReplaceAllStringFunc(m.numbers(text), func(id string) string { return m.replace(aContainer, id) })
	return m.known(text)
}

// known replaces names as whole words, the longest first.
func (m *mask) known(text string) string {
	longest := slices.SortedFunc(maps.Keys(m.words), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	const hole = 0xF0000 // a character that no name has; the following ones mark the next replacements
	var done []string    // kept apart so that no name is found in a replacement
	for _, name := range longest {
		for begin := 0; ; {
			i := strings.Index(text[begin:], name)
			if i < 0 || len(done) >= 0xFFFD {
				break
			}
			i += begin
			if end := i + len(name); !wordly(text, i-1, i) && !wordly(text, end, end-1) {
				placeholder := string(rune(hole + len(done)))
				done = append(done, m.words[name])
				text, begin = text[:i]+placeholder+text[end:], i+len(placeholder)
			} else {
				begin = i + 1
			}
		}
	}
	for i, masked := range done {
		text = strings.Replace(text, string(rune(hole+i)), masked, 1)
	}
	return text
}

// wordly reports whether the word at one position continues at the other.
func wordly(text string, beyond, within int) bool {
	letter := func(i int) bool {
		if i < 0 || i >= len(text) {
			return false
		}
		c := text[i]
		return c >= 0x80 || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return letter(beyond) && letter(within)
}

// user keeps root, which is everywhere.
func (m *mask) user(name string) string {
	if name == "root" {
		return name
	}
	return m.replace(aUser, name)
}

// nothing reports whether nvidia-smi's value means "none".
func nothing(v string) bool {
	return v == "" || v == "-" || v == "0" || strings.HasPrefix(v, "[") || strings.EqualFold(v, "N/A")
}

// serial replaces a serial number that nvidia-smi has printed.
func (m *mask) serial(v string) string {
	if nothing(v) {
		return v
	}
	return m.replace(aSerial, v)
}

// process replaces the name of a program, and leaves out its path.
func (m *mask) process(name string) string {
	plain := strings.TrimSpace(name)
	if m.off || nothing(plain) {
		return name
	}
	base := path.Base(strings.ReplaceAll(plain, `\`, "/"))
	masked := m.replace(aProcess, base)
	m.learn(aProcess+"\x00"+plain, plain, masked)
	return masked
}

var (
	commonUnits = []string{"system.slice", "user.slice", "machine.slice", "init.scope", "-.slice", ""}
	commonDisk  = lazy.Pattern(`^/dev/(?:nvme[0-9]+n[0-9]+(?:p[0-9]+)?|(?:sd|vd|hd|xvd)[a-z]+[0-9]*|mmcblk[0-9]+(?:p[0-9]+)?|md[0-9]+|dm-[0-9]+)$`)
	commonMount = []string{"/", "/boot", "/boot/efi", "/home", "/var", "/var/lib", "/var/log", "/tmp", "/usr", "/opt", "/srv", "/mnt", "/data", `C:\`, "C:"}
	commonLink  = lazy.Pattern(`^(?:eth|wlan|ib|bond|docker|virbr|tun|tap|wg|lo)[0-9]{0,3}$|^(?:en|wl|ww)(?:o[0-9]{1,3}|[ps][0-9a-z]{1,10})$`)
)

func (m *mask) unit(kind, name string) string {
	if slices.Contains(commonUnits, name) || m.off {
		return name
	}
	return m.replace(kind, name) + path.Ext(name) // "unit-1.service"
}

// unless replaces a name, unless it is one that every machine has.
func (m *mask) unless(common bool, kind, name string) string {
	if common {
		return name
	}
	return m.replace(kind, name)
}

// snapshot replaces all names in a snapshot. The caller must own it.
func (m *mask) snapshot(s *gpu.Snapshot) {
	if m.off {
		return
	}
	s.Node = m.replace(aHost, s.Node)
	if s.Host != nil {
		m.host(s.Host)
	}
	for i := range s.Devices {
		m.device(&s.Devices[i])
	}
	// Texts come last, since all names are known then.
	for i := range s.Devices {
		m.advice(&s.Devices[i].Reason)
	}
	for i := range s.Failures {
		m.advice(&s.Failures[i].Advice)
	}
	for i := range s.Tried {
		m.advice(&s.Tried[i].Advice)
	}
	for i := range s.Notes {
		m.advice(&s.Notes[i])
	}
	if s.Host != nil {
		m.advice(&s.Host.NoFans)
	}
}

func (m *mask) host(h *gpu.Host) {
	h.Hostname, h.Boot = m.replace(aHost, h.Hostname), m.replace(aBoot, h.Boot)
	for i := range h.Disks {
		d := &h.Disks[i]
		d.Device = m.unless(commonDisk().MatchString(d.Device), aDisk, d.Device)
		d.Mount = m.unless(slices.Contains(commonMount, d.Mount), aMount, d.Mount)
	}
	for i := range h.Networks {
		n := &h.Networks[i]
		n.Name = m.unless(commonLink().MatchString(n.Name), anInterface, n.Name)
	}
	for i := range h.Busiest.Or(nil) {
		m.facts(&h.Busiest.Or(nil)[i].Facts)
	}
}

func (m *mask) device(d *gpu.Device) {
	d.Node, d.UUID = m.replace(aHost, d.Node), m.uuid(d.UUID)
	m.reading(aSerial, &d.Serial)
	for i := range d.Instances {
		d.Instances[i].UUID = m.uuid(d.Instances[i].UUID)
	}
	for i := range d.Reservations.Or(nil) {
		r := &d.Reservations.Or(nil)[i]
		r.Namespace, r.Pod = m.replace(aNamespace, r.Namespace), m.replace(aPod, r.Pod)
		r.Container, r.Instance = m.replace(aContainer, r.Container), m.uuid(r.Instance)
	}
	for i := range d.Processes.Or(nil) {
		m.facts(&d.Processes.Or(nil)[i].Facts)
	}
	for i := range d.Health.XIDs.Or(nil) {
		m.culprit(&d.Health.XIDs.Or(nil)[i].Culprit)
	}
	for i := range d.Health.Faults.Or(nil) {
		m.culprit(&d.Health.Faults.Or(nil)[i].Culprit)
	}
}

func (m *mask) culprit(c *gpu.Culprit) { c.Name = m.process(c.Name) }

func (m *mask) facts(f *gpu.ProcessFacts) {
	f.Name, f.Program = gpu.Map(f.Name, m.process), gpu.Map(f.Program, m.process)
	f.User = gpu.Map(f.User, m.user)
	m.reading(aCommand, &f.Command)
	f.Container = gpu.Map(f.Container, func(c gpu.Container) gpu.Container {
		c.ID = m.replace(aContainer, c.ID)
		m.reading(aContainer, &c.Name)
		m.reading(anImage, &c.Image)
		return c
	})
	f.Pod = gpu.Map(f.Pod, func(p gpu.Pod) gpu.Pod {
		p.UID = m.replace(aPod, p.UID)
		m.reading(aNamespace, &p.Namespace)
		m.reading(aPod, &p.Name)
		m.reading(aContainer, &p.Container)
		return p
	})
	f.Unit = gpu.Map(f.Unit, func(u gpu.Unit) gpu.Unit {
		u.Name, u.Slice = m.unit(aUnit, u.Name), m.unit(aSlice, u.Slice)
		return u
	})
}

// An errorText is an error whose text was masked.
type errorText struct {
	error
	text string
}

func (e errorText) Error() string { return e.text }
func (e errorText) Unwrap() error { return e.error }

func (m *mask) advice(a *gpu.Advice) {
	a.What, a.Try = m.text(a.What), m.text(a.Try)
	if a.Err != nil {
		a.Err = errorText{a.Err, m.text(a.Err.Error())}
	}
}

var (
	xmlSecret = lazy.Pattern(`<([a-z_]*(?:serial|process_name|vm_name|vm_id)[a-z_]*)>([^<]*)<`)
	rowSerial = lazy.Pattern(`(?m)^((?:[a-z_.]*serial[a-z_.]*) = )(.*)$`)
)

// printed replaces names in the output of nvidia-smi.
func (m *mask) printed(name, text string) string {
	if m.off {
		return text
	}
	switch name {
	case "query.xml":
		text = xmlSecret().ReplaceAllStringFunc(text, func(found string) string {
			parts := xmlSecret().FindStringSubmatch(found)
			value := html.UnescapeString(parts[2])
			if strings.Contains(parts[1], "serial") {
				value = m.serial(value)
			} else {
				value = m.process(value)
			}
			return "<" + parts[1] + ">" + html.EscapeString(value) + "<"
		})
	case "query-gpu":
		text = rowSerial().ReplaceAllStringFunc(text, func(found string) string {
			parts := rowSerial().FindStringSubmatch(found)
			values := strings.Split(parts[2], " | ")
			for i, v := range values {
				values[i] = m.serial(v)
			}
			return parts[1] + strings.Join(values, " | ")
		})
	case "pmon":
		text = m.pmon(text)
	}
	own := ownWords[name]
	if own == nil {
		return m.text(text)
	}
	var out strings.Builder
	done := 0
	for _, match := range own().FindAllStringIndex(text, -1) {
		out.WriteString(m.text(text[done:match[0]]) + text[match[0]:match[1]])
		done = match[1]
	}
	return out.String() + m.text(text[done:])
}

// ownWords matches nvidia-smi's own words, which are needed to parse its output. They stay,
// even if a user or a machine has such a name.
var ownWords = map[string]func() *regexp.Regexp{
	"query.xml": lazy.Pattern(`</?[a-z][a-z0-9_]*(?: id="[0-9A-Fa-f:.]*")?\s*/?>`),
	"query-gpu": lazy.Pattern(`(?m)^[a-z][a-z0-9_.]* = `),
	"pmon":      lazy.Pattern(`(?m)^# +(?:gpu|Idx)\b[a-zA-Z0-9 #%/_\t]*$`),
}

// pmon replaces the last column if the header calls it "command". In an incomplete row, it
// replaces everything from the first word that is not a number.
func (m *mask) pmon(text string) string {
	const kinds = 3 // the first columns of a row: device, pid, type
	isWord := func(field string) bool { return field != "-" && strings.ContainsFunc(field, unicode.IsLetter) }
	var out strings.Builder
	columns := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "#"):
			if names := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "#")); len(names) > 2 && names[0] == "gpu" {
				columns = 0
				if names[len(names)-1] == "command" {
					columns = len(names)
				}
			}
		case len(fields) > kinds && !isWord(fields[0]):
			begin := columns - 1
			if columns == 0 || len(fields) < columns {
				begin = slices.IndexFunc(fields[kinds:], isWord) + kinds
			}
			if begin < kinds { // only numbers
				break
			}
			cut := strings.LastIndex(line, fields[len(fields)-1])
			for _, f := range slices.Backward(fields[begin : len(fields)-1]) {
				cut = strings.LastIndex(line[:cut], f)
			}
			line = line[:cut] + m.process(strings.Join(fields[begin:], " ")) + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// kernelFile replaces names in the text of a kernel file.
func (m *mask) kernelFile(name, text string) string {
	if m.off {
		return text
	}
	value := strings.TrimSpace(text)
	switch base := path.Base(name); {
	case value == "":
		return text
	case base == "unique_id", base == "serial_number":
		return m.replace(aSerial, strings.ToLower(value)) + "\n"
	case base == "comm":
		return m.process(value) + "\n"
	case path.Base(path.Dir(name)) == "fdinfo":
		var out strings.Builder
		for line := range strings.Lines(text) {
			if key, client, is := strings.Cut(line, ":"); is && key == "drm-client-name" {
				line = key + ":\t" + m.process(client) + "\n"
			}
			out.WriteString(line)
		}
		return m.numbers(out.String())
	}
	return m.numbers(text)
}

// kinds returns what was replaced, for people.
func (m *mask) kinds() (all []string) {
	for _, kind := range slices.Sorted(maps.Keys(m.count)) {
		many := kind + "s"
		switch kind {
		case aProcess:
			many = "processes"
		case aSerial:
			many = "serial numbers and UUIDs"
		}
		all = append(all, fmt.Sprintf("%s: %d", many, m.count[kind]))
	}
	return all
}
