package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// Whatever the program can do, through whatever door: it is done for those principals alone that have the access it declares.
func TestActionsNeedAccess(t *testing.T) {
	a := newApp(t, "")
	defer func() { _ = a.Close() }()
	events := map[string]hub.Act{}
	for _, act := range a.socketActs() {
		events[act.Event] = act
	}
	for of := range a.desk.Actions() {
		if of.Needs < auth.Read || of.Needs > auth.Administer || of.ID == "" {
			t.Errorf("%q needs access %d", of.ID, of.Needs)
		}
		if doors := of.HTTP != "" || of.Event != nil || of.Remote; !doors {
			t.Errorf("%s has no door", of.ID)
		}
		for _, who := range []*auth.Principal{
			nil, {}, {Access: -1}, {Name: "ann", Audience: auth.Everything}, {Access: auth.Read}, {Access: auth.Operate}, {Access: auth.Administer},
		} {
			var by auth.Principal
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // nothing reads here: who may refresh does not wait for it
			if who != nil {
				by = *who
				ctx = auth.NewContext(ctx, who)
			}
			allowed := by.Access >= of.Needs
			check := func(door string, denied bool) {
				t.Helper()
				if denied == allowed {
					t.Errorf("%s by %s for %+v: denied %t", of.ID, door, who, denied)
				}
			}
			_, err := a.desk.Run(ctx, action.Call{Action: of.ID, By: by, Target: "none"})
			check("a call", errors.Is(err, action.Denied))
			if of.Remote {
				_, err = a.desk.Answer(ctx, "box", &action.Question{Ask: of.ID}, by)
				check("a question", errors.Is(err, action.Denied))
			}
			if of.Event != nil {
				_, err = events[of.Event.Name].Do(ctx, &hub.Ask{By: by, Wanted: func(string) bool { return false }})
				check("the socket", err != nil && strings.HasPrefix(err.Error(), action.Denied.What))
			}
			for _, pattern := range []string{of.HTTP, of.Form.HTTP} {
				method, path, ok := strings.Cut(pattern, " ")
				if !ok || who == nil { // the server gives who comes as nobody a principal
					continue
				}
				w := httptest.NewRecorder()
				r := httptest.NewRequest(method, strings.Replace(path, "{id}", "none", 1), nil).WithContext(ctx)
				r.Host = "127.0.0.1"
				a.Handler().ServeHTTP(w, r)
				check(pattern, w.Code == http.StatusForbidden)
			}
		}
	}
}
