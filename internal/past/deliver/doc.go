// Package deliver brings the past of the nodes of a fleet into one store. On a node an [Outbox] stands before the store that the
// past is written to: what is written there also becomes parcels, which are kept until a stream of NATS has them. Elsewhere any
// number of [Collector] take them from that stream and write them into a store for all nodes.
//
// A parcel may arrive twice, and after a later one. It has a number that grows on its node, and the store keeps what has the
// larger one (see [store.Batch]), so that the end is the same. What is small state of a program, and what it has yet to do, stays
// at the node; each store forgets by itself.
package deliver
