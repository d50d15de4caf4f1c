// Package deliver brings the past of a fleet's nodes into one store. On a node, an [Outbox] wraps the store that the past is
// written to: everything written also becomes parcels, which are kept until a NATS stream has stored them. Elsewhere, any
// number of [Collector] read that stream and write the parcels into one store for all nodes.
//
// A parcel may arrive twice, and after a later one. Its number grows on its node, and the store keeps the data with the larger
// number (see [store.Batch]), so that the result is the same. A program's small state and pending work stay on the node. Each
// store deletes old data on its own.
package deliver
