// Package apidoc writes the API's documents: OpenAPI 3.1 from the routes and the
// Go types of their answers, and AsyncAPI 3 for the WebSocket.
//
// Each fact has one source. A field's type, whether it may be null, and its JSON
// name come from the struct by reflection. Its description is the comment on the Go
// field (comments.json, which a test compares with the source). Its unit and range
// follow from its name, as the contracts promise; if a contract's name does not say
// them, from a struct tag. Examples are golden files.
//
// The package knows no HTTP: a server names the routes and sends the bytes.
package apidoc
