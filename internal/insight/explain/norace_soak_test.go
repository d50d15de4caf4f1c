//go:build !race && soak

package explain_test

const manyStories, fewStories = 20_000, 2000
