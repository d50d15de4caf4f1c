package now

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/views"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

const typeSVG = "image/svg+xml"

var errTheme = serve.Refuse(http.StatusUnprocessableEntity, "the theme is neither light nor dark", "use light or dark, or leave it out")

// themes are the colors of a picture, by the name that asks for them.
var themes = map[string]picture.Theme{"": picture.Light, "light": picture.Light, "dark": picture.Dark}

// picture answers with the answer and its picture as an image that explains itself.
func (s *Site) picture(w http.ResponseWriter, r *http.Request) error {
	asked, err := serve.ParseQuery(r)
	if err != nil {
		return err
	}
	asked.Del("token") // it is for whoever asks, not for the picture
	f := s.Kit.Latest(r)
	if err := s.Kit.Readable(f); err != nil {
		return err
	}
	theme, known := themes[asked.Get("theme")]
	if !known {
		return errTheme
	}
	if name := asked.Get("gpu"); name != "" {
		id, err := serve.ParseID(name)
		if err != nil {
			return err
		}
		p, err := id.Find(f)
		if err != nil {
			return err
		}
		asked.Set("gpu", p.Device.UUID)
	}
	var image bytes.Buffer
	if err := views.NewShared(s.all(r.Context(), f, serve.Node(r), asked), theme).Render(r.Context(), &image); err != nil {
		return fmt.Errorf("draw the picture: %w", err)
	}
	s.Kit.Embeddable(w, r)
	return serve.Content(w, r, typeSVG, image.Bytes())
}

// recent returns a function for the recent past of a page's devices: of one node, or of all.
func (s *Site) recent(ctx context.Context, f *insight.Fleet, page string) func(node, uuid string, step time.Duration) *recent.Table {
	among := ""
	if !serve.SeesAll(ctx) {
		among = strings.Join(append(serve.NodeNames(s.Kit.Fleet(ctx)), ""), "\n") + "\n" // a name without text is nobody's
	}
	return func(node, uuid string, step time.Duration) *recent.Table {
		if node == "" {
			node = page
		}
		shown := f
		if m, ok := f.Node(node); ok {
			shown = m.Alone()
		}
		_, every, _ := s.Kit.Monitor.Pace(shown)
		return s.Recent.Table(recent.Question{Node: node, UUID: uuid, Among: among, Step: step, Interval: every})
	}
}
