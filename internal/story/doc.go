// Package story has the stories that say whether gpuwhy's answers are right: files
// about machines over time, which its tests play on the whole program. See README.md.
package story
