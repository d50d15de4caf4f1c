// Package negotiate reads what a client says that it takes: the headers Accept and
// Accept-Encoding. What is on offer its callers know.
package negotiate

import (
	"net/http"
	"strconv"
	"strings"
)

// Type returns which of the content types on offer the client likes best
// (RFC 9110, 12.5.1). Between equals the first wins, also where the client
// names none of them: an answer that was not asked for says more than none.
func Type(h http.Header, offers ...string) string {
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

// Gzip reports whether to compress an answer: the client takes gzip (RFC 9110,
// 12.5.3), and has not said that it prefers the answer as it is.
func Gzip(h http.Header) bool {
	const unsaid = -1.0
	gzip, identity, others := unsaid, unsaid, 0.0
	for coding, weight := range weighted(h["Accept-Encoding"]) {
		switch coding {
		case "gzip", "x-gzip": // the same by its old name
			gzip = max(gzip, weight)
		case "identity":
			identity = weight
		case "*":
			others = weight
		}
	}
	if gzip == unsaid {
		gzip = others
	}
	return gzip > 0 && gzip >= identity
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
