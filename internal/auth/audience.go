package auth

import (
	"net/url"
	"strings"
)

// An Audience is what somebody may see, as text: of which machines, and whose command lines are whole. People with the same Audience
// see the same data, so it is the key by which they share what is encoded and rendered. The zero value sees nothing; make others with
// [NewAudience].
type Audience string

// Everything is the audience that sees all machines, with the command lines that each machine shows to all of its viewers.
const Everything Audience = "everything"

// Commands say whose command lines an audience sees.
type Commands string

// The choices besides [CommandsOf].
const (
	Shown   Commands = "shown"     // those that a machine shows to all of its viewers (--show-commands)
	Names   Commands = "names"     // nobody's: the names of programs alone
	Entire  Commands = "entire"    // everybody's that the machine could read
	ownedBy          = "user:"     // of one user
	machine          = " sees "    // is before the machines in the text of an audience
	lines            = "commands " // is before the command lines
)

// CommandsOf shows the command lines of a user of the machines whole, and of others the names of programs alone. Without a user it
// shows names alone.
func CommandsOf(user string) Commands {
	if user == "" {
		return Names
	}
	return Commands(ownedBy + url.QueryEscape(user))
}

// NewAudience returns the audience that sees these machines and command lines. The same arguments always make the same audience.
func NewAudience(sees Scope, commands Commands) Audience {
	if sees == "" && commands == Shown {
		return Everything
	}
	return Audience(lines + string(commands) + machine + string(sees))
}

// parts returns what the audience was made of. An audience that [NewAudience] did not make has none.
func (a Audience) parts() (sees Scope, commands Commands, made bool) {
	if a == Everything {
		return "", Shown, true
	}
	rest, made := strings.CutPrefix(string(a), lines)
	if !made {
		return "", "", false
	}
	who, where, made := strings.Cut(rest, machine)
	return Scope(where), Commands(who), made
}

// Machines returns the scope that the audience sees, and whether it sees any machine. An empty scope is all machines.
func (a Audience) Machines() (sees Scope, some bool) {
	sees, _, some = a.parts()
	return sees, some
}

// Sees reports whether the audience may see a machine.
func (a Audience) Sees(m Machine) bool {
	if a == Everything {
		return true
	}
	sees, _, made := a.parts()
	return made && sees.Has(m)
}

// SeesAll reports whether the audience sees every machine.
func (a Audience) SeesAll() bool {
	if a == Everything {
		return true
	}
	sees, _, made := a.parts()
	return made && sees == ""
}

// Commands says whose command lines the audience sees.
func (a Audience) Commands() Commands {
	_, commands, made := a.parts()
	if !made {
		return Names
	}
	return commands
}

// Whole reports whether the command line of a user's process is seen even if its machine does not show it to all viewers.
func (c Commands) Whole(user string) bool { return c == Entire || user != "" && c == CommandsOf(user) }
