package negotiate

import (
	"net/http"
	"testing"
)

func TestType(t *testing.T) {
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
		{"b/z, c/c, */*", "b/z"},
		{"*/*, b/z", "b/z"},
		{"*/*, b/*", "b/z"},
		{"a/*, b/z", "b/z"},
		{"a/*;q=0.5, b/z;q=0.5, */*;q=0.5", "b/z"},
		{"*/*, b/z;q=0.9", "a/x"},
		{"b/z, a/y", "a/y"},
	} {
		if got := Type(http.Header{"Accept": {tt.accept}}, "a/x", "a/y; charset=utf-8", "b/z"); got != tt.want && got != tt.want+"; charset=utf-8" {
			t.Errorf("%q: %s, want %s", tt.accept, got, tt.want)
		}
	}
	if got := Type(http.Header{}, "a/x", "a/y"); got != "a/x" {
		t.Errorf("without the header: %s, want the first", got)
	}
}

func TestGzip(t *testing.T) {
	for accept, want := range map[string]bool{
		"gzip":                          true,
		"GZip":                          true,
		"x-gzip":                        true,
		"gzip, deflate, br, zstd":       true,
		"br;q=1.0, gzip;q=0.8, *;q=0.1": true,
		"deflate ,\tgzip ;q=0.5":        true,
		"gzip ; q = 0.5":                true,
		"gzip;Q=0.5":                    true,
		"gzip;q=0.001":                  true,
		"gzip;q=1.000":                  true,
		"*":                             true,
		"*;q=0.1":                       true,
		"deflate, *":                    true,
		"identity;q=0, *":               true,
		"gzip, identity;q=0":            true,
		"gzip;q=0.5, identity;q=0.5":    true,
		"x-gzip;q=0.3, gzip;q=0":        true,

		"":                           false,
		" , ,":                       false,
		"identity":                   false,
		"identity;q=0":               false, // it is in vain: there is nothing else that it takes
		"deflate, br":                false,
		"gzip;q=0":                   false,
		"gzip;q=0.0":                 false,
		"gzip;q=0.000, *":            false,
		"*, gzip;q=0":                false,
		"*;q=0":                      false,
		"gzip;q=0.2, identity;q=0.9": false,
		"identity, *;q=0.5":          false,
		"gzip;q=nonsense":            false,
		"gzip;q=2":                   false,
		"gzip;q=-1":                  false,
		"gzip;q=":                    false,
		"gzip;q=NaN":                 false,
		"gzipped":                    false,
		"x-gzip2":                    false,
		"\"gzip\"":                   false,
	} {
		if got := Gzip(http.Header{"Accept-Encoding": {accept}}); got != want {
			t.Errorf("%q: %v, want %v", accept, got, want)
		}
	}
	if Gzip(http.Header{}) {
		t.Error("without the header the answer is compressed")
	}
	if !Gzip(http.Header{"Accept-Encoding": {"br", "gzip"}}) {
		t.Error("a second line of the header is not read")
	}
}
