package app

import (
	"log/slog"
	"net/http"
	"slices"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/audit"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// Accounts returns the addresses of accounts, tokens, sessions and the audit alone, for commands that change them while no program runs. It is a
// program without readings: the same actions are done by the same code, and recorded. Whoever asks is in the context of the request. Links that
// it makes are below basePath, that of the program; its own addresses are not.
func Accounts(opt access.Options, basePath string, log *slog.Logger) (_ http.Handler, end func() error, err error) {
	host := part.Host{Clock: clock.Program(), Log: log}
	recorded := audit.New(audit.Config{Host: host, Ledger: opt.Ledger, Read: func() map[string]string { return nil }})
	room := access.New(access.Config{
		Host: host, Options: opt, Audit: recorded.Append, Refused: recorded.Refused, Revoke: func(func(auth.Principal) bool) {}, Reopen: func(func(auth.Principal) bool) {},
		Address: serve.Address{BasePath: basePath},
	})
	kit := serve.NewKit(serve.Settings{
		Monitor: contract.Monitor{}, Hub: serve.Still{}, Address: serve.Address{Listen: "127.0.0.1:0"}, Clock: host.Clock, Log: log,
	})
	site := &access.AdminSite{Kit: kit, Room: room}
	entries := &audit.Site{Kit: kit, Record: opt.Ledger, Looked: recorded.Looked}
	routes := slices.DeleteFunc(append(site.Routes(), entries.Routes()...), func(r serve.Route) bool { return r.Doc == nil }) // there are no pages
	s, err := serve.New(kit, serve.Config{Actions: action.NewDesk(recorded, site.Actions()...), Identifier: room}, routes...)
	if err != nil {
		return nil, nil, err
	}
	return s.Handler(), room.Close, nil
}
