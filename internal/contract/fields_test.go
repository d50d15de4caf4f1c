//go:build !race

package contract_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the contracts list: a path in an answer, and the type of what is there.
// A type with a ? may also be null; [] walks a list.
var contractFields = map[string][]string{
	"gpu_info": {"available bool", "gpu_count int", "pynvml_installed bool"},
	"gpu_metrics": append([]string{
		"timestamp time", "instance_id string", "gpu_count int",
		"total_memory_used_mb float?", "total_memory_total_mb float?",
		"average_gpu_utilization float?", "average_memory_utilization float?", "average_temperature float?",
		"total_power_draw_watts float?",
	}, under("gpus[].", gpuFields)...),
	"gpu_metrics_0": gpuFields,
	"devices": {
		"count int", "timestamp time",
		"devices[].index int", "devices[].name string",
		"devices[].total_memory_mb int?", "devices[].free_memory_mb int?", "devices[].used_memory_mb int?",
		"devices[].utilization_percent int?", "devices[].temperature_c int?",
		"devices[].is_available bool", "devices[].error_message string?", "devices[].source string",
	},
	"driver": {"driver_version string?", "cuda_driver_version string?", "nvml_version string?", "timestamp time"},
	"summary": append([]string{
		"available bool", "status string", "source string", "node string", "timestamp time", "gpu_count int",
		"average_gpu_utilization float?", "average_memory_utilization float?", "average_temperature float?",
		"max_temperature float?", "total_memory_used_mb float?", "total_memory_total_mb float?",
		"total_power_draw_watts float?", "process_count int", "active_alerts int", "why sentence",
	}, slices.Concat(layerFields, under("causes[].", causeFields))...),
	"machines": under("machines[].", append([]string{
		"node string", "cluster_id string", "source string", "standing string", "timestamp time", "gpu_count int", "busy_gpu_count int",
		"max_temperature float?", "total_power_draw_watts float?", "may_operate bool",
	}, layerFields...)),
	"update": append([]string{
		"seq int", "timestamp time", "node string", "source string", "available bool", "gpu_count int", "why sentence",
	}, slices.Concat(layerFields, under("gpus[].", gpuFields), under("gpus[].", layerFields), under("causes[].", causeFields))...),
	"why": append([]string{
		"timestamp time", "node string", "source string", "why sentence",
		"gpus[].gpu_id int", "gpus[].gpu_uuid string", "gpus[].gpu_name string", "gpus[].node string", "gpus[].source string", "gpus[].state string", "gpus[].why sentence",
	}, slices.Concat(layerFields, under("gpus[].", layerFields), under("causes[].", causeFields))...),
	"why_0": append([]string{
		"timestamp time", "gpu_id int", "gpu_uuid string", "gpu_name string", "node string", "source string", "state string", "why sentence",
	}, slices.Concat(layerFields, under("causes[].", causeFields))...),
	"gpu_status": {
		"status string", "source string", "version string", "interval_seconds number", "alert_threshold_percent number", "node string",
	},
	"fleet": {
		"timestamp time", "source string",
		"gpus[].id string", "gpus[].name string", "gpus[].uuid string", "gpus[].source string", "gpus[].utilization int?",
		"gpus[].memory.total int?", "gpus[].memory.used int?", "gpus[].memory.free int?",
		"gpus[].temperature int?", "gpus[].power_usage float?",
		"gpus[].clock_speeds.graphics int?", "gpus[].clock_speeds.memory int?",
	},
	"cluster_node": append([]string{
		"node_name string", "cluster_id string", "gpu_count int", "total_memory_mb int?", "labels object",
		"gpus[].index int", "gpus[].uuid string", "gpus[].name string", "gpus[].driver_version string?",
		"gpus[].temperature_celsius int?", "gpus[].utilization_gpu_percent int?", "gpus[].utilization_memory_percent int?",
		"gpus[].memory_total_mb int?", "gpus[].memory_used_mb int?", "gpus[].memory_free_mb int?",
		"gpus[].power_draw_watts float?", "gpus[].power_limit_watts float?", "gpus[].fan_speed_percent int?",
		"gpus[].pcie_generation int?", "gpus[].pcie_link_width int?", "gpus[].source string",
		"timestamp time", "source string",
	}, under("gpus[].processes[].", clusterProcessFields)...),
	"cluster_summary": append([]string{"cluster_id string"}, clusterSummaryFields...),
	"fleet_summary":   append([]string{"cluster_id null"}, clusterSummaryFields...),
	"service":         {"service string", "version string", "status string"},
	"health":          {"status string", "version string", "uptime_seconds number", "parts object"},
}

