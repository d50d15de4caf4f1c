// Package story tests with stories whether gpuwhy's answers are right. A story is a
// file about machines over time, which the tests play on the whole program. See README.md.
package story
