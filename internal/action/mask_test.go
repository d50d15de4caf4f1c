package action_test

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/action"
)

// No record has a secret, however deep it is, and the value that is recorded stays as it is.
func TestSecretsAreMasked(t *testing.T) {
	type inner struct {
		Name string  `json:"name"`
		Key  string  `json:"key,omitempty" secret:"true"`
		Pin  int     `json:"pin,omitempty" secret:"true"`
		Next *inner  `json:"next,omitempty" secret:"false"`
		Ref  *string `json:"ref,omitempty" secret:"true"`
	}
	type outer struct {
		inner
		List []inner        `json:"list"`
		Map  map[string]any `json:"map"`
		Any  any            `json:"any"`
		None []inner        `json:"none"`
		Raw  []byte         `json:"raw"`
	}
	sesame := "sesame"
	secret := inner{Name: "n", Key: sesame, Pin: 7, Next: &inner{Key: sesame}, Ref: &sesame}
	given := outer{inner: inner{Key: "", Name: "own"}, List: []inner{secret}, Map: map[string]any{"a": secret, "b": 1}, Any: &secret, Raw: []byte("raw")}
	masked := `{"name":"n","key":"(hidden)","next":{"name":"","key":"(hidden)"}}`
	want := `{"name":"own","list":[` + masked + `],"map":{"a":` + masked + `,"b":1},"any":` + masked + `,"none":null,"raw":"cmF3"}`
	for _, v := range []any{given, &given} {
		if got, err := action.Masked(v); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if given.List[0].Key != sesame || given.List[0].Next.Key != sesame || given.List[0].Ref != &sesame {
		t.Errorf("the value changed: %+v", given)
	}
	if got, err := action.Masked(nil); got != nil || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := action.Masked(struct{ F func() }{}); err == nil {
		t.Errorf("a function is %s", got)
	}
}
