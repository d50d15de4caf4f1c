package broker

import (
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
)

// A Kind is the role of a program in the fleet.
type Kind string

// The kinds.
const (
	Node     Kind = "node"
	Hub      Kind = "hub"
	Recorder Kind = "recorder"
	// own is the program with the server: a hub and a recorder that also publishes its own machine, under any name, and
	// deletes removed nodes from the bucket.
	own Kind = "server"
)

const api = "$JS.API."

// streamSubjects returns JetStream's subjects for one stream.
func streamSubjects(stream string, operations ...string) (subjects []string) {
	for _, operation := range operations {
		subjects = append(subjects, api+operation+"."+stream)
	}
	return subjects
}

// making returns the subjects that Prepare needs.
func making() (subjects []string) {
	for _, stream := range []string{bus.BucketStream, bus.EventStream, bus.PastStream} {
		subjects = append(subjects, streamSubjects(stream, "STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE")...)
	}
	return append(subjects, api+"INFO")
}

// consuming returns the subjects that a reader of a stream needs.
func consuming(stream string) []string {
	return append(streamSubjects(stream+".>", "CONSUMER.CREATE", "CONSUMER.INFO", "CONSUMER.DELETE", "CONSUMER.MSG.NEXT", "DIRECT.GET"),
		append(streamSubjects(stream, "CONSUMER.CREATE", "DIRECT.GET", "STREAM.MSG.GET"), "$JS.ACK."+stream+".>", "$JS.FC."+stream+".>")...)
}

// Permissions returns everything that a program may do. A node publishes under its own token, answers questions
// to it, and may not ask JetStream for anything: it does not learn about other nodes.
func Permissions(kind Kind, name string) jwt.Permissions {
	var p jwt.Permissions
	if kind == Node {
		p.Pub.Allow.Add(bus.Live(name), bus.Event(name), bus.Past(name), bus.Key(name))
		p.Sub.Allow.Add(bus.Ask(name), bus.Hubs, bus.Inbox(name)+".>")
		p.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
		return p
	}
	p.Pub.Allow.Add(making()...)
	p.Sub.Allow.Add("_INBOX.>")
	if kind == Hub || kind == own {
		p.Pub.Allow.Add(append(consuming(bus.BucketStream), consuming(bus.EventStream)...)...)
		p.Pub.Allow.Add(bus.AllAsk, bus.Hubs)
		p.Sub.Allow.Add(bus.AllLive, bus.Hubs)
	}
	if kind == Recorder || kind == own {
		p.Pub.Allow.Add(consuming(bus.PastStream)...)
	}
	if kind == own {
		p.Pub.Allow.Add(bus.AllLive, bus.AllEvents, bus.AllKeys)
		p.Sub.Allow.Add(bus.AllAsk)
		p.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
	}
	return p
}
