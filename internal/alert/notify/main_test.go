package notify

import (
	"os"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Run(m)) }
