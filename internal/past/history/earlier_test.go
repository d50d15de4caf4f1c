package history

import "testing"

func TestEarlier(t *testing.T) {
	for said, want := range map[string]string{
		"GPU 5 is not answering; this began 30 s ago.":      "GPU 5 is not answering; this began 30 s earlier.",
		"12\u00a0min ago it rose above 50 %.":               "12\u00a0min earlier it rose above 50 %.",
		"the first came 4 min ago, the last one 2 days ago": "the first came 4 min earlier, the last one 2 days earlier",
		"The driver can't be read; this began just now.":    "The driver can't be read; this began at that moment.",
		"just now it rose above 5 %":                        "at that moment it rose above 5 %",
		"Just now it rose above 5 %.":                       "At that moment it rose above 5 %.",
		"ago.py is busy":                                    "ago.py is busy",
	} {
		if got := Earlier(said); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
