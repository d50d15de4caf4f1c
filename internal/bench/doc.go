// Package bench has benchmarks of what many viewers cost: gpuwhy's hub compared with servers
// that do less and more. Each runs in its own process, and its viewers in others. The results
// are ratios within one run; docs/performance.md lists them.
package bench
