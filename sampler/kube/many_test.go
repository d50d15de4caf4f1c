//go:build !kube

package kube

// Here some are enough; make test-kube has as many as a large cluster.
const manyPods = 48
