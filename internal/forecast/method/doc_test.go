//go:build !race

package method_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
)

// Readers of the API find every kind and every reason in docs/forecast.md.
func TestTheDocumentHasAllKindsAndReasons(t *testing.T) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []method.Kind{
		method.KindMemoryFull, method.KindLimitReached, method.KindQuiet, method.KindEnergy,
		method.KindCost, method.KindUsuallyFree,
	} {
		if !strings.Contains(string(text), "`"+string(k)+"`") {
			t.Errorf("%s does not say what %s is", doc, k)
		}
	}
	for _, w := range []method.Why{
		method.TooLittlePast, method.NotBetter, method.NotBetterYesterday, method.NoGrowth,
		method.LevelsOff, method.MayLevelOff, method.Braked, method.TooFast, method.Freed, method.TooFar, method.MayNever, method.Reached,
	} {
		if !strings.Contains(string(text), "| "+string(w)+" |") {
			t.Errorf("%s does not say what %q means", doc, w)
		}
	}
}
