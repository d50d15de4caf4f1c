package views

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A Shell is the frame around every page: header, navigation and footer.
type Shell struct {
	in      *Input
	Current string // name of the page in the header, such as "Alerts"; empty if the header does not list it
	Class   string // class of the body
	Still   bool   // the page does not update, so it does not say how fresh it is
	Status  string // state of the machine: "live", "starting" or "none"
	Pages   []ShellPage
	Data    []Link // links in the footer, before those of every page
	Lasting string // the choices that browsers remember for this page, with their values: "sort=power,memory color=power"
}

// A ShellPage is a page in the navigation.
type ShellPage struct {
	Name, Path, Icon string
	Here             bool
	Wide             bool // not in the navigation bar on phones
	Count            string
	Bad              bool // one of the counted alerts is critical
}

// A Link is an address with a label.
type Link struct{ Path, Label string }

// shell returns the shell of the page named current.
func (in *Input) shell(current string) Shell {
	s := Shell{in: in, Current: current, Status: "live", Lasting: lasting[current]}
	switch in.status() {
	case gpu.StatusStarting:
		s.Status = "starting"
	case gpu.StatusNoGPU:
		s.Status = "none"
	}
	open := in.everywhere
	if in.only == nil {
		open = in.open()
	}
	bad := slices.ContainsFunc(open, func(a alert.Alert) bool { return a.Severity == alert.Critical })
	count := either(len(open) > 0, strconv.Itoa(len(open)), "")
	page := func(name, path, icon string) *ShellPage {
		s.Pages = append(s.Pages, ShellPage{Name: name, Path: in.BasePath + path, Icon: icon, Here: name == current})
		return &s.Pages[len(s.Pages)-1]
	}
	page("Now", "", "now")
	page("Past", "past", "clock")
	page("Processes", "processes", "list")
	alerts := page("Alerts", "alerts", "bell")
	alerts.Count, alerts.Bad = count, bad
	if len(in.Nodes) > 1 {
		page("Fleet", "nodes", "node").Wide = true
	}
	page("About", "about", "info").Wide = true
	return s
}

// status sums up what the page is about.
func (in *Input) status() gpu.Status {
	if in.Fleet.Unseen() {
		return in.Fleet.Status()
	}
	return in.Nodes.Status()
}

// accessPages returns the pages about who may do what that whoever looks can use. It alone decides who finds them.
func (in *Input) accessPages() (out []Link) {
	base, all := cmp.Or(in.Root, in.BasePath), in.administered()
	if !in.Sight.SignedIn {
		return all
	}
	out = []Link{{base + "account", "Account"}}
	if all == nil { // they see their own
		all = []Link{{base + "tokens", "Tokens"}, {base + "sessions", "Sessions"}}
	}
	return append(out, all...)
}

// administered returns the pages about what belongs to others, for those who may change that; nil for everybody else.
func (in *Input) administered() []Link {
	if !in.Accounts || !in.Sight.MayOnAll(auth.Administer) {
		return nil
	}
	base := cmp.Or(in.Root, in.BasePath)
	return []Link{{base + "users", "Users"}, {base + "tokens", "Tokens"}, {base + "sessions", "Sessions"}, {base + "audit", "Audit"}}
}

// accessShell is the shell of these pages, which stay as they are.
func (in *Input) accessShell() Shell {
	s := in.shell("")
	s.Still = true
	return s
}

// lasting lists the choices that browsers remember, by the name of their page.
var lasting = map[string]string{
	"Now":       lasts("sort", sorts, func(s *deviceOrder) string { return s.name }) + " " + lasts("color", colors, func(c *deviceColor) string { return c.name }),
	"Processes": lasts("sort", processSorts(), valueOf) + " " + lasts("group", processGroups, valueOf),
	"Alerts":    lasts("group", groupings, valueOf),
}

func valueOf(c *Choice) string { return c.Value }

// lasts writes a choice with its values, except the empty default.
func lasts[T any](name string, list []T, value func(*T) string) string {
	values := slices.DeleteFunc(each(list, value), func(v string) bool { return v == "" })
	return name + "=" + strings.Join(values, ",")
}

// manifest returns the address of the web app manifest, with which browsers install the page.
func (in *Input) manifest() string { return in.BasePath + "manifest.webmanifest" }

// guide returns the address of a page of the guide, which may have an anchor; of its first page if the name is empty.
func (in *Input) guide(page string) string {
	return strings.TrimSuffix(cmp.Or(in.Root, in.BasePath)+"guide/"+page, "/")
}

// kiosk reports whether the page is for a wall display, which nobody touches.
func (in *Input) kiosk() bool { return in.Get("kiosk") != "" }

// badge names the kind of readings in a word, and explains it in a sentence; both are empty for live readings
// of this machine.
func badge(kind gpu.Kind) (word, why string) {
	switch kind {
	case gpu.Simulated:
		return "Simulated", "These GPUs and processes are made up: a simulation was requested."
	case gpu.Recorded:
		return "Recorded", "This is not live data from this machine: a recording is being played, as requested."
	}
	return "", ""
}

