package audit

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/when"
)

// A Record has the entries.
type Record interface {
	// Entries returns entries, the newest first, as [ledger.Ledger] does.
	Entries(ctx context.Context, q ledger.Query) ([]ledger.Entry, error)
	// Verify reads the whole chain, as [ledger.Ledger] does.
	Verify(ctx context.Context) (ledger.Chain, error)
}

// A Site shows the audit to administrators, over the API and on a page.
type Site struct {
	Kit    *serve.Kit
	Shell  Shell
	Record Record // nil where nothing is recorded
	// Looked records that the principal of a request looks; see [Room.Looked].
	Looked func(ctx context.Context, what string) error
}

// Name implements part.Part.
func (*Site) Name() string { return "audit" }

// What looking at the audit is called in it.
const (
	readAudit  = "readAudit"
	checkAudit = "checkAudit"
)

// results are those that one can ask for.
var results = []string{begun, done, refused, failed}

var (
	errNoAudit = serve.Refuse(http.StatusNotFound, "nothing is recorded here", "start gpuwhy with 'gpuwhy serve', which records who does what")
	errNumber  = serve.Refuse(http.StatusUnprocessableEntity, "before must be the number of an entry", "use the value of next from the previous answer, or leave before out")
	errGone    = serve.Advise(http.StatusServiceUnavailable, gpu.Advice{What: "the record of who does what can't be read", Try: tryLedger})

	narrowed = apidoc.Parts{
		apidoc.InQuery("who", "Only entries about this principal, by name.", "anna"),
		apidoc.InQuery("action", "Only this action.", "silenceAlert"),
		apidoc.InQuery("target", "Only entries about this target.", nil),
		apidoc.InQuery("node", "Only requests that were about this machine alone.", nil),
		apidoc.InQuery("result", "Only entries with this result: begun, done, refused or failed.", "refused"),
		apidoc.InQuery("from", "When the span begins. On its own it can name a span, such as last night. Default: all entries.", "last night"),
		apidoc.InQuery("to", "When the span ends. Default: now.", nil),
		serve.BadParameter, serve.Refused("A parameter is invalid.", errNumber),
		serve.Refused("Nothing is recorded here.", errNoAudit), serve.Refused("The record can't be read now.", errGone),
	}
)

// Routes implements part.Server.
func (s *Site) Routes() []serve.Route {
	routes := []serve.Route{
		serve.Read("/api/audit", s.list, contract.ClientAudit, "listAudit", "List who did what",
			apidoc.Text("The newest entries first, a hundred at a time. An action above reading has two entries: one before it is done, and one with what came of it."),
			apidoc.InQuery("before", "Only entries with a smaller number: the value of next from the previous answer.", nil),
			serve.Fresh("The entries.", contract.Audit{}, "audit"), narrowed).Strict(),
		serve.Read("/api/audit.csv", s.table, contract.ClientAudit, "exportAudit", "Get who did what as a table",
			apidoc.Text("All entries, the newest first, as CSV."),
			apidoc.Fresh{}, serve.Typed("text/csv", "The table."), narrowed).Strict(),
		serve.Read("/api/audit/check", s.check, contract.ClientAudit, "checkAudit", "Check that no entry was changed",
			apidoc.Text("Reads the whole chain of hashes. It holds unless somebody changed or removed an entry in the database without computing all later hashes anew."),
			serve.Fresh("Whether the chain holds.", contract.AuditCheck{}, "audit_check"),
			serve.BadParameter, serve.Refused("Nothing is recorded here.", errNoAudit), serve.Refused("The record can't be read now.", errGone)).Strict(),
		serve.Page("/audit", s.page),
	}
	for i := range routes {
		routes[i] = routes[i].ProgramOnly()
		routes[i].Needs = auth.Administer
	}
	return routes
}

// query is what a request asks for, once it is recorded that somebody asks.
func (s *Site) query(r *http.Request) (q ledger.Query, err error) {
	if s.Record == nil {
		return q, errNoAudit
	}
	values, err := serve.ParseQuery(r)
	if err != nil {
		return q, err
	}
	if q, err = queryOf(values, s.Kit.Clock.Now()); err != nil {
		return q, err
	}
	return q, s.look(r, readAudit)
}

// look records that somebody looks.
func (s *Site) look(r *http.Request, what string) error {
	err := s.Looked(r.Context(), what)
	if advice, known := errors.AsType[*gpu.Advice](err); known {
		return serve.Advise(http.StatusServiceUnavailable, *advice)
	}
	return err
}

