//go:build !race

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/term"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

func TestSnapshotOutputs(t *testing.T) {
	t.Parallel()
	args := []string{"snapshot", "--source=simulate:dgx-h100"}
	r := inside(append(args, "-o", "csv")...)
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if r.code != exitOK || err != nil || len(rows) != 9 || rows[0][2] != "gpu_id" || rows[8][2] != "7" || rows[1][8] == "" {
		t.Errorf("csv: status %d, %v: %s%s", r.code, err, r.stdout, r.stderr)
	}
	if r := inside(append(args, "--output=wide")...); r.code != exitOK || !strings.Contains(r.stdout, "UUID") || !strings.Contains(r.stdout, "MHz") {
		t.Errorf("wide: status %d: %s%s", r.code, r.stdout, r.stderr)
	}
	for _, more := range []string{"--json", "-o=json"} {
		var u contract.Update
		r := inside(append(args, more)...)
		if err := json.Unmarshal([]byte(r.stdout), &u); r.code != exitOK || err != nil || len(u.GPUs) != 8 {
			t.Errorf("%s: status %d, %v: %s", more, r.code, err, r.stderr)
		}
	}
	if r := inside(append(args, "--json", "-o", "csv")...); r.code != exitUsage || !strings.Contains(r.stderr, "--json") {
		t.Errorf("both: status %d: %s", r.code, r.stderr)
	}
}

// With --watch, one table follows another: on a terminal in its place, elsewhere below it. CSV has one line with names.
func TestSnapshotWatches(t *testing.T) {
	t.Parallel()
	s := fixture.Named("one", fixture.Time).Snapshot
	f := (*insight.Fleet)(nil).With(insight.Of(s))
	for _, tt := range []struct {
		output   string
		terminal bool
		clears   int
		text     string
		times    int
	}{{"table", true, 2, "UTIL", 2}, {"table", false, 0, "UTIL", 2}, {"csv", true, 0, "gpu_uuid", 1}, {"json", false, 0, `"gpus":[`, 2}} {
		var out bytes.Buffer
		c := &snapshotCommand{Output: tt.output, Watch: true}
		p := &snapshotPrinter{snapshotCommand: c, screen: term.Screen{Writer: &out, Terminal: tt.terminal}}
		for range 2 {
			if err := p.print(f); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Count(out.String(), cleared) != tt.clears || strings.Count(out.String(), tt.text) != tt.times {
			t.Errorf("%+v:\n%s", tt, out.String())
		}
	}
}
