// Package views is the page that people look at: view models made from
// snapshots by plain functions, and templ components that place them.
//
// It decides what is shown and in which words, for the first paint. What the
// scripts in package static change afterwards follows the same rules, so that
// a page that was kept live and one that was loaded just now are the same to
// the letter. It knows no HTTP, no wire format and no clock: a handler gives it
// the time, the addresses of static files, and a writer.
//
// The pages hold no inline style, script or handler and load nothing from
// elsewhere, so they work under the strictest Content-Security-Policy.
// Whatever a device or a process reports is text.
package views

//go:generate go tool templ generate