var gpuFields = []string{
	"gpu_id int", "gpu_name string", "gpu_uuid string", "driver_version string?",
	"utilization.gpu_percent float?", "utilization.memory_percent float?", "utilization.encoder_percent float?", "utilization.decoder_percent float?",
	"memory.total_mb float?", "memory.used_mb float?", "memory.free_mb float?", "memory.utilization_percent float?",
	"temperature.current_celsius float?", "temperature.slowdown_threshold_celsius float?", "temperature.shutdown_threshold_celsius float?",
	"power.power_draw_watts float?", "power.power_limit_watts float?", "power.power_usage_percent float?",
	"clocks.graphics_clock_mhz float?", "clocks.sm_clock_mhz float?", "clocks.memory_clock_mhz float?",
	"processes[].pid int", "processes[].process_name string", "processes[].used_memory_mb float?",
	"performance_state string?", "fan_speed_percent float?",
	"state string", "state_since time", "state_reason string", "quality object", "vendor_index int?", "instances[].uuid string",
	"source string", "vendor string", "pci_bus_id string",
}

var clusterProcessFields = []string{
	"pid int", "gpu_index int", "process_type string", "sm_utilization int?", "memory_utilization int?",
	"encoder_utilization int?", "decoder_utilization int?", "fb_memory_mb int?", "command string",
	"node_name string", "cluster_id string", "timestamp time", "source string",
}

var clusterSummaryFields = []string{
	"node_count int", "gpu_count int", "total_memory_mb int?", "used_memory_mb int?", "memory_utilization_percent float?",
	"average_gpu_utilization_percent float?", "average_temperature_celsius float?", "timestamp time", "source string",
}

var layerFields = []string{
	"headline sentence", "facts[].text string", "facts[].warning bool", "rest string", "action.text string", "action.command string",
}

var causeFields = []string{
	"id string", "kind string", "node string", "gpu_id int?", "gpu_uuid string?", "gpu_name string?",
	"sentence sentence", "confidence number", "certainty string", "since time?", "advice string",
	"evidence[].name string", "evidence[].value float?", "evidence[].unit string", "evidence[].text string", "evidence[].at time?",
}

func under(prefix string, fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = prefix + f
	}
	return out
}

func TestContractFields(t *testing.T) {
	seen := map[string]int{} // how often a field had a value
	for name := range machinesByName {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name+".golden.json"))
			if err != nil {
				t.Fatal(err)
			}
			var all map[string]json.RawMessage
			if err := json.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			for answer, fields := range contractFields {
				if all[answer] == nil {
					continue // this machine has no such answer
				}
				for _, field := range fields {
					path, kind, _ := strings.Cut(field, " ")
					if name == "fleet" && answer == "summary" && path == "node" {
						kind = "null" // it is about several
					}
					for _, value := range walk(t, all[answer], path) {
						if err := checkType(value, kind); err != nil {
							t.Errorf("%s: %s: %v", answer, path, err)
						}
						if string(value) != "null" {
							seen[answer+" "+path]++
						}
					}
				}
			}
		})
	}
	for answer, fields := range contractFields {
		for _, field := range fields {
			path, _, _ := strings.Cut(field, " ")
			if answer == "gpu_metrics_0" && strings.HasPrefix(path, "instances") {
				continue // seen in the list already
			}
			if field == "cluster_id null" {
				continue
			}
			if seen[answer+" "+path] == 0 {
				t.Errorf("%s: %s: no golden file has a value for it, so its type is untested", answer, path)
			}
		}
	}
}

// walk returns what is at the path; a missing field is a failure.
func walk(t *testing.T, value json.RawMessage, path string) []json.RawMessage {
	t.Helper()
	if path == "" {
		return []json.RawMessage{value}
	}
	step, rest, _ := strings.Cut(path, ".")
	name, isList := strings.CutSuffix(step, "[]")
	var object map[string]json.RawMessage
	if err := json.Unmarshal(value, &object); err != nil {
		t.Errorf("%s: %v", path, err)
		return nil
	}
	field, ok := object[name]
	if !ok {
		t.Errorf("%s is missing", name)
		return nil
	}
	if !isList {
		return walk(t, field, rest)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(field, &list); err != nil || list == nil {
		t.Errorf("%s is no list: %s", name, field)
	}
	var out []json.RawMessage
	for _, element := range list {
		out = append(out, walk(t, element, rest)...)
	}
	return out
}

var (
	integerText = regexp.MustCompile(`^-?[0-9]+$`)
	floatText   = regexp.MustCompile(`^-?[0-9]+\.[0-9]+$`)
)

func checkType(value json.RawMessage, kind string) error {
	if kind == "null" && string(value) == "null" {
		return nil
	}
	kind, optional := strings.CutSuffix(kind, "?")
	if string(value) == "null" {
		if optional {
			return nil
		}
		return fmt.Errorf("null, want %s", kind)
	}
	var ok bool
	var text string
	isText := json.Unmarshal(value, &text) == nil
	switch kind {
	case "bool":
		ok = string(value) == "true" || string(value) == "false"
	case "int":
		ok = integerText.Match(value)
	case "float":
		ok = floatText.Match(value)
	case "number":
		ok = integerText.Match(value) || floatText.Match(value)
	case "string":
		ok = isText
	case "sentence":
		ok = isText && strings.HasSuffix(text, ".")
	case "time":
		_, err := time.Parse("2006-01-02T15:04:05.999999999Z", text)
		ok = isText && err == nil && strings.Contains(text, ".")
	case "object":
		ok = value[0] == '{'
	}
	if !ok {
		return fmt.Errorf("%s, want %s", value, kind)
	}
	return nil
}