// queryOf reads the filters of a query.
func queryOf(values url.Values, now time.Time) (q ledger.Query, err error) {
	q = ledger.Query{
		Principal: values.Get("who"), Action: values.Get("action"), Target: values.Get("target"), Node: values.Get("node"), Result: values.Get("result"),
	}
	known := q.Result == ""
	for _, result := range results {
		known = known || result == q.Result
	}
	if !known {
		return q, serve.Unknown(http.StatusUnprocessableEntity, "there is no result", q.Result, results, "")
	}
	if text := values.Get("before"); text != "" {
		if q.Before, err = strconv.ParseInt(text, 10, 64); err != nil || q.Before < 1 {
			return q, errNumber
		}
	}
	from, to := values.Get("from"), values.Get("to")
	now = now.In(time.Local) //nolint:gosmopolitan // people's own time is meant
	switch {
	case from == "" && to == "":
		return q, nil
	case from == "":
		q.To, err = when.Time(to, now)
	default:
		text := from
		if to != "" {
			text += ".." + to
		}
		var span when.Span
		span, err = when.Parse(text, now)
		q.From, q.To = span.From, span.To
	}
	if advice, is := errors.AsType[*gpu.Advice](err); is {
		err = serve.Advise(http.StatusUnprocessableEntity, *advice)
	}
	return q, err
}

// mostListed is how many entries an answer has.
const mostListed = 100

// entries returns the next entries, and the number before which there are more; nil if there are none.
func (s *Site) entries(ctx context.Context, q ledger.Query) (list []contract.AuditEntry, next *int64, err error) {
	q.Most = mostListed + 1
	found, err := s.Record.Entries(ctx, q)
	if err != nil {
		return nil, nil, errors.Join(errGone, err)
	}
	list = []contract.AuditEntry{}
	for i := range found[:min(len(found), mostListed)] {
		list = append(list, newContract(&found[i]))
	}
	if len(found) > mostListed {
		next = &found[mostListed-1].Number
	}
	return list, next, nil
}

func newContract(e *ledger.Entry) contract.AuditEntry {
	return contract.AuditEntry{
		Number: e.Number, Time: e.Time.UTC().Format(time.RFC3339Nano), Action: e.Action, Result: e.Result, Principal: e.Principal, Identity: e.Identity,
		Way: e.Way, Address: e.Address, Target: e.Target, Node: e.Node, Asked: e.Asked, Args: e.Args, Before: e.Before, After: e.After,
		Detail: e.Detail, Of: e.Of,
	}
}

func (s *Site) list(w http.ResponseWriter, r *http.Request) error {
	q, err := s.query(r)
	if err != nil {
		return err
	}
	list, next, err := s.entries(r.Context(), q)
	if err != nil {
		return err
	}
	return serve.FreshJSON(w, r, contract.Audit{Entries: list, Next: next})
}

func (s *Site) table(w http.ResponseWriter, r *http.Request) error {
	q, err := s.query(r)
	if err != nil {
		return err
	}
	return serve.StreamCSV(w, r, "gpuwhy-audit.csv", contract.AuditColumns, s.rows(r.Context(), q))
}

// rows yields all entries as rows of the table.
func (s *Site) rows(ctx context.Context, q ledger.Query) iter.Seq2[[]string, error] {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	return func(yield func([]string, error) bool) {
		for {
			list, next, err := s.entries(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range list {
				e := &list[i]
				if !yield([]string{
					number(e.Number), e.Time, e.Action, e.Result, e.Principal, e.Identity, e.Way, e.Address, e.Target, e.Node, e.Asked,
					string(e.Args), string(e.Before), string(e.After), e.Detail, number(e.Of),
				}, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			q.Before = *next
		}
	}
}

func (s *Site) check(w http.ResponseWriter, r *http.Request) error {
	if s.Record == nil {
		return errNoAudit
	}
	if err := s.look(r, checkAudit); err != nil {
		return err
	}
	c, err := Check(r.Context(), s.Record)
	if err != nil {
		return errors.Join(errGone, err)
	}
	return serve.FreshJSON(w, r, c)
}

// Check reads the whole chain. An error says that it could not be read; a chain that does not hold is no error.
func Check(ctx context.Context, record Record) (contract.AuditCheck, error) {
	chain, err := record.Verify(ctx)
	broken, is := errors.AsType[*ledger.BrokenError](err)
	if err != nil && !is {
		return contract.AuditCheck{}, err
	}
	c := contract.AuditCheck{Sound: !is, First: chain.First, Last: chain.Last, Anchor: chain.Anchor, Head: chain.Head}
	if is {
		c.Broken, c.Detail = &broken.Number, broken.Why
	}
	return c, nil
}
