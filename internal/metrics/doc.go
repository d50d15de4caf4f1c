// Package metrics answers Prometheus: every reading of the newest snapshot as
// text, never by asking a driver.
//
// There are two families of names in one answer. Ours, gpuwhy_*, is in base
// units with the labels node and uuid; DCGM_FI_* has the names, labels and
// units of NVIDIA's dcgm-exporter, so that boards and rules made for it go on
// working. Both come from one table (see [row]), from which docs/metrics.md is
// made too.
//
// A reading that is absent has no series; zero is a sample. A device that is
// not ok has no readings, only its state. When the newest snapshot is older
// than three intervals, everything that it says is left out, and what gpuwhy
// says about itself stays.
//
// The package knows names, labels and units. What a reading means it leaves to
// gpu, and how the program itself does to whoever fills in [Self].
package metrics
