package uplink

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/fleet/talk"
)

// Allow is what hubs may ask this machine for at most, whoever asks there: people who take over a hub get no more.
type Allow struct {
	// All holds for hubs that Named does not have; 0: nothing.
	All   auth.Access
	Named map[string]auth.Access
}

// DefaultAllow lets hubs read, acknowledge and silence.
var DefaultAllow = Allow{All: auth.Operate}

// ParseAllow reads what people write: "read" or "operate" for all hubs, "NAME" or "NAME=read" for one. Once a hub is named, others may
// ask nothing unless there is a word for all. Nothing is the default.
func ParseAllow(list []string) (Allow, error) {
	if len(list) == 0 {
		return DefaultAllow, nil
	}
	a := Allow{Named: map[string]auth.Access{}}
	levels := map[string]auth.Access{"read": auth.Read, "operate": auth.Operate}
	for _, text := range list {
		name, level, given := strings.Cut(text, "=")
		if all := levels[text]; all != 0 {
			a.All = all
			continue
		}
		if !given {
			level = "operate"
		}
		if levels[level] == 0 || name == "" {
			return a, fmt.Errorf("%.300q: write read or operate for all hubs, or NAME, NAME=read or NAME=operate for one", text)
		}
		a.Named[name] = levels[level]
	}
	return a, nil
}

// access returns what a hub may ask for at most.
func (a Allow) access(hub string) auth.Access {
	if named, is := a.Named[hub]; is {
		return named
	}
	return a.All
}

const (
	// apart is how far the clock of a hub may be from ours.
	apart = 5 * time.Minute
	// mostNonces is how many questions are remembered, so that none is answered twice. Beyond it only questions that read are answered.
	mostNonces = 100_000
	// fewNonces is how many are remembered without looking for those that are too old to be answered again.
	fewNonces = 1000
	// mostHubs is how many hubs are remembered.
	mostHubs = 1000
)

// A Pin is the key of a hub, as the first message of the hub had it.
type Pin struct {
	Key   []byte    `json:"key"`
	Since time.Time `json:"since"`
}

// Hubs tells hubs apart by their keys, and decides what each may ask for. A name keeps the key that it first came with: whoever has other
// credentials of the fleet can't take the name of a known hub.
type Hubs struct {
	Allow Allow
	Clock clock.Clock
	Log   *slog.Logger
	Soon  func() // told that the pins have changed; nil: nobody keeps them

	mu      sync.Mutex
	pins    map[string]Pin
	nonces  map[string]time.Time // of questions that were answered, and when they were signed
	sweep   int                  // how many nonces there are when old ones are forgotten next
	told    map[string]bool      // hubs of which a refused key was logged
	started time.Time
}

// NewHubs returns Hubs that know none.
func NewHubs(allow Allow, now clock.Clock, log *slog.Logger, soon func()) *Hubs {
	return &Hubs{
		Allow: allow, Clock: now, Log: log, Soon: soon, pins: map[string]Pin{}, nonces: map[string]time.Time{}, told: map[string]bool{}, sweep: fewNonces, started: now.Now(),
	}
}

// Kept returns the pins, for the state directory.
func (h *Hubs) Kept() map[string]Pin {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.pins)
}

// Restore takes over kept pins. They win over those learned since the start.
func (h *Hubs) Restore(pins map[string]Pin, _ time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, pin := range pins {
		if len(pin.Key) != ed25519.PublicKeySize {
			return fmt.Errorf("the key of the hub %.100q has %d bytes", name, len(pin.Key))
		}
		h.pins[name] = pin
	}
	return nil
}

var (
	errOtherKey = errors.New("this hub's name belongs to another key")
)

// Learn pins the key of a hub, if the hub is new.
func (h *Hubs) Learn(name string, key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || name == "" {
		return nil // of an earlier version
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.learn(name, key)
}

func (h *Hubs) learn(name string, key ed25519.PublicKey) error {
	pin, known := h.pins[name]
	switch {
	case known && bytes.Equal(pin.Key, key):
		return nil
	case known:
		if !h.told[name] {
			h.told[name] = true
			h.Log.Warn("a hub with a known name has another key, and may only read", "hub", name,
				"try", "if the hub was installed again, remove its entry from hubs.json in the state directory and restart gpuwhy")
		}
		return errOtherKey
	case len(h.pins) >= mostHubs:
		h.forgetOldest()
	}
	h.pins[name] = Pin{slices.Clone(key), h.Clock.Now().UTC()}
	if h.Soon != nil {
		h.Soon()
	}
	h.Log.Info("the key of a hub is known from now on", "hub", name)
	return nil
}

// forgetOldest makes room for another hub. Hubs that --fleet-allow names stay. The caller holds mu.
func (h *Hubs) forgetOldest() {
	oldest := ""
	for name, pin := range h.pins {
		if _, named := h.Allow.Named[name]; !named && (oldest == "" || pin.Since.Before(h.pins[oldest].Since)) {
			oldest = name
		}
	}
	delete(h.pins, oldest)
}

// unproven refuses questions that are more than reading.
func unproven(why, try string) *action.Refusal {
	return &action.Refusal{Code: action.Denied.Code, Status: http.StatusForbidden, What: why, Try: try}
}

// Asker returns the principal on whose behalf a hub asks, with no more access than the hub may ask for. Its Address says which hub.
// A question without a valid signature, which no known hub can be held to, reads at most: refusal says why.
func (h *Hubs) Asker(node string, q *action.Question, headers map[string][]string, text []byte) (who auth.Principal, refusal *action.Refusal) {
	who = talk.Asker(q)
	hub, refusal := h.hub(node, headers, text)
	limit := h.Allow.access(hub)
	if refusal != nil {
		limit = min(limit, auth.Read)
	} else if who.Access > limit {
		refusal = unproven(fmt.Sprintf("this machine allows the hub %.100q less than that", hub), "change --fleet-allow on the machine")
	}
	who.Access = min(who.Access, limit)
	who.Way, who.Key = auth.Hub, ""
	who.Address = "hub " + hub
	if hub == "" {
		who.Address = "a hub"
	}
	return who, refusal
}

// hub returns the name of the hub that has signed a question; empty, with the reason, if none can be held to it.
func (h *Hubs) hub(node string, headers map[string][]string, text []byte) (string, *action.Refusal) {
	s, err := talk.Signed(headers, node, text)
	switch {
	case err != nil:
		return "", unproven(err.Error(), "ask again")
	case s == nil:
		return "", action.Unsigned
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Clock.Now()
	switch _, again := h.nonces[s.Nonce]; {
	case now.Sub(s.At).Abs() > apart:
		return "", unproven(fmt.Sprintf("the clocks of the hub %.100q and of this machine are more than 5 minutes apart", s.Hub), "set both clocks")
	case s.At.Before(h.started.Add(-time.Second)):
		return "", unproven("the question was signed before this gpuwhy started", "ask again")
	case again:
		return "", unproven("this question was asked before", "ask again")
	}
	if err := h.learn(s.Hub, s.Key); err != nil {
		return "", unproven(err.Error(), "see the log of gpuwhy on the machine")
	}
	if len(h.nonces) >= h.sweep {
		maps.DeleteFunc(h.nonces, func(_ string, at time.Time) bool { return now.Sub(at) > apart })
		h.sweep = min(max(fewNonces, 2*len(h.nonces)), mostNonces)
	}
	if len(h.nonces) >= mostNonces {
		return "", unproven("too many questions were asked", "wait five minutes")
	}
	h.nonces[s.Nonce] = s.At
	return s.Hub, nil
}
