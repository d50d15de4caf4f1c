package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The names of a capture's files.
const (
	ManifestFile = "capture.yaml"
	ReadingsFile = "readings.jsonl"
	SysfsFile    = "raw/sysfs.txt"
	ProcFile     = "raw/proc.txt"
	SMIFolder    = "raw/nvidia-smi"
)

// Format is the version of the format that this package writes.
const Format = 1

// The maximum sizes of a capture.
const (
	MaxReadings = 64 << 20 // bytes of readings.jsonl
	MaxRaw      = 16 << 20 // bytes of a raw file
	maxLine     = 8 << 20
	maxManifest = 64 << 10
)

// ByMachine is how gpuwhy's own recordings were made.
const ByMachine = "recorded"

// A Manifest describes a capture.
type Manifest struct {
	Format int `yaml:"format"`
	// Made is ByMachine, or "from public facts" for a capture that nobody has measured.
	Made     string    `yaml:"made"`
	Title    string    `yaml:"title,omitempty"` // the machine, in one line
	Facts    []string  `yaml:"facts,omitempty"` // sources of the public facts
	Gpuwhy   string    `yaml:"gpuwhy,omitempty"`
	Began    time.Time `yaml:"began,omitempty"`
	Ended    time.Time `yaml:"ended,omitempty"`
	Every    string    `yaml:"every,omitempty"`    // the time between two readings: "1s"
	Readings int       `yaml:"readings,omitempty"` // number of lines of readings.jsonl
	System   string    `yaml:"system,omitempty"`
	Kernel   string    `yaml:"kernel,omitempty"`
	Sources  []string  `yaml:"sources,omitempty"` // the sources that were requested
	Masked   []string  `yaml:"masked,omitempty"`  // what was replaced; empty: nothing
	Missing  []string  `yaml:"missing,omitempty"` // what should be in it but is not, and why
}

// Bytes returns the manifest as YAML.
func (m *Manifest) Bytes() ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := errors.Join(e.Encode(m), e.Close())
	return out.Bytes(), err
}

// A Capture is an opened folder.
type Capture struct {
	Manifest
	Dir string
	// Unread describes the lines of readings.jsonl that can't be read, as sentences.
	Unread []string

	lines [][]byte
	times []time.Time // of the lines
}

// Open reads a capture. The error wraps a [gpu.Advice].
func Open(dir string) (*Capture, error) {
	c := &Capture{Dir: dir}
	text, err := c.file(ManifestFile, maxManifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notA(dir, "it has no "+ManifestFile, err)
	case err != nil:
		return nil, notA(dir, err.Error(), err)
	}
	if err := yaml.Unmarshal(text, &c.Manifest); err != nil {
		return nil, notA(dir, "its "+ManifestFile+" can't be read: "+err.Error(), err)
	}
	switch {
	case c.Format < 1:
		return nil, notA(dir, "its "+ManifestFile+" names no format", nil)
	case c.Format > Format:
		return nil, &gpu.Advice{
			What: fmt.Sprintf("%s was recorded in format %d, but this gpuwhy reads format %d", dir, c.Format, Format),
			Try:  "play it with a newer gpuwhy",
		}
	}
	if err := c.readReadings(); err != nil {
		return nil, notA(dir, err.Error(), err)
	}
	if len(c.lines) == 0 && !c.HasRaw() {
		why := "it has neither " + ReadingsFile + " nor raw files"
		if len(c.Unread) > 0 {
			why = "no line of " + ReadingsFile + " can be read: " + c.Unread[0]
		}
		return nil, notA(dir, why, nil)
	}
	return c, nil
}

func notA(dir, why string, err error) error {
	return &gpu.Advice{
		What: dir + " is not a capture: " + why,
		Try:  "name a folder written by 'gpuwhy capture'",
		Err:  err,
	}
}

// file reads a whole file of the capture, within bounds.
func (c *Capture) file(name string, most int64) ([]byte, error) {
	file := filepath.Join(c.Dir, filepath.FromSlash(name))
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is longer than %d MiB", name, most>>20)
	}
	return text, err
}

func (c *Capture) readReadings() error {
	text, err := c.file(ReadingsFile, MaxReadings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	number := 0
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		s, err := gpu.UnmarshalRecord(line)
		switch {
		case err == nil && s.Time.IsZero():
			err = errors.New("it has no time")
		case err == nil && len(c.times) > 0 && !s.Time.After(c.times[len(c.times)-1]):
			err = errors.New("it is not later than the previous line")
		}
		if err != nil {
			c.Unread = append(c.Unread, fmt.Sprintf("line %d: %v", number, err))
			continue
		}
		c.lines, c.times = append(c.lines, slices.Clone(line)), append(c.times, s.Time)
	}
	return lines.Err()
}

// Len returns the number of readings.
func (c *Capture) Len() int { return len(c.lines) }

// Time returns when a reading began.
func (c *Capture) Time(i int) time.Time { return c.times[i] }

// Reading returns one of the readings, which the caller owns.
func (c *Capture) Reading(i int) *gpu.Snapshot {
	s, err := gpu.UnmarshalRecord(c.lines[i])
	if err != nil {
		panic(err) // Open has read it
	}
	return s
}

// HasRaw reports whether the capture has raw files of a device.
func (c *Capture) HasRaw() bool { return c.contains(SysfsFile) || c.HasSMI() }

// HasSMI reports whether the capture has output of nvidia-smi.
func (c *Capture) HasSMI() bool { return c.contains(SMIFolder + "/query-gpu") }

func (c *Capture) contains(name string) bool {
	_, err := os.Stat(filepath.Join(c.Dir, filepath.FromSlash(name)))
	return err == nil
}

// Tree reads SysfsFile or ProcFile; a missing one is an empty tree.
func (c *Capture) Tree(name string) (Tree, error) {
	text, err := c.file(name, MaxRaw)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := ParseTree(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Public reports whether the capture was made from public facts and not recorded.
func (m *Manifest) Public() bool { return !strings.HasPrefix(m.Made, ByMachine) }
