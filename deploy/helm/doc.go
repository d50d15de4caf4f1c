// Package helm checks gpuwhy's chart, and the manifests generated from it.
package helm
