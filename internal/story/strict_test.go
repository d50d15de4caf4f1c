//go:build !race

package story

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decode is n.Decode for structs and lists of them, with an error for a key that the
// struct does not have or that is there twice, and for an empty list. A decoder's own
// KnownFields does not reach what a type decodes for itself.
func decode(n *yaml.Node, into any) error {
	if err := known(n, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	return n.Decode(into)
}

func known(n *yaml.Node, typ reflect.Type) error {
	if n.Alias != nil {
		n = n.Alias
	}
	if reflect.PointerTo(typ).Implements(reflect.TypeFor[yaml.Unmarshaler]()) || typ == reflect.TypeFor[yaml.Node]() {
		return nil
	}
	switch {
	case typ.Kind() == reflect.Pointer:
		return known(n, typ.Elem())
	case typ.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for _, one := range n.Content {
			if err := known(one, typ.Elem()); err != nil {
				return err
			}
		}
	case typ.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		fields := map[string]reflect.Type{}
		for f := range typ.Fields() {
			if name := f.Tag.Get("yaml"); name != "" {
				fields[name] = f.Type
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			field, ok := fields[key.Value]
			if !ok {
				return wrong(key, "there is no key %q here", key.Value)
			}
			delete(fields, key.Value)
			if err := known(n.Content[i+1], field); err != nil {
				return err
			}
		}
	case typ.Kind() == reflect.Struct || typ.Kind() == reflect.Slice:
		return wrong(n, "%q is not what belongs here", n.Value)
	}
	return nil
}

// A mistake is an error of a story, and its line.
type mistake struct {
	line int
	text string
}

func (m *mistake) Error() string { return fmt.Sprintf("%d: %s", m.line, m.text) }

func wrong(n *yaml.Node, format string, args ...any) error {
	return &mistake{n.Line, fmt.Sprintf(format, args...)}
}

// located gives an error the line of a node, unless it has one.
func located(n *yaml.Node, err error) error {
	if _, found := errors.AsType[*mistake](err); err == nil || found {
		return err
	}
	return &mistake{n.Line, err.Error()}
}

// words are the lists of words of the format: any other word in their place is an error.
var words = map[string][]string{
	"tag": {
		"desktop", "laptop", "workstation", "data-center", "lab", "gaming", "mining", "llm", "training", "video", "render", "mig",
		"container", "kubernetes", "zero-rpm", "curve", "blower", "water", "passive", "driver-fault", "sensor-fault", "start-late",
		"multi-gpu", "bursts", "display", "restart", "sleep",
	},
	"state":  {"ok", "lost", "hangs", "slow", "asleep", "gone", "refuses"},
	"policy": {"auto", "manual", "unknown"},
	"type":   {"", "compute", "graphics", "mps", "rocm"},
	"vendor": {"", "nvidia", "amd", "intel"},
	"sure":   {"", "high", "medium", "low", "not high", "not medium", "not low"},
	"gpuwhy": {"", "starts", "starts without state"},
	"driver": {"", "gone", "back"},
}

func oneOf(what, word string) error {
	if !slices.Contains(words[what], word) {
		return fmt.Errorf("there is no %s %q", what, word)
	}
	return nil
}

// check finds what the types of a story don't: words that do not exist, marks at which
// nothing is read, GPUs that it does not have.
func (s *Story) check(root *yaml.Node) error {
	if s.Title == "" || s.Seen == "" || len(s.Tags) == 0 || len(s.GPUs) == 0 && s.Cores == 0 || len(s.Scenes) == 0 {
		return wrong(root, "a story has a title, where it was seen, tags, GPUs (or cores) and scenes")
	}
	for _, tag := range s.Tags {
		if err := oneOf("tag", tag); err != nil {
			return located(root, err)
		}
	}
	for _, p := range s.GPUs {
		if p.Policy != "" && p.Policy != "unknown" {
			return wrong(root, "a policy other than unknown belongs into a scene, as a reading")
		}
		if err := cmp.Or(oneOf("vendor", p.Vendor), p.check()); err != nil {
			return located(root, err)
		}
	}
	length := s.Before.Duration
	for i := range s.Scenes {
		length += s.Scenes[i].For
	}
	if s.RealTime && length > 40*time.Second {
		return wrong(root, "a story of %v takes too much of people's time", length)
	}
	for _, w := range s.Never {
		if _, is := meanings[w]; !is {
			return wrong(root, "there is no word %q", w)
		}
	}
	if err := checkHost(s.Host); err != nil {
		return located(root, err)
	}
	for i := range s.Scenes {
		sc := &s.Scenes[i]
		if err := checkHost(sc.Host); err != nil {
			return located(sc.node, err)
		}
		if sc.CPU != nil {
			if _, err := parseValue(sc.CPU.Value, 0, sc.For); err != nil {
				return located(sc.CPU, err)
			}
		}
		if sc.Runs != nil {
			list, err := processes(sc.Runs, 0, sc.For)
			for i := range list {
				if err == nil {
					err = list[i].check()
				}
			}
			if err != nil {
				return located(sc.Runs, err)
			}
		}
		if sc.For <= 0 {
			return wrong(sc.node, "a scene has a length")
		}
		for gpu, readings := range sc.GPUs {
			if gpu >= len(s.GPUs) {
				return wrong(sc.node, "there is no GPU %d", gpu)
			}
			for key, n := range readings {
				if err := located(n, checkReading(key, n, sc.For)); err != nil {
					return err
				}
				for i := range s.GPUs {
					if gpu != i && gpu != everyGPU {
						continue
					}
					if err := located(n, s.GPUs[i].reports(key, n, sc.For)); err != nil {
						return err
					}
				}
			}
		}
		for j := range sc.Expect {
			if err := s.checkExpectation(&sc.Expect[j], sc); err != nil {
				return wrong(sc.expectations.Content[j], "%v", err)
			}
		}
	}
	return nil
}

func checkHost(sensors map[string]string) error {
	for name, value := range sensors {
		if _, err := parseValue(value, 0, time.Second); err != nil {
			return fmt.Errorf("%s: %q is no number", name, value)
		}
	}
	return nil
}

func (s *Story) checkExpectation(e *Expectation, sc *Scene) error {
	for _, w := range e.First {
		if _, is := meanings[w]; !is {
			return fmt.Errorf("there is no word %q", w)
		}
	}
	if len(e.First)+len(e.Who)+len(e.WhoAny)+len(e.Not)+len(e.Says)+len(e.Shown) == 0 && e.Sure == "" && e.Since == nil && e.Left == nil {
		return errors.New("nothing is expected")
	}
	if len(e.At.list) == 0 && !e.At.span {
		return errors.New("it has no mark")
	}
	for _, mark := range append(slices.Clone(e.At.list), e.At.from) {
		if mark < 0 || mark >= sc.For {
			return fmt.Errorf("the scene has no reading at %v", mark)
		}
	}
	if e.At.span && (e.At.to > sc.For || e.At.to < e.At.from) {
		return fmt.Errorf("the scene does not last from %v to %v", e.At.from, e.At.to)
	}
	if e.GPU != nil && (*e.GPU < 0 || *e.GPU >= len(s.GPUs)) {
		return fmt.Errorf("there is no GPU %d", *e.GPU)
	}
	return oneOf("sure", e.Sure)
}

func checkReading(key string, n *yaml.Node, lasts time.Duration) error {
	values := []*yaml.Node{n}
	switch key {
	case "processes":
		if n.Kind == yaml.ScalarNode {
			if n.Value != "none" && n.Value != "not permitted" {
				return fmt.Errorf("%q is no list of processes", n.Value)
			}
			return nil
		}
		list, err := processes(n, 0, lasts)
		for i := range list {
			if err == nil {
				err = list[i].check()
			}
		}
		return err
	case "state":
		_, _, err := state(n.Value)
		return err
	case "policy":
		return oneOf("policy", n.Value)
	case "xid":
		_, err := strconv.Atoi(n.Value)
		return err
	case "reasons":
		_, err := reasons(n)
		return err
	case "display", "persistence":
		var b bool
		return n.Decode(&b)
	case "fan", "rpm", "target":
		if n.Kind == yaml.SequenceNode {
			values = n.Content
		}
	case "hotspot":
	default:
		if _, ok := keys[key]; !ok {
			return fmt.Errorf("there is no reading %q", key)
		}
	}
	for _, v := range values {
		if _, err := parseValue(v.Value, 0, lasts); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) check() error {
	if p.PID == 0 || p.Name == "" && !p.Hidden && !p.Ended {
		return errors.New("a process has a pid and a name")
	}
	if p.Used != "" && p.Used != "none" && !plain.MatchString(p.Used) {
		return fmt.Errorf("%q is no memory", p.Used)
	}
	return oneOf("type", p.Type)
}

// state reads "slow 2s" as slow and 2 s; other states have no length.
func state(text string) (name string, delay time.Duration, err error) {
	name, lasts, slow := strings.Cut(text, " ")
	if slow {
		delay, err = time.ParseDuration(lasts)
	}
	if err == nil && slow != (name == "slow") {
		err = fmt.Errorf("there is no state %q", text)
	}
	if err == nil {
		err = oneOf("state", name)
	}
	return name, delay, err
}

func reasons(n *yaml.Node) (bits int, err error) {
	var list []string
	if err := n.Decode(&list); err != nil {
		return 0, err
	}
	for _, r := range list {
		bit, ok := reasonBits[r]
		if !ok {
			return 0, fmt.Errorf("there is no reason %q", r)
		}
		bits |= bit
	}
	return bits, nil
}

// yamlLine is how package yaml begins its own errors.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (?s)(.*)$`)

// inFile gives an error the file and line where it is.
func inFile(file string, err error) error {
	if err == nil {
		return nil
	}
	if m, is := errors.AsType[*mistake](err); is {
		return fmt.Errorf("%s:%w", file, m)
	}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s:%s: %s", file, m[1], m[2])
	}
	return fmt.Errorf("%s: %w", file, err)
}
