// Package action declares and runs everything that people and programs can change. An [Action] is declared once: who may do it, what it is
// done to, with which arguments, and how it is asked for. Addresses of the API, their twins for forms, messages of the socket,
// questions between the programs of a fleet, and the documents of all of these are made of the declaration by those who own such a door.
//
// Whatever door a call comes through, [Desk.Run] does it: it checks the principal, has it recorded, and does it here or
// asks the program that has the target. The package knows no action itself.
package action

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// An Action is one thing that somebody can do.
type Action struct {
	// ID is its name in the fleet, in records, and in the document of the API. It never changes.
	ID    string
	Needs auth.Access // what a principal needs; an action that says nothing is allowed to nobody
	// Target is what it is done to; the zero Kind: the program itself.
	Target Kind
	Func   // its arguments, and what does it; see [Takes]

	// Node names the node that has the target of a call. If another program reads that node, that program is asked.
	// nil: what does it sees to that itself, as where a target is at several nodes.
	Node func(c *Call) string
	// Remote says that other programs of the fleet may ask for it here.
	Remote bool

	// HTTP is its address, such as "DELETE /api/alerts/{id}"; the parameter is that of its Target. Empty: it has none.
	HTTP string
	// Form is a POST for pages whose forms can't send the method of HTTP, with its summary. Empty: it has none.
	Form Form
	// Event is the message that asks for it on the socket; nil: none does.
	Event *apidoc.Event

	Doc
}

// A Form is an address that does the same for forms.
type Form struct{ HTTP, Summary string }

// Doc is what the documents say of an action.
type Doc struct {
	Tag     string // the group of addresses that it belongs to
	Summary string // a few words
	Text    apidoc.Text
	Body    apidoc.Body   // its Example and Required; the type is that of the arguments
	Answer  apidoc.Answer // where it is done; without a type it is empty
	Refuses []Refused     // what it refuses beyond what any action does
	Misfit  *Refusal      // an example of the refusal of a value that an argument can't have
}

// Refused is a refusal with what it means for one action.
type Refused struct {
	*Refusal
	Means string
}

// A Kind is what an action can be done to.
type Kind struct {
	Name  string           // "alert"
	Param apidoc.Parameter // that names it in an address
}

// Node is the kind of a machine, by its name.
var Node = Kind{"node", apidoc.InPath("node", "Name of the machine.", "workstation")}

// Func is what does an action, with the type of its arguments.
type Func struct {
	// Args is a value of the type of its arguments, a struct with names in JSON; nil: it takes none.
	Args any
	read func(decode func(into any) error) (any, error)
	do   func(ctx context.Context, c *Call) (any, error)
}

// Takes returns the Func of a function that takes its arguments as a struct, and returns what became of it: a value that is
// encoded as JSON, or nil where there is nothing to say. A struct without fields: it takes none.
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

// A Refusal is why an action was not done, for whoever asked for it. It is an error with a name that programs know.
type Refusal struct {
	Code      string // its name between programs, such as "unknown"
	Status    int    // of HTTP
	Field     string // the argument that is at fault; empty: none
	What, Try string // for people, as in [gpu.Advice]
}

// Error implements error.
func (r *Refusal) Error() string { return strings.TrimSpace(r.Field + " " + r.What) }

// Advice is the refusal for people.
func (r *Refusal) Advice() gpu.Advice { return gpu.Advice{What: r.Error(), Try: r.Try} }

// Answer describes the refusal in the document of the API.
func (r *Refusal) Answer(means string) apidoc.Answer {
	advice := r.Advice()
	return apidoc.Answer{Status: r.Status, Description: means, Detail: advice.Text()}
}

// Denied is the refusal for a principal that may not do something.
var Denied = &Refusal{Code: "denied", Status: http.StatusForbidden, What: "you may not do this here", Try: "ask whoever runs gpuwhy"}

// codeInvalid is the code of what [Invalid] returns.
const codeInvalid = "invalid"

// Invalid returns the refusal of a value that an argument can't have. What continues a sentence that begins with the field.
func Invalid(field, what string) *Refusal {
	return &Refusal{Code: codeInvalid, Status: http.StatusUnprocessableEntity, Field: field, What: what, Try: "/docs says what it may be"}
}

// A Question is an action that one program of a fleet asks another for, or something else that only programs ask (package talk).
// Fields are only added: what is not known is ignored, and a question of an earlier version is answered.
type Question struct {
	Ask    string          `json:"ask"`             // the action's ID
	Order  json.RawMessage `json:"order,omitempty"` // its arguments
	Target string          `json:"target,omitempty"`
	Asker  *auth.Principal `json:"by,omitempty"` // who wants it done; nil in those of earlier versions
}
