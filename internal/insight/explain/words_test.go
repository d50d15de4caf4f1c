package explain

import "testing"

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1000: "1.0 kB", 99_999: "100 kB", 999_999: "1.0 MB", 1 << 40: "1.1 TB", 5e15: "5000 TB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
