//go:build soak

package static_test

import "testing"

func TestSoakElementsDoNotGrow(t *testing.T) { elementsDoNotGrow(t, 50) }
