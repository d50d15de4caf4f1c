// Package server answers HTTP: it has every route, the errors, and the middleware.
// [Server.routes] lists all routes, with the access that each needs and its text
// in the API's documents.
//
// It answers from the newest Moments. It does not know who reads the devices or
// how pages are made: its Config has functions for that. Package contract decides
// what answers look like. An answer is encoded and compressed once for each Moment
// or fleet, when somebody first asks for it, and all clients share its bytes.
//
// Below /node/{node} the same routes answer about one node ([Server.ofNode]).
//
// Errors are application/problem+json, or a page for a browser. Their detail is
// the text of a [gpu.Advice]. Any other error is "internal error" to people, and
// goes to the log.
package server
