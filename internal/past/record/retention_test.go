package record

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

func TestParseRetention(t *testing.T) {
	day := 24 * time.Hour
	for text, want := range map[string]store.Retention{
		DefaultRetention:           {store.Raw: 2 * day, store.Minute: 30 * day, store.Quarter: 730 * day},
		" 15m=1y, raw=1h ,1m=1h":   {store.Raw: time.Hour, store.Minute: time.Hour, store.Quarter: 365 * day},
		"raw=3d,1m=2w,15m=290y":    {store.Raw: 3 * day, store.Minute: 14 * day, store.Quarter: 290 * 365 * day},
		"raw=0048h,1m=720h,15m=9w": {store.Raw: 2 * day, store.Minute: 30 * day, store.Quarter: 63 * day},
	} {
		if got, err := ParseRetention(text); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                            `"" is not a tier`,
		"raw=48h,1m=30d":              "does not say how long to keep 15m",
		"raw=48h,1m=30d,5m=2y":        `"5m" is not a tier`,
		"raw=48h,1m=30d,15m=2y,6h=2y": `"6h" is not a tier`,
		"raw=48h,1m=30d,15m=2y,":      `"" is not a tier`,
		"raw=48h,raw=48h,1m=3d":       "raw appears twice",
		"raw=48,1m=30d,15m=2y":        `"48" is not a time to keep raw`,
		"raw=48h,1m=30d,15m":          `"" is not a time to keep 15m`,
		"raw=48h,1m=1.5d,15m=2y":      `"1.5d" is not a time`,
		"raw=48h,1m=-3d,15m=2y":       `"-3d" is not a time`,
		"raw=0h,1m=30d,15m=2y":        `"0h" is not a time`,
		"raw=48h,1m=30d,15m=9999y":    `"9999y" is not a time`,
		"raw=48h,1m=30d,15m=2m":       `"2m" is not a time`,
		"raw=48h,1m=24h,15m=2y":       "keeps 1m for a shorter time than raw",
		"raw=48h,1m=30d,15m=29d":      "keeps 15m for a shorter time than 1m",
		"raw=48h,1m=30d,15m=2y=3":     `"2y=3" is not a time`,
		"raw=48h;1m=30d,15m=2y":       `is not a time to keep raw`,
		"raw=48h,1m=30d,15m=2y,x=1":   `"x" is not a tier`,
	} {
		_, err := ParseRetention(text)
		if a, ok := errors.AsType[*gpu.Advice](err); !ok || !strings.Contains(a.What, want) || a.Try == "" {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
