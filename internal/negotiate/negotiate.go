// Package negotiate reads the headers Accept and Accept-Encoding, which say what a
// client accepts. Its callers know what they can offer.
package negotiate

import (
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Type returns the offered content type that the client prefers (RFC 9110, 12.5.1).
// Of types with the same weight it returns the one that the client names more
// exactly: "application/json, */*" asks for JSON. Of those that are still equal it
// returns the first. If the client accepts none of them, it also returns the first:
// an answer of another type is more useful than none.
func Type(h http.Header, offers ...string) string {
	best, bestQ, bestMatch := offers[0], 0.0, 0
	for _, offer := range offers {
		if q, match := quality(h["Accept"], offer); q > bestQ || q == bestQ && q > 0 && match > bestMatch {
			best, bestQ, bestMatch = offer, q, match
		}
	}
	return best
}

// quality is the weight that an Accept header gives to a content type: that of
// its most exact range which includes it, 0 if none does; and how exact that is.
func quality(accept []string, offer string) (q float64, match int) {
	offer, _, _ = strings.Cut(offer, ";")
	kind, _, _ := strings.Cut(offer, "/")
	ranges := []string{"", "*/*", kind + "/*", offer}
	for mediaRange, weight := range weighted(accept) {
		if m := slices.Index(ranges, mediaRange); m > match || m == match && weight > q {
			q, match = weight, m
		}
	}
	return q, match
}

// Gzip reports whether to compress an answer: the client accepts gzip (RFC 9110,
// 12.5.3), and does not prefer the answer without compression.
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
func weighted(values []string) iter.Seq2[string, float64] {
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
