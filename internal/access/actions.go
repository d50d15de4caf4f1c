package access

import (
	"net/http"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// The kinds of targets.
var (
	UserKind    = action.Kind{Name: "user", Param: apidoc.InPath("name", "The account's name.", "ann")}
	TokenKind   = action.Kind{Name: "token", Param: apidoc.InPath("id", "The token's token_id.", "5d41402abc4b2a76")}
	SessionKind = action.Kind{Name: "session", Param: apidoc.InPath("id", "The session's session_id.", "b94d27b9934d3e08")}
)

// The refusals.
var (
	noUser    = &action.Refusal{Code: "no_user", Status: http.StatusNotFound, What: "there is no account with this name", Try: "gpuwhy user list and the page /users have the names"}
	noToken   = &action.Refusal{Code: "no_token", Status: http.StatusNotFound, What: "there is no such token", Try: "gpuwhy token list and the page /tokens have their IDs"}
	noSession = &action.Refusal{Code: "no_session", Status: http.StatusNotFound, What: "there is no such session", Try: "gpuwhy session list and the page /sessions have their IDs"}

	userTaken  = &action.Refusal{Code: "user_taken", Status: http.StatusConflict, Field: "name", What: "is that of another account", Try: "choose another name"}
	titleTaken = &action.Refusal{Code: "title_taken", Status: http.StatusConflict, Field: "title", What: "is that of another token", Try: "choose another title, or remove the other token first"}
	meanwhile  = &action.Refusal{Code: "changed_meanwhile", Status: http.StatusConflict, What: ledger.ErrConflict.Error(), Try: "look at it again, and repeat the change if it still makes sense"}
	lastOne    = &action.Refusal{
		Code: "last_administrator", Status: http.StatusConflict, What: "nobody else could administer gpuwhy then: this is the last administrator who can sign in",
		Try: "make another administrator first, or run the command on the machine itself as the user who runs gpuwhy",
	}
	// tooMuch has the reason added; see [Room.asked].
	tooMuch       = &action.Refusal{Code: "too_much", Status: http.StatusForbidden, What: "nobody may give away more than they have", Try: "ask for less, or ask an administrator"}
	tooManyTokens = &action.Refusal{Code: "too_many_tokens", Status: http.StatusConflict, What: "there are too many tokens", Try: "remove some of them"}
)

// defaultDays is how long a token is valid, in days, if nothing is said.
const defaultDays = 90

// mostTokens is how many tokens there may be in all, and mostOwnTokens how many an account may have of them, so that no viewer can use up
// everybody's.
const mostTokens, mostOwnTokens = 1000, 50

// Actions returns the actions on accounts, tokens and sessions, in the order of the documents.
func (s *AdminSite) Actions() []action.Action {
	r := s.Room // nil where they are only declared
	noSuchUser := action.Refused{Refusal: noUser, Means: "There is no such account."}
	last := action.Refused{Refusal: lastOne, Means: "It is the last administrator who can sign in."}
	changed := action.Refused{Refusal: meanwhile, Means: "Somebody else changed it at the same time."}
	gone := func(what string) apidoc.Answer {
		return apidoc.Answer{Status: http.StatusNoContent, Description: what}
	}
	badRole := action.Invalid("role", `is "boss", which is none of viewer, operator and administrator`)
	list := []action.Action{
		{
			ID: "addUser", Target: UserKind, Func: action.Takes(r.addUser), HTTP: "POST /api/users",
			Form:    action.Form{Back: leadsTo("/users"), Shown: s.showUser},
			Command: action.Command{Name: "user add", Argument: "name", Done: action.Tell(tellAddedUser)},
			Doc: action.Doc{
				Summary: "Add an account",
				Text:    "Without a password, the answer has a link with which they choose one. Nothing shows the link again.",
				Body:    apidoc.Body{Required: true}, Answer: created("The account.", contract.AddedUser{}), Misfit: badRole,
				Refuses: []action.Refused{{Refusal: userTaken, Means: "There is an account with this name."}},
			},
		},
		{
			ID: "changeUser", Target: UserKind, Func: action.Takes(r.changeUser), HTTP: "POST /api/users/{name}",
			Form:    action.Form{Switches: []string{"disabled"}, Back: leadsTo("/users")},
			Command: action.Command{Name: "user change", Done: action.Tell(tellUser("Changed"))},
			Doc: action.Doc{
				Summary: "Change an account",
				Text:    "What is left out stays as it is. The change is in effect at once: connections that are open end, and their pages ask again.",
				Body:    apidoc.Body{Required: true}, Answer: answers("The account.", contract.User{}), Misfit: badRole,
				Refuses: []action.Refused{noSuchUser, last, changed},
			},
		},
		{
			ID: "removeUser", Target: UserKind, Func: action.Takes(r.removeUser), HTTP: "DELETE /api/users/{name}",
			Form:    action.Form{HTTP: "POST /api/users/{name}/remove", Summary: "Remove an account", Back: leadsTo("/users")},
			Command: action.Command{Name: "user remove"},
			Doc: action.Doc{
				Summary: "Remove an account",
				Text:    "Its sessions and its tokens end with it, at once.",
				Answer:  gone("The account is removed."), Refuses: []action.Refused{noSuchUser, last, changed},
			},
		},
		{
			ID: "resetUser", Target: UserKind, Func: action.Takes(r.resetUser), HTTP: "POST /api/users/{name}/reset",
			Form:    action.Form{Back: leadsTo("/users"), Shown: s.showUser},
			Command: action.Command{Name: "user reset", Done: action.Tell(tellAddedUser)},
			Doc: action.Doc{
				Summary: "Make a link with which somebody chooses a new password",
				Text:    "The link works once. Nothing shows it again.",
				Answer:  answers("The account and the link.", contract.AddedUser{}), Refuses: []action.Refused{noSuchUser, changed, {Refusal: errVouched, Means: "A provider vouches for the account."}},
			},
		},
		{
			ID: "endSessions", Own: true, Target: UserKind, Func: action.Takes(r.endAllSessions), HTTP: "DELETE /api/users/{name}/sessions",
			Form:    action.Form{HTTP: "POST /api/users/{name}/sessions/end", Summary: "End all sessions of an account", Back: leadsTo("/sessions")},
			Command: action.Command{Name: "session end-all"},
			Doc: action.Doc{
				Summary: "End all sessions of an account",
				Text:    "Administrators may end those of everybody, others their own. Connections that are open end at once.",
				Answer:  gone("They have ended."), Refuses: []action.Refused{noSuchUser},
			},
		},
		{
			ID: "endSession", Own: true, Target: SessionKind, Func: action.Takes(r.endOneSession), HTTP: "DELETE /api/sessions/{id}",
			Form:    action.Form{HTTP: "POST /api/sessions/{id}/end", Summary: "End a session", Back: leadsTo("/sessions")},
			Command: action.Command{Name: "session end"},
			Doc: action.Doc{
				Summary: "End a session",
				Text:    "Administrators may end those of everybody, others their own. Connections that are open end at once.",
				Answer:  gone("It has ended."), Refuses: []action.Refused{{Refusal: noSession, Means: "There is no such session."}},
			},
		},
		{
			ID: "addToken", Own: true, Target: TokenKind, Func: action.Takes(r.addToken), HTTP: "POST /api/tokens",
			Form:    action.Form{Numbers: []string{"expires_in_days"}, Switches: []string{"never_expires"}, Back: leadsTo("/tokens"), Shown: s.showToken},
			Command: action.Command{Name: "token add", Argument: "title", Done: action.Tell(tellAddedToken)},
			Doc: action.Doc{
				Summary: "Make an API token",
				Text:    "Nothing shows it again. A token of an account ends with the account, and never may do more than the account.",
				Body:    apidoc.Body{Required: true}, Answer: created("The token.", contract.AddedToken{}),
				Misfit: action.Invalid("expires_in_days", "must be from 1 to 730"),
				Refuses: []action.Refused{
					{Refusal: titleTaken, Means: "There is a token with this title."}, {Refusal: tooMuch, Means: "Whoever asks has less access, or on fewer machines."},
					{Refusal: tooManyTokens, Means: "There are already too many tokens."},
				},
			},
		},
		{
			ID: "removeToken", Own: true, Target: TokenKind, Func: action.Takes(r.removeToken), HTTP: "DELETE /api/tokens/{id}",
			Form:    action.Form{HTTP: "POST /api/tokens/{id}/remove", Summary: "Remove an API token", Back: leadsTo("/tokens")},
			Command: action.Command{Name: "token remove"},
			Doc: action.Doc{
				Summary: "Remove an API token",
				Text:    "Connections that are open with it end at once.",
				Answer:  gone("The token is removed."), Refuses: []action.Refused{{Refusal: noToken, Means: "There is no such token."}},
			},
		},
		{
			ID: "showCommands", Func: action.Takes(r.showCommands), HTTP: "POST /api/commands/show",
			Form:    action.Form{Back: backToProcesses},
			Command: action.Command{Name: "show-commands", Done: action.Tell(tellShown)},
			Doc: action.Doc{
				Summary: "Show all command lines",
				Text: "For an hour, whoever asks sees the command lines of all people's processes whole, in the session or with the token of the request, without " +
					"secrets. Only machines that this gpuwhy itself reads have them, unless --show-commands is none. Each time is in the audit.",
				Answer:  answers("Until when they are shown.", contract.ShownCommands{}),
				Refuses: []action.Refused{{Refusal: nobodyShown, Means: "gpuwhy can't tell the caller apart from others."}, {Refusal: noneShown, Means: "gpuwhy keeps no command lines."}},
			},
		},
		{
			ID: "hideCommands", Func: action.Takes(r.hideCommands), HTTP: "POST /api/commands/hide",
			Form:    action.Form{Back: backToProcesses},
			Command: action.Command{Name: "hide-commands"},
			Doc: action.Doc{
				Summary: "Hide command lines again",
				Text:    "Ends what POST /api/commands/show began, at once.",
				Answer:  gone("They are as --show-commands says."),
			},
		},
	}
	tooOften := action.Refused{Refusal: tooFast, Means: "Whoever asks has changed too much of their own in a short time."}
	for i := range list {
		if list[i].Own {
			list[i].Pace = func(c *action.Call) error { return r.paced(&c.Principal) }
			list[i].Refuses = append(list[i].Refuses, tooOften)
		}
		list[i].Needs, list[i].Tag = auth.Administer, contract.ClientAccess.Name
		if list[i].Misfit == nil {
			list[i].Misfit = badRole
		}
	}
	return list
}

// backTo leads a form back to the page that it is on.
func leadsTo(path string) func(string) string { return func(string) string { return path } }

// backToProcesses leads a form back to one of the pages with processes.
func backToProcesses(page string) string {
	if page == "now" {
		return "/"
	}
	return "/processes"
}

func answers(description string, value any) apidoc.Answer {
	return apidoc.Answer{Status: http.StatusOK, Description: description, ContentType: "application/json", Of: value}
}

func created(description string, value any) apidoc.Answer {
	a := answers(description, value)
	a.Status = http.StatusCreated
	return a
}

func tellUser(done string) func(*contract.User) string {
	return func(u *contract.User) string {
		text := done + ": " + u.Name + ", " + u.Role
		if u.Scope != "" {
			text += " of " + u.Scope
		}
		if u.Sees != "" {
			text += ", sees " + u.Sees
		}
		if u.Disabled {
			text += ", disabled"
		}
		return text + warned(u.Warning)
	}
}

func tellAddedUser(u *contract.AddedUser) string {
	text := tellUser("Account")(&u.User)
	if u.Link != nil {
		text += "\nTo choose a password, open this once, at the host of gpuwhy"
		if u.LinkExpires != nil {
			text += ", until " + local(*u.LinkExpires)
		}
		text += ":\n" + *u.Link
	}
	return text
}

func tellShown(s *contract.ShownCommands) string {
	return "You see all command lines of this machine whole, until " + local(s.Until) + "."
}

func tellAddedToken(t *contract.AddedToken) string {
	ends := "never ends"
	if t.Expires != nil {
		ends = "ends " + local(*t.Expires)
	}
	what := "Token " + t.ID + " (" + t.Title + "): access " + t.Access + ", " + ends + ". Nothing shows it again:\n"
	if t.Path == "" {
		return what + t.Value + warned(t.Warning)
	}
	separator := "?"
	if strings.Contains(t.Path, "?") {
		separator = "&"
	}
	return what + t.Path + separator + "token=" + t.Value + warned(t.Warning)
}

// warned is a warning on a line of its own, if there is one.
func warned(warning string) string {
	if warning == "" {
		return ""
	}
	return "\nWarning: " + warning + "."
}

// local is a time of an answer for people at this machine.
func local(timestamp string) string {
	t, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return timestamp
	}
	return t.Local().Format("2006-01-02 15:04 MST") //nolint:gosmopolitan // of the person who reads
}
