package explain_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// member returns a node whose devices have been like this for a minute.
func member(name string, devices ...gpu.Device) explain.Member {
	for i := range devices {
		devices[i].Node = name
	}
	s := snapshot(devices...)
	s.Node = name
	h := explain.NewHistory()
	var a explain.Answer
	for i := range 30 {
		next := *s
		next.Time = s.Time.Add(time.Duration(i) * 2 * time.Second)
		next.Devices = append([]gpu.Device(nil), s.Devices...)
		for j := range next.Devices {
			next.Devices[j].SampledAt = next.Time
		}
		a = h.Add(&next)
	}
	return explain.Member{Node: name, Answer: &a}
}

func silent(m explain.Member) explain.Member {
	m.Silent = true
	return m
}

func unread(name string) explain.Member {
	a := explain.Explain(&gpu.Snapshot{Node: name, Failures: []gpu.Failure{{Source: "nvml", Advice: gpu.Advice{What: "the library was not found"}}}})
	return explain.Member{Node: name, Answer: &a}
}

// The condition of several nodes is one sentence, by their numbers.
func TestHeadlineOfNodes(t *testing.T) {
	loud := func(d *gpu.Device) {
		working(97, runner(50, "train.py", 97))(d)
		d.Thermal.GPU = gpu.Of[gpu.Celsius](84)
		d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](88)}}
	}
	busy := func(d *gpu.Device) {
		working(60, runner(51, "serve.py", 60))(d)
		d.Thermal.GPU = gpu.Of[gpu.Celsius](52)
		d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](35)}}
	}
	lost := func(d *gpu.Device) { d.State, d.Readings = gpu.StateLost, gpu.Readings{} }
	nodes := func(n int, kind func(name string) explain.Member, first int) (out []explain.Member) {
		for i := range n {
			out = append(out, kind("n"+strconv.Itoa(first+i)))
		}
		return out
	}
	changed := func(change ...func(*gpu.Device)) func(string) explain.Member {
		return func(name string) explain.Member { return member(name, made(change...)) }
	}
	join := func(lists ...[]explain.Member) (out []explain.Member) {
		for _, l := range lists {
			out = append(out, l...)
		}
		return out
	}
	gone := func(kind func(string) explain.Member) func(string) explain.Member {
		return func(name string) explain.Member { return silent(kind(name)) }
	}
	for name, tt := range map[string]struct {
		members    []explain.Member
		want, past string
		rest       string
		broken     bool
	}{
		"quiet":          {nodes(4, changed(), 1), "All 4 machines are quiet.", "All 4 machines were quiet.", "", false},
		"at work":        {join(nodes(2, changed(busy), 1), nodes(3, changed(), 3)), "2 of 5 machines are busy, and none is loud.", "2 of 5 machines were busy, and none was loud.", "3 quiet", false},
		"one at work":    {join(nodes(1, changed(busy), 1), nodes(1, changed(), 3)), "1 of 2 machines is busy, and none is loud.", "1 of 2 machines was busy, and none was loud.", "1 quiet", false},
		"all at work":    {nodes(2, changed(busy), 1), "All 2 machines are busy, and none is loud.", "All 2 machines were busy, and none was loud.", "", false},
		"one loud":       {join(nodes(1, changed(loud), 7), nodes(2, changed(), 1)), "1 of 3 machines is loud, n7: train.py of alice.", "1 of 3 machines was loud, n7: train.py of alice.", "2 quiet", false},
		"loud":           {join(nodes(2, changed(loud), 7), nodes(1, changed(busy), 5), nodes(1, changed(), 1)), "2 of 4 machines are loud; the worst is n7: train.py of alice.", "2 of 4 machines were loud; the worst was n7: train.py of alice.", "1 busy · 1 quiet · 2 other GPUs busy", false},
		"loud, silent":   {join(nodes(1, changed(loud), 7), nodes(1, gone(changed(loud)), 8), nodes(1, changed(), 1)), "1 of 3 machines is silent, n8; 1 is loud.", "1 of 3 machines was silent, n8; 1 was loud.", "1 quiet", false},
		"silent, broken": {join(nodes(1, changed(lost), 7), nodes(2, gone(changed()), 8), nodes(1, changed(loud), 1)), "1 of 4 machines is broken, n7: the GPU is lost; 2 are silent.", "1 of 4 machines was broken, n7: the GPU was lost; 2 were silent.", "1 loud · 1 other GPU busy", true},
		"unread, loud":   {join(nodes(2, changed(loud), 7), nodes(1, unread, 1)), "1 of 3 machines is without a readable GPU, n1; 2 are loud.", "1 of 3 machines was without a readable GPU, n1; 2 were loud.", "", false},
		"broken":         {join(nodes(2, changed(loud), 7), nodes(1, changed(lost), 1)), "1 of 3 machines is broken, n1: the GPU is lost.", "1 of 3 machines was broken, n1: the GPU was lost.", "2 loud · 2 other GPUs busy", true},
		"several broken": {join(nodes(1, changed(), 7), nodes(2, changed(lost), 1)), "2 of 3 machines are broken; the worst is n1: the GPU is lost.", "2 of 3 machines were broken; the worst was n1: the GPU was lost.", "1 quiet", true},
		"silent":         {join(nodes(2, gone(changed(loud)), 1), nodes(2, changed(), 3)), "2 of 4 machines are silent; the others are quiet.", "2 of 4 machines were silent; the others were quiet.", "", false},
		"one silent":     {join(nodes(1, gone(changed()), 1), nodes(2, changed(busy), 3)), "1 of 3 machines is silent, n1; none of the others is loud.", "1 of 3 machines was silent, n1; none of the others was loud.", "2 busy", false},
		"all silent":     {nodes(3, gone(changed(loud)), 1), "All 3 machines are silent.", "All 3 machines were silent.", "", false},
		"unread":         {join(nodes(2, unread, 1), nodes(1, changed(), 3)), "2 of 3 machines are without a readable GPU; the others are quiet.", "2 of 3 machines were without a readable GPU; the others were quiet.", "", false},
		"one unread":     {join(nodes(1, unread, 1), nodes(1, changed(busy), 3)), "1 of 2 machines is without a readable GPU, n1; none of the others is loud.", "1 of 2 machines was without a readable GPU, n1; none of the others was loud.", "1 busy", false},
		"none read":      {nodes(2, unread, 1), "All 2 machines are without a readable GPU.", "All 2 machines were without a readable GPU.", "", true},
		"a hostile name": {join(nodes(1, func(string) explain.Member { return member("is {what}", made(loud)) }, 1), nodes(1, changed(), 1)), "1 of 2 machines is loud, is {what}: train.py of alice.", "1 of 2 machines was loud, is {what}: train.py of alice.", "1 quiet", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := explain.Combine(tt.members)
			if a.Headline != tt.want || a.Past != tt.past || a.Rest != tt.rest || a.Broken() != tt.broken {
				t.Errorf("got  %q\npast %q\nrest %q, broken: %v\nwant %q\npast %q\nrest %q", a.Headline, a.Past, a.Rest, a.Broken(), tt.want, tt.past, tt.rest)
			}
			for _, d := range a.Devices {
				for _, m := range tt.members {
					if m.Silent && m.Node == d.Device.Node {
						t.Errorf("%s is silent, and its GPU counts", m.Node)
					}
				}
			}
			if strings.Contains(a.Sentence, "{") != strings.Contains(tt.want, "{") || a.Sentence == "" {
				t.Errorf("the sentence is %q", a.Sentence)
			}
		})
	}
}

