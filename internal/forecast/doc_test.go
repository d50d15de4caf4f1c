//go:build !race

package forecast_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/forecast"
)

// Readers of the API find every kind and every reason in docs/forecast.md.
func TestTheDocumentHasAllKindsAndReasons(t *testing.T) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []forecast.Kind{
		forecast.KindMemoryFull, forecast.KindLimitReached, forecast.KindQuiet, forecast.KindEnergy,
		forecast.KindCost, forecast.KindUsuallyFree,
	} {
		if !strings.Contains(string(text), "`"+string(k)+"`") {
			t.Errorf("%s does not say what %s is", doc, k)
		}
	}
	for _, w := range []forecast.Why{
		forecast.TooLittlePast, forecast.NotBetter, forecast.NotBetterYesterday, forecast.NoGrowth,
		forecast.LevelsOff, forecast.MayLevelOff, forecast.Braked, forecast.TooFast, forecast.Freed, forecast.TooFar, forecast.MayNever, forecast.Reached,
	} {
		if !strings.Contains(string(text), "| "+string(w)+" |") {
			t.Errorf("%s does not say what %q means", doc, w)
		}
	}
}
