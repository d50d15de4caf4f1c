package alert

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The errors of what people ask for.
var (
	// ErrUnknown: no such alert stands, or no such silence is in force.
	ErrUnknown = errors.New("there is no such alert or silence")
	// ErrReported: an alert whose device reports what is watched can't be
	// dismissed.
	ErrReported = errors.New("what it is about is still reported")
	// ErrTooMany: no more silences can be made.
	ErrTooMany = errors.New("there are too many silences")
)

// Bounds of what people may write and make.
const (
	longestNote    = 200 // characters
	mostSilences   = 500
	longestSilence = 366 * 24 * time.Hour
)

// A Silence keeps alerts from being told, not from firing: all that match each
// of its patterns, of which an empty one matches everything.
type Silence struct {
	ID      string    `json:"id"`
	Rule    string    `json:"rule"` // patterns, as in [Scope]
	Node    string    `json:"node"`
	GPU     string    `json:"gpu_uuid"`
	By      string    `json:"by"` // name of the principal; may be empty
	Comment string    `json:"comment"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
}

// Literally is the pattern that matches this very text, such as a UUID.
func Literally(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}

func (x *Silence) matches(a *Alert) bool {
	one := func(pattern, text string) bool { return pattern == "" || matches([]string{pattern}, text) }
	return one(x.Rule, a.Rule) && one(x.Node, a.Device.Node) && one(x.GPU, a.Device.UUID)
}

func (x *Silence) check() error {
	if span := x.Until.Sub(x.Since); span <= 0 || span > longestSilence {
		return invalid("until", "must lie ahead, by 366 days at most")
	}
	for field, pattern := range map[string]string{"rule": x.Rule, "node": x.Node, "gpu_uuid": x.GPU} {
		if !validPattern(pattern) || len(pattern) > 253 {
			return invalid(field, "is no pattern")
		}
	}
	return checkNotes(x.By, x.Comment)
}

func checkNotes(by, comment string) error {
	for field, text := range map[string]string{"by": by, "comment": comment} {
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > longestNote || strings.ContainsFunc(text, unicode.IsControl) {
			return invalid(field, "must be one line of text, of at most %d characters", longestNote)
		}
	}
	return nil
}

// silencedUntil is when the last silence ends that covers an alert; zero where
// none does.
func (e *Engine) silencedUntil(a *Alert) time.Time {
	var until time.Time
	for i := range e.silences {
		if x := &e.silences[i]; x.Until.After(until) && x.matches(a) {
			until = x.Until
		}
	}
	return until
}

// Silence puts a silence in force, of which ID and Since are given here.
func (e *Engine) Silence(x Silence, now time.Time) (Silence, []Change, error) {
	x.Since = now
	if err := x.check(); err != nil {
		return Silence{}, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.silences) >= mostSilences {
		return Silence{}, nil, ErrTooMany
	}
	e.silenced++
	x.ID = strconv.FormatInt(now.UnixMilli(), 36) + "-" + strconv.FormatUint(e.silenced, 36)
	e.silences = append(e.silences, x)
	return x, e.remark(), nil
}

// Unsilence ends a silence. Alerts that nobody was told of are told at the next
// snapshot.
func (e *Engine) Unsilence(id string) ([]Change, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.silences, func(x Silence) bool { return x.ID == id })
	if i < 0 {
		return nil, ErrUnknown
	}
	e.silences = slices.Delete(e.silences, i, i+1)
	return e.remark(), nil
}

// Silences returns the silences in force, the one that ends first, first.
func (e *Engine) Silences(now time.Time) []Silence {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := slices.DeleteFunc(slices.Clone(e.silences), func(x Silence) bool { return !now.Before(x.Until) })
	slices.SortStableFunc(out, func(a, b Silence) int { return a.Until.Compare(b.Until) })
	return out
}

// remark finds the alerts that are silenced, or are no more.
func (e *Engine) remark() []Change {
	var changes []Change
	for _, t := range e.tracked {
		for i := range t.states {
			st := &t.states[i]
			if st.alert == nil {
				continue
			}
			if until := e.silencedUntil(st.alert); !until.Equal(st.alert.SilencedUntil) {
				next := *st.alert
				next.SilencedUntil = until
				st.alert = &next
				changes = append(changes, Change{Alert: next, News: Marked})
			}
		}
	}
	sortChanges(changes)
	return changes
}

// Acknowledge notes that somebody knows of an alert, nil that they don't any
// more.
func (e *Engine) Acknowledge(id string, by *Acknowledgment) (Change, error) {
	if by != nil {
		if err := checkNotes(by.By, by.Comment); err != nil {
			return Change{}, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.find(id)
	if st == nil {
		return Change{}, ErrUnknown
	}
	next := *st.alert
	next.Acknowledged = by
	st.alert = &next
	return Change{Alert: next, News: Marked}, nil
}

// Dismiss ends an alert in the state [NoData], such as one about a GPU that was
// taken out of the machine. If the device comes back as it was, another alert
// fires.
func (e *Engine) Dismiss(id string, now time.Time) (Change, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.find(id)
	switch {
	case st == nil:
		return Change{}, ErrUnknown
	case st.alert.State != NoData:
		return Change{}, ErrReported
	}
	over := *st.alert
	over.State, over.Time = Resolved, now
	over.Message = "Dismissed by hand. Before: " + over.Message
	told := !st.told.IsZero()
	*st = state{covered: true, read: st.read, counted: st.counted}
	return e.end(&over, told), nil
}

func (e *Engine) find(id string) *state {
	for _, t := range e.tracked {
		for i := range t.states {
			if a := t.states[i].alert; a != nil && a.ID == id {
				return &t.states[i]
			}
		}
	}
	return nil
}
