package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A Footprint is the size of the stored history, now and once the full retention time is stored.
type Footprint struct {
	At    time.Time // when it was measured
	Bytes int64     // of all, on disk
	Kinds []Kept
	// Full is about what Kinds will take in all; those of which that can't be told yet are in it with what they take now.
	Full int64
	How  string // in sentences: how Full was computed
}

// Kept is one kind of stored data.
type Kept struct {
	store.TableSize
	For       time.Duration // how long it is kept; 0: for ever
	FullRows  int64         // once it is full; 0 where that can't be told yet, as FullBytes
	FullBytes int64
	Typical   bool // the bytes of a row are those of other machines: there are too few rows here
}

const (
	// enough is how many rows it takes to know what one takes.
	enough = 1000
	// watched is how long it takes to know how often something happens.
	watched = time.Hour
	// lately is for how long a device that left counts.
	lately = 24 * time.Hour
	// framesEvery is how often a whole snapshot is kept at most, as package record does.
	framesEvery = 5 * time.Second
)

// typical are bytes of a row in a file with 8 GPUs at work (BenchmarkSize of package sqlite); of a snapshot for each of them.
var typical = map[string]float64{"raw": 135, "1m": 147, "15m": 152, "6h": 151, "frames": 172}

// Footprint measures the history of a program that reads at that interval. It reads the whole database.
func (p *Past) Footprint(ctx context.Context, interval time.Duration) (Footprint, error) {
	size, err := p.Store.Size(ctx)
	if err != nil {
		return Footprint{}, err
	}
	devices, err := p.Store.Devices(ctx)
	if err != nil {
		return Footprint{}, err
	}
	f := Footprint{At: p.Now(), Bytes: size.Bytes}
	series, gpus, machines := present(devices)
	span := spanned(size.Tables)
	var measured, guessed, unknown []string
	for _, t := range size.Tables {
		k := Kept{TableSize: t}
		tier, ofRows := store.ParseTier(t.Name)
		switch {
		case ofRows:
			k.For, _ = p.Keeps.Kept(tier)
			k.expect(float64(series)*float64(k.For)/float64(max(tier.Span(), interval)), 1)
		case t.Name == "frames":
			k.For = p.Keeps[store.Raw]
			k.expect(float64(machines)*float64(k.For)/float64(max(interval, framesEvery)), float64(gpus)/float64(max(machines, 1)))
		default:
			k.For = p.longest()
			k.extrapolate(span)
		}
		switch {
		case k.FullRows == 0:
			f.Full += k.Bytes
			unknown = append(unknown, t.Name)
		case k.Typical:
			guessed = append(guessed, t.Name)
		case ofRows || t.Name == "frames":
			measured = append(measured, t.Name)
		}
		f.Full += k.FullBytes
		f.Kinds = append(f.Kinds, k)
	}
	f.How = how(series, interval, span, measured, guessed, unknown)
	return f, nil
}

// present counts who has readings now, the GPUs of these, and their machines.
func present(devices []store.Device) (series, gpus, machines int) {
	var newest time.Time
	for i := range devices {
		if devices[i].Last.After(newest) {
			newest = devices[i].Last
		}
	}
	nodes := map[string]bool{}
	for i := range devices {
		if d := &devices[i]; !d.Last.IsZero() && newest.Sub(d.Last) < lately {
			series++
			if d.UUID != "" {
				gpus++
			}
			nodes[d.Node] = true
		}
	}
	return series, gpus, len(nodes)
}

// spanned is from the oldest to the newest of all that is kept, but for rows that begin long before what they are about.
func spanned(tables []store.TableSize) time.Duration {
	var from, to time.Time
	for i := range tables {
		if t := &tables[i]; t.Name != store.SixHours.String() && !t.Oldest.IsZero() && (from.IsZero() || t.Oldest.Before(from)) {
			from = t.Oldest
		}
		if t := &tables[i]; t.Newest.After(to) {
			to = t.Newest
		}
	}
	return to.Sub(from)
}

// longest is how long everything except readings is kept; 0: forever.
func (p *Past) longest() time.Duration {
	now := time.Unix(0, 0)
	if oldest := p.Keeps.Oldest(now); !oldest.IsZero() {
		return now.Sub(oldest)
	}
	return 0
}

// expect takes note of so many rows, which are each as large as those that there are, if these are enough, or else so many times
// the typical one.
func (k *Kept) expect(rows, times float64) {
	each := times * typical[k.Name]
	if k.Typical = k.Rows < enough; !k.Typical {
		each = float64(k.Bytes) / float64(k.Rows)
	}
	k.FullRows, k.FullBytes = int64(rows), int64(rows*each)
}

