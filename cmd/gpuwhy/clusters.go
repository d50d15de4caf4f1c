package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
)

const longestClusters = 1 << 20

// checkClusters reads the file of clusters, if there is one.
func (c *Config) checkClusters() error {
	if c.Clusters == "" {
		return nil
	}
	text, err := regular.Read(c.Clusters, longestClusters)
	if err != nil {
		return fmt.Errorf("--clusters: %w", err)
	}
	file, err := kube.Parse(text)
	if err != nil { // a line for each thing that is wrong
		return fmt.Errorf("%s: %s", c.Clusters, strings.ReplaceAll(err.Error(), "\n", "\n"+c.Clusters+": "))
	}
	for i := range file.Clusters {
		of := &file.Clusters[i]
		for key, path := range map[string]*string{"kubeconfig": &of.Kubeconfig, "token_file": &of.TokenFile, "ca_file": &of.CAFile} {
			if *path, err = pathOf(c.Clusters+": "+of.ID+": "+key, *path); err != nil {
				return err
			}
		}
	}
	c.clusters = file
	return nil
}

// newClusters returns what reads the clusters; nil where none is named. Nothing is asked before it runs.
func (c *Config) newClusters(log *slog.Logger) (*kube.Clusters, error) {
	if c.clusters == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	all, err := kube.New(c.clusters, log.With("part", "kube"))
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", c.Clusters, err)}
	}
	return all, nil
}
