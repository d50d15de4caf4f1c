package store

import "context"

type ownKey struct{}

// Own says that the program itself asks, and nobody who may be slow to take the answer: a store that has few connections keeps
// some for such questions.
func Own(ctx context.Context) context.Context { return context.WithValue(ctx, ownKey{}, true) }

// IsOwn reports whether [Own] has said so.
func IsOwn(ctx context.Context) bool { return ctx.Value(ownKey{}) != nil }
