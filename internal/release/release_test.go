package release

import (
	"regexp"
	"runtime/debug"
	"testing"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	const revision = "fe4053a1c2d3e4f5061728394a5b6c7d8e9f0a1b"
	checkout := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision}, {Key: "vcs.time", Value: "2026-11-28T01:02:03Z"}}
	changed := append(checkout[:3:3], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, tt := range []struct {
		name, commit, date string
		settings           []debug.BuildSetting
		want               string
	}{
		{"an archive", "", "", nil, "commit unknown"},
		{"a checkout", "", "", checkout, "commit fe4053a1c2d3, 28 November 2026"},
		{"a changed checkout", "", "", changed, "commit fe4053a1c2d3, 28 November 2026, with local changes"},
		{"a release", "0123abc", "2026-12-01T23:30:00-02:00", checkout, "commit 0123abc, 2 December 2026"},
		{"a release of changed files", "0123abc-dirty", "soon", nil, "commit 0123abc, with local changes"},
	} {
		if got := buildOf(tt.commit, tt.date, tt.settings).String(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(Version) {
		t.Errorf("%q is not a version that packages can have", Version)
	}
}
