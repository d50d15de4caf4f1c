package audit

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// remembered is the kind of the item with the settings of the last run. Its ID is the program's name.
const remembered = "settings"

// memory is how long they are remembered.
const memory = 10 * 365 * 24 * time.Hour

// changeSettings is what the entry about changed settings calls them.
const changeSettings = "changeSettings"

// Reload records which settings in files have changed.
func (r *Room) Reload() { r.settings() }

// settings records which settings have changed since they were looked at last, by this run or an earlier one. They are in effect, so
// the entry waits where it can't be written.
func (r *Room) settings() {
	if r.cfg.Settings == nil {
		return
	}
	now := maps.Clone(r.cfg.Settings)
	if r.cfg.Read != nil {
		maps.Copy(now, r.cfg.Read())
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Deadline)
	defer cancel()
	item, err := r.cfg.Ledger.Get(ctx, remembered, r.cfg.Node)
	if err != nil {
		r.log.Warn("changes of the settings are not known", "err", err)
		return
	}
	change := ledger.Change{Item: ledger.Item{Kind: remembered, ID: r.cfg.Node, Expires: r.cfg.Clock.Now().Add(memory)}}
	var was map[string]string
	if item != nil {
		change.Was = item.Version
		if err := json.Unmarshal(item.Doc, &was); err != nil {
			r.log.Warn("the settings of the last run can't be read", "err", err)
		}
	}
	before, after := map[string]string{}, map[string]string{}
	for name, value := range was {
		if now[name] != value {
			before[name] = value
		}
	}
	for name, value := range now {
		if was[name] != value {
			after[name] = value
		}
	}
	if len(before)+len(after) == 0 {
		return
	}
	change.Doc, _ = json.Marshal(now) // a map of texts can always be encoded
	if err := r.cfg.Ledger.Apply(ctx, change); err != nil {
		r.log.Warn("the settings are not remembered", "err", err)
		return
	}
	e := NewEntry(changeSettings, &auth.Principal{Name: program}, done)
	e.Target = r.cfg.Node
	e.Before, _ = json.Marshal(before)
	e.After, _ = json.Marshal(after)
	r.Later(e)
}
