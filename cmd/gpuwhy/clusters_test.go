package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file of clusters is checked before anything starts, and by check-config, with the line of each error.
func TestClustersFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "clusters.yaml")
	check := func(text string) result {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return command(t, nil, "check-config", "--clusters", name)
	}
	if r := check("clusters:\n- id: lab\n  url: https://10.0.0.1:6443\n"); r.code != exitOK {
		t.Errorf("a good file: %d, %s", r.code, r.stderr)
	}
	r := check("clusters:\n- id: lab\n  url: nowhere\n  mode: never\n")
	for _, want := range []string{name + ": line 3: url: ", name + ": line 4: mode: "} {
		if r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%d, %q has no %q", r.code, r.stderr, want)
		}
	}
	if r := command(t, nil, "check-config", "--clusters", "/nowhere.yaml"); r.code != exitUsage || !strings.Contains(r.stderr, "/nowhere.yaml") {
		t.Errorf("no file: %d, %s", r.code, r.stderr)
	}
}

// What a file names must be there when the program starts.
func TestNewClusters(t *testing.T) {
	name := filepath.Join(t.TempDir(), "clusters.yaml")
	for text, good := range map[string]bool{
		"clusters: [{id: lab, url: \"https://10.0.0.1:6443\"}]":  true,
		"clusters: [{id: lab, kubeconfig: /nowhere/kubeconfig}]": false,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := &Config{Clusters: name}
		if err := cfg.checkClusters(); err != nil {
			t.Fatal(err)
		}
		all, err := cfg.newClusters(slog.New(slog.DiscardHandler))
		if (err == nil && all != nil) != good {
			t.Errorf("%s: %v, %v", text, all, err)
		}
	}
	if all, err := new(Config).newClusters(slog.New(slog.DiscardHandler)); all != nil || err != nil {
		t.Errorf("without a file: %v, %v", all, err)
	}
}
