//go:build !race

package contract_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A machine without a card has an answer, and nothing about it is broken.
func TestAMachineWithoutACard(t *testing.T) {
	m := insight.Of(fixture.Named("no card", fixture.Time).Snapshot)
	u, s := contract.NewUpdate(m, nil), contract.NewSummary(contract.Monitor{}, m.Alone(), 0)
	for name, l := range map[string]contract.Layers{"update": u.Layers, "summary": s.Layers, "why": contract.NewWhy(contract.Monitor{}, m.Alone()).Layers} {
		if l.Headline != "cc1plus (ann) keeps the CPU busy, so the fans are running." || l.Broken || len(l.Facts) != 4 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	if u.Available || u.Status != "no_gpu" || !strings.Contains(u.Reason, "no NVIDIA GPU") || u.Causes[0].Kind != "cpu_work" || u.Causes[0].GPUID != nil {
		t.Errorf("available %v, %q, %q, %+v", u.Available, u.Status, u.Reason, u.Causes)
	}
	h := u.Host
	if len(h.Busiest) != 3 || h.Busiest[0].Count != 31 || *h.Busiest[0].User != "ann" || h.Busiest[0].Command != nil || h.CPUThrottled == nil || *h.CPUThrottled {
		t.Errorf("the machine: %+v", h)
	}
	if h.Kept["host_fan_rpm"] != gpu.Of(2210.0) || len(h.Kept) != 7 {
		t.Errorf("kept: %v", h.Kept)
	}
}

// Nobody who uses the CPU is another answer than that it is not known who does.
func TestNobodyIsBusy(t *testing.T) {
	for want, name := range map[string]string{`"busiest":[]`: "no card, at rest", `"busiest":null`: "one"} {
		u := contract.NewUpdate(insight.Of(fixture.Named(name, fixture.Time).Snapshot), nil)
		text, err := json.Marshal(u.Host)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		if kept := strings.Contains(string(text), `"kept"`); kept != (name != "one") {
			t.Errorf("%s: kept is there: %v", name, kept)
		}
	}
}
