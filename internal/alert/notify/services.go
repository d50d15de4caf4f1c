package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A service is how messages reach one kind of target.
type service struct {
	options   string // see parseOptions
	anyOption bool   // parameters that are no options are allowed
	custom    bool   // a URL may begin with NAME+https:// too
	// public are the options that a URL in the file of rules itself may have; nil: the file may not have the URL.
	public []string
	titled bool // the service has a place for the title
	most   int  // bytes of a message; 0: mostBytes
	escape func(string) string
	// style changes how messages are written by what the URL says; may be nil.
	style func(a *address, s *style)
	// calls returns the requests that bring a message; none where the URL lacks something. Mail has none.
	calls func(a *address, title, text string) []call
}

// services are all of them, by the schemes of their URLs. In what follows "a"
// is the URL; the names in the bodies are those of the service's own API.
var services = map[string]*service{
	"bark":       {options: "title scheme sound badge:int icon group url category copy", titled: true, most: 3000, escape: asIs, calls: bark},
	"discord":    {options: "title username avatar,avatarurl color=5298687:hex colorerror:hex colorwarn:hex colorinfo:hex colordebug:hex splitlines=yes:bool json:bool thread_id", titled: true, most: 1900, escape: breakMarkup, calls: discord},
	"generic":    {options: "contenttype=application/json disabletls:bool template title titlekey=title messagekey=message method", anyOption: true, custom: true, public: []string{"contenttype", "disabletls", "messagekey", "method", "template", "titlekey"}, escape: asIs, style: genericStyle, calls: generic},
	"googlechat": {anyOption: true, escape: breakMarkup, calls: googleChat},
	"gotify":     {options: "title priority:int disabletls:bool insecureskipverify:bool useheader:bool date extras:json", titled: true, escape: asIs, calls: gotify},
	"hangouts":   {anyOption: true, escape: breakMarkup, calls: googleChat},
	"ifttt":      {options: "title events value1 value2 value3 messagevalue=2:1|2|3 titlevalue:0|1|2|3", titled: true, most: 1000, escape: asIs, calls: ifttt},
	"join":       {options: "title devices icon", titled: true, most: 2000, escape: asIs, calls: join},
	"lark":       {options: "title secret link", titled: true, escape: breakMarkup, calls: lark},
	"matrix":     {options: "title disabletls:bool rooms,room", escape: breakMarkup, calls: matrix},
	"mattermost": {options: "title icon,icon_emoji,icon_url disabletls:bool", escape: breakMarkup, calls: mattermost},
	"notifiarr":  {options: "name=gpuwhy channel thumbnail image color", anyOption: true, custom: true, escape: breakMarkup, calls: notifiarr},
	"ntfy":       {options: "title scheme tags priority=Default:Min|Low|Default|High|Max|1=Min|2=Low|3=Default|4=High|5=Max|urgent=Max actions click attach filename delay,at,in email icon cache=yes:bool firebase=yes:bool disabletls:bool disabletlsverification:bool", public: []string{"cache", "disabletls", "firebase", "priority", "scheme", "tags"}, titled: true, escape: asIs, calls: ntfy},
	"opsgenie":   {options: "title alias description responders visibleto actions tags details entity source priority note user", titled: true, escape: asIs, calls: opsgenie},
	"pagerduty":  {options: "severity=error:critical|error|warning|info source=default action=trigger:trigger|acknowledge|resolve dedup_key details:json contexts client client_url", most: 1000, escape: asIs, calls: pagerDuty},
	"pushbullet": {options: "title", titled: true, escape: asIs, calls: pushbullet},
	"pushover":   {options: "title devices priority:int", titled: true, most: 1000, escape: asIs, calls: pushover},
	"rocketchat": {anyOption: true, escape: breakMarkup, calls: rocketChat},
	"signal":     {options: "host port source recipients token disabletls:bool", most: 1900, escape: asIs, calls: signal},
	"slack":      {options: "title botname,username icon,icon_emoji,icon_url color thread_ts", titled: true, escape: func(text string) string { return breakMarkup(entities.Replace(text)) }, calls: slack},
	"smtp":       {options: "fromaddress,from fromname toaddresses,to subject,title auth=Unknown:None|Plain|CRAMMD5|OAuth2|Unknown encryption=Auto:None|ExplicitTLS|ImplicitTLS|Auto usestarttls,starttls=yes:bool usehtml:bool clienthost=localhost requirestarttls:bool skiptlsverify:bool timeout=10s", public: []string{"auth", "clienthost", "encryption", "from", "fromaddress", "fromname", "subject", "timeout", "to", "toaddresses", "usehtml", "usestarttls"}, titled: true, escape: asIs, style: mailStyle},
	"teams":      {options: "title color host", custom: true, titled: true, escape: breakMarkup, calls: teams},
	"telegram":   {options: "title preview=yes:bool notification=yes:bool parsemode:None|Markdown|HTML|MarkdownV2 chats,channels", titled: true, escape: breakMarkup, style: telegramStyle, calls: telegram},
	"wecom":      {options: "key mentioned_list mentioned_mobile_list", most: 1900, escape: breakMarkup, calls: weCom},
	"zulip":      {anyOption: true, escape: breakMarkup, calls: zulip},
}

