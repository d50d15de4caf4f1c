package recent

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

// A handed is the recent past of a node as one gpuwhy hands it to another: means of 15 s, of steps that are over.
type handed struct {
	From    time.Time      `json:"from"` // of the first point, by the clock of the node
	Devices []handedDevice `json:"devices"`
}

type handedDevice struct {
	UUID   string            `json:"uuid,omitempty"` // empty: the machine, which has no device
	Values map[string]points `json:"values"`         // by metric
	Work   []handedWork      `json:"work,omitempty"`
}

type handedWork struct {
	Name   string  `json:"name,omitempty"`
	User   string  `json:"user,omitempty"`
	Visits []Visit `json:"visits"`
	Watts  points  `json:"watts"`
}

// points are numbers, one a point, as a text with a space between two, and "-" where there is none: a quarter of what a list takes in memory
// while it is read.
type points string

func pointsOf(values []float32) points {
	b := make([]byte, 0, 8*len(values))
	for i, v := range values {
		if i > 0 {
			b = append(b, ' ')
		}
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			b = append(b, '-')
		} else {
			b = strconv.AppendFloat(b, float64(v), 'g', -1, 32)
		}
	}
	return points(b)
}

// each calls f with each number, and returns an error if the text is malformed.
func (p points) each(f func(i int, v float32)) error {
	i := 0
	for word := range strings.FieldsSeq(string(p)) {
		if word != "-" {
			v, err := strconv.ParseFloat(word, 32)
			if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
				err = strconv.ErrRange
			}
			if err != nil {
				return fmt.Errorf("point %d is no number: %w", i, err)
			}
			f(i, float32(v))
		}
		i++
	}
	return nil
}

const (
	// mostHanded is how many bytes the past of a node takes at most when it is handed over: less than NATS carries in a message.
	mostHanded = 512 << 10
	// mostVisits and longestName bound what is taken of a worker.
	mostVisits  = 100
	longestName = 256
)

var errHanded = fmt.Errorf("the recent past of a node takes more than %d bytes", mostHanded)

// Past is what the store has of a node that this program reads, for [Store.Fill] at another gpuwhy. Who was on its devices is left out where it
// would be too large then; it is an error where it is too large even so.
func (s *Store) Past(node string) ([]byte, error) {
	t := s.Table(Question{Node: node, Step: coarse})
	h := handed{From: t.From, Devices: []handedDevice{}}
	for i := range t.Rows {
		r := &t.Rows[i]
		d := handedDevice{UUID: r.UUID, Values: map[string]points{}}
		for metric := range rowOf {
			if values := r.Values(metric); values != nil {
				d.Values[metric] = pointsOf(values)
			}
		}
		for _, w := range r.Workers {
			d.Work = append(d.Work, handedWork{w.Name, w.User, w.Visits[max(0, len(w.Visits)-mostVisits):], pointsOf(w.Watts)})
		}
		h.Devices = append(h.Devices, d)
	}
	text, err := json.Marshal(h)
	if err == nil && len(text) > mostHanded {
		for i := range h.Devices {
			h.Devices[i].Work = nil
		}
		text, err = json.Marshal(h)
	}
	if err == nil && len(text) > mostHanded {
		err = errHanded
	}
	return text, err
}

