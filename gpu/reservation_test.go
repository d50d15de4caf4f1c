package gpu

import "testing"

func TestReservedBy(t *testing.T) {
	reserved := func(pods ...string) Reading[[]Reservation] {
		var list []Reservation
		for _, pod := range pods {
			list = append(list, Reservation{Namespace: "ml", Pod: pod, Container: "main"})
		}
		return Of(list)
	}
	for _, tt := range []struct {
		name string
		r    Reading[[]Reservation]
		want Reading[string]
	}{
		{"not known", Reading[[]Reservation]{}, Reading[string]{}},
		{"not permitted", Absent[[]Reservation](NotPermitted), Absent[string](NotPermitted)},
		{"nobody", reserved(), Of("nobody")},
		{"one", reserved("a"), Of("pod ml/a")},
		{"one, twice", reserved("a", "a"), Of("pod ml/a")},
		{"three", reserved("a", "b", "c"), Of("pod ml/a, pod ml/b, pod ml/c")},
		{"many", reserved("a", "b", "c", "d", "e"), Of("pod ml/a, pod ml/b and 3 more")},
	} {
		if got := (&Device{Reservations: tt.r}).ReservedBy(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