func bark(a *address, title, text string) []call {
	body := fields{"body": text, "device_key": a.password, "title": title, "badge": a.number("badge")}
	body.with(a, "sound", "icon", "group", "url", "category", "copy")
	return []call{{url: a.at(path.Join("/", a.Path, "push")), body: body, took: is("code", 200.0)}}
}

func discord(a *address, title, text string) (out []call) {
	if a.user == "" || a.Host == "" || a.Path != "" && a.Path != "/raw" {
		return nil
	}
	to := "https://discord.com/api/webhooks/" + a.Host + "/" + a.user
	if thread := strings.TrimSpace(a.options["thread_id"]); thread != "" {
		to += "?" + url.Values{"thread_id": {thread}}.Encode()
	}
	if a.is("json") || a.Path == "/raw" {
		return []call{{url: to, body: text, header: map[string]string{"Content-Type": "application/json"}}}
	}
	lines := []string{text}
	if a.is("splitlines") {
		lines = slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
	}
	for batch := range slices.Chunk(lines, 10) {
		var embeds []fields
		for _, line := range batch {
			embeds = append(embeds, fields{"description": line, "color": a.number("color")})
		}
		embeds[0]["title"] = title
		body := fields{"embeds": embeds}.with(a, "username")
		body.set("avatar_url", a.options["avatar"])
		out = append(out, call{url: to, body: body})
	}
	return out
}

func genericStyle(a *address, s *style) { s.titled = a.options["template"] != "" }

func generic(a *address, title, text string) []call {
	to := *a.URL
	to.Scheme = "https"
	if a.secure == "http" || a.secure == "" && a.is("disabletls") {
		to.Scheme = "http"
	}
	kind := a.options["contenttype"]
	if a.options["template"] == "" {
		kind = "text/plain"
	}
	c := call{method: a.options["method"], header: map[string]string{"Content-Type": kind, "Accept": kind}}
	body, query := fields{a.options["titlekey"]: title, a.options["messagekey"]: text}, maps.Clone(a.others)
	for key, values := range a.others {
		if header, ok := strings.CutPrefix(key, "@"); ok && header != "" {
			c.header[dashes(header)] = values[0]
			delete(query, key)
		}
		if extra, ok := strings.CutPrefix(key, "$"); ok && extra != "" {
			body[extra] = values[0]
			delete(query, key)
		}
	}
	to.RawQuery = query.Encode()
	c.url = to.String()
	switch a.options["template"] {
	case "":
		c.body = text
	case "json", "JSON":
		c.body = body
	default:
		return nil
	}
	return []call{c}
}

