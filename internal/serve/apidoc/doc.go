// Package apidoc writes the API's documents from the routes and Go types. These are OpenAPI 3.1 for
// HTTP, and AsyncAPI 3 for the WebSocket.
//
// Each fact has one source. The form of a document is a template with blanks. A field's type and
// name come from the struct, its description from the comment on the Go field (comments.json, which
// a test compares with the source), and its unit and range from its name or a struct tag
// (vocabulary.json lists them). The texts about the socket's messages are in events.json. Examples
// are golden files.
//
// The package knows nothing about HTTP: a server names the routes and sends the bytes.
package apidoc
