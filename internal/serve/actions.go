package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/strictjson"
)

// actionRoutes are the addresses of the actions, in their order. Of neighbors that have a twin for forms, the twins stand together
// after all of them.
func (s *Server) actionRoutes() (routes []Route) {
	var twins []Route
	for a := range s.cfg.Actions.Actions() {
		if a.HTTP == "" {
			continue
		}
		if a.Form.HTTP == "" {
			routes, twins = append(routes, twins...), nil
		} else {
			twins = append(twins, s.actionRoute(a, a.Form.HTTP, twinOf(a)))
		}
		routes = append(routes, s.actionRoute(a, a.HTTP, docOf(a)))
	}
	return append(routes, twins...)
}

func (s *Server) actionRoute(a *action.Action, pattern string, doc apidoc.Operation) Route {
	method, path, _ := strings.Cut(pattern, " ")
	needs := a.Needs
	if a.Own { // the desk knows who asks for what is their own
		needs = auth.Read
	}
	return Route{Method: method, Path: path, Needs: needs, Answer: s.acts(a), Doc: &doc}
}

// docOf is the text of an action's address in the document of the API.
func docOf(a *action.Action) apidoc.Operation {
	parts := apidoc.Parts{partsOf(a), foreignPage}
	if a.Text != "" {
		parts = append(parts, a.Text)
	}
	if a.Args != nil {
		body := a.Body
		body.Of = a.Args
		parts = append(parts, body, withBody(a))
	}
	return apidoc.Op(a.Tag, a.ID, a.Summary, parts)
}

// twinOf is the text of its twin for forms. A form can't send DELETE, so a POST does the same.
func twinOf(a *action.Action) apidoc.Operation {
	return apidoc.Op(a.Tag, "post"+strings.ToUpper(a.ID[:1])+a.ID[1:], a.Form.Summary,
		apidoc.Text("The same as DELETE, for forms, which can only POST."), apidoc.Body{}, partsOf(a), foreignPage, withBody(a))
}

// partsOf are its parameter, and the answers that do not depend on the body. 202 means not on disk
// yet.
func partsOf(a *action.Action) (parts apidoc.Parts) {
	if a.Targeted() {
		parts = append(parts, a.Target.Param)
	}
	unkept := a.Answer
	unkept.Status, unkept.Description = http.StatusAccepted, "The change is in effect, but gpuwhy could not save it to its state directory. It will retry; a restart before then loses the change."
	parts = append(parts, a.Answer, unkept)
	for _, r := range a.Refuses {
		parts = append(parts, r.Answer(r.Means))
	}
	return parts
}

// foreignPage is the answer to a page of another site.
var foreignPage = Refused("The request came from another site's page; programs are allowed.", crossOriginDenied(nil, nil))

// withBody are the answers to all that have a body.
func withBody(a *action.Action) apidoc.Parts {
	return apidoc.Parts{
		apidoc.Answer{Status: http.StatusSeeOther, Description: "A form was processed: back to its page."},
		Refused("The body is not JSON, or a member appears twice or in the wrong case.", badJSON(Failure(strictjson.Members([]byte("{"))))),
		Refused("The body did not arrive in time.", unreadable(os.ErrDeadlineExceeded)),
		Refused("The body is larger than 256 KiB.", unreadable(&http.MaxBytesError{Limit: maxBody})),
		Refused("The body is neither JSON nor a form.", badContent("text/plain")),
		a.Misfit.Answer("A member is unknown or has an invalid value."),
	}
}

var errNotKept = Refuse(http.StatusAccepted, "the change is in effect, but gpuwhy could not save it to its state directory", "check the free space there and the log: gpuwhy will retry, and a restart before then loses it")

// acts answers with what an action returns, with its status; a form is led back to its page. Where the change is not on disk by
// then, the status is 202, and a form is told so.
func (s *Server) acts(a *action.Action) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var form url.Values
		args, err := a.Read(func(args any) (err error) {
			form, err = readBody(r, a.Form, args)
			return err
		})
		if err != nil {
			return err
		}
		// An action that has begun goes on even if nobody waits for the answer any more.
		answer, err := s.cfg.Actions.Run(context.WithoutCancel(r.Context()), action.Call{
			Action: a.ID, Principal: auth.FromRequest(r), Target: r.PathValue(a.Target.Param.Name), Node: Node(r), Args: args,
		})
		if err != nil {
			return err
		}
		status := a.Answer.Status
		if s.cfg.Keeper != nil && s.cfg.Keeper.Flush(r.Context()) != nil { // the log says why
			status = http.StatusAccepted
		}
		switch {
		case form != nil && status == http.StatusAccepted:
			return errNotKept
		case form != nil && a.Form.Shown != nil:
			return a.Form.Shown(w, r, answer)
		case form != nil:
			path := "/"
			if a.Form.Back != nil {
				path = a.Form.Back(form.Get("page"))
			}
			http.Redirect(w, r, s.kit.Base(r)+path, http.StatusSeeOther)
			return nil
		case answer == nil:
			w.WriteHeader(status)
			return nil
		default:
			content, err := json.Marshal(answer)
			if err == nil {
				sendNow(w, r, status, typeJSON, content)
			}
			return err
		}
	}
}