// Fill takes in what [Store.Past] is at the gpuwhy that reads a node. What is known here stays; devices of which nothing is known here are left
// out. An error says why nothing was taken.
func (s *Store) Fill(node string, text []byte) error {
	if len(text) > mostHanded {
		return errHanded
	}
	var h handed
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("the recent past of a node can't be read: %w", err)
	}
	for i := range h.Devices {
		if err := h.Devices[i].check(); err != nil {
			return fmt.Errorf("the recent past of a node can't be read: device %d: %w", i, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.tables {
		if q.Node == node {
			delete(s.tables, q)
		}
	}
	s.generation++
	s.far.fillFrom(node, &h)
	return nil
}

// check looks whether all can be taken, before anything is.
func (d *handedDevice) check() error {
	ignore := func(int, float32) {}
	for metric, values := range d.Values {
		if err := values.each(ignore); err != nil {
			return fmt.Errorf("%.40q: %w", metric, err)
		}
	}
	for _, w := range d.Work {
		if len(w.Name) > longestName || len(w.User) > longestName || len(w.Visits) > mostVisits {
			return errors.New("a worker is too large")
		}
		if err := w.Watts.each(ignore); err != nil {
			return err
		}
	}
	return nil
}

// fillFrom takes in the past of a node where nothing is known.
func (s *shelf) fillFrom(node string, h *handed) {
	s.reach(h.From)
	places := make([]int, s.slots) // of each point; -1: none
	for i := range places {
		places[i] = s.placeOf(h.From.Add(time.Duration(i) * s.bucket))
	}
	for i := range h.Devices {
		handed := &h.Devices[i]
		d := s.devices[key{node, handed.UUID}]
		if d == nil {
			continue
		}
		for metric, values := range handed.Values {
			row, known := rowOf[metric]
			if !known || row.machine != d.machine {
				continue // of another version
			}
			series := &d.rows[row.index]
			_ = values.each(func(i int, v float32) { // it was checked
				if i >= len(places) || places[i] < 0 {
					return
				}
				if series.means == nil {
					series.means, series.counts = make([]float32, s.slots), make([]uint8, s.slots)
				}
				if series.counts[places[i]] == 0 {
					series.means[places[i]], series.counts[places[i]] = v, 1
				}
			})
		}
		d.fill(handed.Work, places)
	}
}

// reach makes room for older moments, as far back as readings are held.
func (s *shelf) reach(begin time.Time) {
	for s.end > s.first && s.end-s.first < s.slots {
		oldest := s.times[s.first%s.slots].Truncate(s.bucket)
		next := oldest.Add(-s.bucket)
		if !begin.Before(oldest) || s.times[(s.end-1)%s.slots].Sub(next) > held {
			return
		}
		s.first--
		s.times[s.first%s.slots] = next
		for _, d := range s.devices {
			d.blank(s.first%s.slots, next)
		}
	}
}

// placeOf is that of the moment of a time; -1 where there is none.
func (s *shelf) placeOf(t time.Time) int {
	n, found := sort.Find(s.end-s.first, func(i int) int {
		return t.Truncate(s.bucket).Compare(s.times[(s.first+i)%s.slots].Truncate(s.bucket))
	})
	if !found {
		return -1
	}
	return (s.first + n) % s.slots
}

// fill adds the processes on a device at moments for which they are not known yet.
func (w *work) fill(list []handedWork, places []int) {
	free := make([]bool, w.slots)
	for i := range free {
		free[i] = w.known == nil || w.known[i] == 0
	}
	for _, k := range list {
		visits := earlier(k.Visits)
		if len(visits) == 0 {
			continue
		}
		worker := w.find(k.Name, k.User, 0)
		worker.before(visits)
		_ = k.Watts.each(func(i int, v float32) { // it was checked
			if i < len(places) && places[i] >= 0 && free[places[i]] {
				worker.watts[places[i]] += max(v, 0)
				w.known[places[i]] = 1
			}
		})
	}
}

// earlier are the visits that can be: none is known to be going on.
func earlier(visits []Visit) (out []Visit) {
	for _, v := range visits {
		if !v.From.IsZero() && !v.To.Before(v.From) {
			out = append(out, Visit{From: v.From, To: v.To})
		}
	}
	return out
}

// before adds earlier visits to those that are known. One that lasted until a known one began is the same.
func (w *worker) before(visits []Visit) {
	if len(w.Visits) == 0 {
		w.Visits = visits
		return
	}
	first, more := &w.Visits[0], []Visit(nil)
	for _, v := range visits {
		switch {
		case v.To.Before(first.From):
			more = append(more, v)
		case v.From.Before(first.From):
			first.From = v.From
		}
	}
	w.Visits = append(more, w.Visits...)
}