// The last answer of a silent node is told in the past tense, with what to do about the silence.
func TestOutlived(t *testing.T) {
	m := member("n1", made(working(97, runner(50, "train.py", 97))))
	s := *snapshot(made(func(d *gpu.Device) { d.State = gpu.StateNotAnswering }))
	a := explain.Outlived(&s, m.Answer, gpu.Advice{What: "nothing comes of it", Try: "look whether the agent runs"})
	if !strings.Contains(m.Headline, " is ") || strings.Contains(a.Headline, " is ") || a.Headline != m.Past || a.Devices[0].Headline != m.Devices[0].Past {
		t.Errorf("%q became %q, of the GPU %q", m.Headline, a.Headline, a.Devices[0].Headline)
	}
	if a.Action.Text != "Look whether the agent runs." || a.Action.Command != "" || a.Ways != nil {
		t.Errorf("to do: %+v, %+v", a.Action, a.Ways)
	}
	if works, known := a.Devices[0].Works(); works || known {
		t.Error("it is known whether it works")
	}
	two := member("n1", made(indexed(0)), made(indexed(1), working(97, runner(50, "train.py", 97))))
	silent := func(d *gpu.Device) { d.State = gpu.StateNotAnswering }
	last := snapshot(made(indexed(0), silent), made(indexed(1), silent))
	after := explain.Outlived(last, two.Answer, gpu.Advice{What: "nothing comes of it"})
	if main := after.Main(); !strings.Contains(after.Headline, "GPU 1") || main[len(main)-1].Device.Index != 1 {
		t.Errorf("%q is about GPU 1, and the first cause about GPU %d", after.Headline, main[len(main)-1].Device.Index)
	}
	if !strings.HasPrefix(a.Sentence, "Nothing comes of it") {
		t.Errorf("the sentence is %q", a.Sentence)
	}
}

// The worst node of a headline is the first of a list, whatever else its devices do.
func TestOneOrderOfNodes(t *testing.T) {
	loud := func(d *gpu.Device) {
		working(97, runner(50, "train.py", 97))(d)
		d.Thermal.GPU = gpu.Of[gpu.Celsius](84)
		d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](88)}}
	}
	lost := func(d *gpu.Device) { d.State, d.Readings = gpu.StateLost, gpu.Readings{} }
	node := func(name string, changes ...func(*gpu.Device)) explain.Member {
		var devices []gpu.Device
		for i, change := range changes {
			devices = append(devices, made(indexed(i), change))
		}
		return member(name, devices...)
	}
	quiet := func(*gpu.Device) {}
	all := []explain.Member{
		node("n1", quiet), silent(node("n2", loud)), node("n3", loud), node("n4", lost, quiet), unread("n5"), node("n6", lost, loud), node("n7", quiet),
	}
	for left := all; len(left) > 1; {
		worst := slices.MinFunc(left, explain.WorstFirst)
		if a := explain.Combine(left); worst.Standing() > explain.Busy && !strings.Contains(a.Headline, worst.Node) {
			t.Errorf("the worst is %s, and it says %q", worst.Node, a.Headline)
		}
		left = slices.DeleteFunc(slices.Clone(left), func(m explain.Member) bool { return m.Node == worst.Node })
	}
	sorted := slices.SortedFunc(slices.Values(all), explain.WorstFirst)
	if got := strings.Join(nodesOf(sorted), " "); got != "n4 n6 n2 n5 n3 n1 n7" {
		t.Errorf("the order is %s", got)
	}
}

func nodesOf(all []explain.Member) (names []string) {
	for _, m := range all {
		names = append(names, m.Node)
	}
	return names
}
