//go:build !race

package views

import (
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// said is what the page says of whose something is: label, value and reason of
// each line, and how far each part of the bar reaches.
func said(u Use) string {
	var lines []string
	for _, f := range u.Facts {
		line := f.Label + ": " + f.Value.Text
		if f.Why != nil && f.Why.Value.Text != "" {
			line += " (" + f.Why.Value.Text + ")"
		}
		lines = append(lines, line)
	}
	for _, b := range u.Bar {
		lines = append(lines, b.Kind+" to "+b.Width)
	}
	return strings.Join(lines, "\n")
}

func TestUses(t *testing.T) {
	working := device(func(d *gpu.Device) {
		d.Memory.Total, d.Power.EnforcedLimit = gpu.Of(gpu.Bytes(80<<30)), gpu.Of[gpu.Watts](500)
	})
	whole := attribute.Attribution{
		Memory: attribute.Memory{
			Split: attribute.Split[gpu.Bytes]{
				Processes: gpu.Of(gpu.Bytes(40 << 30)), Remainder: gpu.Of(gpu.Bytes(8 << 30)),
				Coverage: gpu.Of[gpu.Percent](85.7), Reason: attribute.ReasonNoList,
			},
			Orphans: gpu.Of(gpu.Bytes(8 << 30)),
		},
		Power: attribute.Power{
			Split: attribute.Split[gpu.Watts]{
				Processes: gpu.DoubtfulOf[gpu.Watts](200), Remainder: gpu.Of[gpu.Watts](0), Coverage: gpu.Of[gpu.Percent](100),
			},
			Idle: gpu.Of[gpu.Watts](50), Method: attribute.BySM,
		},
		Utilization: attribute.Utilization{Processes: gpu.Of[gpu.Percent](90), Remainder: gpu.Of[gpu.Percent](0), Coverage: gpu.Of[gpu.Percent](100)},
	}
	for name, c := range map[string]struct {
		d    *gpu.Device
		a    attribute.Attribution
		want [3]string
	}{
		"all is known": {working, whole, [3]string{
			"Processes: 40.0\u00a0GiB\nEnded processes: 8.0\u00a0GiB\nUnaccounted: 8.0\u00a0GiB (the driver does not list this device's processes)\nExplained: 86\u00a0%\nrest to 70\norphans to 60\nprocesses to 50",
			"Without work: 50\u00a0W\nProcesses: 200\u00a0W\nUnaccounted: 0\u00a0W\nExplained: 100\u00a0%\nSplit by: share of SM time\nrest to 50\nprocesses to 50\nidle to 10",
			"Processes: 90\u00a0%\nUnaccounted: 0\u00a0%\nExplained: 100\u00a0%\nrest to 90\nprocesses to 90",
		}},
		"nothing is": {working, attribute.Attribution{}, [3]string{
			"Processes: not reported\nEnded processes: \nUnaccounted: not reported\nExplained: \nrest to 0\norphans to 0\nprocesses to 0",
			"Without work: unknown\nProcesses: not reported\nUnaccounted: not reported\nExplained: \nSplit by: not split\nrest to 0\nprocesses to 0\nidle to 0",
			"Processes: not reported\nUnaccounted: not reported\nExplained: \nrest to 0\nprocesses to 0",
		}},
		"of a lost one": {device(func(d *gpu.Device) { d.State = gpu.StateLost }), attribute.Attribution{}, [3]string{
			"Processes: not read since 2026-01-02 11:00:00 UTC\nEnded processes: \nUnaccounted: not read since 2026-01-02 11:00:00 UTC\nExplained: \nrest to 0\norphans to 0\nprocesses to 0",
			"Without work: unknown\nProcesses: not read since 2026-01-02 11:00:00 UTC\nUnaccounted: not read since 2026-01-02 11:00:00 UTC\nExplained: \nSplit by: not split\nrest to 0\nprocesses to 0\nidle to 0",
			"Processes: not read since 2026-01-02 11:00:00 UTC\nUnaccounted: not read since 2026-01-02 11:00:00 UTC\nExplained: \nrest to 0\nprocesses to 0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, u := range newUses(c.d, &c.a) {
				if got := said(u); got != c.want[i] {
					t.Errorf("%s: got\n%s\nwant\n%s", u.Title, got, c.want[i])
				}
			}
		})
	}
}

// A page of a GPU says whose it is; the page of all does not.
func TestOnlyDevicePagesHaveUses(t *testing.T) {
	s := machine("eight")
	in := input(s, "why")
	in.Attribution = func(d *gpu.Device) *attribute.Attribution {
		return &attribute.Attribution{Power: attribute.Power{Method: attribute.ByMemory}, Shares: make([]attribute.Share, len(d.Processes.Or(nil)))}
	}
	const title = `id="use-title"`
	if html := render(t, NewDevicePage(in, &s.Devices[0])); !strings.Contains(html, title) || !strings.Contains(html, "memory in use") {
		t.Error("the device's page lacks it")
	}
	if strings.Contains(render(t, NewPage(in)), title) {
		t.Error("the page of all GPUs has it")
	}
	in.Attribution = nil
	if strings.Contains(render(t, NewDevicePage(in, &s.Devices[0])), title) {
		t.Error("it is there without an attribution")
	}
}
