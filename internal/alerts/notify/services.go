package notify

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A service delivers messages to one kind of target.
type service struct {
	titled bool // it has a place for the title
	most   int  // bytes of a message; 0: mostBytes
	// escape makes text of the names of devices and processes; nil: breakMarkup.
	escape func(string) string
	// adjust changes the above by what the URL says; may be nil.
	adjust func(a *address, s *service)
	// bring posts the requests that bring a message. It reads each parameter of
	// the URL, and says what the URL needs. Mail has none.
	bring        func(a *address, title, text string, post poster)
	custom       bool     // a URL may begin with NAME+https:// too
	anyParameter bool     // parameters that bring does not read are allowed; the case of names counts
	harmless     []string // the parameters of a URL that may be in the file of rules; nil: none may be there
}

// A poster makes a request, and reports whether it was taken.
type poster func(call) (reply, bool)

// mail reports whether it is mail.
func (s *service) mail() bool { return s.bring == nil }

// services are all of them, by the schemes of their URLs.
var services = map[string]service{
	"discord": {titled: true, most: 1900, bring: discord},
	"generic": {
		escape: asIs, adjust: adjustGeneric, bring: generic, custom: true, anyParameter: true,
		harmless: []string{"contenttype", "disabletls", "messagekey", "method", "template", "titlekey"},
	},
	"googlechat": {bring: googleChat, anyParameter: true},
	"gotify":     {titled: true, escape: asIs, bring: gotify},
	"hangouts":   {bring: googleChat, anyParameter: true},
	"lark":       {titled: true, bring: lark},
	"matrix":     {bring: matrix},
	"mattermost": {bring: mattermost},
	"ntfy": {
		titled: true, escape: asIs, bring: ntfy,
		harmless: []string{"cache", "disabletls", "firebase", "priority", "scheme", "tags"},
	},
	"opsgenie":   {titled: true, escape: asIs, bring: opsgenie},
	"pagerduty":  {most: 1000, escape: asIs, bring: pagerDuty},
	"pushover":   {titled: true, most: 1000, escape: asIs, bring: pushover},
	"rocketchat": {bring: rocketChat, anyParameter: true},
	"signal":     {most: 1900, escape: asIs, bring: signal},
	"slack":      {titled: true, escape: escapeSlack, bring: slack},
	"smtp": {titled: true, escape: asIs, adjust: adjustMail, harmless: []string{
		"auth", "clienthost", "encryption", "from", "fromaddress", "fromname", "subject", "timeout", "to", "toaddresses",
		"usehtml", "usestarttls",
	}},
	"teams":    {titled: true, bring: teams, custom: true},
	"telegram": {titled: true, adjust: adjustTelegram, bring: telegram},
	"wecom":    {most: 1900, bring: weCom},
	"zulip":    {bring: zulip, anyParameter: true},
}

// replaced says what to use for services that no longer have their own form of address.
var replaced = map[string]string{
	"bark":       "write generic://api.day.app/push?template=json&messagekey=body&$device_key=DEVICEKEY",
	"ifttt":      "write generic://maker.ifttt.com/trigger/EVENT/with/key/KEY?template=json&titlekey=value1&messagekey=value2",
	"join":       "send to another service, such as ntfy://ntfy.sh/TOPIC",
	"notifiarr":  "send to the Discord channel directly: write discord://TOKEN@WEBHOOKID",
	"pushbullet": "write generic://api.pushbullet.com/v2/pushes?template=json&messagekey=body&$type=note&@accessToken=TOKEN",
}

// discordColors are those of the bar beside a message.
var discordColors = map[string]string{
	string(alert.Critical): "0xd92d20", string(alert.Warning): "0xf79009", string(alert.Info): "0x2e90fa", over: "0x12b76a",
}

func discord(a *address, title, text string, post poster) {
	split, raw := a.yes("yes", "splitlines"), a.yes("no", "json") || a.Path == "/raw"
	color, thread := a.number(16, a.byUrgency("0x50d9ff", discordColors), "color"), strings.TrimSpace(a.text("thread_id"))
	name, picture := a.text("username"), a.text("avatar", "avatarurl")
	a.ignore("colorerror", "colorwarn", "colorinfo", "colordebug")
	a.need(a.user != "" && a.Host != "" && (a.Path == "" || a.Path == "/raw"))
	hook := "https://discord.com/api/webhooks/" + a.Host + "/" + a.user
	if thread != "" {
		hook += "?" + url.Values{"thread_id": {thread}}.Encode()
	}
	if raw {
		post(call{url: hook, body: text, header: header{"Content-Type": "application/json"}})
		return
	}
	lines := []string{text}
	if split {
		lines = slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
	}
	for batch := range slices.Chunk(lines, 10) {
		var embeds []fields
		for _, line := range batch {
			embeds = append(embeds, fields{"description": line, "color": color})
		}
		embeds[0]["title"] = title
		post(call{url: hook, body: fields{"embeds": embeds}.set("username", name).set("avatar_url", picture)})
	}
}

