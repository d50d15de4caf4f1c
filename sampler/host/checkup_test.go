package host

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
)

func TestClockFinding(t *testing.T) {
	t.Parallel()
	built := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	says := func(right, known bool) func() (bool, bool) { return func() (bool, bool) { return right, known } }
	for name, tt := range map[string]struct {
		f    checkup.Finding
		want checkup.Verdict
	}{
		"right":          {clockFinding(built.AddDate(0, 1, 0), built, says(true, true)), checkup.Fine},
		"not kept right": {clockFinding(built.AddDate(0, 1, 0), built, says(false, true)), checkup.Limited},
		"unknown":        {clockFinding(built.AddDate(0, 1, 0), built, says(false, false)), checkup.Fine},
		"too early":      {clockFinding(built.AddDate(-2, 0, 0), built, says(true, true)), checkup.NotFine},
		"no build date":  {clockFinding(built, time.Time{}, says(true, true)), checkup.Fine},
	} {
		if tt.f.Verdict != tt.want || (tt.f.Verdict == checkup.Fine) != (tt.f.Mend == "") {
			t.Errorf("%s: %+v", name, tt.f)
		}
	}
}

func TestFindingsOfContainers(t *testing.T) {
	t.Parallel()
	m := &checkup.Machine{Container: true}
	blind := &Reader{hint: gpu.Advice{What: "no names", Try: "start it with --pid=host"}}
	if f := blind.containerFinding(m); f.Verdict != checkup.NotFine || f.Mend == "" {
		t.Errorf("%+v", f)
	}
	if f := blind.processFinding(); f.Verdict != checkup.NotFine {
		t.Errorf("%+v", f)
	}
	if f := new(Reader).containerFinding(m); f.Verdict != checkup.Fine {
		t.Errorf("%+v", f)
	}
	if f := new(Reader).containerFinding(new(checkup.Machine)); f.Verdict != checkup.NotApplicable {
		t.Errorf("%+v", f)
	}
	hidden := &Reader{root: t.TempDir()}
	if f := hidden.processFinding(); f.Verdict != checkup.Limited || f.Mend == "" {
		t.Errorf("%+v", f)
	}
}
