// Package action declares and runs everything that people and programs can change. An [Action] is declared once: who may do it,
// its target, its arguments, and how to request it. The packages that own the doors derive everything else from that declaration:
// API addresses, their twins for forms, socket messages, questions between the programs of a fleet, and the documents about all
// of these.
//
// Whichever door a call comes through, [Desk.Run] handles it: it checks the principal, records the call, and runs it here or asks
// the program that has the target. The package itself knows no action.
package action

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// An Action is one thing that somebody can do.
type Action struct {
	// ID is its name in the fleet, in records and in the API's document. It never changes.
	ID    string
	Needs auth.Access // the access that a principal needs; if unset, nobody may do it
	// Own says that somebody with an account may do it to what is their own, whatever it needs: the implementation refuses the rest.
	Own bool
	// Pace refuses a call that comes too soon after others of the same principal, before anything of it is recorded. nil: any number may come.
	Pace func(c *Call) error
	// Target is what it acts on; the zero Kind: the program itself.
	Target Kind
	Func   // its arguments and its implementation; see [Takes]

	// Node returns the node that has the target of a call. If another program reads that node, that program is
	// asked. nil: the implementation handles this itself, for example because a target is on several nodes.
	Node func(c *Call) string
	// Reach returns the nodes that a call acts on, where the target of Node does not tell. It may complete the call's arguments so that
	// they reach less. Its error refuses the call; [ErrEverywhere] says that it may reach any node. nil: the call acts on the node of
	// Node; without that, everywhere.
	Reach func(c *Call) (nodes []string, err error)
	// Remote says that other programs of the fleet may request it here.
	Remote bool
	// Urgent says that it is done even if it can't be recorded, because not doing it would be dangerous. The log has it first, and
	// the audit as soon as it can be written.
	Urgent bool

	// HTTP is its address, such as "DELETE /api/alerts/{id}", with the parameter of its Target. Empty: it has none.
	HTTP string
	Form Form
	// Event is the socket message that requests it; nil: there is none.
	Event *apidoc.Event
	// Command requests it from a shell. Every action with an HTTP address has one.
	Command Command

	Doc
}

// Targeted reports whether the HTTP address names a target.
func (a *Action) Targeted() bool { return strings.Contains(a.HTTP, a.Target.inAddress()) }

// Request returns the method and the escaped path of the HTTP address for a target. The target does not matter if the action is not
// [Action.Targeted].
func (a *Action) Request(target string) (method, path string) {
	method, path, _ = strings.Cut(a.HTTP, " ")
	return method, strings.Replace(path, a.Target.inAddress(), url.PathEscape(target), 1)
}

// A Command is how a shell requests an action: gpuwhy do NAME TARGET, with a flag for each argument.
type Command struct {
	// Name is what people write after gpuwhy do, such as "acknowledge". Two words are a command of their own: "user add" is
	// gpuwhy user add. No two actions have the same.
	Name string
	// Argument is the field of the arguments that people write without a flag; empty: none.
	Argument string
	// Done tells people what was done, from the answer as JSON; see [Tell]. nil: the description of the answer does.
	Done func(answer []byte) (string, error)
}

// Tell makes a [Command.Done] from a function of the answer, whose text has no final line break.
func Tell[A any](tell func(answer *A) string) func([]byte) (string, error) {
	return func(text []byte) (string, error) {
		answer := new(A)
		if err := json.Unmarshal(text, answer); err != nil {
			return "", fmt.Errorf("the answer can't be read: %w", err)
		}
		return tell(answer), nil
	}
}

// A Form is what a browser sends where no script runs.
type Form struct {
	// Shown answers with a page that shows the answer, where it must not be in an address. nil: the browser is led back to a page.
	Shown func(w http.ResponseWriter, r *http.Request, answer any) error
	// HTTP is a POST that does the same, for pages whose forms can't send the method of the action, with its summary. Empty: there is none.
	HTTP, Summary string
	// Lists are the fields that may be there several times, Numbers those that are numbers, Switches those that are "true" or "false".
	Lists, Numbers, Switches []string
	// Back is where a form leads back to that names its page so: a path below the base path, of one of our pages, whatever the form
	// says. nil: the dashboard.
	Back func(page string) string
}

// Doc is what the documents say about an action.
type Doc struct {
	Tag     string // the group of addresses that it belongs to
	Summary string // a few words
	Text    apidoc.Text
	Body    apidoc.Body   // its Example and Required; the type is that of the arguments
	Answer  apidoc.Answer // the answer when it is done; without a type it is empty
	Refuses []Refused     // refusals beyond those that every action has
	Misfit  *Refusal      // an example of refusing an invalid argument
}

// Refused is a refusal and its meaning for one action.
type Refused struct {
	*Refusal
	Means string
}

// A Kind is a kind of target.
type Kind struct {
	Name  string           // "alert"
	Param apidoc.Parameter // names the target in an address
}

