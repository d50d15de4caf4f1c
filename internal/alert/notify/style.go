package notify

import (
	"html"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"unicode"
)

// A style is how messages are written for a service.
type style struct {
	titled bool // the service has a place for the title
	most   int  // bytes that a message may have
	// escape makes text out of what devices and processes are called, where
	// the service would read markup or mentions.
	escape func(string) string
}

// titled are the services that show a title apart. Zulip's would be a new topic
// for each.
var titled = []string{"bark", "discord", "gotify", "ifttt", "join", "lark", "ntfy", "opsgenie", "pushbullet", "pushover", "slack", "smtp", "teams", "telegram"}

// The most bytes that a message has. Phones and chats cut what is longer, or
// refuse it.
const mostBytes = 3500

var shorter = map[string]int{"bark": 3000, "discord": 1900, "join": 2000, "ifttt": 1000, "pagerduty": 1000, "pushover": 1000, "signal": 1900, "wecom": 1900}

// styleOf reads from an address how its messages are to be written.
func styleOf(s Secret) style {
	scheme := s.scheme()
	out := style{titled: slices.Contains(titled, scheme), most: mostBytes, escape: breakMarkup}
	if n, ok := shorter[scheme]; ok {
		out.most = n
	}
	options := url.Values{}
	if u, err := url.Parse(string(s)); err == nil {
		for key, values := range u.Query() {
			options.Set(strings.ToLower(key), strings.ToLower(values[0]))
		}
	}
	switch scheme {
	case "bark", "gotify", "ifttt", "join", "ntfy", "opsgenie", "pagerduty", "pushbullet", "pushover", "signal":
		out.escape = asIs
	case "generic":
		out.escape, out.titled = asIs, options.Get("template") != ""
	case "slack":
		out.escape = func(text string) string { return breakMarkup(entities.Replace(text)) }
	case "smtp":
		out.escape = asIs
		if slices.Contains([]string{"yes", "true", "1"}, options.Get("usehtml")) {
			out.escape = html.EscapeString
		}
	case "telegram":
		switch options.Get("parsemode") {
		case "html":
			out.escape = func(text string) string { return breakMarkup(html.EscapeString(text)) }
		case "markdown":
			out.titled, out.escape = false, func(text string) string { return breakMarkup(oldMarkdown.Replace(text)) }
		case "markdownv2":
			out.titled, out.escape = false, func(text string) string { return breakMarkup(markdown.Replace(text)) }
		}
	}
	return out
}

func asIs(text string) string { return text }

var (
	entities    = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	oldMarkdown = escaper("_*`[")
	markdown    = escaper("_*[]()~`>#+-=|{}.!\\")
)

func escaper(special string) *strings.Replacer {
	var pairs []string
	for _, r := range special {
		pairs = append(pairs, string(r), `\`+string(r))
	}
	return strings.NewReplacer(pairs...)
}

// apart is a space without width.
const apart = "\u200b"

// breakMarkup takes the meaning from mentions and links that hide where they
// lead, and leaves the text readable: chats differ in what they have escapes
// for.
var breakMarkup = strings.NewReplacer("@", "@"+apart, "<", "<"+apart, "](", "]"+apart+"(").Replace

// clean makes one line of text: without what is not to be seen, or would turn
// the text around it.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
	}), " ")
}

// lines cleans text, and leaves its lines.
func lines(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\t' {
				return -1
			}
			return r
		}, strings.TrimRight(line, " \t\r\n")))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// escaped is a message whose texts are for a service.
func (m Message) escaped(escape func(string) string) Message {
	m.Events = slices.Clone(m.Events)
	for i := range m.Events {
		e := &m.Events[i]
		for _, text := range []*string{&e.Rule, &e.What, &e.Node, &e.Device, &e.UUID, &e.Name, &e.Value, &e.Threshold, &e.Message, &e.Why, &e.Advice} {
			*text = escape(*text)
		}
	}
	return m
}

// templates make a title and a message; nil: the default ones.
type templates struct{ title, message *template.Template }

var (
	titleByDefault   = template.Must(parseTemplate("", defaultTitle))
	messageByDefault = template.Must(parseTemplate("", defaultMessage))
)

// templatesOf parses a target's templates, which have been checked.
func templatesOf(t *Target) (out templates, err error) {
	if t.Title != "" {
		if out.title, err = parseTemplate(t.Title, ""); err != nil {
			return out, err
		}
	}
	if t.Message != "" {
		out.message, err = parseTemplate(t.Message, "")
	}
	return out, err
}

// mostEvents is how many alerts a message tells one by one.
const mostEvents = 20

// write makes the title and the text of a message of events, which has as many
// of them as there is room for.
func (t templates) write(s style, events []Event, about circumstances) (title, body string, err error) {
	for n := min(len(events), mostEvents); n > 0; n-- {
		if title, body, err = t.one(s, message(events, n, about)); err != nil {
			return "", "", err
		}
		if len(title)+len(body) < s.most {
			break
		}
	}
	return title, shorten(body, s.most-len(title)-1), nil
}

func (t templates) one(s style, m Message) (title, body string, err error) {
	if title, err = run(t.title, titleByDefault, s, m); err != nil {
		return "", "", err
	}
	if body, err = run(t.message, messageByDefault, s, m); err != nil {
		return "", "", err
	}
	title, body = oneLine(title), lines(body)
	if title == "" {
		title = "gpuwhy"
	}
	if body == "" {
		body = title
	}
	return title, body, nil
}

// run executes a template, whose own text may be markup for the service, or the
// default one, of which nothing is.
func run(t, fallback *template.Template, s style, m Message) (string, error) {
	if t != nil {
		return execute(t, m.escaped(s.escape))
	}
	text, err := execute(fallback, m)
	return s.escape(text), err
}

// oneLine is a title on one line, in which break marks stay.
func oneLine(text string) string {
	return cut(strings.Join(strings.Fields(lines(text)), " "), longestTitle)
}

// shorten cuts text to a number of bytes.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, most-len("…"))], "") + "…"
}
