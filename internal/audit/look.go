package audit

import (
	"context"
	"maps"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A look is somebody looking at something.
type look struct{ what, name, id, key string }

// often is how often the same look is recorded: once in this time.
const often = time.Hour

// Looked records that the principal of a request looks at what few may see, such as "readAudit", once an hour for each session, token or
// person. An error is a [gpu.Advice]: the principal must not see it then.
func (r *Room) Looked(ctx context.Context, what string) error {
	who, _ := auth.FromContext(ctx)
	this, now := look{what, who.Name, who.ID, who.Key}, r.cfg.Clock.Elapsed()
	r.mu.Lock()
	maps.DeleteFunc(r.looked, func(_ look, at time.Duration) bool { return now-at >= often })
	_, known := r.looked[this]
	r.mu.Unlock()
	if known {
		return nil
	}
	if err := r.Append(ctx, NewEntry(what, &who, done)); err != nil {
		return err
	}
	r.mu.Lock()
	r.looked[this] = now
	r.mu.Unlock()
	return nil
}