// inAddress is the place of the target in an HTTP address.
func (k *Kind) inAddress() string { return "{" + k.Param.Name + "}" }

// Node is the kind of a machine, by its name.
var Node = Kind{"node", apidoc.InPath("node", "Name of the machine.", "workstation")}

// Func is an action's implementation with the type of its arguments.
type Func struct {
	// Args is a value of the arguments' type, a struct with JSON names; nil: it takes none. Fields with a secret have the tag
	// secret:"true"; no record has their values.
	Args any
	read func(decode func(into any) error) (any, error)
	do   func(ctx context.Context, c *Call) (any, error)
}

// Takes makes a Func from a function that takes its arguments as a struct and returns the result: a value to encode as
// JSON, or nil if there is nothing to say. A struct without fields means no arguments.
func Takes[A any](do func(ctx context.Context, c *Call, args A) (any, error)) Func {
	var none any = *new(A)
	if _, empty := none.(struct{}); empty {
		none = nil
	}
	return Func{
		Args: none,
		read: func(decode func(into any) error) (any, error) {
			var args A
			err := decode(&args)
			return args, err
		},
		do: func(ctx context.Context, c *Call) (any, error) {
			args, ok := c.Args.(A)
			if !ok && c.Args != nil {
				return nil, fmt.Errorf("%s does not take %T", c.Action, c.Args)
			}
			return do(ctx, c, args)
		},
	}
}

// Read returns the arguments that decode reads into a pointer to their type.
func (f Func) Read(decode func(into any) error) (any, error) { return f.read(decode) }

// A Refusal says why an action was not done. It is an error with a code that programs know.
type Refusal struct {
	Code      string // its name for programs, such as "unknown"
	Status    int    // of HTTP
	Field     string // the argument that is at fault; empty: none
	What, Try string // for people, as in [gpu.Advice]
}

// Error implements error.
func (r *Refusal) Error() string { return strings.TrimSpace(r.Field + " " + r.What) }

// Is reports whether another refusal has the same code: programs tell refusals apart by it.
func (r *Refusal) Is(other error) bool {
	o, ok := other.(*Refusal)
	return ok && o.Code == r.Code
}

// Advice is the refusal for people.
func (r *Refusal) Advice() gpu.Advice { return gpu.Advice{What: r.Error(), Try: r.Try} }

// Answer describes the refusal in the API's document.
func (r *Refusal) Answer(means string) apidoc.Answer {
	advice := r.Advice()
	return apidoc.Answer{Status: r.Status, Description: means, Detail: advice.Text()}
}

// Denied is the refusal for a principal that may not do something.
var Denied = &Refusal{Code: "denied", Status: http.StatusForbidden, What: "you may not do this here", Try: "ask the person who runs gpuwhy"}

// Unsigned is the refusal for a hub that does not sign its questions. It has its own code, since hubs of earlier versions show their own words
// instead of the reason for each code that they know.
var Unsigned = &Refusal{
	Code: "unsigned", Status: http.StatusForbidden,
	What: "the hub's gpuwhy is too old to sign its questions, so this machine lets it only read", Try: "update gpuwhy on the hub",
}

// Lacks returns a refusal like [Denied] that says which access a principal lacks.
func Lacks(who *auth.Principal, needed auth.Access) *Refusal {
	r := *Denied
	r.What = fmt.Sprintf("%s: it needs the access %q, and you have %q", Denied.What, needed, who.Access)
	if who.Access <= 0 {
		r.What = fmt.Sprintf("%s: it needs the access %q", Denied.What, needed)
	}
	if who.Way == auth.Token {
		r.Try = "use a token with more access; 'gpuwhy token add' makes one"
	}
	return &r
}

// because returns the refusal with another reason. Without other advice it keeps its own.
func (r *Refusal) because(what, try string) *Refusal {
	other := *r
	other.What, other.Try = what, cmp.Or(try, r.Try)
	return &other
}

// codeInvalid is the code of what [Invalid] returns.
const codeInvalid = "invalid"

// Invalid returns the refusal of an invalid argument. what continues a sentence that begins with the field's name, and says which values are
// allowed, so that nobody has to look for them.
func Invalid(field, what string) *Refusal {
	return &Refusal{Code: codeInvalid, Status: http.StatusUnprocessableEntity, Field: field, What: what}
}

// A Question is an action that one program of a fleet requests from another, or something else that only programs ask (package
// talk). Fields are only ever added: unknown ones are ignored, and questions of earlier versions are answered.
type Question struct {
	Ask    string          `json:"ask"`             // the action's ID
	Order  json.RawMessage `json:"order,omitempty"` // its arguments
	Target string          `json:"target,omitempty"`
	Asker  *auth.Principal `json:"by,omitempty"` // who wants it done; nil from earlier versions
}
