// Package drmtest makes up machines for the tests of sources that read sysfs and procfs:
// the folders and links that the kernel has for graphics cards on the PCI bus, and for
// processes that have them open. What the files of a card say is up to the test.
package drmtest