// dashes makes a header's name of a parameter's: "acceptLanguage" is "accept-Language".
func dashes(name string) string {
	var out strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 && name[i-1] != '-' {
			out.WriteByte('-')
		}
		out.WriteRune(c)
	}
	return out.String()
}

func googleChat(a *address, _, text string) []call {
	for _, name := range []string{"key", "token"} {
		if a.others.Has(name) && a.others.Get(name) == "" {
			return nil
		}
	}
	query := url.Values{"key": {a.others.Get("key")}, "token": {a.others.Get("token")}}
	return []call{{url: a.at(a.Path) + "?" + query.Encode(), body: fields{"text": text}}}
}

var gotifyToken = regexp.MustCompile(`^A[A-Za-z0-9._-]{14}$`)

func gotify(a *address, title, text string) []call {
	folder, token := path.Split(strings.TrimSuffix(a.Path, "/"))
	if priority := a.number("priority"); !gotifyToken.MatchString(token) || priority < -2 || priority > 10 {
		return nil
	}
	c := call{url: a.at(folder + "message"), took: isJSON, unverified: a.is("insecureskipverify")}
	body := fields{"message": text, "title": title, "priority": a.number("priority"), "extras": nil}
	if extras := a.options["extras"]; extras != "" {
		body["extras"] = json.RawMessage(extras)
	}
	body.set("date", gotifyDate(a.options["date"]))
	if c.body = body; a.is("useheader") {
		c.header = map[string]string{"X-Gotify-Key": token}
	} else {
		c.url += "?" + url.Values{"token": {token}}.Encode()
	}
	return []call{c}
}

// gotifyDate returns a date as Gotify expects it; empty for what is none.
func gotifyDate(text string) string {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().Format(time.RFC3339)
		}
	}
	if unix, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(unix, 0).UTC().Format(time.RFC3339)
	}
	return ""
}

func ifttt(a *address, title, text string) (out []call) {
	if a.Hostname() == "" || a.options["titlevalue"] == a.options["messagevalue"] {
		return nil
	}
	body := fields{"value1": a.options["value1"], "value2": a.options["value2"], "value3": a.options["value3"]}
	if a.number("titlevalue") > 0 {
		body["value"+a.options["titlevalue"]] = title
	}
	body["value"+a.options["messagevalue"]] = text
	for _, event := range a.list("events") {
		out = append(out, call{url: "https://maker.ifttt.com/trigger/" + event + "/with/key/" + a.Hostname(), body: body})
	}
	return out
}

func join(a *address, title, text string) []call {
	if a.options["devices"] == "" || a.password == "" {
		return nil
	}
	query := url.Values{"deviceIds": {a.options["devices"]}, "apikey": {a.password}, "text": {text}, "title": {title}}
	if icon := a.options["icon"]; icon != "" {
		query.Set("icon", icon)
	}
	return []call{{
		url:    "https://joinjoaomgcd.appspot.com/_ah/api/messaging/v1/sendPush?" + query.Encode(),
		header: map[string]string{"Content-Type": "text/plain"},
	}}
}

func lark(a *address, title, text string) []call {
	if a.Host == "" {
		a.Host = "open.larksuite.com"
	}
	token := strings.Trim(a.Path, "/")
	if token == "" || a.Host != "open.larksuite.com" && a.Host != "open.feishu.cn" {
		return nil
	}
	post := fields{"title": title, "content": [][]fields{{{"tag": "text", "text": text}}}}
	body := fields{"msg_type": "post", "content": fields{"post": fields{"en_us": post}}}
	if secret := a.options["secret"]; secret != "" {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		sign := hmac.New(sha256.New, []byte(now+"\n"+secret)).Sum(nil)
		body["timestamp"], body["sign"] = now, base64.StdEncoding.EncodeToString(sign)
	}
	return []call{{url: a.at("/open-apis/bot/v2/hook/" + token), body: body, took: is("code", 0.0)}}
}

