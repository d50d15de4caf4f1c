//go:build soak

package main

const thorough = true
