//go:build !race

package story

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Story is a file: what a machine reports over time, and what is to be said of it.
type Story struct {
	Name, Kind string // of the file and its folder

	Title      string            `yaml:"title"`
	Seen       string            `yaml:"seen"`
	Tags       []string          `yaml:"tags"`
	Every      Span              `yaml:"every"`
	Before     Span              `yaml:"before"`
	GPUs       []Product         `yaml:"gpus"`
	Host       map[string]string `yaml:"host"`
	Cores      int               `yaml:"cores"` // of the CPU; a story without GPUs needs them
	Scenes     []Scene           `yaml:"scenes"`
	Never      Words             `yaml:"never"`
	NeverSays  []string          `yaml:"never says"`
	Calm       *int              `yaml:"calm"`
	RealTime   bool              `yaml:"real time"`
	sceneStart []time.Duration
}

// A Product is a card at the beginning.
type Product struct {
	Name        string  `yaml:"name"`
	Limit       float64 `yaml:"limit"`
	Memory      float64 `yaml:"memory"`
	Fans        int     `yaml:"fans"`
	Tachometer  *bool   `yaml:"tachometer"`
	Policy      string  `yaml:"policy"`
	Display     bool    `yaml:"display"`
	Persistence bool    `yaml:"persistence"`
	MIG         bool    `yaml:"mig"`
	Slowdown    float64 `yaml:"slowdown"`
	Vendor      string  `yaml:"vendor"`
	Sleeps      bool    `yaml:"sleeps"`
}

// A Span is a length of time, such as "90s"; of a story's time it may be negative.
type Span struct{ time.Duration }

func (s *Span) UnmarshalYAML(n *yaml.Node) (err error) {
	s.Duration, err = time.ParseDuration(n.Value)
	return located(n, err)
}

// Words is one word or a list of them.
type Words []string

func (w *Words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*w = Words{n.Value}
		return nil
	}
	return n.Decode((*[]string)(w))
}

// A Scene is a part of a story.
type Scene struct {
	For    time.Duration
	GPUs   map[int]map[string]*yaml.Node // the changes of each GPU; all: everyGPU
	Host   map[string]string
	CPU    *yaml.Node // percent of all cores, which may change over time
	Runs   *yaml.Node // who uses the CPU, as a list
	Expect []Expectation
	Gpuwhy string        // "starts", "starts without state"
	Clock  time.Duration // by how much it is set
	Sleep  time.Duration
	Driver string // "gone", "back"

	node, expectations *yaml.Node
}

const everyGPU = -1

// An Expectation is what is right at some marks of a scene.
type Expectation struct {
	At     Marks  `yaml:"at"`
	GPU    *int   `yaml:"gpu"`
	First  Words  `yaml:"first"`
	Who    Words  `yaml:"who"`
	Not    Words  `yaml:"not"`
	Says   Words  `yaml:"says"`
	Shown  Words  `yaml:"shown"`
	Since  *Span  `yaml:"since"`
	Sure   string `yaml:"sure"`
	WhoAny Words  `yaml:"who any"`
	Left   *Left  `yaml:"left"`
}

// Left is how long it is to be until it is quiet.
type Left struct {
	From, To time.Duration
	none     bool // nothing is to be told
}

func (q *Left) UnmarshalYAML(n *yaml.Node) error {
	if q.none = n.Value == "none"; q.none {
		return nil
	}
	from, to, ok := strings.Cut(n.Value, " to ")
	var err error
	if q.From, err = time.ParseDuration(strings.TrimSpace(from)); err != nil || !ok {
		return wrong(n, "%q is not such as \"60s to 90s\"", n.Value)
	}
	q.To, err = time.ParseDuration(strings.TrimSpace(to))
	return located(n, err)
}

// Marks are moments of a scene.
type Marks struct {
	list     []time.Duration
	span     bool // each reading from one time to another
	from, to time.Duration
}

// untilTheEnd is the end of the scene.
const untilTheEnd = time.Duration(math.MaxInt64)

func (m *Marks) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		for _, one := range n.Content {
			if err := m.UnmarshalYAML(one); err != nil {
				return err
			}
		}
		return nil
	}
	if from, to, ok := strings.Cut(n.Value, " to "); ok {
		var err, err2 error
		if m.span {
			return wrong(n, "one span is enough")
		}
		m.span, m.to = true, untilTheEnd
		m.from, err = time.ParseDuration(strings.TrimSpace(from))
		if to = strings.TrimSpace(to); to != "end" {
			m.to, err2 = time.ParseDuration(to)
		}
		return located(n, errors.Join(err, err2))
	}
	for one := range strings.SplitSeq(n.Value, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(one))
		if err != nil {
			return located(n, err)
		}
		m.list = append(m.list, d)
	}
	return nil
}

// due reports whether a reading so long after the beginning of the scene is at a mark.
func (m *Marks) due(since, every time.Duration) bool {
	if m.span && since >= m.from && since <= m.to {
		return true
	}
	return slices.ContainsFunc(m.list, func(d time.Duration) bool { return since >= d && since < d+every })
}

