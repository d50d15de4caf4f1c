// Package drm reads what the kernel reports about graphics cards in the same way for every driver: which cards exist, their small files,
// sensors and link, whether they sleep, and which processes use them. Packages amd and intel read what their drivers report beyond that.
//
// # Files
//
// A driver answers when one of its files is read, and may hang. So all reads below a card belong in the card's own call of package
// perdevice. The exceptions are the PCI core files that [Finder.Cards] and [Card.Asleep] read: they wake nothing and ask no driver. A
// [Folder] reads each file in one call, and [Quality] says what an error means for a reading.
//
// # Processes
//
// [Holders] walks /proc once for all sources, and finds open descriptors of cards without asking a driver. A [Meter] reads the fdinfo of
// one card's descriptors, which asks its driver and may wake it, so that belongs in the card's own call, too.
package drm
