// Package views makes the pages that people see. Plain functions turn snapshots and
// their explanations into view models, and templ components lay the view models out.
//
// It decides what a page shows and how it is worded. The scripts in package static
// follow the same rules, so a page that has been live for an hour reads the same as
// one that was just loaded. The package knows no HTTP and no clock: callers pass in
// the time, the addresses of static files and a writer.
//
// Pages have no inline style, script or event handler and load nothing from other
// sites, so they work under the strictest Content-Security-Policy. Whatever a device
// or a process reports is shown as text, never as markup.
package views

//go:generate go tool templ generate -include-version=false
