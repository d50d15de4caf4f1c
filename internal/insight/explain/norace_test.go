//go:build !race

package explain_test

const manyStories, fewStories = 2000, 500
