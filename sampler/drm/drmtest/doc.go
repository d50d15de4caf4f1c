// Package drmtest builds fake machines for the tests of sources that read sysfs and procfs. They have the folders and links that the
// kernel has for graphics cards on the PCI bus, and for processes that have them open. The test decides what a card's files say.
package drmtest
