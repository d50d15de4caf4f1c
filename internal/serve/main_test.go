package serve_test

import (
	"os"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) {
	serve.Actions = func(book *alert.Shared, newest func() *insight.Fleet) []action.Action {
		return (&alerts.Room{Book: book, Newest: newest, Now: time.Now}).Actions()
	}
	os.Exit(testkit.RunTests(m))
}
