package serve

import (
	"bytes"
	"fmt"
	"net/http"
)

const typeSVG = "image/svg+xml"

var errTheme = refuse(http.StatusUnprocessableEntity, "the theme is neither light nor dark", "use light or dark, or leave it out")

// picture answers with the answer and its picture as an image that explains itself.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) error {
	asked, err := parseQuery(r)
	if err != nil {
		return err
	}
	f := ofRequest(r, s.cfg.Latest())
	if err := s.readable(f); err != nil {
		return err
	}
	if theme := asked.Get("theme"); theme != "" && theme != "light" && theme != "dark" {
		return errTheme
	}
	if name := asked.Get("gpu"); name != "" {
		id, err := parseID(name)
		if err != nil {
			return err
		}
		of, err := id.find(f)
		if err != nil {
			return err
		}
		asked.Set("gpu", of.Device.UUID)
	}
	var image bytes.Buffer
	if err := s.cfg.Picture(f, nodeOf(r), asked).Render(r.Context(), &image); err != nil {
		return fmt.Errorf("draw the picture: %w", err)
	}
	s.embeddable(w, r)
	return reply(w, r, cacheRevalidate, newBody(typeSVG, image.Bytes()), nil)
}
