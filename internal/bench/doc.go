// Package bench has the tests that say what many viewers cost: gpuwhy's hub beside servers
// that do less and more, each in a process of its own, their viewers in others. What it
// reports are ratios within one run; docs/performance.md has them.
package bench
