package record

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// DefaultRetention is how long each tier is kept where nobody says another time.
const DefaultRetention = "raw=48h,1m=30d,15m=2y"

// shortestRaw is how long readings are kept at least: rows of a quarter of an hour are made of them after a restart.
const shortestRaw = time.Hour

var units = map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour, 'y': 365 * 24 * time.Hour}

// ParseRetention reads how long each tier is kept, such as [DefaultRetention]: all tiers, in any order, each with a whole
// number of hours (h), days (d), weeks (w) or years of 365 days (y). No tier is kept for a shorter time than a finer
// one. Its errors are [gpu.Advice].
func ParseRetention(text string) (store.Retention, error) {
	all := store.Tiers[:store.SixHours] // which are kept as long as quarters of an hour
	out := store.Retention{}
	for part := range strings.SplitSeq(text, ",") {
		name, kept, _ := strings.Cut(strings.TrimSpace(part), "=")
		tier, known := store.ParseTier(name)
		if !known || tier == store.SixHours {
			return nil, badRetention(fmt.Sprintf("%q is not a tier, in %q", name, text))
		}
		if _, twice := out[tier]; twice {
			return nil, badRetention(fmt.Sprintf("%s appears twice in %q", name, text))
		}
		d, err := ParseSpan(kept)
		if err != nil {
			return nil, badRetention(fmt.Sprintf("%q is not a time to keep %s", kept, name))
		}
		out[tier] = d
	}
	for i, t := range all {
		d, named := out[t]
		switch {
		case !named:
			return nil, badRetention(fmt.Sprintf("%q does not say how long to keep %s", text, t))
		case t == store.Raw && d < shortestRaw:
			return nil, badRetention(fmt.Sprintf("%q keeps raw for less than an hour", text))
		case i > 0 && d < out[all[i-1]]:
			return nil, badRetention(fmt.Sprintf("%q keeps %s for a shorter time than %s", text, t, all[i-1]))
		}
	}
	return out, nil
}

func badRetention(what string) error {
	return &gpu.Advice{
		What: what,
		Try: "write it like " + DefaultRetention + ": each of raw, 1m and 15m with a whole number of h, d, w or y, " +
			"raw for at least 1h, and each at least as long as the one before",
	}
}

// ParseSpan reads how long something is kept: a whole number of h, d, w or y. Its error says no more than that it is none.
func ParseSpan(text string) (time.Duration, error) {
	if text == "" {
		return 0, strconv.ErrSyntax
	}
	unit := units[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if err != nil || unit == 0 || n == 0 || n > uint64(math.MaxInt64/unit) {
		return 0, strconv.ErrSyntax
	}
	return time.Duration(n) * unit, nil
}
