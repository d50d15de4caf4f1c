//go:build !race

package story

import (
	"path/filepath"
	"strings"
	"testing"
)

const good = `title: A card at rest
seen: nowhere
tags: [desktop]
gpus:
  - {name: NVIDIA GeForce RTX 4090, limit: 450, memory: 24, fans: 2}
scenes:
  - for: 60s
    gpu 0: {util: 0, power: 20 ± 1, temp: 40 towards 35 in 20s, fan: 30 to 0, processes: [{pid: 10, name: Xorg, sm: "3 for 5s, 0 for 5s"}]}
    expect:
      - {at: "15s, 30s", first: [quiet, cooling], not: [Xorg]}
      - {at: 20s to end, gpu: 0, sure: not low}
never: [work]
`

func TestStoriesCanBeRead(t *testing.T) {
	if _, err := parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(*folder, "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	titles := map[string]string{}
	for _, file := range files {
		s, err := read(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if other := titles[s.Title]; other != "" {
			t.Errorf("%s and %s have one title", file, other)
		}
		titles[s.Title] = file
	}
}

// What is misspelled is found, with its line.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ old, text, want string }{
		{"seen: nowhere", "seen: nowhere\nbeside: me", `a.yaml:3: there is no key "beside" here`},
		{"tags: [desktop]", "tags: [desktop]\nreal time: yes", "a.yaml:1: a story of 1m0s takes too much of people's time"},
		{"tags: [desktop]", "tags: [desk]", `a.yaml:1: there is no tag "desk"`},
		{"fans: 2", "fan: 2", `a.yaml:5: there is no key "fan" here`},
		{"fans: 2", "fans: two", "a.yaml:5: cannot unmarshal !!str `two` into int"},
		{"fans: 2", "fans: 2, vendor: amd", `a.yaml:1: there is no product "NVIDIA GeForce RTX 4090" of amd`},
		{"fans: 2", "fans: 2, vendor: matrox", `a.yaml:1: there is no vendor "matrox"`},
		{"fans: 2", "fans: 2, sleeps: yes", "a.yaml:1: NVIDIA GeForce RTX 4090: sleeps: yes is for AMD and Intel"},
		{"NVIDIA GeForce RTX 4090", "Intel Arc A770, vendor: intel", `a.yaml:8: Intel Arc A770 has no reading "fan"`},
		{"util: 0", "hotspot: 50", `a.yaml:8: NVIDIA GeForce RTX 4090 has no reading "hotspot"`},
		{"pid: 10", "pid: 10, closed: yes", "a.yaml:8: on NVIDIA GeForce RTX 4090 the driver lists all processes"},
		{"pid: 10", "pid: 10, type: rocm", `a.yaml:8: on NVIDIA GeForce RTX 4090 no process is of type "rocm"`},
		{"for: 60s", "for: 60s\n    lasts: 3s", `a.yaml:8: a scene has no "lasts"`},
		{"for: 60s", "for: 60s\n    for: 3s", `a.yaml:8: "for" is here twice`},
		{"for: 60s", "for: 60s\n    driver: away", `a.yaml:8: there is no driver "away"`},
		{"for: 60s", "for: 60s\n    gpuwhy: begins", `a.yaml:8: there is no gpuwhy "begins"`},
		{"for: 60s", "host: {cpu fan: loud}\n    for: 60s", `a.yaml:7: cpu fan: "loud" is no number`},
		{"for: 60s", "for: a while", `a.yaml:7: time: invalid duration "a while"`},
		{"gpu 0: {", "gpu 1: {", `a.yaml:7: there is no GPU 1`},
		{"util: 0", "utl: 0", `a.yaml:8: there is no reading "utl"`},
		{"util: 0", "state: slowly", `a.yaml:8: there is no state "slowly"`},
		{"util: 0", "state: hangs 2s", `a.yaml:8: there is no state "hangs 2s"`},
		{"util: 0", "state: slow", `a.yaml:8: there is no state "slow"`},
		{"util: 0", "policy: mine", `a.yaml:8: there is no policy "mine"`},
		{"util: 0", "reasons: [cold]", `a.yaml:8: there is no reason "cold"`},
		{"util: 0", "util: 0 +- 1", `a.yaml:8: "0 +- 1" is no value`},
		{"in 20s", "in 0s", `a.yaml:8: "40 towards 35 in 0s" takes no time`},
		{"sm:", "smm:", `a.yaml:8: there is no key "smm" here`},
		{"pid: 10, ", "", `a.yaml:8: a process has a pid and a name`},
		{"pid: 10", "pid: 10, type: video", `a.yaml:8: there is no type "video"`},
		{"for 5s,", "for five,", `a.yaml:8: "3 for five, 0 for 5s" is no value`},
		{"gpu: 0, ", "gpus: 0, ", `a.yaml:11: there is no key "gpus" here`},
		{"gpu: 0, ", "gpu: 2, ", `a.yaml:11: there is no GPU 2`},
		{"first: [quiet, cooling]", "frist: [quiet, cooling]", `a.yaml:10: there is no key "frist" here`},
		{"first: [quiet, cooling]", "first: [quiet, colling]", `a.yaml:10: there is no word "colling"`},
		{"not: [Xorg]", "no: [Xorg]", `a.yaml:10: there is no key "no" here`},
		{`"15s, 30s"`, `"15s, 60s"`, `a.yaml:10: the scene has no reading at 1m0s`},
		{`"15s, 30s"`, `15s to 61s`, `a.yaml:10: the scene does not last from 15s to 1m1s`},
		{`"15s, 30s"`, `soon`, `a.yaml:10: time: invalid duration "soon"`},
		{`at: "15s, 30s", `, ``, `a.yaml:10: it has no mark`},
		{"sure: not low", "sure: very", `a.yaml:11: there is no sure "very"`},
		{", sure: not low", "", `a.yaml:11: nothing is expected`},
		{"never: [work]", "never: [toil]", `a.yaml:1: there is no word "toil"`},
		{"never: [work]", "never say: [toil]", `a.yaml:12: there is no key "never say" here`},
	} {
		text := strings.Replace(good, c.old, c.text, 1)
		if _, err := parse([]byte(text)); err == nil || inFile("a.yaml", err).Error() != c.want {
			t.Errorf("%q for %q: %v, want %s", c.text, c.old, inFile("a.yaml", err), c.want)
		}
	}
}
