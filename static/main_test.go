//go:build !race

package static_test

import (
	"os"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browser.Close()
	os.Exit(code)
}