func mattermost(a *address, _, text string) []call {
	if a.part(0) == "" {
		return nil
	}
	body := fields{"text": text}.icon(a)
	body.set("username", a.user)
	body.set("channel", a.part(1))
	return []call{{url: a.at("/hooks/" + a.part(0)), body: body}}
}

func notifiarr(a *address, _, text string) []call {
	key := a.Host
	if a.secure != "" {
		_, rest, _ := strings.Cut(a.Path, "/passthrough/")
		key, _, _ = strings.Cut(rest, "/")
	}
	show := fields{"text": fields{"description": text}}.with(a, "color")
	if images := (fields{}).with(a, "thumbnail", "image"); len(images) > 0 {
		show["images"] = images
	}
	if channel := a.options["channel"]; channel != "" {
		id, err := strconv.Atoi(channel)
		if err != nil {
			return nil
		}
		show["ids"] = fields{"channel": id}
	}
	return []call{{
		url:    "https://notifiarr.com/api/v1/notification/passthrough/" + key,
		header: map[string]string{"Accept": "application/json"},
		body:   fields{"notification": fields{"name": a.options["name"]}, "discord": show},
	}}
}

func ntfy(a *address, title, text string) []call {
	if strings.Trim(a.Path, "/") == "" {
		return nil
	}
	c := call{url: a.at(a.Path), user: a.User, body: text, took: isJSON, unverified: a.is("disabletlsverification")}
	c.header = map[string]string{"Content-Type": "text/plain; charset=utf-8", "Title": title}
	for option, header := range map[string]string{
		"priority": "Priority", "tags": "Tags", "delay": "Delay", "actions": "Actions", "click": "Click",
		"attach": "Attach", "icon": "X-Icon", "filename": "Filename", "email": "Email",
	} {
		if value := a.options[option]; value != "" {
			c.header[header] = value
		}
	}
	for option, header := range map[string]string{"cache": "Cache", "firebase": "Firebase"} {
		if !a.is(option) {
			c.header[header] = "no"
		}
	}
	return []call{c}
}

var opsgenieID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func opsgenie(a *address, title, text string) []call {
	key := strings.TrimPrefix(a.Path, "/")
	if key == "" {
		return nil
	}
	body := fields{"message": title, "description": text}.with(a, "alias", "entity", "source", "priority", "note", "user")
	body.lists(a, "actions", "tags")
	if more := a.options["description"]; more != "" {
		body["description"] = text + "\n" + more
	}
	for option, name := range map[string]string{"responders": "responders", "visibleto": "visibleTo"} {
		var all []fields
		for _, entity := range a.list(option) { // such as team:ops, user:bob
			kind, who, _ := strings.Cut(entity, ":")
			by := map[string]string{"team": "name", "user": "username"}[kind]
			if opsgenieID.MatchString(who) {
				by = "id"
			}
			if by == "" || strings.Contains(who, ":") {
				return nil
			}
			all = append(all, fields{"type": kind, by: who})
		}
		if all != nil {
			body[name] = all
		}
	}
	details := map[string]string{}
	for _, pair := range a.list("details") {
		name, value, ok := strings.Cut(pair, ":")
		if !ok || strings.Contains(value, ":") {
			return nil
		}
		details[name] = value
		body["details"] = details
	}
	return []call{{
		url:  "https://" + a.hostPort("api.opsgenie.com", "443") + "/v2/alerts",
		body: body, header: map[string]string{"Authorization": "GenieKey " + key},
	}}
}

var pagerDutyKey = regexp.MustCompile(`^/([a-fA-F0-9]{32})$`)

