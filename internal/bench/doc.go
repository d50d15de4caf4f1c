// Package bench compares what many viewers cost gpuwhy's hub, and servers that do less or more.
// Each runs in its own process, and its viewers in others. The results are ratios within one run;
// docs/performance.md lists them.
package bench
