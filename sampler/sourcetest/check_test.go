package sourcetest

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		change func(*gpu.Device)
		want   string // in a problem; "" for none
	}{
		"nothing wrong":        {func(*gpu.Device) {}, ""},
		"zero":                 {func(d *gpu.Device) { d.Utilization.GPU = gpu.Of(gpu.Percent(0)) }, ""},
		"above 100":            {func(d *gpu.Device) { d.Utilization.GPU = gpu.Of(gpu.Percent(101)) }, "utilization.gpu"},
		"above 100, doubtful":  {func(d *gpu.Device) { d.Utilization.GPU = gpu.DoubtfulOf(gpu.Percent(101)) }, ""},
		"not a number":         {func(d *gpu.Device) { d.Power.Draw = gpu.DoubtfulOf(gpu.Watts(math.NaN())) }, "power.draw"},
		"a sentinel as heat":   {func(d *gpu.Device) { d.Thermal.Memory = gpu.Of(gpu.Celsius(9.2e18)) }, "thermal.memory"},
		"a sentinel as memory": {func(d *gpu.Device) { d.Memory.Used = gpu.Of(gpu.Bytes(math.MaxUint64)) }, "memory.used"},
		"used above total":     {func(d *gpu.Device) { d.Memory = gpu.Memory{Total: gpu.Of(gpu.Bytes(1)), Used: gpu.Of(gpu.Bytes(2))} }, "2 bytes used of 1"},
		"free above total":     {func(d *gpu.Device) { d.Memory = gpu.Memory{Total: gpu.Of(gpu.Bytes(1)), Free: gpu.Of(gpu.Bytes(2))} }, "2 bytes free of 1"},
		"used above total, doubtful": {func(d *gpu.Device) {
			d.Memory = gpu.Memory{Total: gpu.Of(gpu.Bytes(1)), Used: gpu.DoubtfulOf(gpu.Bytes(2))}
		}, ""},
		"a process on two cores": {func(d *gpu.Device) {
			d.Processes = gpu.Of([]gpu.Process{{PID: 1, Type: gpu.TypeCompute, Facts: gpu.ProcessFacts{CPU: gpu.Of(gpu.Percent(200))}}})
			d.ProcessesPartial = gpu.Of(false)
		}, ""},
		"a fan at 130":          {func(d *gpu.Device) { d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(130))}} }, ""},
		"performance state":     {func(d *gpu.Device) { d.Clocks.PerformanceState = gpu.Of(32) }, "clocks.performance_state"},
		"never begun":           {func(d *gpu.Device) { d.Since = time.Time{} }, "since"},
		"unknown state":         {func(d *gpu.Device) { d.State = "dizzy" }, "dizzy"},
		"ok without a reading":  {func(d *gpu.Device) { d.SampledAt = time.Time{} }, "without a reading"},
		"lost without a reason": {func(d *gpu.Device) { d.State, d.SampledAt = gpu.StateLost, time.Time{} }, "without a reason"},
		"lost with readings": {func(d *gpu.Device) {
			d.State, d.Reason.What = gpu.StateLost, "gone"
		}, "has readings"},
		"a process of pid 0": {func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{{Type: gpu.TypeCompute}}) }, "pid 0"},
		"a process twice": {func(d *gpu.Device) {
			d.Processes = gpu.Of(slices.Repeat([]gpu.Process{{PID: 1, Type: gpu.TypeCompute}}, 2))
		}, "twice"},
		"a process of no type": {func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{{PID: 1}}) }, "no type"},
		"a process above 100": {func(d *gpu.Device) {
			d.Processes = gpu.Of([]gpu.Process{{PID: 1, Type: gpu.TypeMPS, SM: gpu.Of(gpu.Percent(12345))}})
		}, "sm of process 0"},
		"a fan at 2000":          {func(d *gpu.Device) { d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(2000))}} }, "fan.commanded of 0"},
		"a call nobody declared": {func(d *gpu.Device) { d.Source, d.Thermal.HotSpot = gpu.SourceIntel, gpu.Of(gpu.Celsius(50)) }, "no call of intel"},
		"an instance of no UUID": {func(d *gpu.Device) { d.Instances = make([]gpu.Instance, 1) }, "no UUID"},
		"instances of no number": {func(d *gpu.Device) { d.Instances = make([]gpu.Instance, 1) }, "1 instances are listed, and there are not_reported"},
		"more links than listed": {func(d *gpu.Device) { d.NVLink.Count = gpu.Of(2) }, "0 NVLinks are listed, and there are 2"},
		"links out of order":     {func(d *gpu.Device) { d.NVLink = gpu.NVLink{Count: gpu.Of(1), Links: []gpu.Link{{Index: 3}}} }, "link 3 is in place 0"},
		"two that stand for all": {func(d *gpu.Device) { d.Fans = gpu.Fans{Fans: make([]gpu.Fan, 2), Combined: gpu.Of(true)} }, "2 fans"},
		"a list of who knows":    {func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{}) }, "partial: not_reported"},
		"the machine's memory": {func(d *gpu.Device) {
			d.Source, d.Shared = gpu.SourceAMD, gpu.SharedMemory{Unified: gpu.Of(true), Used: gpu.Of[gpu.Bytes](1)}
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			d := gpu.Device{Identity: gpu.Identity{UUID: "GPU-1"}, State: gpu.StateOK, Since: now, SampledAt: now}
			tt.change(&d)
			problems := Check(&d, now)
			if tt.want == "" && len(problems) > 0 {
				t.Errorf("problems %q, want none", problems)
			}
			if tt.want != "" && !strings.Contains(strings.Join(problems, "\n"), tt.want) {
				t.Errorf("problems %q, want one with %q", problems, tt.want)
			}
		})
	}
}
