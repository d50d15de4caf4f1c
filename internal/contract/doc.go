// Package contract turns Moments into the messages and answers that clients expect. Each contract
// has a file with its own types, whose comments say which address they answer, and pure functions
// from [insight.Moment] or [insight.Fleet] to them.
//
// Fields may be added. They are never renamed or removed, and never change their type. Every
// measured value may be null, which is not 0. Counts, ids, names and times are never null. Units
// are in the names: *_mb is MiB (2^20 bytes), power is watts, clocks are MHz, utilizations are
// percent.
package contract
