// Package bus connects a program of a fleet to NATS. It knows the subjects, the streams, the bucket and who uses each of
// them, the credentials file, and what a person can do if the connection fails. It does not know the content of
// messages.
package bus

import (
	"fmt"
	"strings"
)

const (
	prefix = "gpuwhy.v1."

	// Hubs is the subject on which hubs announce themselves and their version.
	Hubs = prefix + "hub"
	// Bucket is the key-value bucket with the newest whole state of each node, under [Token].
	Bucket = "gpuwhy_nodes"
	// BucketStream is the stream that keeps the bucket.
	BucketStream = "KV_" + Bucket
	// EventStream keeps the events of all nodes for a while.
	EventStream = "GPUWHY_EVENTS"
	// PastStream keeps the past of nodes until a recorder has stored it.
	PastStream = "GPUWHY_PAST"

	// AllLive matches the newest states of all nodes.
	AllLive = prefix + "live.*"
	// AllEvents matches the events of all nodes.
	AllEvents = prefix + "event.*"
	// AllPast matches the past of all nodes.
	AllPast = prefix + "past.*"
	// AllAsk matches questions to all nodes.
	AllAsk = prefix + "ask.*"
	// AllKeys matches the states in the bucket.
	AllKeys = "$KV." + Bucket + ".*"
)

// Live returns the subject of a node's newest state, as it changes.
func Live(node string) string { return prefix + "live." + Token(node) }

// Event returns the subject of a node's events, such as alerts.
func Event(node string) string { return prefix + "event." + Token(node) }

// Past returns the subject of a node's past.
func Past(node string) string { return prefix + "past." + Token(node) }

// Ask returns the subject of questions to a node.
func Ask(node string) string { return prefix + "ask." + Token(node) }

// Key returns the subject that puts a node's state into the bucket.
func Key(node string) string { return "$KV." + Bucket + "." + Token(node) }

// Inbox returns the prefix of the subjects on which a node gets answers, such as that a stream has stored its message.
func Inbox(node string) string { return "_INBOX_" + Token(node) }

const digits = "0123456789ABCDEF"

// plain reports whether a byte is not escaped in a token.
func plain(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
}

// Token returns a node's name as one token of a subject and as a key of the bucket: bytes other than letters, digits
// and - become =XX, with capital digits. Different names have different tokens. An empty name has no token.
func Token(node string) string {
	var b strings.Builder
	for i := range len(node) {
		if c := node[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'=', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// NodeOf returns the name with a [Token]. A text that is no name's token is an error, and so is an empty one.
func NodeOf(token string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '=' && i+2 < len(token) {
			high, low := strings.IndexByte(digits, token[i+1]), strings.IndexByte(digits, token[i+2])
			if high >= 0 && low >= 0 && !plain(byte(high<<4|low)) {
				b.WriteByte(byte(high<<4 | low))
				i += 2
				continue
			}
		}
		if !plain(c) {
			return "", fmt.Errorf("%.300q is not a node's token: byte %d is wrong", token, i)
		}
		b.WriteByte(c)
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("%q is not a node's token: it is empty", token)
	}
	return b.String(), nil
}

// NodeOfSubject returns the node that a subject is about: its last token is the node's.
func NodeOfSubject(subject string) (string, error) {
	return NodeOf(subject[strings.LastIndexByte(subject, '.')+1:])
}
