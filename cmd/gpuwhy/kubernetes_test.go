//go:build !race

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The Kubernetes manifests name only commands and flags that exist.
func TestManifestsNameFlagsThatExist(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(top, "deploy/kubernetes/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	commands := 0
	for _, file := range files {
		text, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer text.Close()
		for d := yaml.NewDecoder(text); ; {
			var object struct {
				Spec struct {
					Template struct {
						Spec struct {
							Containers []struct {
								Args []string
								Env  []struct{ Name string }
							}
						}
					}
				}
			}
			if err := d.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			for _, c := range object.Spec.Template.Spec.Containers {
				commands++
				help := command(t, nil, c.Args[0], "--help")
				if help.code != exitOK {
					t.Errorf("%s: %s", file, help.stderr)
					continue
				}
				for _, arg := range c.Args[1:] {
					name, _, _ := strings.Cut(arg, "=")
					if !regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).MatchString(help.stdout) {
						t.Errorf("%s: gpuwhy %s has no %s", file, c.Args[0], name)
					}
				}
				for _, e := range c.Env {
					if strings.HasPrefix(e.Name, "GPUWHY_") && !strings.Contains(help.stdout, e.Name) {
						t.Errorf("%s: gpuwhy %s does not know %s", file, c.Args[0], e.Name)
					}
				}
			}
		}
	}
	if commands < 2 {
		t.Errorf("%d commands", commands)
	}
}
