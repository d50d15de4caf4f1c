package history

import "testing"

func TestTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want  string
		names []string
	}{
		{"GPU 3", []string{"GPU 3"}},
		{"GPUs 0–3 and 7", []string{"GPU 7", "GPU 1", "GPU 0", "GPU 3", "GPU 2"}},
		{"GPUs 0 and 1 of a", []string{"GPU 1 of a", "GPU 0 of a"}},
		{"GPUs 5 and 7 of a, GPUs 0–2 of b and GPU 4 of c", []string{"GPU 7 of a", "GPU 5 of a", "GPU 0 of b", "GPU 2 of b", "GPU 1 of b", "GPU 4 of c"}},
		{"8 GPUs of 7 machines", []string{"GPU 0 of a", "GPU 0 of b", "GPU 1 of b", "GPU 0 of c", "GPU 0 of d", "GPU 0 of e", "GPU 0 of f", "GPU 0 of g"}},
		{"GPUs 0, 2, 4, 6, 8, 10 and 5 more", []string{"GPU 0", "GPU 2", "GPU 4", "GPU 6", "GPU 8", "GPU 10", "GPU 12", "GPU 13", "GPU 14", "GPU 15", "GPU 17"}},
		{"a GPU of a and GPU 1 of b", []string{"a GPU of a", "GPU 1 of b"}},
	} {
		if got := Together(c.names); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
