// Package views has the page kit: view models, and the templ components that place them. Plain
// functions turn snapshots and their explanations into view models, and templ components lay the
// view models out.
//
// It decides what a page shows and how it is worded. Scripts write no words and make no rows,
// so a page that has been live for an hour reads the same as
// one that was just loaded. The package knows no HTTP and no clock: callers pass in
// the time, the addresses of static files and a writer.
//
// Pages have no inline style, script or event handler and load nothing from other
// sites, so they work under the strictest Content-Security-Policy. Whatever a device
// or a process reports is shown as text, never as markup.
//
// Words, numbers and units are English everywhere, so decimals have a point. A no-break space joins a number and its unit. Times are UTC in
// <time> elements, and static/moments.js rewrites them in the reader's time zone and format. The page of the past is different: its times
// are in the zone that the page names, since people ask about "last night" on a machine.
//
// Package live patches pages that are open. So that it finds an element again, everything that comes, goes or moves has a data-key or an
// id, and text that changes often has an element of its own.
package views

//go:generate go tool templ generate -include-version=false
