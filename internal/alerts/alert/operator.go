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

// Errors of requests by people.
var (
	ErrUnknown  = errors.New("there is no such alert or silence") // none is open or in force
	ErrReported = errors.New("readings for it still arrive")      // so that nobody can dismiss it
	ErrTooMany  = errors.New("there are too many silences")
)

// Limits on what people may enter.
const (
	longestText    = 200 // characters of a name or comment
	longestPattern = 253 // bytes
	mostSilences   = 500
	longestSilence = 366 * 24 * time.Hour
)

// A Silence suppresses messages about alerts that match all of its patterns. An empty pattern
// matches everything.
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

// Literally returns the pattern that matches exactly this text, such as a UUID.
func Literally(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}

func covers(pattern, text string) bool { return pattern == "" || matches([]string{pattern}, text) }

func (x *Silence) matches(a *Alert) bool {
	return covers(x.Rule, a.Rule) && covers(x.Node, a.Device.Node) && covers(x.GPU, a.Device.UUID)
}

// Covers reports whether the silence can cover alerts of a node.
func (x Silence) Covers(node string) bool { return covers(x.Node, node) }

func (x Silence) isOf(node string) bool { return x.Covers(node) }
func (a Alert) isOf(node string) bool   { return a.Device.Node == node }

// OfNode keeps the alerts of a node, or the silences that may cover them, in place;
// all of them if the name is empty.
func OfNode[T interface{ isOf(node string) bool }](list []T, node string) []T {
	return slices.DeleteFunc(list, func(x T) bool { return node != "" && !x.isOf(node) })
}

// Check returns what is wrong with a silence, an [Invalid].
func (x *Silence) Check() error {
	if span := x.Until.Sub(x.Since); span <= 0 || span > longestSilence {
		return Refuse("until", "must be in the future, at most 366 days from now")
	}
	for field, pattern := range map[string]string{"rule": x.Rule, "node": x.Node, "gpu_uuid": x.GPU} {
		if !validPattern(pattern) || len(pattern) > longestPattern {
			return Refuse(field, "is not a valid pattern")
		}
	}
	return checkTexts(x.By, x.Comment)
}

func checkTexts(author, comment string) error {
	for field, text := range map[string]string{"by": author, "comment": comment} {
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > longestText || strings.ContainsFunc(text, unicode.IsControl) {
			return Refuse(field, "must be one line of at most %d characters", longestText)
		}
	}
	return nil
}

// silencedUntil is the end of the last silence that covers an alert; zero for none.
func (e *Engine) silencedUntil(a *Alert) time.Time {
	var until time.Time
	for i := range e.silences {
		if x := &e.silences[i]; x.Until.After(until) && x.matches(a) {
			until = x.Until
		}
	}
	return until
}

// Silence puts a silence in force. The engine sets its ID and Since.
func (e *Engine) Silence(x Silence, now time.Time) (Silence, []Change, error) {
	made, changes, err := e.SilenceAll([]Silence{x}, now)
	if err != nil {
		return Silence{}, nil, err
	}
	return made[0], changes, nil
}

// SilenceAll puts several silences in force, as [Engine.Silence] does with one; it is all or none.
func (e *Engine) SilenceAll(list []Silence, now time.Time) ([]Silence, []Change, error) {
	made := slices.Clone(list)
	for i := range made {
		made[i].Since = now
		if err := made[i].Check(); err != nil {
			return nil, nil, err
		}
	}
	changes, err := e.change(nil, func() ([]Change, error) {
		if len(e.silences)+len(made) > mostSilences {
			return nil, ErrTooMany
		}
		for i := range made {
			e.silenced++
			made[i].ID = strconv.FormatInt(now.UnixMilli(), 36) + "-" + strconv.FormatUint(e.silenced, 36)
		}
		e.silences = append(e.silences, made...)
		return e.markSilenced(), nil
	})
	if err != nil {
		return nil, nil, err
	}
	return made, changes, nil
}

