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

// actionRoutes are the addresses of the actions on a kind of target, in their order. Of neighbors that have a twin for forms, the
// twins stand together after all of them.
func (s *Server) actionRoutes(is func(action.Kind) bool) (routes []Route) {
	var twins []Route
	for a := range s.cfg.Actions.Actions() {
		if a.HTTP == "" || !is(a.Target) {
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

// ofKind is for the actions on one kind of target, by its name.
func ofKind(name string) func(action.Kind) bool {
	return func(k action.Kind) bool { return k.Name == name }
}

func (s *Server) actionRoute(a *action.Action, pattern string, doc apidoc.Operation) Route {
	method, path, _ := strings.Cut(pattern, " ")
	return Route{Method: method, Path: path, Needs: a.Needs, Answer: s.handle(s.acts(a)), Doc: &doc}
}

// docOf is the text of an action's address in the document of the API.
func docOf(a *action.Action) apidoc.Operation {
	parts := apidoc.Parts{partsOf(a, a.HTTP), foreignPage}
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
		apidoc.Text("The same as DELETE, for forms, which can only POST."), apidoc.Body{}, partsOf(a, a.Form.HTTP), foreignPage, withBody(a))
}

// partsOf are its parameter, and the answers that do not depend on the body. 202 means not on disk
// yet.
func partsOf(a *action.Action, pattern string) (parts apidoc.Parts) {
	if strings.Contains(pattern, "{"+a.Target.Param.Name+"}") {
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
var foreignPage = refused("The request came from another site's page; programs are allowed.", crossOriginDenied(nil, nil))

// withBody are the answers to all that have a body.
func withBody(a *action.Action) apidoc.Parts {
	return apidoc.Parts{
		apidoc.Answer{Status: http.StatusSeeOther, Description: "A form was processed: back to its page."},
		refused("The body is not JSON, or a member appears twice or in the wrong case.", badJSON(errOf(strictjson.Members([]byte("{"))))),
		refused("The body did not arrive in time.", unreadable(os.ErrDeadlineExceeded)),
		refused("The body is larger than 256 KiB.", unreadable(&http.MaxBytesError{Limit: maxBody})),
		refused("The body is neither JSON nor a form.", badContent("text/plain")),
		a.Misfit.Answer("A member is unknown or has an invalid value."),
	}
}

var errNotKept = refuse(http.StatusAccepted, "the change is in effect, but gpuwhy could not save it to its state directory", "check the free space there and the log: gpuwhy will retry, and a restart before then loses it")

// acts answers with an action's result and status; a form is redirected to its page. If the change is not on disk by then, the
// status is 202, and a form gets a page that says so.
func (s *Server) acts(a *action.Action) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var form url.Values
		args, err := a.Read(func(into any) (err error) {
			form, err = readBody(r, into)
			return err
		})
		if err != nil {
			return err
		}
		// An action that has begun goes on even if nobody waits for the answer any more.
		answer, err := s.cfg.Actions.Run(context.WithoutCancel(r.Context()), action.Call{
			Action: a.ID, Principal: auth.FromRequest(r), Target: r.PathValue(a.Target.Param.Name), Node: nodeOf(r), Args: args,
		})
		if err != nil {
			return err
		}
		status := a.Answer.Status
		if s.cfg.Flush != nil && s.cfg.Flush(r.Context()) != nil { // the log says why
			status = http.StatusAccepted
		}
		switch {
		case form != nil && status == http.StatusAccepted:
			return errNotKept
		case form != nil:
			return s.back(w, r, form)
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
