package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/strictjson"
)

type body struct {
	By       string  `json:"by,omitempty"`
	Duration float64 `json:"duration_seconds"`
}

func TestDecode(t *testing.T) {
	const good = -1
	for _, tt := range []struct {
		text string
		kind strictjson.Kind
		says string
	}{
		{` {"duration_seconds":60,"by":"ann"} `, good, ""},
		{`{}`, good, ""},
		{`{"by":null}`, good, ""},
		{`{"\u0062y":"ann"}`, good, ""},
		{``, strictjson.NotJSON, "is not one JSON value"},
		{`{} {}`, strictjson.NotJSON, "is not one JSON value"},
		{`{"by":`, strictjson.NotJSON, "is not one JSON value"},
		{"{\"by\":\"\xff\"}", strictjson.NotJSON, "is not valid UTF-8"},
		{`{"by":"ann","by":"bob"}`, strictjson.Ambiguous, `has the member "by" twice`},
		{`{"by":"ann","\u0062y":"bob"}`, strictjson.Ambiguous, `has the member "by" twice`},
		{`{"By":"ann"}`, strictjson.Ambiguous, `has the member "By", which must be written "by"`},
		{`{"by":"ann","BY":"bob"}`, strictjson.Ambiguous, `has the member "BY", which must be written "by"`},
		{`[]`, strictjson.Mismatch, "is not a JSON object"},
		{`null`, strictjson.Mismatch, "is not a JSON object"},
		{`{"who":"ann"}`, strictjson.Mismatch, `has an unknown field "who"`},
		{`{"by":7}`, strictjson.Mismatch, "has a number as by, which must be a text"},
		{`{"duration_seconds":"60"}`, strictjson.Mismatch, "has a string as duration_seconds, which must be a number"},
		{`{"duration_seconds":1e999}`, strictjson.Mismatch, "has a number 1e999 as duration_seconds, which must be a number"},
	} {
		var got body
		err := strictjson.Decode([]byte(tt.text), &got)
		e, _ := errors.AsType[*strictjson.Error](err)
		switch {
		case tt.kind == good && err != nil, tt.kind != good && e == nil:
			t.Errorf("%q: %v", tt.text, err)
		case e != nil && (e.Kind != tt.kind || !strings.HasPrefix(e.Error(), tt.says)):
			t.Errorf("%q: kind %d, %v; want kind %d, %s", tt.text, e.Kind, e, tt.kind, tt.says)
		}
	}
	var got body
	if err := strictjson.Decode([]byte(`{"duration_seconds":60,"by":"ann"}`), &got); err != nil || got != (body{"ann", 60}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whatever is decoded is what encoding/json reads too.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"by":"a"}`, `{"by":"a","by":"b"}`, `{"BY":1}`, `[]`, "\xff", `{"duration_seconds":1e9}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var ours, theirs body
		if strictjson.Decode(text, &ours) != nil {
			return
		}
		if err := json.Unmarshal(text, &theirs); err != nil || ours != theirs {
			t.Errorf("%q: %+v, and encoding/json %+v, %v", text, ours, theirs, err)
		}
	})
}
