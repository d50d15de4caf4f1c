package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
)

const longestClusters = 1 << 20

// clusterFileFlags say which clusters are read without agents.
type clusterFileFlags struct {
	Clusters string `group:"fleet" placeholder:"FILE" help:"Kubernetes clusters whose NVIDIA GPUs are read without an agent, as YAML; docs/fleet.md describes the file." docs:"fleet.md#clusters-without-agents"`

	clusters *kube.File // nil without
}

// check reads the file of clusters, if there is one.
func (f *clusterFileFlags) check() error {
	if f.Clusters == "" {
		return nil
	}
	text, err := regular.Read(f.Clusters, longestClusters)
	if err != nil {
		return fmt.Errorf("--clusters: %w", err)
	}
	file, err := kube.Parse(text)
	if err != nil { // one line per problem
		return fmt.Errorf("%s: %s", f.Clusters, strings.ReplaceAll(err.Error(), "\n", "\n"+f.Clusters+": "))
	}
	for i := range file.Clusters {
		cluster := &file.Clusters[i]
		for key, path := range map[string]*string{"kubeconfig": &cluster.Kubeconfig, "token_file": &cluster.TokenFile, "ca_file": &cluster.CAFile} {
			if *path, err = pathOf(f.Clusters+": "+cluster.ID+": "+key, *path); err != nil {
				return err
			}
		}
	}
	f.clusters = file
	return nil
}

// newClusters returns what reads the clusters; nil if there are none. It asks nothing before it runs.
func (f *clusterFileFlags) newClusters(log *slog.Logger) (*kube.Clusters, error) {
	if f.clusters == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	all, err := kube.New(f.clusters, log.With("part", "kube"))
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", f.Clusters, err)}
	}
	return all, nil
}
