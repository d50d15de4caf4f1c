// Package auth has the types that say who makes a request (principal), what they
// may do (access) and what they may see (audience), and the check of foreign
// origins. Package server decides who a principal is, in one place. This package
// imports none of ours, so that every package may use its types.
package auth

import (
	"context"
	"net/http"
)

// Access is what a route needs, and how much a principal may do. Each level
// includes those before it. The zero value is no access, and every route must
// declare one.
type Access int

// The levels of access.
const (
	Read       Access = iota + 1 // see what gpuwhy knows
	Operate                      // acknowledge and silence alerts
	Administer                   // change devices and gpuwhy itself
)

// An Audience is a group of people who see the same. A Moment is encoded once for
// each audience in use.
// What is hidden from an audience is decided when an answer is encoded. Today
// there is one exception: sampler/host masks command lines when it reads them.
type Audience string

// Everything is the audience from which nothing is hidden.
const Everything Audience = "everything"

// A Principal is who makes a request. The zero value may do and see nothing.
type Principal struct {
	Name     string // what an alert or a silence says of who changed it
	Access   Access
	Audience Audience
}

// LocalOwner makes every request where no sign-in is configured.
func LocalOwner() Principal { return Principal{"local owner", Administer, Everything} }

type principalKey struct{}

// NewContext returns a context that carries the principal.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the principal that the context carries, if it carries one.
func FromContext(ctx context.Context) (Principal, bool) {
	if p, ok := ctx.Value(principalKey{}).(*Principal); ok {
		return *p, true
	}
	return Principal{}, false
}

// FromRequest returns the principal of a request that package server has accepted,
// such as one that upgrades to a WebSocket.
func FromRequest(r *http.Request) Principal {
	p, _ := FromContext(r.Context())
	return p
}
