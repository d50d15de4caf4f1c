package action

import (
	"encoding/json"
	"reflect"
)

// hidden stands for a secret in a record.
const hidden = "(hidden)"

// Masked encodes a value as JSON for a record. It leaves out the values of fields with the tag secret:"true": a text that is there
// becomes "(hidden)", anything else is as if it were not set. The value itself does not change. nil is nothing.
func Masked(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(hiddenIn(reflect.ValueOf(v)).Interface())
}

// hide removes the secrets from a copy of a value. What the copy shares with the original it replaces by copies.
func hide(v reflect.Value) {
	if !v.CanSet() && v.Kind() != reflect.Struct { // JSON does not have it, either; of an embedded struct it has the fields
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch field := v.Field(i); {
			case v.Type().Field(i).Tag.Get("secret") != "true":
				hide(field)
			case field.Kind() == reflect.String && field.Len() > 0:
				field.SetString(hidden)
			default:
				field.SetZero()
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			copied := reflect.New(v.Type().Elem())
			copied.Elem().Set(v.Elem())
			hide(copied.Elem())
			v.Set(copied)
		}
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(hiddenIn(v.Elem()))
		}
	case reflect.Array:
		for i := range v.Len() {
			hide(v.Index(i))
		}
	case reflect.Slice:
		if !v.IsNil() {
			copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(copied, v)
			for i := range copied.Len() {
				hide(copied.Index(i))
			}
			v.Set(copied)
		}
	case reflect.Map:
		if !v.IsNil() {
			copied := reflect.MakeMapWithSize(v.Type(), v.Len())
			for each := v.MapRange(); each.Next(); {
				copied.SetMapIndex(each.Key(), hiddenIn(each.Value()))
			}
			v.Set(copied)
		}
	}
}

// hiddenIn is a copy of a value without its secrets.
func hiddenIn(v reflect.Value) reflect.Value {
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	hide(copied)
	return copied
}
