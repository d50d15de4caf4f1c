//go:build kube

package kube

import "time"

const (
	manyPods     = 500
	manyInterval = 30 * time.Second
)
