package views

import (
	_ "embed"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
)

// words.json has the texts that stand in several places, in groups. Values stand where there
// are braces; of counted things there are two forms.
//
//go:embed words.json
var wordsFile []byte

// texts are those of words.json by their names.
var texts = func() map[string]string {
	var groups map[string]map[string]string
	if err := json.Unmarshal(wordsFile, &groups); err != nil {
		panic("views: words.json: " + err.Error())
	}
	out := map[string]string{}
	for _, group := range groups {
		maps.Copy(out, group)
	}
	return out
}()

// say is the text of that name with the values in it; empty if there is none.
func say(name string, values ...string) string {
	return fill(texts[name], values...)
}

// fill puts values where there are braces. What is in them stays as it is.
func fill(text string, values ...string) string {
	parts := strings.Split(text, "{}")
	for i, v := range values[:min(len(values), len(parts)-1)] {
		parts[i] += v
	}
	return strings.Join(parts, "")
}

// count is a number of things: "1 GPU", "2 GPUs".
func count(name string, n int) string {
	one, many, _ := strings.Cut(texts[name], "|")
	if n != 1 {
		one = many
	}
	return fill(one, strconv.Itoa(n))
}
