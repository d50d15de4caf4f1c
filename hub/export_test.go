package hub

import "net/http"

// ServeHTTP serves a viewer of all nodes.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.Serve(w, r, "") }
