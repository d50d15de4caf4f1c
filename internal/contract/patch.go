package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
)

// identities are the lists that become objects in a patch, with the member that identifies their elements.
var identities = map[string]string{"gpus": "gpu_uuid", "instances": "uuid", "processes": "pid", "causes": "id"}

// Patch returns a JSON merge patch (RFC 7386) that turns the keyed form of one update into the keyed form of another; without a
// before, it is the whole update. In the keyed form, a list of things with an identity is an object keyed by it (gpus by
// gpu_uuid, instances by uuid, processes by pid, causes by id; a second one with the same identity gets "#2" after it), and null
// values are left out, because a merge patch can't express them. An error means that one of the two is not a JSON object.
func Patch(before, after []byte) ([]byte, error) {
	old, err := keyed(before)
	if err != nil {
		return nil, err
	}
	updated, err := keyed(after)
	if err != nil {
		return nil, err
	}
	return json.Marshal(differences(old, updated))
}

func keyed(text []byte) (map[string]any, error) {
	if text == nil {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // 0.1 stays 0.1
	var whole map[string]any
	if err := d.Decode(&whole); err != nil {
		return nil, fmt.Errorf("an update that is to be compared: %w", err)
	}
	form("", whole)
	return whole, nil
}

// form makes a value's keyed form. name is the name of the member that holds it.
func form(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, member any) bool { return member == nil })
		for member := range v {
			v[member] = form(member, v[member])
		}
	case []any:
		identity := identities[name]
		if identity == "" {
			for i := range v {
				v[i] = form("", v[i])
			}
			return v
		}
		out := make(map[string]any, len(v))
		for _, element := range v {
			fields, _ := element.(map[string]any)
			key := fmt.Sprint(fields[identity])
			for n := 2; out[key] != nil; n++ {
				key = fmt.Sprint(fields[identity], "#", n)
			}
			out[key] = form("", element)
		}
		return out
	}
	return value
}

func differences(old, updated map[string]any) map[string]any {
	out := map[string]any{}
	for name := range old {
		if _, stays := updated[name]; !stays {
			out[name] = nil
		}
	}
	for name, now := range updated {
		before, had := old[name]
		a, object1 := before.(map[string]any)
		b, object2 := now.(map[string]any)
		switch {
		case object1 && object2:
			if inner := differences(a, b); len(inner) > 0 {
				out[name] = inner
			}
		case object2: // a merge patch first turns a non-object into an empty object
			out[name] = differences(nil, b)
		case !had || !reflect.DeepEqual(before, now):
			out[name] = now
		}
	}
	return out
}
