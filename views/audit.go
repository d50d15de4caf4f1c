package views

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// An AuditInput is the input of the audit's page.
type AuditInput struct {
	Input
	Entries []contract.AuditEntry // newest first
	Next    *int64                // the number before which there are more; nil: there are none
	Check   *contract.AuditCheck  // nil: nobody asked
	Trouble *gpu.Advice           // why there are no entries; nil: nothing is wrong
}

// An AuditRow is what somebody did, with what came of it.
type AuditRow struct {
	Key          string
	Time         time.Time
	Who, Whence  string // "anna"; "password, from 10.0.0.7"
	What, On     string // "Silence an alert"; the target
	Result, Mark string
	Detail       string
	Facts        []AuditValue // arguments, before and after
}

// An AuditValue is a value of an entry as people read it.
type AuditValue struct{ Label, Text string }

// An AuditPage is the view model of the audit's page.
type AuditPage struct {
	in      *AuditInput
	Rows    []AuditRow
	Empty   string // shown instead of an empty table
	Older   templ.SafeURL
	Table   templ.SafeURL // the address of the same entries as CSV
	Checks  templ.SafeURL // the page with the chain checked
	Checked string        // what came of that; empty: nobody asked
	Broken  bool          // the chain does not hold
	Trouble string
}

// The filters of the audit's page, and what else its address has.
const (
	auditWho    = "who"
	auditAction = "action"
	auditTarget = "target"
	auditNode   = "node"
	auditResult = "result"
	auditFrom   = "from"
	auditTo     = "to"
	auditBefore = "before"
	auditCheck  = "check"
)

// auditResults are the results to choose from.
var auditResults = []Choice{{"", "Any result"}, {"done", "Done"}, {"refused", "Refused"}, {"failed", "Failed"}, {"begun", "Begun"}}

// NewAuditPage makes the view model of the audit's page.
func NewAuditPage(in AuditInput) AuditPage {
	in.keep(auditWho, auditAction, auditTarget, auditNode, auditResult, auditFrom, auditTo, auditBefore, auditCheck)
	p := AuditPage{in: &in}
	filters := Choices{Path: in.BasePath + "api/audit.csv", Asked: in.Asked}
	p.Table = filters.Link(auditBefore, "", auditCheck, "")
	p.Checks = in.Link(auditCheck, "1")
	if in.Trouble != nil {
		p.Trouble = asSentence(in.Trouble.Text())
		return p
	}
	began := map[int64]*contract.AuditEntry{}
	for i := range in.Entries {
		if e := &in.Entries[i]; e.Result == "begun" {
			began[e.Number] = e
		}
	}
	ended := map[int64]bool{}
	for i := range in.Entries {
		e := &in.Entries[i]
		if ended[e.Number] { // the entry about its end says it all
			continue
		}
		ended[e.Of] = true
		p.Rows = append(p.Rows, newAuditRow(e, began[e.Of]))
	}
	if in.Next != nil {
		p.Older = in.Link(auditBefore, strconv.FormatInt(*in.Next, 10), auditCheck, "")
	}
	if len(p.Rows) == 0 {
		p.Empty = either(len(in.Asked) > 0, "No entry matches.", "Nothing has been recorded yet.")
	}
	if c := in.Check; c != nil {
		p.Broken = !c.Sound
		switch {
		case !c.Sound:
			p.Checked = asSentence(c.Detail) + " Somebody changed the database by hand, or restored an old copy."
		case c.Last == 0:
			p.Checked = "There is no entry yet."
		default:
			p.Checked = "No entry from " + strconv.FormatInt(c.First, 10) + " to " + strconv.FormatInt(c.Last, 10) + " was changed. Hash of the last: " + c.Head
		}
	}
	return p
}

// longestValue is the longest value of an entry that the page shows, in characters.
const longestValue = 2000

// newAuditRow describes an entry. began is the entry that says that it began; it may be nil.
func newAuditRow(e, began *contract.AuditEntry) AuditRow {
	at, _ := time.Parse(time.RFC3339Nano, e.Time) // gpuwhy has written it
	row := AuditRow{
		Key: strconv.FormatInt(e.Number, 10), Time: at, Who: either(e.Principal != "", clean(e.Principal, longestName), "somebody unknown"),
		What: spaced(clean(e.Action, longestName)), On: clean(e.Target, longestSentence), Detail: sentence(clean(e.Detail, longestSentence)),
		Result: e.Result,
	}
	row.Mark = map[string]string{"refused": "warn", "failed": "bad"}[e.Result]
	if e.Result == "begun" {
		row.Detail = "No result is recorded: it may still be under way, or gpuwhy was stopped."
	}
	var whence []string
	for _, w := range []string{e.Way, either(e.Address != "", "from "+e.Address, ""), either(e.Asked != "", "through hub "+e.Asked, "")} {
		if w != "" {
			whence = append(whence, clean(w, longestName))
		}
	}
	row.Whence = strings.Join(whence, ", ")
	args := e.Args
	if args == nil && began != nil {
		args = began.Args
	}
	fact := func(label string, text json.RawMessage) {
		if len(text) > 0 && string(text) != "null" && string(text) != "{}" {
			row.Facts = append(row.Facts, AuditValue{label, clean(string(text), longestValue)})
		}
	}
	if e.Identity != "" {
		row.Facts = append(row.Facts, AuditValue{"Identity", clean(e.Identity, longestName)})
	}
	if e.Node != "" {
		row.Facts = append(row.Facts, AuditValue{"Machine", clean(e.Node, longestName)})
	}
	fact("Arguments", args)
	fact("Before", e.Before)
	fact("After", e.After)
	return row
}

// spaced writes a name such as silenceSeveralAlerts as words.
func spaced(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r):
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// shell returns the shell of the audit's page, which does not update.
func (p AuditPage) shell() Shell {
	s := p.in.accessShell()
	s.Data = append(s.Data, Link{string(p.Table), "CSV"})
	return s
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p AuditPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head("Audit · gpuwhy", ""), auditBody(p)).Render(ctx, w)
}
