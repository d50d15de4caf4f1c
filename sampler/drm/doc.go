// Package drm reads what the kernel reports about graphics cards in the same way for every driver.
// It finds the cards, their small files, sensors and link, whether they sleep, and which processes
// use them. Packages amd and intel know the rest, which differs by driver.
//
// # Files
//
// Reading one of a driver's files asks the driver, which may hang. So code that reads files of a
// card belongs in that card's own call of package perdevice. The exceptions are the
// files of the PCI core that [Finder.Cards] and [Card.Asleep] read: they wake nothing and
// ask no driver. A [Folder] reads each file in one call, and [Quality] says what an error
// means for a reading.
//
// # Processes
//
// [Holders] walks /proc once for all sources, and finds descriptors of cards without
// asking a driver. A [Meter] reads the fdinfo of those of one card, which asks its driver
// and may wake it, so it belongs into the card's own call, too.
package drm
