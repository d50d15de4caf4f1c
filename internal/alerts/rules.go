package alerts

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/alerts/rulefile"
)

// Rules reads an alert rules file, or returns the default rules if name is empty.
// Their high_gpu_usage_alert fires above the given utilization, in percent.
func Rules(name string, utilization float64) (*rulefile.File, error) {
	rules := alert.Defaults()
	for i := range rules {
		if rules[i].Name == alert.HighGPUUsage {
			rules[i].Threshold = utilization
		}
	}
	if name == "" {
		return &rulefile.File{Rules: rules, Notify: notify.Defaults()}, nil
	}
	return rulefile.Load(name, rules)
}

// ErrorLines returns the errors in a rules file, or the text of any other error.
func ErrorLines(err error) []string {
	all, ok := errors.AsType[rulefile.Errors](err)
	if !ok {
		return []string{err.Error()}
	}
	lines := make([]string, len(all))
	for i := range all {
		lines[i] = all[i].Error()
	}
	return lines
}

// Reload reads the rules again. A file with an error changes nothing.
func (r *Room) Reload() {
	log := r.cfg.Log
	if r.cfg.Rules == "" {
		log.Info("no alert rules to read again: --alert-rules is not set")
		return
	}
	file, err := Rules(r.cfg.Rules, r.cfg.Utilization)
	if err == nil {
		err = r.notifier.Reload(file.Notify)
	}
	if err != nil {
		for _, line := range ErrorLines(err) {
			log.Error("the alert rules stay as they were", "err", line)
		}
		return
	}
	r.read.Store(file)
	r.Book.SetRules(file.Rules, r.Now().UTC())
	if r.Newest().Nodes().Totals().Devices > 0 {
		r.warnUncovered()
	}
	log.Info("read the alert rules again", "file", r.cfg.Rules, "rules", len(file.Rules))
}

// Settings implements [part.Configured]: the rules that are not the default ones, and the targets without their addresses.
func (r *Room) Settings() map[string]string {
	file, all := r.read.Load(), map[string]string{}
	usual := alert.Defaults()
	for i := range file.Rules {
		rule := &file.Rules[i]
		if !slices.ContainsFunc(usual, func(d alert.Rule) bool { return reflect.DeepEqual(d, *rule) }) {
			all["alert rule "+rule.Name] = flow(rule)
		}
	}
	for _, rule := range usual {
		if !slices.ContainsFunc(file.Rules, func(kept alert.Rule) bool { return kept.Name == rule.Name }) {
			all["alert rule "+rule.Name] = "removed"
		}
	}
	messages := file.Notify
	for i := range messages.Targets {
		all["alert target "+messages.Targets[i].Name] = flow(&messages.Targets[i]) // hides its address
	}
	if messages.Targets = nil; !reflect.DeepEqual(messages, notify.Defaults()) {
		all["alert messages"] = flow(&messages)
	}
	return all
}

// flow is a value as YAML on one line.
func flow(v any) string {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return err.Error()
	}
	n.Style = yaml.FlowStyle
	text, err := yaml.Marshal(&n)
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// warnUncovered logs the rules that can't fire because their scope covers nothing here.
func (r *Room) warnUncovered() {
	for _, rule := range r.Book.Uncovered(r.Newest().Nodes(), r.cfg.Others) {
		r.cfg.Log.Warn("an alert rule covers nothing here and can't fire", "rule", rule.Name, "nodes", rule.Scope.Nodes, "gpus", rule.Scope.GPUs,
			"try", "name GPUs by UUID, name or index as 'gpuwhy snapshot' lists them, and machines as the page names them")
	}
}
