package fleet

import "github.com/gpuwhy/gpuwhy/internal/fleet/bus"

// A Carrier carries the past of nodes to where that of a fleet is written.
type Carrier struct{ *bus.Bus }

// Stream is the name of the stream that the past passes.
func (Carrier) Stream() string { return bus.PastStream }

// Subject is that of the past of a node.
func (Carrier) Subject(node string) string { return bus.Past(node) }

// NodeOf is the node whose past comes on a subject. It is an error where that is none.
func (Carrier) NodeOf(subject string) (node string, err error) { return bus.NodeOfSubject(subject) }
