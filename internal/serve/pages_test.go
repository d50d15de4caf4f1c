package serve

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Who asks for the next causes until there are no more has each once, also where many begin at one moment, and many ended shortly before.
func TestNextCauses(t *testing.T) {
	t.Parallel()
	begin := fixture.Time.Add(-30 * time.Minute)
	const inside, before = 2*contract.MostCauses + 300, 1500
	h := remembering(t, func(b *store.Batch) {
		b.Causes = nil
		for i := range before {
			b.Causes = append(b.Causes, store.Cause{
				Key: gpu3, ID: fmt.Sprint("before ", i), Kind: "idle", From: begin.Add(-10 * time.Minute), To: begin.Add(-time.Second),
			})
		}
		for i := range inside {
			from := begin.Add(time.Duration(i/7) * time.Second)
			b.Causes = append(b.Causes, store.Cause{Key: gpu3, ID: fmt.Sprintf("%05d", i), Kind: "idle", From: from, To: from.Add(time.Second)})
		}
	})
	form := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	seen, start := map[string]int{}, 0
	for pages := 1; ; pages++ {
		page := decoded[contract.PastWhy](t, get(h, fmt.Sprintf("/api/gpu/why?from=%s&to=%s&start=%d", form(begin), form(fixture.Time), start)))
		for _, c := range page.Causes {
			seen[c.ID]++
		}
		if page.Next == nil {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
		start = *page.Next
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if len(seen) != inside {
		t.Errorf("%d causes, want %d", len(seen), inside)
	}
	if page := decoded[contract.PastWhy](t, get(h, "/api/gpu/why?from=1h&start=9223372036854775807")); page.Next != nil || len(page.Causes) > 0 {
		t.Errorf("after all there are %d causes", len(page.Causes))
	}
}
