package audit

import (
	"encoding/json"
	"log/slog"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
)

// tell tells the log of an entry, and the system log.
func (r *Room) tell(e *ledger.Entry) {
	var attrs []any
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	if e.Number > 0 {
		attrs = append(attrs, slog.Int64("entry", e.Number))
	}
	text("action", e.Action)
	text("result", e.Result)
	text("by", e.Principal)
	text("id", e.Identity)
	text("way", e.Way)
	text("address", e.Address)
	text("target", e.Target)
	text("node", e.Node)
	text("asked", e.Asked)
	for _, json := range []struct {
		name string
		text json.RawMessage
	}{{"args", e.Args}, {"before", e.Before}, {"after", e.After}} {
		if json.text != nil {
			attrs = append(attrs, slog.Any(json.name, json.text))
		}
	}
	text("detail", e.Detail)
	if e.Of > 0 {
		attrs = append(attrs, slog.Int64("of", e.Of))
	}
	r.log.Info("audit", attrs...)
	if r.system == nil {
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		r.system.lose("an entry can't be encoded", err)
		return
	}
	r.system.add(string(line))
}
