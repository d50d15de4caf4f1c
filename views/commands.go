package views

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// CommandLines let an administrator see all command lines for an hour, or hide them again.
type CommandLines struct {
	Path  string // of the action; empty: the reader may not
	Label string
	Says  string
	Page  string // to which the form leads back
	None  bool   // there is nothing to show: no command line here is cut
}

// newCommandLines is for a page about these processes' machines.
func newCommandLines(in *Input, page string) CommandLines {
	switch {
	case !in.Accounts || !in.Sight.MayOnAll(auth.Administer):
		return CommandLines{}
	case in.Sight.Audience.Commands() == auth.Entire:
		return CommandLines{
			Path: in.BasePath + "api/commands/hide", Label: "Hide command lines", Says: "You see everybody’s command lines, for an hour at most. The audit has it.", Page: page,
		}
	}
	return CommandLines{
		Path: in.BasePath + "api/commands/show", Label: "Show command lines", Says: "for an hour; the audit records it", Page: page, None: !withheld(in.Nodes),
	}
}

// withheld reports whether the reader could see more of a command line.
func withheld(nodes gpu.Nodes) bool {
	for d := range nodes.Devices() {
		list, _ := d.Processes.Get()
		for i := range list {
			if f := &list[i].Facts; f.Private != "" && f.Command.Or("") != f.Private {
				return true
			}
		}
	}
	return false
}
