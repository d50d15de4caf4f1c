package term

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

func printed(t *testing.T, show func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := show(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPast(t *testing.T) {
	span := contract.PastSpan{From: "2026-03-14T02:00:00Z", To: "2026-03-14T06:00:00Z", TimeZone: "Asia/Tokyo"}
	from, to := "Sat 2026-03-14 11:00:00", "Sat 2026-03-14 15:00:00" // in no zone of this machine
	past := contract.PastWhy{PastSpan: span, Sentence: "Nothing\x1b worked on a GPU."}
	if got, want := printed(t, func(w io.Writer) error { return Past(w, &past) }), "From "+from+" to "+to+" (Asia/Tokyo):\nNothing\ufffd worked on a GPU.\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	past.Chapters = []contract.PastChapter{{PastGPU: contract.PastGPU{GPUID: 3}, From: span.From, To: span.To, Sentence: "train.py ran."}}
	if got, want := printed(t, func(w io.Writer) error { return Past(w, &past) }), from+"  "+to+"  3    train.py ran.\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant at its end\n%s", got, want)
	}

	sessions := contract.PastSessions{PastSpan: span}
	if got := printed(t, func(w io.Writer) error { return Sessions(w, &sessions) }); !strings.HasSuffix(got, "No process was seen on a GPU.\n") {
		t.Error(got)
	}
	sessions.Sessions = []contract.PastSession{
		{PID: 7, User: "ann", Name: "python3", From: span.From, To: span.To, Outcome: "unseen", Busy: 90, PeakMemory: gpu.Of[gpu.Bytes](1 << 30), Joules: gpu.Of[gpu.Joules](3.6e6)},
		{PID: 9, From: span.From, To: span.To, Outcome: "ended"},
		{PID: 8, Program: "a.py", From: span.From, To: span.To, Outcome: "open"},
	}
	for _, part := range []string{"7    ann   python3  90 s  1024 MiB     1.000 kWh  not seen", "9                   0 s   -            -          ended", "now                      0    8          a.py     0 s   -            -"} {
		if got := printed(t, func(w io.Writer) error { return Sessions(w, &sessions) }); !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}

	usage := contract.PastUsage{PastSpan: span, By: "user", Price: gpu.Of(0.3), Rows: []contract.UsageRow{
		{Name: "ann", Held: 4, Busy: 3, Idle: 1, KWh: new(1.2), Cost: new(0.36), Sessions: 2}, {Sessions: 1},
	}}
	for _, part := range []string{"USER             GPU-HOURS  BUSY    IDLE    ENERGY     COST  SESSIONS", "ann              4.00 h     3.00 h  1.00 h  1.200 kWh  0.36  2", "none or unknown  0.00 h"} {
		if got := printed(t, func(w io.Writer) error { return Usage(w, &usage) }); !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	span.TimeZone, span.Kinds = "+05:45", []gpu.Kind{gpu.Live, gpu.Simulated}
	past.PastSpan, past.Chapters[0].GPUKind = span, gpu.Simulated
	for _, part := range []string{
		"PARTLY NOT REAL: some of these GPUs are simulated; sums include them.\nFrom Sat 2026-03-14 07:45:00 to Sat 2026-03-14 11:45:00 (+05:45):\n",
		"Sat 2026-03-14 07:45:00  Sat 2026-03-14 11:45:00  3 (simulated)  train.py ran.",
	} {
		if got := printed(t, func(w io.Writer) error { return Past(w, &past) }); !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	size := contract.PastSize{Bytes: 48e6, Full: 331e6, How: "Computed for 9 GPUs and machines.", Kinds: []contract.PastSizeKind{
		{Kind: "raw", Rows: 1200, Bytes: 179520, Oldest: &span.From, Newest: &span.To, For: new(172800.0), FullBytes: new(int64(46656000))},
		{Kind: "15m", For: new(63072000.0)}, {Kind: "events", Bytes: 999},
	}}
	for _, part := range []string{
		"The stored history takes 48.0 MB, and will take about 331 MB when full.\n", "raw     1200  180 kB  " + Moment(span.From) + "  " + Moment(span.To) + "  48 h      46.7 MB\n",
		"15m     0     0 B     -                        -                        730 d     unknown yet\n", "999 B   -", "ever      unknown yet\n\nComputed for",
	} {
		if got := printed(t, func(w io.Writer) error { return PastSize(w, &size) }); !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	if Moment("soon") != "soon" {
		t.Error("what is no time is not shown as it is")
	}
}

// Of two rows of an hour that comes twice it can be seen which is the later one.
func TestMomentsOfAnHourThatComesTwice(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for timestamp, want := range map[string]string{
		"2026-10-25T00:30:00Z": "Sun 2026-10-25 02:30:00 CEST", "2026-10-25T01:10:00Z": "Sun 2026-10-25 02:10:00 CET", "2026-10-25T02:10:00Z": "Sun 2026-10-25 03:10:00",
	} {
		if got := momentIn(zone, timestamp); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
