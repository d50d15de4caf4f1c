// Package server answers HTTP: every route, the errors, and the middleware in
// front of them. All routes stand in [Server.routes], with what the API's
// documents say of each.
//
// It answers from the newest snapshot and knows neither who reads it nor how
// pages are made: it is handed functions. What a contract's answer looks like is
// package contract's; an answer is encoded and compressed once for each
// snapshot, when it is first asked for, and its bytes are shared from then on.
//
// Errors are application/problem+json, or a page for a browser. Their detail is
// the text of a [gpu.Advice]; what is no advice is "internal error" to people and
// goes to the log.
package server
