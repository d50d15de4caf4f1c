// Package release says which version of gpuwhy this is, and from which commit it was built. It is the only place with the version.
package release

import (
	"cmp"
	"runtime/debug"
	"strings"
	"time"
)

// Version is the version of gpuwhy, without a leading v. The API, its documents, what is exported and the packages use it.
const Version = "0.9.0"

// A release is often built from an archive without the history. Its build says where that came from:
//
//	go build -ldflags '-X github.com/gpuwhy/gpuwhy/internal/release.commit=… -X github.com/gpuwhy/gpuwhy/internal/release.date=…'
var (
	commit string // as git has it, in full or shortened
	date   string // of the commit, RFC 3339
)

// A Build is where a program was built from.
type Build struct {
	Commit   string    // as git has it; empty if unknown
	Date     time.Time // of the commit, UTC; zero if unknown
	Modified bool      // the files differed from the commit
}

// ThisBuild returns where this program was built from: what the build was told, or else what the go command noted about the checkout.
func ThisBuild() Build {
	var settings []debug.BuildSetting
	if info, ok := debug.ReadBuildInfo(); ok {
		settings = info.Settings
	}
	return buildOf(commit, date, settings)
}

func buildOf(commit, date string, settings []debug.BuildSetting) Build {
	noted := map[string]string{}
	for _, s := range settings {
		noted[s.Key] = s.Value
	}
	b := Build{Commit: commit}
	if commit == "" {
		b.Commit, date = noted["vcs.revision"], cmp.Or(date, noted["vcs.time"])
		b.Modified = noted["vcs.modified"] == "true"
	} else if bare, dirty := strings.CutSuffix(commit, "-dirty"); dirty { // as git describe writes it
		b.Commit, b.Modified = bare, true
	}
	if when, err := time.Parse(time.RFC3339, date); err == nil {
		b.Date = when.UTC()
	}
	return b
}

// shortCommit is how much of a commit's name people read.
const shortCommit = 12

// String says it for people: "commit fe4053a1c2d3, 28 November 2026, with local changes".
func (b Build) String() string {
	if b.Commit == "" {
		return "commit unknown"
	}
	text := "commit " + b.Commit[:min(len(b.Commit), shortCommit)]
	if !b.Date.IsZero() {
		text += ", " + b.Date.Format("2 January 2006")
	}
	if b.Modified {
		text += ", with local changes"
	}
	return text
}
