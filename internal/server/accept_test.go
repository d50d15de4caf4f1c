package server

import (
	"net/http"
	"testing"
)

func TestPreferred(t *testing.T) {
	for _, tt := range []struct{ accept, want string }{
		{"", "a/x"},
		{"*/*", "a/x"},
		{"a/y", "a/y"},
		{"A/Y", "a/y"},
		{"a/y;q=0.5", "a/y"},
		{"a/*;q=0.5, a/y", "a/y"},
		{"a/*, a/x;q=0.1", "a/y"},
		{"*/*;q=0.1, b/z", "b/z"},
		{"a/x;q=0, */*", "a/y"},
		{"a/x;q=0, a/y;q=0, */*;q=0.001", "b/z"},
		{"c/c", "a/x"},
		{"a/y;q=nonsense, b/z;q=0.1", "b/z"},
		{"a/y;q=2, b/z;q=0.1", "b/z"},
		{"a/y;q=-1, b/z;q=0.1", "b/z"},
		{"a/y;q=NaN, b/z;q=0.1", "b/z"},
		{"b/z;level=1;Q=0.9, a/x;q=0.8", "b/z"},
		{",,;q=1,b/z", "b/z"},
		{"a/y;q=0.4, a/y;q=0.6, b/z;q=0.5", "a/y"},
	} {
		if got := preferred(http.Header{"Accept": {tt.accept}}, "a/x", "a/y; charset=utf-8", "b/z"); got != tt.want && got != tt.want+"; charset=utf-8" {
			t.Errorf("%q: %s, want %s", tt.accept, got, tt.want)
		}
	}
	if got := preferred(http.Header{}, "a/x", "a/y"); got != "a/x" {
		t.Errorf("without the header: %s, want the first", got)
	}
}
