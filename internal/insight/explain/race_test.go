//go:build race

package explain_test

// The race detector makes random stories ten times as expensive, and can't find anything in them: they have one goroutine.
const manyStories, fewStories = 100, 50