func adjustGeneric(a *address, s *service) { s.titled = a.text("template") != "" }

func generic(a *address, title, text string, post poster) {
	plain, kind := a.yes("no", "disabletls"), a.or("application/json", "contenttype")
	body := fields{a.or("title", "titlekey"): title, a.or("message", "messagekey"): text}
	template := a.text("template")
	c := call{method: a.text("method"), body: body}
	if template == "" {
		c.body, kind = text, "text/plain"
	}
	c.header = header{"Content-Type": kind, "Accept": kind}
	query := url.Values{}
	for key, values := range a.rest {
		switch {
		case len(key) > 1 && key[0] == '@':
			c.header[capital().ReplaceAllString(key[1:], "-$0")] = values[0]
		case len(key) > 1 && key[0] == '$':
			body[key[1:]] = values[0]
		default: // __method is the receiver's own "method"
			query[strings.TrimPrefix(key, "__")] = values
		}
	}
	target := *a.URL
	target.Scheme, target.RawQuery = "https", query.Encode()
	if a.secure == "http" || a.secure == "" && plain {
		target.Scheme = "http"
	}
	c.url = target.String()
	a.need(template == "" || template == "json" || template == "JSON")
	post(c)
}

// capital is where the header of a parameter such as "acceptLanguage" has a dash.
var capital = lazy.Pattern(`\B[A-Z]`)

func googleChat(a *address, _, text string, post poster) {
	query := url.Values{}
	for _, name := range []string{"key", "token"} {
		value, given := a.lookUp(name)
		query.Set(name, value)
		a.need(!given || value != "")
	}
	post(call{url: a.endpoint(a.Path) + "?" + query.Encode(), body: fields{"text": text}})
}

var gotifyToken = lazy.Pattern(`^A[A-Za-z0-9._-]{14}$`)

// gotifyPriorities say how loud a phone is: from 4 with a sound, from 8 also over what it shows.
var gotifyPriorities = map[string]string{string(alert.Critical): "8", string(alert.Warning): "5", string(alert.Info): "2", over: "2"}

