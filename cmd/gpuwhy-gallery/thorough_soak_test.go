//go:build !race && soak

package main

const thorough = true
