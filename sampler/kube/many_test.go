//go:build !kube

package kube

import "time"

// Here some are enough; make test-kube has as many as a large cluster.
const (
	manyPods     = 48
	manyInterval = 5 * time.Second
)
