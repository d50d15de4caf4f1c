package alert

import (
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// A Service is an [Engine] that announces what it does. Whatever changes an
// alert, a reading, a person or new rules, goes through the Service, so that
// announcements come in the order in which the changes happened.
type Service struct {
	*Engine
	// Newest returns the newest Moments; nil before the first.
	Newest func() *insight.Fleet
	// Announce takes the changes, the alerts that stand after them, and the newest
	// Moments. Alerts of another node than node are as they were before; an empty
	// node stands for all. It is called for one announcement at a time and must not
	// wait for anybody.
	Announce func(node string, changes []Change, standing []Alert, now *insight.Fleet)
	// Changed is called after a change that a restart must not lose. It must not
	// wait for anybody.
	Changed func()

	order sync.Mutex // held from a change until it is announced
}

// Hold calls f while no alert changes and none is announced.
func (s *Service) Hold(f func()) {
	s.order.Lock()
	defer s.order.Unlock()
	f()
}

// Observe looks at one Moment and announces what is new. It hides
// [Engine.Observe].
func (s *Service) Observe(m *insight.Moment) {
	s.Hold(func() { s.announce(m.Snapshot.Node, s.Engine.Observe(m)) })
}

// announce is called while order is held.
func (s *Service) announce(node string, changes []Change) {
	s.Announce(node, changes, s.Standing(), s.Newest())
	if len(changes) > 0 {
		s.Changed()
	}
}

// act does what somebody asks for, and announces what changes by it.
func (s *Service) act(what func(now time.Time) ([]Change, error)) (err error) {
	s.Hold(func() {
		var changes []Change
		if changes, err = what(time.Now().UTC()); err == nil {
			s.announce("", changes)
			s.Changed() // a silence of nothing that fires is a change as well
		}
	})
	return err
}

// Acknowledge says that somebody knows of an alert; nil takes that back.
func (s *Service) Acknowledge(id string, by *Acknowledgment) (Alert, error) {
	return s.one(func(time.Time) (Change, error) { return s.Engine.Acknowledge(id, by) })
}

// Dismiss ends an alert that nothing can end any more.
func (s *Service) Dismiss(id string) (Alert, error) {
	return s.one(func(now time.Time) (Change, error) { return s.Engine.Dismiss(id, now) })
}

// one does what somebody asks for of one alert, and returns the alert.
func (s *Service) one(what func(now time.Time) (Change, error)) (of Alert, err error) {
	err = s.act(func(now time.Time) ([]Change, error) {
		change, err := what(now)
		of = change.Alert
		return []Change{change}, err
	})
	return of, err
}

// Silence puts a silence in force for a while.
func (s *Service) Silence(silence Silence, span time.Duration) (made Silence, err error) {
	err = s.act(func(now time.Time) (changes []Change, err error) {
		silence.Until = now.Add(span)
		made, changes, err = s.Engine.Silence(silence, now)
		return changes, err
	})
	return made, err
}

// Silences are those in force.
func (s *Service) Silences() []Silence { return s.Engine.Silences(time.Now()) }

// Unsilence ends a silence.
func (s *Service) Unsilence(id string) error {
	return s.act(func(time.Time) ([]Change, error) { return s.Engine.Unsilence(id) })
}

// SetRules puts other rules in force.
func (s *Service) SetRules(rules []Rule) {
	_ = s.act(func(now time.Time) ([]Change, error) { return s.Engine.SetRules(rules, now), nil }) // which can't fail
}
