package explain

import (
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// verbs are those of headlines, with their past.
var verbs = map[string]string{
	"is": "was", "are": "were", "does": "did", "has": "had", "can": "could", "keeps": "kept", "looks": "looked", "stands": "stood", "turns": "turned",
	"drives": "drove", "works": "worked", "says": "said", "shows": "showed", "slows": "slowed", "heats": "heated",
	"warms": "warmed", "runs": "ran", "run": "ran", "explains": "explained", "starts": "started", "stops": "stopped", "cools": "cooled", "needs": "needed", "stay": "stayed", "stays": "stayed", "reports": "reported", "draws": "drew",
}

// ofSeveral are verbs that are nouns elsewhere.
var ofSeveral = strings.NewReplacer("{who} work ", "{who} worked ", "{who} heat ", "{who} heated ", "{who} keep ", "{who} kept ", "processes keep ", "processes kept ")

var words = lazy.Pattern(`\{?\pL+\}?'?`)

// pasts are the headlines of words.json in the past, by those in the present.
var pasts lazy.Map[string, string]

// pastOf is pastTense of a headline of words.json, of which there are few.
func pastOf(headline string) string {
	past, _ := pasts.Get(headline, func() (string, error) { return pastTense(headline), nil }) // which can't fail
	return past
}

// pastTense tells in the past what a headline tells in the present. What stands in braces stays.
func pastTense(headline string) string {
	return words().ReplaceAllStringFunc(ofSeveral.Replace(headline), func(word string) string {
		if past, is := verbs[word]; is {
			return past
		}
		return word
	})
}
