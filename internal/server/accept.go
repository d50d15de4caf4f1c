package server

import (
	"net/http"
	"slices"
	"strings"
)

// matches reports whether an If-None-Match header names the ETag, or all.
func matches(ifNoneMatch []string, etag string) bool {
	for _, value := range ifNoneMatch {
		for candidate := range strings.SplitSeq(value, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// addVary names a request header that the answer depends on, once.
func addVary(h http.Header, name string) {
	if !slices.Contains(h["Vary"], name) {
		h.Add("Vary", name)
	}
}
