package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// preferred returns which of the content types on offer the client likes best
// (RFC 9110, 12.5.1). Between equals the first wins, also where the client
// names none of them: an answer that was not asked for says more than none.
func preferred(h http.Header, offers ...string) string {
	accept := h["Accept"]
	if len(accept) == 0 {
		return offers[0]
	}
	best, bestQ := offers[0], 0.0
	for _, offer := range offers {
		if q := quality(accept, offer); q > bestQ {
			best, bestQ = offer, q
		}
	}
	return best
}

// quality is the weight that an Accept header gives to a content type: that of
// its most specific range which includes it, 0 if none does.
func quality(accept []string, offer string) float64 {
	offer, _, _ = strings.Cut(offer, ";")
	kind, _, _ := strings.Cut(offer, "/")
	var q float64
	specificity := 0
	for mediaRange, weight := range weighted(accept) {
		var s int
		switch mediaRange {
		case offer:
			s = 3
		case kind + "/*":
			s = 2
		case "*/*":
			s = 1
		}
		if s > specificity || s > 0 && s == specificity && weight > q {
			specificity, q = s, weight
		}
	}
	return q
}

// acceptsGzip reports whether the client takes gzip.
func acceptsGzip(h http.Header) bool {
	others := false
	for coding, weight := range weighted(h["Accept-Encoding"]) {
		switch coding {
		case "gzip", "x-gzip":
			return weight > 0
		case "*":
			others = weight > 0
		}
	}
	return others
}

// weighted walks the elements of a header such as "text/html;q=0.9, */*;q=0.1":
// each in lower case without its parameters, with its weight. A weight that is
// none counts as 0.
func weighted(values []string) func(yield func(string, float64) bool) {
	return func(yield func(string, float64) bool) {
		for _, value := range values {
			for element := range strings.SplitSeq(value, ",") {
				name, parameters, _ := strings.Cut(element, ";")
				name = strings.ToLower(strings.TrimSpace(name))
				if name != "" && !yield(name, weight(parameters)) {
					return
				}
			}
		}
	}
}

func weight(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

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
