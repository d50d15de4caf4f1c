package access

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A Grant gives a role to the people of a group, or to one person, for whom a provider or a proxy vouches.
type Grant struct {
	Group string // empty: it is for User
	User  string // the subject at a provider, or the name that a proxy sends
	Role  Role
	Scope auth.Scope // the machines on which the role holds; empty: all
	Sees  auth.Scope // the machines that they see; empty: all
}

var errGrant = errors.New("write GROUP=ROLE or user:NAME=ROLE with a role of viewer, operator or administrator, perhaps with @ and the machines on which it holds, " +
	"or sees and the machines that they see, such as gpu-staff=operator@label:rack=r12 or r12-users=viewer sees label:rack=r12")

// grant matches a grant as people write it. A group may have an = in its name, as those of LDAP have.
var grant = regexp.MustCompile(`^(.+?)=(viewer|operator|administrator)(?:@(.+?))?(?:\s+sees\s+(.+))?$`)

// ParseGrant reads a grant as people write it in a flag.
func ParseGrant(text string) (Grant, error) {
	name, user := strings.CutPrefix(text, "user:")
	m := grant.FindStringSubmatch(name)
	if m == nil {
		return Grant{}, errGrant
	}
	scope, err := auth.ParseScope(m[3])
	if err != nil {
		return Grant{}, err
	}
	sees, err := auth.ParseScope(m[4])
	if err != nil {
		return Grant{}, err
	}
	if user {
		return Grant{User: m[1], Role: Role(m[2]), Scope: scope, Sees: sees}, nil
	}
	return Grant{Group: m[1], Role: Role(m[2]), Scope: scope, Sees: sees}, nil
}

// NewGrant returns a grant of a group or a user. Its error is about the setting "group", "user", "role", "scope" or "sees".
func NewGrant(group, user, role, scope, sees string) (g Grant, setting string, err error) {
	g = Grant{Group: group, User: user, Role: Role(role)}
	switch {
	case group == "" && user == "":
		return g, "group", errors.New("is missing: name the group, or a user, that gets the role")
	case group != "" && user != "":
		return g, "user", errors.New("can't be given with group: write two entries")
	case g.Role.Access() == 0:
		return g, "role", fmt.Errorf("%q must be viewer, operator or administrator", role)
	}
	if g.Scope, err = auth.ParseScope(scope); err != nil {
		return g, "scope", err
	}
	g.Sees, err = auth.ParseScope(sees)
	return g, "sees", err
}

// granted returns what a person has by grants: the highest role, on all machines of the grants that give it, and the sight of all grants
// together. others is the role of people for whom there is no grant, who see all machines; empty: they have none.
func granted(grants []Grant, others Role, user string, groups []string) (r Rights, ok bool) {
	var scopes, sees []auth.Scope
	for i := range grants {
		g := &grants[i]
		if g.User != "" && g.User != user || g.Group != "" && !slices.Contains(groups, g.Group) {
			continue
		}
		sees = append(sees, g.Sees)
		switch higher := cmp.Compare(g.Role.Access(), r.Role.Access()); {
		case higher > 0:
			r.Role, scopes = g.Role, []auth.Scope{g.Scope}
		case higher == 0:
			scopes = append(scopes, g.Scope)
		}
	}
	if r.Role == "" {
		return Rights{Role: others}, others != ""
	}
	r.Scope, r.Sees = auth.Union(scopes...), auth.Union(sees...)
	return r, true
}
