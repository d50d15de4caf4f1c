// Package views has the pages that people see: plain functions make view models from
// snapshots and what is said of them, and templ components place them.
//
// It decides what the first picture shows and in which words. The scripts in package
// static follow the same rules, so that a page that was live for an hour and a page
// that was loaded just now have the same text. The package knows no HTTP and no
// clock: its caller gives it the time, the addresses of static files, and a writer.
//
// The pages hold no inline style, script or handler and load nothing from
// elsewhere, so they work under the strictest Content-Security-Policy.
// Everything that a device or a process reports is text.
package views

//go:generate go tool templ generate