func pagerDuty(a *address, _, text string) []call {
	key := pagerDutyKey.FindStringSubmatch(a.Path)
	if key == nil {
		return nil
	}
	body := fields{
		"payload":     fields{"summary": cut(text, 1024), "severity": a.options["severity"], "source": a.options["source"]},
		"routing_key": key[1], "event_action": a.options["action"],
	}.with(a, "dedup_key", "client", "client_url")
	if details := a.options["details"]; details != "" {
		body["details"] = json.RawMessage(details)
	}
	if contexts := a.options["contexts"]; json.Valid([]byte(contexts)) {
		body["contexts"] = json.RawMessage(contexts)
	} else {
		var all []fields
		for _, entry := range a.list("contexts") { // such as link:https://example.org
			kind, value, _ := strings.Cut(strings.TrimSpace(entry), ":")
			name, known := map[string]string{"link": "href", "image": "src", "text": ""}[kind]
			if !known || value == "" {
				return nil
			}
			if name != "" {
				all = append(all, fields{"type": kind, name: value})
			}
		}
		if all != nil {
			body["contexts"] = all
		}
	}
	return []call{{url: "https://" + a.hostPort("events.pagerduty.com", "443") + "/v2/enqueue", body: body}}
}

func pushbullet(a *address, title, text string) (out []call) {
	if len(a.Hostname()) != 34 {
		return nil
	}
	targets := strings.Split(strings.TrimPrefix(a.Path, "/"), "/")
	if a.Fragment != "" {
		targets = append(targets, "#"+a.Fragment)
	}
	for _, target := range targets {
		body := fields{"type": "note", "title": title, "body": text, "email": "", "channel_tag": "", "device_iden": ""}
		_, domain, email := strings.Cut(target, "@")
		switch channel, ok := strings.CutPrefix(target, "#"); {
		case email && strings.Contains(domain, "."):
			body["email"] = target
		case ok:
			body["channel_tag"] = channel
		default:
			body["device_iden"] = target
		}
		out = append(out, call{
			url: "https://api.pushbullet.com/v2/pushes", body: body, took: is("active", true),
			header: map[string]string{"Access-Token": a.Hostname()},
		})
	}
	return out
}

func pushover(a *address, title, text string) []call {
	if a.Host == "" || a.password == "" {
		return nil
	}
	form := url.Values{"device": {a.options["devices"]}, "user": {a.Host}, "token": {a.password}, "message": {text}, "title": {title}}
	if priority := a.number("priority"); priority >= -2 && priority <= 1 {
		form.Set("priority", strconv.Itoa(priority))
	}
	return []call{{url: "https://api.pushover.net/1/messages.json", body: form}}
}

func rocketChat(a *address, _, text string) []call {
	parts := strings.Split(a.Path, "/")
	if len(parts) < 3 {
		return nil
	}
	body := fields{"text": text}
	body.set("username", a.user)
	if len(parts) > 3 {
		channel := parts[3]
		if a.Fragment != "" {
			channel = a.Fragment
		}
		if a.Fragment != "" || !strings.HasPrefix(channel, "@") {
			channel = "#" + channel
		}
		body["channel"] = channel
	}
	return []call{{url: a.at("/hooks/" + parts[1] + "/" + parts[2]), body: body}}
}

var (
	signalPhone = regexp.MustCompile(`^\+?[0-9\s)(+-]+$`)
	signalGroup = regexp.MustCompile(`^group\.[a-zA-Z0-9_+/=-]+$`)
)

func signal(a *address, _, text string) []call {
	if len(a.parts) < 2 || !signalPhone.MatchString(a.part(0)) {
		return nil
	}
	var to []string
	for i, part := range a.parts[1:] { // a group's id may have slashes
		if i > 0 && strings.HasPrefix(to[len(to)-1], "group.") && !strings.HasPrefix(part, "group.") && !strings.HasPrefix(part, "+") {
			to[len(to)-1] += "/" + part
			continue
		}
		to = append(to, part)
	}
	if slices.ContainsFunc(to, func(r string) bool { return !signalPhone.MatchString(r) && !signalGroup.MatchString(r) }) {
		return nil
	}
	c := call{body: fields{"message": text, "number": a.part(0), "recipients": to}}
	a.Host = a.hostPort("localhost", "8080")
	c.url = a.at("/v2/send")
	if token := a.options["token"]; token != "" {
		c.header = map[string]string{"Authorization": "Bearer " + token}
	} else {
		c.user = a.User
	}
	return []call{c}
}

