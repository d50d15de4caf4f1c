//go:build !race

package static_test

import (
	"os"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browsertest.Close()
	os.Exit(code)
}