// icons are drawings of 16 by 16 units, by name.
var icons = map[string]string{
	"now":    `<path d="M1.8 8.5h2.7L6.6 3l3 10 2-4.5h2.6"/>`,
	"clock":  `<circle cx="8" cy="8" r="6.2"/><path d="M8 4.6V8l2.3 1.5"/>`,
	"list":   `<path d="M2.5 4h11M2.5 8h11M2.5 12h7"/>`,
	"bell":   `<path d="M4 7a4 4 0 0 1 8 0c0 3.5 1.5 4.5 1.5 4.5h-11S4 10.5 4 7zM6.7 13.6a1.4 1.4 0 0 0 2.6 0"/>`,
	"node":   `<rect x="2" y="2.5" width="12" height="4.5" rx="1.2"/><rect x="2" y="9" width="12" height="4.5" rx="1.2"/><path d="M4.6 4.75v.01m0 6.49v.01"/>`,
	"info":   `<circle cx="8" cy="8" r="6.2"/><path d="M8 7.4v3.6M8 5v.01"/>`,
	"find":   `<circle cx="7" cy="7" r="4.5"/><path d="M10.4 10.4L14 14"/>`,
	"theme":  `<circle cx="8" cy="8" r="6"/><path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor"/>`,
	"pause":  `<path d="M5.5 3.5v9M10.5 3.5v9"/>`,
	"resume": `<path d="M5 3l8 5-8 5z"/>`,
	"more":   `<path d="M3 8v.01M8 8v.01M13 8v.01" stroke-width="2.6"/>`,
	"copy":   `<rect x="5.5" y="5.5" width="8" height="8" rx="1.8"/><path d="M10.5 3.3a1.5 1.5 0 0 0-1.3-.8H4A1.5 1.5 0 0 0 2.5 4v5.2c0 .6.3 1 .8 1.3"/>`,
	"chip":   `<rect x="4" y="4" width="8" height="8" rx="1.5"/><path d="M6.5 1.8V4m3-2.2V4m-3 8v2.2m3-2.2v2.2M1.8 6.5H4m-2.2 3H4m8-3h2.2M12 9.5h2.2"/>`,
	"person": `<circle cx="8" cy="5.5" r="2.7"/><path d="M2.8 14a5.2 5.2 0 0 1 10.4 0"/>`,
	"temp":   `<path d="M6.3 9.2V3.6a1.7 1.7 0 0 1 3.4 0v5.6a3 3 0 1 1-3.4 0z"/><path d="M8 6.5v5"/>`,
	"bolt":   `<path d="M8.8 1.8L3.6 9h4l-.6 5.2L12.4 7h-4z"/>`,
	"fan":    `<g fill="currentColor" stroke="none"><path d="M8 7C7 4.8 7.5 2.4 9.8 2c1.6 1.3 1.2 3.7-.9 5.2z"/><path transform="rotate(120 8 8)" d="M8 7C7 4.8 7.5 2.4 9.8 2c1.6 1.3 1.2 3.7-.9 5.2z"/><path transform="rotate(240 8 8)" d="M8 7C7 4.8 7.5 2.4 9.8 2c1.6 1.3 1.2 3.7-.9 5.2z"/></g>`,
	"film":   `<rect x="2" y="3.5" width="12" height="9" rx="1.5"/><path d="M6.8 6.2v3.6L9.8 8z"/>`,
	"warn":   `<path d="M8 2.2L14.5 13.4H1.5z"/><path d="M8 6.6v3M8 11.5v.01"/>`,
	"bad":    `<circle cx="8" cy="8" r="6.2"/><path d="M5.8 5.8l4.4 4.4m0-4.4l-4.4 4.4"/>`,
	"share":  `<path d="M8 10V2.2M5.2 4.8L8 2l2.8 2.8M3 9v3.5A1.5 1.5 0 0 0 4.5 14h7a1.5 1.5 0 0 0 1.5-1.5V9"/>`,
	"pin":    `<path d="M6 2.5h4l-.6 4 2.1 2.3H4.5L6.6 6.5zM8 9v5"/>`,
	"moon":   `<path d="M13 9.6A5.6 5.6 0 0 1 6.4 3a5.6 5.6 0 1 0 6.6 6.6z"/>`,
	"close":  `<path d="M4 4l8 8m0-8l-8 8"/>`,
}

// shell returns the shell of the start page, or of a device's own page.
func (p Page) shell() Shell { return p.in.shell(either(p.Device == nil, "Now", "")) }

// shell returns the shell of the page of the past, which does not update.
func (p PastPage) shell() Shell {
	s := p.in.shell("Past")
	s.Class, s.Still = "of-past", true
	s.Data = append(p.Data(), Link{p.in.BasePath + "api/gpu/forecast", "Forecasts"})
	return s
}