// Unsilence ends the silences that are the same except for their ID. It returns [ErrUnknown] if there are none. The next
// Observe tells people about the alerts that were held back.
func (e *Engine) Unsilence(x *Silence) ([]Change, error) {
	return e.change(nil, func() ([]Change, error) {
		before := len(e.silences)
		e.silences = slices.DeleteFunc(e.silences, x.like)
		if len(e.silences) == before {
			return nil, ErrUnknown
		}
		return e.markSilenced(), nil
	})
}

// Silences returns the active silences, in the order in which they end.
func (e *Engine) Silences(now time.Time) []Silence {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := slices.DeleteFunc(slices.Clone(e.silences), func(x Silence) bool { return !now.Before(x.Until) })
	slices.SortStableFunc(out, func(a, b Silence) int { return a.Until.Compare(b.Until) })
	return out
}

// ahead is how far in the future a silence must begin to count as made while the clock was wrong:
// readings are always a little older than what people do meanwhile.
const ahead = 10 * time.Second

var errNoneAhead = errors.New("no silence begins in the future")

// bringBack makes silences created while the clock was ahead begin now.
func (e *Engine) bringBack(now time.Time) {
	_, _ = e.change(nil, func() ([]Change, error) { // an error means that there is nothing to announce
		if !e.moveSilences(now) && !e.shifted {
			return nil, errNoneAhead
		}
		e.shifted = false
		return e.markSilenced(), nil
	})
}

func (e *Engine) moveSilences(now time.Time) (moved bool) {
	for i := range e.silences {
		x := &e.silences[i]
		if lead := x.Since.Sub(now); lead > ahead {
			moved = true
			x.Since, x.Until = now, x.Until.Add(-lead)
			e.Log.Warn("a silence was created while the clock was ahead: it starts now and keeps its length",
				"silence", x.ID, "ahead", lead.Round(time.Second), "until", x.Until)
		}
	}
	return moved
}

func (e *Engine) markSilenced() (changes []Change) {
	for st := range e.standing() {
		if until := e.silencedUntil(st.alert); !until.Equal(st.alert.SilencedUntil) {
			changes = append(changes, st.mark(st.alert.Acknowledged, until))
		}
	}
	return changes
}

func (st *state) mark(ack *Acknowledgment, silencedUntil time.Time) Change {
	next := *st.alert
	next.Acknowledged, next.SilencedUntil = ack, silencedUntil
	st.alert = &next
	return Change{Alert: next, News: Marked}
}

// Acknowledge records that somebody knows about an alert; nil withdraws it.
func (e *Engine) Acknowledge(id string, ack *Acknowledgment) (Change, error) {
	if ack != nil {
		if err := checkTexts(ack.By, ack.Comment); err != nil {
			return Change{}, err
		}
	}
	return e.changeOne(id, func(st *state) (Change, error) { return st.mark(ack, st.alert.SilencedUntil), nil })
}

// Dismiss ends an alert in the state [NoData], for example about a GPU that was removed.
func (e *Engine) Dismiss(id string, now time.Time) (Change, error) {
	return e.changeOne(id, func(st *state) (Change, error) {
		if st.alert.State != NoData {
			return Change{}, ErrReported
		}
		over := e.cutShort(st, "Dismissed by hand.", now)
		*st = state{ruled: st.ruled, first: st.first, floor: now, record: record{Read: st.Read, Counted: st.Counted}}
		return over, nil
	})
}

// changeOne changes the alert with that ID.
func (e *Engine) changeOne(id string, how func(*state) (Change, error)) (change Change, err error) {
	_, err = e.change(nil, func() ([]Change, error) {
		for st := range e.standing() {
			if st.alert.ID == id {
				change, err = how(st)
				return []Change{change}, err
			}
		}
		return nil, ErrUnknown
	})
	return change, err
}