var (
	slackToken = regexp.MustCompile(`(?:(xox.|hook)[-:]|:?)([A-Z0-9]{9,})([-/,])([A-Z0-9]{9,})([-/,])([A-Za-z0-9]{24,})`)
	entities   = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
)

func slack(a *address, title, text string) []call {
	token, channel, bot := a.User.String(), a.Hostname(), ""
	if len(a.Path) > 1 {
		token, channel, bot = a.Hostname()+a.Path, "webhook", a.user
	}
	t := slackToken.FindStringSubmatch(token)
	if t == nil || t[3] != t[5] {
		return nil
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 100 {
		lines = append(lines[:99:99], strings.Join(lines[99:], "\n"))
	}
	var attachments []fields
	for _, line := range lines {
		attachments = append(attachments, fields{"text": line}.with(a, "color"))
	}
	body := fields{"text": title, "attachments": attachments}.with(a, "thread_ts").icon(a)
	body.set("username", bot)
	body.set("username", a.options["botname"])
	if channel != "webhook" {
		body["channel"] = channel
	}
	if t[1] == "" || t[1] == "hook" {
		return []call{{
			url: "https://hooks.slack.com/services/" + t[2] + "/" + t[4] + "/" + t[6], body: body,
			took: func(r reply) bool { return r.text == "" || r.text == "ok" },
		}}
	}
	return []call{{
		url: "https://slack.com/api/chat.postMessage", body: body, took: is("ok", true),
		header: map[string]string{"Authorization": "Bearer " + t[1] + "-" + t[2] + "-" + t[4] + "-" + t[6]},
	}}
}

var teamsHook = regexp.MustCompile(`^https://[a-zA-Z0-9-]+\.webhook\.office\.com/webhookb2/` +
	`[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}/[^/]+$`)

func teams(a *address, title, text string) []call {
	to := "https://" + a.options["host"] + "/webhookb2/" + a.user + "@" + a.Hostname() + "/IncomingWebhook/" + strings.Join(a.parts, "/")
	if a.secure != "" {
		to = "https://" + a.Host + a.Path
	}
	if !teamsHook.MatchString(to) {
		return nil
	}
	var sections []fields
	for line := range strings.SplitSeq(text, "\n") {
		section := fields{}
		section.set("text", line)
		sections = append(sections, section)
	}
	body := fields{
		"@type": "MessageCard", "@context": "http://schema.org/extensions", "markdown": true,
		"title": title, "summary": title, "sections": sections,
	}
	body.set("themeColor", a.options["color"])
	return []call{{url: to, body: body}}
}

var (
	telegramToken = regexp.MustCompile(`^[0-9]+:[a-zA-Z0-9_-]+$`)
	oldMarkdown   = escaper("_*`[")
	markdown      = escaper("_*[]()~`>#+-=|{}.!\\")
)

func escaper(special string) *strings.Replacer {
	var pairs []string
	for _, r := range special {
		pairs = append(pairs, string(r), `\`+string(r))
	}
	return strings.NewReplacer(pairs...)
}

func telegramStyle(a *address, s *style) {
	escape := map[string]func(string) string{"HTML": html.EscapeString, "Markdown": oldMarkdown.Replace, "MarkdownV2": markdown.Replace}
	if special := escape[a.options["parsemode"]]; special != nil {
		s.escape = func(text string) string { return breakMarkup(special(text)) }
		s.titled = a.options["parsemode"] == "HTML"
	}
}

func telegram(a *address, title, text string) (out []call) {
	token := a.user + ":" + a.password
	if !telegramToken.MatchString(token) {
		return nil
	}
	mode := a.options["parsemode"]
	if mode == "" || mode == "None" {
		mode, text = "HTML", html.EscapeString(text)
	}
	if mode == "HTML" {
		text = "<b>" + html.EscapeString(title) + "</b>\n" + text
	}
	for _, chat := range a.list("chats") {
		chat, thread, _ := strings.Cut(chat, ":")
		body := fields{
			"text": text, "chat_id": chat, "parse_mode": mode, "reply_to_message_id": 0,
			"disable_web_page_preview": !a.is("preview"), "disable_notification": !a.is("notification"),
		}
		if id, err := strconv.Atoi(thread); err == nil {
			body["message_thread_id"] = id
		}
		out = append(out, call{url: "https://api.telegram.org/bot" + token + "/sendMessage", body: body, took: is("ok", true)})
	}
	return out
}

func weCom(a *address, _, text string) []call {
	if a.Host == "" || strings.ContainsFunc(a.Host, func(r rune) bool { return unicode.IsPunct(r) && r != '-' && r != '_' || unicode.IsSymbol(r) }) {
		return nil
	}
	content := fields{"content": text}
	for _, name := range []string{"mentioned_list", "mentioned_mobile_list"} {
		if who := a.options[name]; who != "" {
			content[name] = []string{who}
		}
	}
	return []call{{
		url: "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=" + a.Host, took: is("errcode", 0.0),
		body: fields{"msgtype": "text", "text": content},
	}}
}

func zulip(a *address, _, text string) []call {
	if a.user == "" || a.password == "" || a.Hostname() == "" {
		return nil
	}
	form := url.Values{"type": {"stream"}, "to": {a.others.Get("stream")}, "content": {text}}
	if topic := a.others.Get("topic"); topic != "" {
		form.Set("topic", topic)
	}
	return []call{{url: "https://" + a.Hostname() + "/api/v1/messages", user: a.User, body: form}}
}

// matrix takes one request after the other: it logs in where the URL has a
// user, finds the rooms, and sends to each.
func matrix(a *address, _, text string) []call {
	if a.Host == "" {
		return nil
	}
	at := func(path, token string) string {
		return a.at("/_matrix/client/r0/"+path) + "?" + url.Values{"access_token": {token}}.Encode()
	}
	send := func(token, room string) call {
		return call{url: at("rooms/"+room+"/send/m.room.message", token), body: fields{"msgtype": "m.text", "body": text}, took: isJSON}
	}
	rooms := func(token string) (out []call) {
		for _, room := range a.list("rooms") {
			if !strings.HasPrefix(room, "#") && !strings.HasPrefix(room, "!") {
				room = "#" + room
			}
			out = append(out, call{url: at("join/"+room, token), body: json.RawMessage("null"), took: isJSON, then: func(r reply) []call {
				return []call{send(token, r.member("room_id"))}
			}})
		}
		if out != nil {
			return out
		}
		return []call{{method: "GET", url: at("joined_rooms", token), took: isJSON, then: func(r reply) (out []call) {
			joined, _ := r.json["joined_rooms"].([]any)
			for _, room := range joined {
				if id, ok := room.(string); ok {
					out = append(out, send(token, id))
				}
			}
			return out
		}}}
	}
	if a.user == "" {
		return rooms(a.password)
	}
	login := a.at("/_matrix/client/r0/login")
	return []call{{method: "GET", url: login, took: func(r reply) bool { return strings.Contains(r.text, `"m.login.password"`) }, then: func(reply) []call {
		body := fields{"type": "m.login.password", "identifier": fields{"type": "m.id.user", "user": a.user}, "password": a.password}
		return []call{{url: login, body: body, took: isJSON, then: func(r reply) []call { return rooms(r.member("access_token")) }}}
	}}}
}