// extrapolate takes note of what happens as often as it did over a span.
func (k *Kept) extrapolate(span time.Duration) {
	if span < watched || k.For == 0 || k.Rows == 0 {
		return
	}
	times := max(1, float64(k.For)/float64(span))
	k.FullRows, k.FullBytes = int64(float64(k.Rows)*times), int64(float64(k.Bytes)*times)
}

func how(series int, interval, span time.Duration, measured, guessed, unknown []string) string {
	out := []string{fmt.Sprintf("Computed for %d GPUs and machines with a reading every %s.", series, interval)}
	add := func(format string, kinds []string) {
		if len(kinds) > 0 {
			out = append(out, fmt.Sprintf(format, strings.Join(kinds, ", ")))
		}
	}
	add("The size of a row was measured here for %s.", measured)
	add("There are too few rows here for %s: a row is assumed to be as large as on a server with 8 GPUs.", guessed)
	if span >= watched {
		out = append(out, fmt.Sprintf("Sessions, causes and events are assumed to continue as in the %s so far.", explain.Span(span)))
	}
	add("It is too early to tell for %s: their current size is used.", unknown)
	return strings.Join(out, " ")
}

// Sizes caches the footprint: measuring reads the whole database, and no page waits for it.
type Sizes struct {
	Past     *Past
	Interval time.Duration // between two readings
	// Measured: another program writes, so the interval is that of its newest readings, where there are some.
	Measured bool

	mu        sync.Mutex
	measuring chan struct{} // closed when the measuring ends that is under way; nil: none is
	last      *Footprint
}

const (
	// measureFirst and measureEvery are when it is measured unasked; younger is how old an answer may be for who asks.
	measureFirst, measureEvery, younger = time.Minute, time.Hour, 30 * time.Second
)

// Last returns the latest footprint; nil before the first measurement, or if s is nil.
func (s *Sizes) Last() *Footprint {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Now returns a footprint that is at most half a minute old.
func (s *Sizes) Now(ctx context.Context) (*Footprint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.last != nil {
			if age := s.Past.Now().Sub(s.last.At); age >= 0 && age < younger {
				return s.last, nil
			}
		}
		under := s.measuring
		if under == nil {
			return s.measure(ctx)
		}
		s.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// measure measures, and lets go of s.mu meanwhile.
func (s *Sizes) measure(ctx context.Context) (*Footprint, error) {
	ended := make(chan struct{})
	s.measuring = ended
	s.mu.Unlock()
	defer func() { // also where the store panics
		s.measuring = nil
		close(ended)
	}()
	f, err := func() (Footprint, error) {
		defer s.mu.Lock()
		interval := s.Interval
		if s.Measured {
			found, err := s.Past.interval(ctx)
			if err != nil {
				return Footprint{}, err
			}
			interval = cmp.Or(found, interval)
		}
		return s.Past.Footprint(ctx, interval)
	}()
	if err != nil {
		return nil, err
	}
	s.last = &f
	return &f, nil
}

// newest is the time before the last reading in which readings are looked at to find their interval.
const newest = 10 * time.Minute

// interval is the time between two of the newest readings, in the middle of all such times; 0 where there are too few.
func (p *Past) interval(ctx context.Context) (time.Duration, error) {
	devices, err := p.Store.Devices(ctx)
	if err != nil {
		return 0, err
	}
	var last store.Device
	for _, d := range devices {
		if d.Last.After(last.Last) {
			last = d
		}
	}
	if last.Last.IsZero() {
		return 0, nil
	}
	q := store.Query{
		From: last.Last.Add(-newest), To: last.Last.Add(time.Millisecond), Keys: []store.Key{last.Key()}, Machines: last.UUID == "",
		Columns: []int{0}, Reuse: true,
	}
	var gaps []time.Duration
	var before time.Time
	for r, err := range p.Store.Rows(ctx, q) {
		if err != nil {
			return 0, err
		}
		if !before.IsZero() {
			gaps = append(gaps, r.Time.Sub(before))
		}
		before = r.Time
	}
	if len(gaps) == 0 {
		return 0, nil
	}
	slices.Sort(gaps)
	middle := gaps[len(gaps)/2]
	return cmp.Or(middle.Round(10*time.Millisecond), middle), nil
}

// Run measures once an hour, until ctx ends.
func (s *Sizes) Run(ctx context.Context) {
	ctx = store.Own(ctx)
	for next := time.After(measureFirst); ; next = time.After(measureEvery) {
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
		_, _ = s.Now(ctx) // whoever writes says what is wrong with the database
	}
}
