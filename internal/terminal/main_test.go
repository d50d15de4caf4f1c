package terminal

import (
	"os"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }
