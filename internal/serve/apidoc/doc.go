// Package apidoc writes the API's documents from the routes and Go types. These
// are OpenAPI 3.1 for HTTP, and AsyncAPI 3 for the WebSocket.
//
// Each fact has one source. The form of a document is a template with blanks. A
// field's type and name come from the struct, its description from the comment on the
// Go field (comments.json, which a test compares with the source), its unit and range
// from its name or a struct tag (vocabulary.json says which there are). What is said of
// the socket's messages is in events.json. Examples are golden files.
//
// The package knows no HTTP: a server names the routes and sends the bytes.
package apidoc
