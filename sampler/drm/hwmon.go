package drm

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Hwmon is a card's sensor folder. Its files are listed, not read, and the list never changes.
type Hwmon struct {
	Folder
	files []string
}

// Hwmon finds the card's sensors by the chip's name, such as "amdgpu". The error is fs.ErrNotExist if the card has none.
func (c *Card) Hwmon(name string) (*Hwmon, error) {
	all := c.Device.In("hwmon")
	entries, err := os.ReadDir(all.Path)
	if err != nil {
		return nil, err
	}
	failed := error(&fs.PathError{Op: "open", Path: filepath.Join(all.Path, name), Err: fs.ErrNotExist})
	for _, e := range entries {
		dir := all.In(e.Name())
		is, err := dir.Text("name")
		if err != nil {
			failed = err
			continue
		}
		if is != name {
			continue
		}
		files, err := os.ReadDir(dir.Path)
		if err != nil {
			return nil, err
		}
		h := &Hwmon{Folder: dir}
		for _, f := range files {
			h.files = append(h.files, f.Name())
		}
		return h, nil
	}
	return nil, failed
}

// Has reports whether a file exists.
func (h *Hwmon) Has(name string) bool { return slices.Contains(h.files, name) }

// A Channel is one sensor or limit: the 1 of "temp1_input".
type Channel struct {
	Number int
	Label  string // "junction"; empty without a label
}

// File returns the name of one of the channel's files: "temp1_crit" for kind "temp" and what "crit".
func (c Channel) File(kind, what string) string { return kind + strconv.Itoa(c.Number) + "_" + what }

var channelFile = regexp.MustCompile(`^([a-z]+)([0-9]{1,3})_`)

// Channels returns the channels of a kind such as "temp", by number, with their labels.
func (h *Hwmon) Channels(kind string) []Channel {
	var out []Channel
	for _, file := range h.files {
		m := channelFile.FindStringSubmatch(file)
		if m == nil || m[1] != kind {
			continue
		}
		number, _ := strconv.Atoi(m[2]) // the pattern has only digits here
		if slices.ContainsFunc(out, func(c Channel) bool { return c.Number == number }) {
			continue
		}
		c := Channel{Number: number}
		if label := c.File(kind, "label"); h.Has(label) {
			c.Label, _ = h.Text(label) // without a label it has only its number
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Channel) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// Labeled returns the channel of a kind with a given label.
func (h *Hwmon) Labeled(kind, label string) (Channel, bool) {
	all := h.Channels(kind)
	i := slices.IndexFunc(all, func(c Channel) bool { return c.Label == label })
	if i < 0 {
		return Channel{}, false
	}
	return all[i], true
}
