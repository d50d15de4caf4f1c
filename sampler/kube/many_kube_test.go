//go:build kube

package kube

const manyPods = 500
