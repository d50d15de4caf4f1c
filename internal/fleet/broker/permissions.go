package broker

import (
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
)

// A Kind is what a program of the fleet is.
type Kind string

// The kinds.
const (
	Node     Kind = "node"
	Hub      Kind = "hub"
	Recorder Kind = "recorder"
	// own is the program with the server: a hub and a recorder, which also takes removed nodes out of the bucket. It reads its
	// own machine too, whose name may change: it may publish as any.
	own Kind = "server"
)

const api = "$JS.API."

// of are subjects of JetStream about one stream.
func of(stream string, operations ...string) (subjects []string) {
	for _, operation := range operations {
		subjects = append(subjects, api+operation+"."+stream)
	}
	return subjects
}

// making is what Prepare asks for.
func making() (subjects []string) {
	for _, stream := range []string{bus.BucketStream, bus.EventStream, bus.PastStream} {
		subjects = append(subjects, of(stream, "STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE")...)
	}
	return append(subjects, api+"INFO")
}

// consuming is what who reads a stream asks for.
func consuming(stream string) []string {
	return append(of(stream+".>", "CONSUMER.CREATE", "CONSUMER.INFO", "CONSUMER.DELETE", "CONSUMER.MSG.NEXT", "DIRECT.GET"),
		append(of(stream, "CONSUMER.CREATE", "DIRECT.GET", "STREAM.MSG.GET"), "$JS.ACK."+stream+".>", "$JS.FC."+stream+".>")...)
}

// Permissions are what a program may do, and nothing else. A node publishes under its own token, answers questions
// to it, and asks JetStream for nothing: it does not learn that there are others.
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
		p.Pub.Allow.Add(bus.AllKeys, bus.AllLive, bus.AllEvents)
		p.Sub.Allow.Add(bus.AllAsk)
		p.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
	}
	return p
}
