package kube

import (
	"context"
	"errors"
	"net/url"

	"k8s.io/client-go/rest"
)

// OwnLabels returns the labels of the node with that name in the cluster that this program runs in; nil outside a cluster. It needs the
// right to get nodes.
func OwnLabels(ctx context.Context, name string) (map[string]string, error) {
	a, err := newAPI(&Cluster{InCluster: true})
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, nil //nolint:nilnil // as documented
	}
	if err != nil {
		return nil, err
	}
	defer a.close()
	return a.labels(ctx, name)
}

func (a *api) labels(ctx context.Context, name string) (map[string]string, error) {
	var n node
	if err := a.get(ctx, "/api/v1/nodes/"+url.PathEscape(name), nil, &n); err != nil {
		return nil, err
	}
	return n.Metadata.Labels, nil
}