func gotify(a *address, title, text string, post poster) {
	folder, token := path.Split(strings.TrimSuffix(a.Path, "/"))
	priority := a.number(10, a.byUrgency("0", gotifyPriorities), "priority")
	extras := json.RawMessage(a.or("null", "extras"))
	body := fields{"message": text, "title": title, "priority": priority, "extras": extras}
	c := call{url: a.endpoint(folder + "message"), body: body.set("date", gotifyDate(a.text("date"))), took: isJSON}
	c.unverified = a.yes("no", "insecureskipverify")
	if a.yes("no", "useheader") {
		c.header = header{"X-Gotify-Key": token}
	} else {
		c.url += "?" + url.Values{"token": {token}}.Encode()
	}
	a.need(gotifyToken().MatchString(token) && priority >= -2 && priority <= 10)
	post(c)
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

func lark(a *address, title, text string, post poster) {
	a.ignore("link")
	host, token := cmp.Or(a.Host, "open.larksuite.com"), strings.Trim(a.Path, "/")
	a.need(token != "" && (host == "open.larksuite.com" || host == "open.feishu.cn"))
	message := fields{"title": title, "content": [][]fields{{{"tag": "text", "text": text}}}}
	body := fields{"msg_type": "post", "content": fields{"post": fields{"en_us": message}}}
	if secret := a.text("secret"); secret != "" {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		sign := hmac.New(sha256.New, []byte(now+"\n"+secret)).Sum(nil)
		body["timestamp"], body["sign"] = now, base64.StdEncoding.EncodeToString(sign)
	}
	post(call{url: "https://" + host + "/open-apis/bot/v2/hook/" + token, body: body, took: is("code", 0.0)})
}

func mattermost(a *address, _, text string, post poster) {
	a.need(a.parts[0] != "")
	body := fields{"text": text}.icon(a).set("username", a.user).set("channel", append(a.parts, "")[1])
	post(call{url: a.endpoint("/hooks/" + a.parts[0]), body: body})
}

// ntfyPriorities say how loud a phone is.
var ntfyPriorities = map[string]string{string(alert.Critical): "Max", string(alert.Warning): "High", string(alert.Info): "Default", over: "Default"}

func ntfy(a *address, title, text string, post poster) {
	c := call{url: a.endpoint(a.Path), user: a.User, body: text, took: isJSON, unverified: a.yes("no", "disabletlsverification")}
	c.header = header{
		"Content-Type": "text/plain; charset=utf-8", "Title": title, "Tags": a.text("tags"), "Delay": a.text("delay", "at", "in"),
		"Actions": a.text("actions"), "Click": a.text("click"), "Attach": a.text("attach"), "X-Icon": a.text("icon"),
		"Filename": a.text("filename"), "Email": a.text("email"),
		"Priority": a.oneOf("Min|Low|Default|High|Max|1=Min|2=Low|3=Default|4=High|5=Max|urgent=Max", a.byUrgency("Default", ntfyPriorities), "priority"),
	}
	for _, name := range []string{"cache", "firebase"} {
		if !a.yes("yes", name) {
			c.header[name] = "no"
		}
	}
	a.need(a.parts[0] != "")
	post(c)
}

var opsgenieID = lazy.Pattern(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func opsgenie(a *address, title, text string, post poster) {
	if more := a.text("description"); more != "" {
		text += "\n" + more
	}
	details := fields{}
	for _, detail := range a.list("details") {
		name, value := a.pair(detail)
		details[name] = value
	}
	body := fields{"message": title, "description": text}.add(a, "alias", "entity", "source", "priority", "note", "user").
		set("actions", a.list("actions")).set("tags", a.list("tags")).set("details", details).
		set("responders", a.entities("responders")).set("visibleTo", a.entities("visibleto"))
	key := strings.TrimPrefix(a.Path, "/")
	a.need(key != "")
	target := "https://" + a.server("api.opsgenie.com", "443") + "/v2/alerts"
	post(call{url: target, body: body, header: header{"Authorization": "GenieKey " + key}})
}

// entities are Opsgenie's teams and users, such as team:ops,user:bob.
func (a *address) entities(name string) (out []fields) {
	for _, entity := range a.list(name) {
		kind, who := a.pair(entity)
		key := map[string]string{"team": "name", "user": "username"}[kind]
		if opsgenieID().MatchString(who) {
			key = "id"
		}
		a.need(key != "")
		out = append(out, fields{"type": kind, key: who})
	}
	return out
}

// pair takes a text such as team:ops apart.
func (a *address) pair(text string) (name, value string) {
	name, value, ok := strings.Cut(text, ":")
	a.need(ok && !strings.Contains(value, ":"))
	return name, value
}

var pagerDutyKey = lazy.Pattern(`^[a-fA-F0-9]{32}$`)

var pagerDutySeverities = map[string]string{string(alert.Critical): "critical", string(alert.Warning): "warning", string(alert.Info): "info", over: "info"}

func pagerDuty(a *address, _, text string, post poster) {
	key := strings.TrimPrefix(a.Path, "/")
	a.need(pagerDutyKey().MatchString(key))
	severity := a.oneOf("critical|error|warning|info", a.byUrgency("error", pagerDutySeverities), "severity")
	body := fields{
		"payload":     fields{"summary": cut(text, 1024), "severity": severity, "source": a.or("default", "source")},
		"routing_key": key, "event_action": a.oneOf("trigger|acknowledge|resolve", "trigger", "action"),
	}.add(a, "dedup_key", "client", "client_url")
	body.set("details", json.RawMessage(a.text("details")))
	if contexts := a.text("contexts"); strings.HasPrefix(contexts, "[") {
		body["contexts"] = json.RawMessage(contexts)
	} else if contexts != "" {
		var all []fields
		for entry := range strings.SplitSeq(contexts, ",") { // such as link:https://example.org
			kind, value, _ := strings.Cut(strings.TrimSpace(entry), ":")
			name := map[string]string{"link": "href", "image": "src", "text": "text"}[kind]
			a.need(name != "" && value != "")
			if kind != "text" {
				all = append(all, fields{"type": kind, name: value})
			}
		}
		body["contexts"] = all
	}
	post(call{url: "https://" + a.server("events.pagerduty.com", "443") + "/v2/enqueue", body: body})
}

// server returns the host and the port of the URL, or others where it has none.
func (a *address) server(host, port string) string {
	return cmp.Or(a.Hostname(), host) + ":" + cmp.Or(a.Port(), port)
}

func pushover(a *address, title, text string, post poster) {
	a.need(a.Host != "" && a.password != "")
	form := url.Values{"user": {a.Host}, "token": {a.password}, "message": {text}, "title": {title}, "device": {a.text("devices")}}
	if priority := a.number(10, "0", "priority"); priority >= -2 && priority <= 1 {
		form.Set("priority", strconv.Itoa(priority))
	}
	post(call{url: "https://api.pushover.net/1/messages.json", body: form})
}

func rocketChat(a *address, _, text string, post poster) {
	parts := strings.Split(a.Path, "/")
	if len(parts) < 3 {
		return
	}
	body := fields{"text": text}.set("username", a.user)
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
	post(call{url: a.endpoint("/hooks/" + parts[1] + "/" + parts[2]), body: body})
}

var (
	signalPhone = lazy.Pattern(`^\+?[0-9\s)(+-]+$`)
	signalGroup = lazy.Pattern(`^group\.[a-zA-Z0-9_+/=-]+$`)
)

func signal(a *address, _, text string, post poster) {
	a.need(len(a.parts) > 1 && signalPhone().MatchString(a.parts[0]))
	var recipients []string
	for i, part := range a.parts[1:] { // a group's id may have slashes
		whole := strings.HasPrefix(part, "group.") || strings.HasPrefix(part, "+")
		if i > 0 && strings.HasPrefix(recipients[len(recipients)-1], "group.") && !whole {
			recipients[len(recipients)-1] += "/" + part
			continue
		}
		recipients = append(recipients, part)
	}
	for _, recipient := range recipients {
		a.need(signalPhone().MatchString(recipient) || signalGroup().MatchString(recipient))
	}
	a.Host = a.server("localhost", "8080")
	c := call{url: a.endpoint("/v2/send"), user: a.User, body: fields{"message": text, "number": a.parts[0], "recipients": recipients}}
	if token := a.text("token"); token != "" {
		c.user, c.header = nil, header{"Authorization": "Bearer " + token}
	}
	post(c)
}

var (
	slackToken = lazy.Pattern(`(?:(xox.|hook)[-:]|:?)([A-Z0-9]{9,})([-/,])([A-Z0-9]{9,})([-/,])([A-Za-z0-9]{24,})`)
	entities   = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
)

func escapeSlack(text string) string { return breakMarkup(entities.Replace(text)) }

func slack(a *address, title, text string, post poster) {
	token, channel, bot := a.User.String(), a.Hostname(), ""
	if len(a.Path) > 1 {
		token, channel, bot = a.Hostname()+a.Path, "webhook", a.user
	}
	t := slackToken().FindStringSubmatch(token)
	if t == nil || t[3] != t[5] {
		return
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 100 {
		lines = append(lines[:99:99], strings.Join(lines[99:], "\n"))
	}
	var attachments []fields
	color := a.text("color")
	for _, line := range lines {
		attachments = append(attachments, fields{"text": line}.set("color", color))
	}
	body := fields{"text": title, "attachments": attachments}.add(a, "thread_ts").icon(a)
	body.set("username", a.or(bot, "botname", "username"))
	if channel != "webhook" {
		body["channel"] = channel
	}
	if t[1] == "" || t[1] == "hook" {
		post(call{
			url: "https://hooks.slack.com/services/" + t[2] + "/" + t[4] + "/" + t[6], body: body,
			took: func(r reply) bool { return r.text == "" || r.text == "ok" },
		})
		return
	}
	post(call{
		url: "https://slack.com/api/chat.postMessage", body: body, took: is("ok", true),
		header: header{"Authorization": "Bearer " + t[1] + "-" + t[2] + "-" + t[4] + "-" + t[6]},
	})
}

var teamsHook = lazy.Pattern(`^https://[a-zA-Z0-9-]+\.webhook\.office\.com/webhookb2/` +
	`[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}/[^/]+$`)

func teams(a *address, title, text string, post poster) {
	hook := "https://" + a.text("host") + "/webhookb2/" + a.user + "@" + a.Hostname() + "/IncomingWebhook/" +
		strings.Join(a.parts, "/")
	if a.secure != "" {
		hook = "https://" + a.Host + a.Path
	}
	a.need(teamsHook().MatchString(hook))
	var sections []fields
	for line := range strings.SplitSeq(text, "\n") {
		sections = append(sections, fields{}.set("text", line))
	}
	body := fields{
		"@type": "MessageCard", "@context": "http://schema.org/extensions", "markdown": true,
		"title": title, "summary": title, "sections": sections,
	}
	post(call{url: hook, body: body.set("themeColor", a.text("color"))})
}

var (
	telegramToken = lazy.Pattern(`^[0-9]+:[a-zA-Z0-9_-]+$`)
	oldMarkdown   = lazy.Pattern("[_*`[]")
	markdown      = lazy.Pattern("[_*\\[\\]()~`>#+=|{}.!\\\\-]")
)

func telegramMode(a *address) string {
	return a.oneOf("None|Markdown|HTML|MarkdownV2", "None", "parsemode")
}

func adjustTelegram(a *address, s *service) {
	switch telegramMode(a) {
	case "HTML":
		s.escape = func(text string) string { return breakMarkup(html.EscapeString(text)) }
	case "Markdown":
		s.titled, s.escape = false, func(text string) string { return breakMarkup(oldMarkdown().ReplaceAllString(text, `\$0`)) }
	case "MarkdownV2":
		s.titled, s.escape = false, func(text string) string { return breakMarkup(markdown().ReplaceAllString(text, `\$0`)) }
	}
}

func telegram(a *address, title, text string, post poster) {
	mode := telegramMode(a)
	if mode == "None" {
		mode, text = "HTML", html.EscapeString(text)
	}
	if mode == "HTML" {
		text = "<b>" + html.EscapeString(title) + "</b>\n" + text
	}
	token, preview, notification := a.user+":"+a.password, a.yes("yes", "preview"), a.yes("yes", "notification")
	for _, chat := range a.list("chats", "channels") {
		chat, thread, _ := strings.Cut(chat, ":")
		body := fields{
			"text": text, "chat_id": chat, "parse_mode": mode, "reply_to_message_id": 0,
			"disable_web_page_preview": !preview, "disable_notification": !notification,
		}
		if id, err := strconv.Atoi(thread); err == nil {
			body["message_thread_id"] = id
		}
		post(call{url: "https://api.telegram.org/bot" + token + "/sendMessage", body: body, took: is("ok", true)})
	}
	a.need(telegramToken().MatchString(token))
}

var weComKey = lazy.Pattern(`^[A-Za-z0-9_-]+$`)

func weCom(a *address, _, text string, post poster) {
	a.need(weComKey().MatchString(a.Host))
	content := fields{"content": text}
	for _, name := range []string{"mentioned_list", "mentioned_mobile_list"} {
		if who, given := a.lookUp(name); given {
			content[name] = []string{who}
		}
	}
	post(call{
		url: "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=" + a.Host, took: is("errcode", 0.0),
		body: fields{"msgtype": "text", "text": content},
	})
}

func zulip(a *address, _, text string, post poster) {
	a.need(a.user != "" && a.password != "" && a.Hostname() != "")
	form := url.Values{"type": {"stream"}, "to": {a.text("stream")}, "content": {text}}
	if topic := a.text("topic"); topic != "" {
		form.Set("topic", topic)
	}
	post(call{url: "https://" + a.Hostname() + "/api/v1/messages", user: a.User, body: form})
}

// matrix logs in where the URL has a user, finds the rooms, and sends to each.
func matrix(a *address, _, text string, post poster) {
	names, server, token := a.list("rooms", "room"), a.endpoint("/_matrix/client/r0/"), a.password
	if a.user != "" {
		offered := func(r reply) bool { return strings.Contains(r.text, `"m.login.password"`) }
		if _, ok := post(call{method: "GET", url: server + "login", took: offered}); !ok {
			return
		}
		identifier := fields{"type": "m.id.user", "user": a.user}
		password := fields{"type": "m.login.password", "identifier": identifier, "password": a.password}
		r, ok := post(call{url: server + "login", body: password, took: isJSON})
		if !ok {
			return
		}
		token, _ = r.json["access_token"].(string)
	}
	endpoint := func(path string) string {
		return server + (&url.URL{Path: path, RawQuery: url.Values{"access_token": {token}}.Encode()}).String()
	}
	send := func(room string) {
		post(call{url: endpoint("rooms/" + room + "/send/m.room.message"), body: fields{"msgtype": "m.text", "body": text}, took: isJSON})
	}
	if names == nil {
		r, _ := post(call{method: "GET", url: endpoint("joined_rooms"), took: isJSON})
		rooms, _ := r.json["joined_rooms"].([]any)
		for _, room := range rooms {
			send(fmt.Sprint(room))
		}
	}
	for _, room := range names {
		if !strings.HasPrefix(room, "#") && !strings.HasPrefix(room, "!") {
			room = "#" + room
		}
		if r, ok := post(call{url: endpoint("join/" + room), body: json.RawMessage("null"), took: isJSON}); ok {
			id, _ := r.json["room_id"].(string)
			send(id)
		}
	}
}
