package outlook

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

var update = flag.Bool("update", false, "write testdata/words.golden.txt")

// What is told of each forecast: what a change of words changes, testdata/words.golden.txt shows.
func TestWords(t *testing.T) {
	const file = "testdata/words.golden.txt"
	now := time.Date(2026, time.March, 18, 14, 5, 30, 0, time.UTC) // a Wednesday
	card := &gpu.Device{Identity: gpu.Identity{Name: "RTX 4090"}}
	shown := func(kind method.Kind, value, low, high float64) method.Forecast {
		return method.Forecast{Kind: kind, At: now, Value: value, Low: low, High: high, Shown: true}
	}
	var b strings.Builder
	tell := func(how string, o Outlook) {
		o.At, o.Zone, o.cooling = now, time.UTC, now
		list, _ := o.next(now, card, &explain.Cooldown{Begun: now, Left: gpu.Of(time.Minute)})
		fmt.Fprintf(&b, "\n# %s\n", how)
		for _, p := range list {
			fmt.Fprintf(&b, "%s\n    %s\n", p.Sentence, p.Short)
		}
	}
	tell("memory", Outlook{MemoryFull: shown(method.KindMemoryFull, 1560, 1200, 2400)})
	tell("memory, any moment", Outlook{MemoryFull: shown(method.KindMemoryFull, 0, 0, 40)})
	tell("memory, full", Outlook{MemoryFull: method.Forecast{Kind: method.KindMemoryFull, Why: method.Reached}})
	tell("limit", Outlook{LimitReached: shown(method.KindLimitReached, 12_000, 9000, 200_000)})
	tell("quiet", Outlook{Quiet: shown(method.KindQuiet, 47, 10, 90)})
	tell("energy", Outlook{Energy: shown(method.KindEnergy, 210.4, 180.2, 260)})
	tell("cost", Outlook{Cost: shown(method.KindCost, 63.12, 50.5, 8)})
	free := func(hours ...int) Outlook {
		o := Outlook{Free: method.Usual{Forecast: shown(method.KindUsuallyFree, 0.9, 0.8, 1)}}
		for _, h := range hours {
			o.Free.Hours[h] = method.Hour{EnoughPast: true, Low: 0.8}
		}
		return o
	}
	wednesday := 3 * 24
	tell("free now", free(wednesday+14, wednesday+15))
	tell("free later", free(wednesday+22, wednesday+23, wednesday+24))
	tell("never free", free())
	always := free()
	for i := range always.Free.Hours {
		always.Free.Hours[i] = method.Hour{EnoughPast: true, Low: 0.8}
	}
	tell("always free", always)
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("words have changed: go test ./internal/forecast -run TestWords -update, and look at the diff of %s", file)
	}
}
