package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// Every action, through every door, is performed only for principals with the access that it declares.
func TestActionsNeedAccess(t *testing.T) {
	a := guarded(t)
	events := map[string]hub.Act{}
	for _, act := range a.socketActs() {
		events[act.Event] = act
	}
	for declared := range a.desk.Actions() {
		if declared.Needs < auth.Read || declared.Needs > auth.Administer || declared.ID == "" {
			t.Errorf("%q needs access %d", declared.ID, declared.Needs)
		}
		if doors := declared.HTTP != "" || declared.Event != nil || declared.Remote; !doors {
			t.Errorf("%s has no door", declared.ID)
		}
		for _, who := range []*auth.Principal{
			nil, {}, {Access: -1}, {Name: "ann", Audience: auth.Everything}, {Access: auth.Read, Audience: auth.Everything},
			{Access: auth.Operate, Audience: auth.Everything}, {Access: auth.Administer, Audience: auth.Everything},
		} {
			var principal auth.Principal
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // nothing reads here: who may refresh does not wait for it
			if who != nil {
				principal = *who
				ctx = auth.NewContext(ctx, who)
			}
			allowed := principal.Access >= declared.Needs
			check := func(door string, denied bool) {
				t.Helper()
				if denied == allowed {
					t.Errorf("%s by %s for %+v: denied %t", declared.ID, door, who, denied)
				}
			}
			_, err := a.desk.Run(ctx, action.Call{Action: declared.ID, Principal: principal, Target: "none"})
			check("a call", errors.Is(err, action.Denied))
			if declared.Remote {
				_, err = a.desk.Answer(ctx, "box", &action.Question{Ask: declared.ID}, principal)
				check("a question", errors.Is(err, action.Denied))
			}
			if declared.Event != nil {
				_, err = events[declared.Event.Name].Do(ctx, &hub.Ask{Principal: principal, Wanted: func(string) bool { return false }})
				check("the socket", err != nil && strings.HasPrefix(err.Error(), action.Denied.What))
			}
			for _, pattern := range []string{declared.HTTP, declared.Form.HTTP} {
				method, path, ok := strings.Cut(pattern, " ")
				if !ok || who == nil { // the server gives who comes as nobody a principal
					continue
				}
				w := httptest.NewRecorder()
				r := httptest.NewRequest(method, strings.Replace(path, "{"+declared.Target.Param.Name+"}", "none", 1), nil).WithContext(ctx)
				r.Host = "127.0.0.1"
				a.Handler().ServeHTTP(w, r)
				check(pattern, w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized)
			}
		}
	}
}

// What is declared is what the program does.
func TestAllActionsAreDeclared(t *testing.T) {
	t.Parallel()
	a := guarded(t)
	var does, declared []string
	for act := range a.desk.Actions() {
		does = append(does, act.ID)
	}
	for _, act := range Actions() {
		declared = append(declared, act.ID)
	}
	if !slices.Equal(does, declared) {
		t.Errorf("the program does %v; declared are %v", does, declared)
	}
}
