package hub

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// The messages in docs/protocol.md are valid.
func TestProtocolDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1) {
		var m struct {
			Event string
			Data  json.RawMessage
		}
		if err := json.Unmarshal(block[1], &m); err != nil {
			t.Errorf("%s\n%v", block[1], err)
			continue
		}
		seen[m.Event] = true
		switch m.Event {
		case eventRequest, eventSubscribe, eventUnsubscribe:
			if _, err := parse(block[1], []string{eventRequest}); err != nil {
				t.Errorf("%s\nis refused: %v", block[1], err)
			}
		}
	}
	for _, event := range []string{
		eventStatus, eventUpdate, eventPatch, eventError, eventSubscribed, "high_gpu_usage_alert",
		eventRequest, eventSubscribe, eventUnsubscribe,
	} {
		if !seen[event] {
			t.Errorf("there is no example of %s", event)
		}
	}
}
