// Package metrics answers Prometheus with every reading of the newest snapshot. A scrape never asks
// a driver.
//
// An answer has two families of names. gpuwhy_* is in base units. DCGM_FI_* has the names, labels
// and units of NVIDIA's dcgm-exporter, so that dashboards and rules made for it work here too. Both
// come from one table (see [row]), and so does docs/metrics.md. Package catalog names the metrics
// of a device.
//
// An absent reading has no series; zero is a sample. A device that is not ok has no readings, only
// its state. When the newest snapshot is older than three intervals, the answer has only what
// gpuwhy says about itself.
package metrics
