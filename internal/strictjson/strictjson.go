// Package strictjson reads clients' JSON objects that must have exactly one meaning. encoding/json
// accepts more: it ignores the case of member names, lets the last of two equal members win, and
// replaces bytes that are not UTF-8.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Error says why a text is not accepted. Its text continues a sentence whose subject is what was
// read, such as "the body".
type Error struct {
	Kind Kind
	text string
}

func (e *Error) Error() string { return e.text }

// A Kind of error tells what a client did wrong.
type Kind int

// The kinds of errors.
const (
	NotJSON   Kind = iota // the text is not one JSON value in UTF-8
	Ambiguous             // a member appears twice, or its name is in the wrong case
	Mismatch              // the value has the wrong shape: not an object, an unknown member, or a wrong type
)

func fail(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}

// Members returns the members of a JSON object by their exact names.
func Members(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, fail(NotJSON, "is not valid UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, fail(NotJSON, "is not one JSON value: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, fail(Mismatch, "is not a JSON object")
	}
	members := make(map[string]json.RawMessage)
	for d.More() {
		var value json.RawMessage
		token, err := d.Token()
		if err = errors.Join(err, d.Decode(&value)); err != nil {
			return nil, fail(NotJSON, "can't be read: %v", err)
		}
		name, _ := token.(string) // the only kind of token before a member's value
		if _, twice := members[name]; twice {
			return nil, fail(Ambiguous, "has the member %.64q twice", name)
		}
		members[name] = value
	}
	return members, nil
}

// Decode reads a JSON object into the struct that into points to. Each member
// needs a field whose json tag is its name.
func Decode(text []byte, into any) error {
	members, err := Members(text)
	if err != nil {
		return err
	}
	fields := map[string]reflect.Value{}
	for field, value := range reflect.ValueOf(into).Elem().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field, known := fields[name]
		if !known {
			return unknown(name, fields)
		}
		if err := json.Unmarshal(members[name], field.Addr().Interface()); err != nil {
			return mismatch(name, err)
		}
	}
	return nil
}

func unknown(name string, fields map[string]reflect.Value) error {
	for known := range fields {
		if strings.EqualFold(known, name) {
			return fail(Ambiguous, "has the member %.64q, which must be written %q", name, known)
		}
	}
	return fail(Mismatch, "has an unknown field %.64q", name)
}

func mismatch(name string, err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return fail(Mismatch, "has a member %q that can't be read", name)
	}
	must := "a text"
	switch wrong.Type.Kind() {
	case reflect.Float64, reflect.Int:
		must = "a number"
	case reflect.Bool:
		must = "true or false"
	}
	return fail(Mismatch, "has a %s as %s, which must be %s", wrong.Value, name, must)
}