// UnmarshalYAML reads a scene, whose members have numbers of GPUs in their names.
func (s *Scene) UnmarshalYAML(n *yaml.Node) error {
	s.node, s.GPUs = n, map[int]map[string]*yaml.Node{}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		if value.Alias != nil {
			value = value.Alias
		}
		if seen[key] {
			return wrong(n.Content[i], "%q is here twice", key)
		}
		seen[key] = true
		var err error
		gpu, isGPU := strings.CutPrefix(key, "gpu ")
		switch {
		case isGPU:
			index := everyGPU
			if gpu != "all" {
				if index, err = strconv.Atoi(gpu); err != nil || index < 0 {
					return wrong(value, "there is no GPU %q", gpu)
				}
			}
			s.GPUs[index] = map[string]*yaml.Node{}
			for j := 0; j+1 < len(value.Content); j += 2 {
				if name := value.Content[j].Value; s.GPUs[index][name] != nil {
					return wrong(value.Content[j], "%q is here twice", name)
				}
				s.GPUs[index][value.Content[j].Value] = value.Content[j+1]
			}
		case key == "for":
			s.For, err = time.ParseDuration(value.Value)
		case key == "expect":
			s.expectations = value
			err = decode(value, &s.Expect)
		case key == "gpuwhy":
			s.Gpuwhy, err = value.Value, oneOf("gpuwhy", value.Value)
		case key == "clock":
			s.Clock, err = time.ParseDuration(strings.TrimPrefix(value.Value, "+"))
		case key == "sleep":
			s.Sleep, err = time.ParseDuration(value.Value)
		case key == "driver":
			s.Driver, err = value.Value, oneOf("driver", value.Value)
		case key == "host":
			err = value.Decode(&s.Host)
		case key == "cpu use":
			s.CPU = value
		case key == "runs":
			s.Runs = value
		default:
			err = fmt.Errorf("a scene has no %q", key)
		}
		if err != nil {
			return located(value, err)
		}
	}
	for i := range s.Expect {
		if e := &s.Expect[i]; e.At.to == untilTheEnd {
			e.At.to = s.For
		}
	}
	return nil
}

// A Value is a reading over the time of a scene.
type Value struct {
	absent string // "none", "not permitted"
	turns  []turn
	from   float64
	to     float64
	noise  float64
	how    string // "", "line", "heat", "turns"
	tau    time.Duration
	lasts  time.Duration // of the scene, for a line
	begun  time.Duration // in the time of the story
}

type turn struct {
	v, noise float64
	lasts    time.Duration
}

var (
	plain   = regexp.MustCompile(`^(-?[\d.]+)(?:\s*±\s*([\d.]+))?$`)
	line    = regexp.MustCompile(`^(-?[\d.]+) to (-?[\d.]+)(?:\s*±\s*([\d.]+))?$`)
	towards = regexp.MustCompile(`^(-?[\d.]+) towards (-?[\d.]+) in ([\d.]+m?s|[\d.]+m)(?:\s*±\s*([\d.]+))?$`)
	inTurn  = regexp.MustCompile(`^(-?[\d.]+)(?:\s*±\s*([\d.]+))? for ([\d.]+m?s|[\d.]+m)$`)
)

func num(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

func parseValue(text string, begun, lasts time.Duration) (*Value, error) {
	v := &Value{begun: begun, lasts: lasts}
	text = strings.TrimSpace(text)
	switch {
	case text == "none" || text == "not permitted":
		v.absent = text
	case plain.MatchString(text):
		m := plain.FindStringSubmatch(text)
		v.from, v.noise = num(m[1]), num(m[2])
	case line.MatchString(text):
		m := line.FindStringSubmatch(text)
		v.how, v.from, v.to, v.noise = "line", num(m[1]), num(m[2]), num(m[3])
	case towards.MatchString(text):
		m := towards.FindStringSubmatch(text)
		v.how, v.from, v.to, v.noise = "heat", num(m[1]), num(m[2]), num(m[4])
		if v.tau, _ = time.ParseDuration(m[3]); v.tau <= 0 {
			return nil, fmt.Errorf("%q takes no time", text)
		}
	default:
		v.how = "turns"
		for part := range strings.SplitSeq(text, ",") {
			m := inTurn.FindStringSubmatch(strings.TrimSpace(part))
			if m == nil {
				return nil, fmt.Errorf("%q is no value", text)
			}
			lasts, _ := time.ParseDuration(m[3])
			if lasts <= 0 {
				return nil, fmt.Errorf("%q takes no time", text)
			}
			v.turns = append(v.turns, turn{num(m[1]), num(m[2]), lasts})
		}
	}
	return v, nil
}

// value is the value at a time of the story.
func (v *Value) value(t time.Duration, r *rand.Rand) float64 {
	since := t - v.begun // negative before the story's time 0, where only turns go on
	value, noise := v.from, v.noise
	switch v.how {
	case "line":
		value += (v.to - v.from) * min(1, float64(max(since, 0))/float64(v.lasts))
	case "heat":
		value = v.to + (v.from-v.to)*math.Exp(-min(max(since, 0), v.lasts).Seconds()/v.tau.Seconds())
	case "turns":
		var whole time.Duration
		for _, t := range v.turns {
			whole += t.lasts
		}
		since = (since%whole + whole) % whole
		for _, t := range v.turns {
			if value, noise = t.v, t.noise; since < t.lasts {
				break
			}
			since -= t.lasts
		}
	}
	return value + noise*(2*r.Float64()-1)
}

// read reads a story. What is wrong in it has the file and the line.
func read(file string) (*Story, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := parse(text)
	return s, inFile(file, err)
}

func parse(text []byte) (*Story, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, errors.New("there is no story")
	}
	s, root := &Story{}, document.Content[0]
	if err := decode(root, s); err != nil {
		return nil, err
	}
	if s.Every.Duration <= 0 {
		s.Every.Duration = 5 * time.Second
	}
	begins := time.Duration(0)
	for i := range s.Scenes {
		s.sceneStart = append(s.sceneStart, begins)
		begins += s.Scenes[i].For
	}
	return s, s.check(root)
}
