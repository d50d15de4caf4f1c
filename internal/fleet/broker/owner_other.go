//go:build !unix

package broker

// giveOwner has nothing to do where files have no such owners.
func (*Authority) giveOwner() error { return nil }
