package storetest

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/store"
)

func TestModel(t *testing.T) { Run(t, func(*testing.T) store.Store { return NewModel() }) }
