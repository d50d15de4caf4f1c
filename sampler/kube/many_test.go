//go:build !kube

package kube

// This many are enough here; make test-kube uses as many as a large cluster has.
const manyPods = 48
