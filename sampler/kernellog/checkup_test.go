package kernellog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhy/gpuwhy/sampler/checkup"
)

func TestChecks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kmsg")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		want checkup.Verdict
	}{{"", checkup.NotApplicable}, {file, checkup.Fine}, {file + "-none", checkup.Limited}} {
		f := Checks(new(checkup.Machine), tt.path)[0].Do(t.Context())
		if f.Verdict != tt.want || (f.Verdict == checkup.Limited) != (f.Mend != "") {
			t.Errorf("%q: %+v", tt.path, f)
		}
	}
}
