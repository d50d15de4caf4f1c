// Package views has the page kit: view models, and the templ components that place them.
//
// It decides what pages show and in which words. A page is a function of the newest Moments, the alerts, the recent past and the choices
// in its address ([Choices]). It is complete before a script runs, and readable without one. Scripts write no words and make no rows, so
// a page that was live for an hour and a page that was loaded just now have the same text. The package knows no HTTP and no clock: its
// caller gives it the time, the addresses of static files, and a writer.
//
// The pages hold no inline style, script or handler and load nothing from elsewhere, so they work under the strictest
// Content-Security-Policy.
// Everything that a device or a process reports is text.
//
// Words, numbers and units are English everywhere, so decimals have a point. A no-break space joins a number and its unit. Times are UTC in
// <time> elements, and static/moments.js rewrites them in the reader's time zone and format. The page of the past is different: its times
// are in the zone that the page names, since people ask about "last night" on a machine.
//
// Package live patches pages that are open. So that it finds an element again, everything that comes, goes or moves has a data-key or an
// id, and text that changes often has an element of its own.
package views

//go:generate go tool templ generate -include-version=false
