package main

// Libraries that parts in work need. Whoever uses one deletes its line.
import (
	_ "github.com/yuin/goldmark"
)
