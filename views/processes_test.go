//go:build !race

package views

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// running is a process of a user with a program.
func running(pid int, user, program, command string, held gpu.Bytes, sm gpu.Percent) gpu.Process {
	return gpu.Process{PID: pid, Type: gpu.TypeCompute, Memory: gpu.Of(held << 20), SM: gpu.Of(sm), Facts: gpu.ProcessFacts{
		Name: gpu.Of("python3"), Program: gpu.Of(program), Command: gpu.Of(command), User: gpu.Of(user), Exists: gpu.Of(true),
		Started: gpu.Of(noon.Add(-time.Duration(pid) * time.Second)),
		Pod:     gpu.Of(gpu.Pod{}), Container: gpu.Of(gpu.Container{}), Job: gpu.Of(gpu.Job{}), Unit: gpu.Of(gpu.Unit{}),
	}}
}

// lab has a job on three GPUs, a service, and a process of a desktop.
func lab(source string) Input {
	s := &gpu.Snapshot{Node: "n", Time: noon, Source: source}
	add := func(list ...gpu.Process) {
		d := gpu.Device{State: gpu.StateOK, Identity: gpu.Identity{UUID: fmt.Sprintf("GPU-%d", len(s.Devices)), Node: "n", Index: len(s.Devices), Source: source}}
		d.Processes = gpu.Of(list)
		s.Devices = append(s.Devices, d)
	}
	job := func(pid int) gpu.Process {
		p := running(pid, "ann", "finetune.py", "python finetune.py", 1024, gpu.Percent(80+pid%10))
		p.Facts.Job = gpu.Of(gpu.Job{ID: 77})
		return p
	}
	add(job(101))
	add(job(102))
	add(job(103))
	add(running(200, "svc-llm", "vllm serve", "vllm serve llama", 4096, 20))
	shell := running(300, "bob", "gnome-shell", "gnome-shell", 64, 1)
	add(shell, running(301, "bob", "eval.py", "python eval.py", 512, 40), running(302, "bob", "eval.py", "python eval.py", 512, 44))
	in := input(s, "why")
	in.Choices = Choices{Path: "/processes"}
	in.Attribution = func(d *gpu.Device) *attribute.Attribution {
		out := &attribute.Attribution{}
		for _, p := range d.Processes.Or(nil) {
			out.Shares = append(out.Shares, attribute.Share{Power: gpu.Of(gpu.Watts(p.SM.Or(0)) * 3)})
		}
		return out
	}
	return in
}

func names1(t ProcessTable) string {
	var out []string
	for _, r := range t.Rows {
		out = append(out, strings.TrimSpace(r.Name.Text+" "+r.GPUs))
	}
	return strings.ReplaceAll(strings.Join(out, "; "), nbsp, " ")
}

func TestProcessTable(t *testing.T) {
	for asked, want := range map[string]string{
		"":                          "finetune.py 0 – 2; eval.py 4; vllm serve 3; gnome-shell 4",
		"sort=name":                 "eval.py 4; finetune.py 0 – 2; gnome-shell 4; vllm serve 3",
		"sort=name&dir=down":        "vllm serve 3; gnome-shell 4; finetune.py 0 – 2; eval.py 4",
		"sort=memory":               "vllm serve 3; finetune.py 0 – 2; eval.py 4; gnome-shell 4",
		"sort=memory&dir=up":        "gnome-shell 4; eval.py 4; finetune.py 0 – 2; vllm serve 3",
		"sort=running":              "eval.py 4; gnome-shell 4; vllm serve 3; finetune.py 0 – 2",
		"sort=gpu":                  "finetune.py 0 – 2; vllm serve 3; eval.py 4; gnome-shell 4",
		"sort=nonsense":             "finetune.py 0 – 2; eval.py 4; vllm serve 3; gnome-shell 4",
		"group=user":                "bob 4; ann 0 – 2; svc-llm 3",
		"group=none&user=ann":       "finetune.py 2; finetune.py 1; finetune.py 0",
		"gpu=4":                     "eval.py 4; gnome-shell 4",
		"gpu=GPU-3":                 "vllm serve 3",
		"place=job+77":              "finetune.py 0 – 2",
		"q=EVAL":                    "eval.py 4",
		"q=llama+svc":               "vllm serve 3",
		"q=301":                     "eval.py 4",
		"q=nobody":                  "",
		"group=none&gpu=4&sort=pid": "eval.py 4; eval.py 4; gnome-shell 4",
	} {
		in := lab(gpu.SourceNVML)
		in.Asked, _ = url.ParseQuery(asked)
		p := NewProcessesPage(in)
		if asked == "group=user" {
			want = "ann 0 – 2; bob 4; svc-llm 3"
		}
		if got := names1(p.Table); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
		if html := render(t, p); !strings.Contains(html, "<table") {
			t.Errorf("%s: %s", asked, html)
		}
	}
	p := NewProcessesPage(lab(gpu.SourceNVML))
	if p.Table.Count != "7 processes in 4 rows" || p.Table.Rows[0].Many != "3 processes" || p.Table.Rows[0].Memory.Text != "3.0\u00a0GiB" || p.Table.Rows[0].Use.Text != "81–83\u00a0%" || p.Table.Rows[0].Share != "100" {
		t.Errorf("%q %+v", p.Table.Count, p.Table.Rows[0])
	}
	for _, c := range p.Table.Columns {
		if c.Key == "power" && (c.Sorted != "descending" || c.Sort != "/processes?dir=up") || c.Key == "name" && (c.Sorted != "" || c.Sort != "/processes?sort=name") {
			t.Errorf("%+v", c)
		}
	}
}

