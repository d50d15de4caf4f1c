//go:build !race && !soak

package explain_test

// The soak test looks at many more.
const manyStories, fewStories = 500, 500
