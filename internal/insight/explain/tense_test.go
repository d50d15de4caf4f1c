package explain

import "testing"

func TestPastTense(t *testing.T) {
	for now, want := range map[string]string{
		"{who} is heating {gpu}.":                   "{who} was heating {gpu}.",
		"{who} heat {gpu} until it slows down.":     "{who} heated {gpu} until it slowed down.",
		"{fans} still runs off the heat.":           "{fans} still ran off the heat.",
		"something that gpuwhy can't see keeps it.": "something that gpuwhy can't see kept it.",
		"Someone has set {fans} by hand.":           "Someone had set {fans} by hand.",
		"{gpu} does no work; more can't be told.":   "{gpu} did no work; more can't be told.",
		"Your fan is off.":                          "Your fan was off.",
		"{fans} starts and stops again and again.":  "{fans} started and stopped again and again.",
		"Nothing works, and the fans are at rest.":  "Nothing worked, and the fans were at rest.",
		"Many processes keep the CPU busy.":         "Many processes kept the CPU busy.",
	} {
		if got := pastTense(now); got != want {
			t.Errorf("%q is %q, want %q", now, got, want)
		}
	}
}
