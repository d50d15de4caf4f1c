//go:build !race

package story

import (
	"flag"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/insight"
)

const ownFolder = "testdata/stories"

var (
	folder  = flag.String("stories", ownFolder, "the folder of the stories")
	table   = flag.Bool("table", false, "print right, wrong and confidently wrong by kind")
	update  = flag.Bool("update", false, "write what was measured into docs/why.md")
	verbose = flag.Bool("tell", false, "print what is said at each reading")
)

func TestStories(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(*folder, "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	players, all := newPlayers(t, len(files)), newFigures()
	t.Cleanup(func() {
		if err := players.end(); err != nil {
			t.Error(err)
		}
		report(t, all, len(files))
	})
	var mu sync.Mutex
	for _, file := range files {
		kind, name := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(kind+"/"+name, func(t *testing.T) {
			s, err := read(file)
			if err != nil {
				t.Fatal(err)
			}
			played := players.play(file, s.RealTime)
			t.Parallel()
			r := <-played
			if !r.Ended {
				t.Error("it was not played to its end")
			}
			if r.Told != "" {
				t.Logf("\n%s", r.Told)
			}
			for _, wrong := range r.Wrong {
				if t.Log(wrong); s.RealTime || *folder != ownFolder {
					t.Fail() // of others, report knows which are wrong
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(kind, name, s.RealTime, &r)
		})
	}
}

// headline is what must not flicker: which cause is first.
func headline(m *insight.Moment) string {
	_, causes := lead(m, nil)
	if len(causes) == 0 {
		return ""
	}
	what := causes[0].Case
	if what == "comes back" {
		what = "bursts" // between two of them
	}
	return string(causes[0].Kind) + "/" + what
}
