// Package apidoc writes the API's documents: OpenAPI 3.1 from the routes and the
// Go types of their answers, and AsyncAPI 3 for the WebSocket.
//
// Nothing is said twice. A field's type, whether it may be null, and its JSON
// name come from the struct by reflection; its description is the comment on
// the Go field (comments.json, which a test compares with the source); its unit
// and range follow from its name, as the contracts promise, or from a struct
// tag where a contract's name does not tell; examples are golden files.
//
// It knows no HTTP: a server says which routes there are and sends the bytes.
package apidoc
