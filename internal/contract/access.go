package contract

import "time"

// User is an account.
type User struct {
	Name     string `json:"name"`                                           // the name that they sign in with
	Role     string `json:"role" enum:"viewer,operator,administrator,none"` // what they may do; none: a provider vouches for them no longer
	Scope    string `json:"scope"`                                          // the machines on which the role holds; empty for all
	Sees     string `json:"sees"`                                           // the machines that they see; empty for all
	Unix     string `json:"unix_user"`                                      // the user of the machines whose command lines they see whole; empty for none
	Disabled bool   `json:"disabled"`                                       // whether they are kept from signing in
	// How they can sign in: password, passkey, provider. Empty until they have chosen a password.
	Ways     []string `json:"ways" enum:"password,passkey,provider"`
	Sessions int      `json:"session_count"`                   // the number of browsers that they are signed in with
	Tokens   int      `json:"token_count"`                     // the number of their API tokens
	Created  string   `json:"created" format:"date-time"`      // when the account was made
	LastSeen *string  `json:"last_sign_in" format:"date-time"` // when they signed in last. Null if never
	// What is probably wrong with what was just asked for, such as machines that nobody knows. Left out if nothing is, and in lists.
	Warning string `json:"warning,omitempty"`
}

// Users answers GET /api/users.
type Users struct {
	Users []User `json:"users"` // all accounts, by name
}

// ShownCommands answers POST /api/commands/show.
type ShownCommands struct {
	Until string `json:"until" format:"date-time"` // until when the caller sees all command lines whole
}

// UserRequest is the body of POST /api/users.
type UserRequest struct {
	Name  string `json:"name" maxlength:"64"`                                 // the name to sign in with: letters, digits and ._@- only
	Role  string `json:"role,omitempty" enum:"viewer,operator,administrator"` // what they may do; viewer by default
	Scope string `json:"scope,omitempty" maxlength:"1000"`                    // the machines on which the role holds: node:NAME, cluster:NAME or label:NAME=VALUE, several with commas; empty for all
	Sees  string `json:"sees,omitempty" maxlength:"1000"`                     // the machines that they see, written likewise; empty for all
	Unix  string `json:"unix_user,omitempty" maxlength:"64"`                  // the user of the machines whose command lines they see whole
	// Their first password. Without one, the answer has a link with which they choose it.
	Password string `json:"password,omitempty" maxlength:"1000" secret:"true"`
}

// UserChange is the body of POST /api/users/{name}. What is left out stays as it is.
type UserChange struct {
	Role     *string `json:"role,omitempty" enum:"viewer,operator,administrator"` // what they may do. Null: as it is
	Scope    *string `json:"scope,omitempty" maxlength:"1000"`                    // the machines on which the role holds; empty for all. Null: as it is
	Sees     *string `json:"sees,omitempty" maxlength:"1000"`                     // the machines that they see; empty for all. Null: as it is
	Unix     *string `json:"unix_user,omitempty" maxlength:"64"`                  // the user of the machines whose command lines they see whole; empty for none. Null: as it is
	Disabled *bool   `json:"disabled,omitempty"`                                  // whether they are kept from signing in. Null: as it is
}

// AddedUser answers POST /api/users and POST /api/users/{name}/reset.
type AddedUser struct {
	User
	// The link with which they choose a password, once. Null if they have one already. Nothing shows it again.
	Link *string `json:"link" secret:"true"`
	// When the link ends. Null if there is none.
	LinkExpires *string `json:"link_expires" format:"date-time"`
}

// Token is an API token, without its value.
type Token struct {
	ID     string `json:"token_id"`                                      // the token's key
	Title  string `json:"title"`                                         // what it is for
	Access string `json:"access" enum:"metrics,read,operate,administer"` // what it may do
	Scope  string `json:"scope"`                                         // the machines that it is for; empty for all that its account has
	Path   string `json:"path"`                                          // the only address that it opens, of a picture or a card; empty for all
	User   string `json:"user"`                                          // the account that it belongs to and ends with; empty for none
	By     string `json:"by"`                                            // who made it
	Made   string `json:"made" format:"date-time"`                       // when it was made
	// When it ends. Null if never.
	Expires *string `json:"expires" format:"date-time"`
	// When it was used last, to the minute. Null if never.
	LastUsed *string `json:"last_used" format:"date-time"`
	// What is probably wrong with what was just asked for, such as machines that nobody knows. Left out if nothing is, and in lists.
	Warning string `json:"warning,omitempty"`
}

// Tokens answers GET /api/tokens.
type Tokens struct {
	Tokens []Token `json:"tokens"` // all tokens, or one's own for people who are no administrators; the newest first
}

// TokenRequest is the body of POST /api/tokens.
type TokenRequest struct {
	Title  string `json:"title" maxlength:"100"`                                   // what it is for; no two tokens have the same
	Access string `json:"access,omitempty" enum:"metrics,read,operate,administer"` // what it may do; read by default
	Scope  string `json:"scope,omitempty" maxlength:"1000"`                        // the machines that it is for, as for users; by default all that the account has
	// The only address that it opens, such as /picture.svg?gpu=0 or /embed/gpu/UUID. It is then sent as ?token= in the address.
	Path string `json:"path,omitempty" maxlength:"1000"`
	// Days until it ends, 1 to 730; 90 by default.
	Days int `json:"expires_in_days,omitempty" unit:"any" min:"1" max:"730"`
	// Whether it never ends. It must be said explicitly.
	Never bool `json:"never_expires,omitempty"`
}

// AddedToken answers POST /api/tokens.
type AddedToken struct {
	Token
	Value string `json:"token" secret:"true"` // the token itself. Nothing shows it again
}

// Session is a browser in which somebody has signed in.
type Session struct {
	ID      string `json:"session_id"`                           // the session's key
	User    string `json:"user"`                                 // their name
	Way     string `json:"way" enum:"password,passkey,provider"` // how they signed in
	Began   string `json:"began" format:"date-time"`             // when they signed in
	Seen    string `json:"last_seen" format:"date-time"`         // when it was used last
	Address string `json:"address"`                              // where from; empty if unknown
	Agent   string `json:"agent"`                                // the browser, as it names itself
	Current bool   `json:"current"`                              // whether it is the session of this request
}

// Sessions answers GET /api/sessions.
type Sessions struct {
	Sessions []Session `json:"sessions"` // all sessions, or one's own for people who are no administrators; the one that was used last first
}

// Account answers GET /api/account: who makes the request.
type Account struct {
	Name   string `json:"name"`                                          // the name that the audit and silences have
	ID     string `json:"identity"`                                      // tells apart two of the same name, such as user:7f3a or uid:1000; empty for nobody in particular
	Way    string `json:"way"`                                           // how gpuwhy recognizes them: local, open, password, passkey, provider, proxy or token
	Access string `json:"access" enum:"metrics,read,operate,administer"` // what they may do
	Scope  string `json:"scope"`                                         // the machines on which they may do more than read; empty for all
	Sees   string `json:"sees"`                                          // the machines that they see; empty for all
}

// Timestamp returns a time as answers have it.
func Timestamp(t time.Time) string { return timestamp(t) }

// OptionalTime is [Timestamp] for a time that may be zero, for which it returns nil.
func OptionalTime(t time.Time) *string { return optionalTime(t) }
