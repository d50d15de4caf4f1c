package views

import (
	"net/url"
	"strings"
)

// known are browsers and systems by the words in what browsers say of themselves; those whose words others have too come last.
var (
	knownBrowsers = [][2]string{{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"}, {"gpuwhy/", "gpuwhy"}}
	knownSystems  = [][2]string{{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"}}
)

// Browser returns the browser and system of a User-Agent header, such as "Firefox on Linux"; of an unknown one the header itself.
func Browser(agent string) string {
	find := func(list [][2]string) string {
		for _, one := range list {
			if strings.Contains(agent, one[0]) {
				return one[1]
			}
		}
		return ""
	}
	switch browser, system := find(knownBrowsers), find(knownSystems); {
	case browser == "":
		return agent
	case system == "":
		return browser
	default:
		return browser + " on " + system
	}
}

// toParameter is the query that says where to go after signing in.
func toParameter(to string) string {
	if to == "" || to == "/" {
		return ""
	}
	return "?to=" + url.QueryEscape(to)
}
