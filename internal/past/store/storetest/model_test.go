package storetest

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

func TestModel(t *testing.T) { Run(t, func(*testing.T) store.Store { return NewModel() }) }