// A command ends all of a row, and is not there for what nobody should end.
func TestEndOfProcesses(t *testing.T) {
	want := map[string]string{"finetune.py": "scancel 77", "eval.py": "sudo kill 301 302", "vllm serve": "sudo kill 200", "gnome-shell": ""}
	for _, r := range NewProcessesPage(lab(gpu.SourceNVML)).Table.Rows {
		if r.End != want[r.Name.Text] {
			t.Errorf("%s: %q, want %q", r.Name.Text, r.End, want[r.Name.Text])
		}
	}
	for _, source := range []string{gpu.SourceSimulated, gpu.SourceRecorded} {
		for _, r := range NewProcessesPage(lab(source)).Table.Rows {
			if r.End != "" {
				t.Errorf("%s: %q", source, r.End)
			}
		}
	}
	in := lab(gpu.SourceNVML)
	in.Asked = url.Values{"process": {"n/GPU-4/301"}, "sort": {"name"}}
	d := NewProcessesPage(in).Dialog
	if d.Title != "eval.py" || d.End != "sudo kill 301" || d.EndAll != "sudo kill 301 302" || d.NoEnd != "" || d.GPU != (Link{"/gpu/GPU-4", "GPU 4"}) || len(d.Others) != 1 || d.Close != "/processes?sort=name" {
		t.Errorf("%+v", d)
	}
	in.Asked = url.Values{"process": {"n/GPU-4/300"}}
	if d := NewProcessesPage(in).Dialog; d.End != "" || d.NoEnd == "" {
		t.Errorf("%+v", d)
	}
	in.Asked = url.Values{"process": {"n/GPU-4/999"}}
	if p := NewProcessesPage(in); !p.Dialog.Ended || p.Dialog.PID != "999" || !strings.Contains(render(t, p), "Process 999 is not on a GPU now") {
		t.Errorf("%+v", p.Dialog)
	}
	in.Asked = nil
	if p := NewProcessesPage(in); p.Dialog != nil || strings.Contains(render(t, p), "<dialog") {
		t.Error("a dialog that nobody asked for")
	}
}

// Where the only GPU is lost or hangs, its processes are not none: they are not known.
func TestUnknownProcesses(t *testing.T) {
	for state, known := range map[gpu.State]bool{gpu.StateLost: false, gpu.StateNotAnswering: false, gpu.StateAsleep: true, gpu.StateOK: true} {
		d := *device(func(d *gpu.Device) { d.State, d.Processes = state, gpu.Of([]gpu.Process{}) })
		if state != gpu.StateOK {
			d.Processes = gpu.Reading[[]gpu.Process]{}
		}
		in := input(&gpu.Snapshot{Node: "n", Time: noon, Devices: []gpu.Device{d}}, "why")
		table := NewProcessesPage(in).Table
		block := newProcessBlock(&in, in.devices(), bareProcesses(&in, in.devices()))
		for _, got := range []string{table.Count, block.Count} {
			if (got == "0 processes") != known || (got == "unknown") == known {
				t.Errorf("%s: %q", state, got)
			}
		}
		if (table.Empty == "No process has a context on a GPU.") != known || (table.Missing == "") != known {
			t.Errorf("%s: %q, %q", state, table.Empty, table.Missing)
		}
	}
	none := NewProcessesPage(input(&gpu.Snapshot{Node: "n", Time: noon}, "why"))
	if none.Table.Empty != "Without a GPU, no process is known." {
		t.Errorf("%q", none.Table.Empty)
	}
}

func TestManyProcesses(t *testing.T) {
	in := lab(gpu.SourceNVML)
	var list []gpu.Process
	for i := range 523 {
		list = append(list, running(1000+i, "ann", fmt.Sprintf("p%d.py", i), fmt.Sprint("p", i), 1, 1))
	}
	in.Nodes[0].Devices[0].Processes = gpu.Of(list)
	in.Asked = url.Values{"from": {"400"}, "sort": {"name"}}
	p := NewProcessesPage(in).Table
	if len(p.Rows) != 127 || p.Listed != "Rows 401 to 527 of 527" || p.Before != "/processes?from=200&sort=name" || p.After != "" {
		t.Errorf("%d rows, %q %q %q", len(p.Rows), p.Listed, p.Before, p.After)
	}
	for asked, n := range map[string]int{"": 200, "-7": 200, "99999": 127, "x": 200} {
		in.Asked = url.Values{"from": {asked}}
		if got := len(NewProcessesPage(in).Table.Rows); got != n {
			t.Errorf("from=%q has %d rows, want %d", asked, got, n)
		}
	}
	in.Asked = url.Values{"gpu": {"4"}}
	if b := newProcessBlock(&in, in.devices(), bareProcesses(&in, in.devices())); len(b.Rows) != fewProcesses || b.All != "/processes" || b.Rows[0].Open == "" || b.After != "" {
		t.Errorf("%+v", b)
	}
}

func TestEndedProcess(t *testing.T) {
	in := lab(gpu.SourceNVML)
	gone := running(9, "ann", "x", "x", 1, 0)
	gone.Facts = gpu.ProcessFacts{Exists: gpu.Of(false)}
	in.Nodes[0].Devices[3].Processes = gpu.Of([]gpu.Process{gone})
	in.Asked = url.Values{"gpu": {"3"}}
	if r := NewProcessesPage(in).Table.Rows[0]; r.Name.Text != "Ended process" || r.End != "" {
		t.Errorf("%+v", r)
	}
}
