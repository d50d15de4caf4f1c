//go:build !race

package static_test

import (
	"io"
	"net/http"
	"testing"
)

// get asks for a page, and returns the status of the answer.
func get(tb testing.TB, address string) int {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		tb.Fatal(err)
	}
	return answer.StatusCode
}
