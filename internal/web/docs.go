package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/apidoc"
	"github.com/gpuwhy/gpuwhy/views"
)

// The pages of the API's documents: view models made from a document.

func (p *Pages) docs(ctx context.Context, w io.Writer) error {
	return views.DocsPage{BasePath: p.cfg.BasePath, Asset: p.URL}.Render(ctx, w)
}

func (p *Pages) reference(ctx context.Context, w io.Writer, doc *apidoc.Document) error {
	page := views.ReferencePage{
		Title: doc.Info.Title, Version: doc.Info.Version, Intro: paragraphs(doc.Info.Description),
		Types: typeDocs(doc.Components.Schemas), BasePath: p.cfg.BasePath, Asset: p.URL,
	}
	for _, tag := range doc.Tags {
		group := views.OperationGroup{Anchor: anchor("group", tag.Name), Name: tag.Name, Text: tag.Description}
		for _, path := range doc.Paths {
			for _, op := range path.Value {
				if slices.Contains(op.Value.Tags, tag.Name) {
					group.Operations = append(group.Operations, operationDoc(doc, op.Name, path.Name, op.Value))
				}
			}
		}
		page.Groups = append(page.Groups, group)
	}
	return page.Render(ctx, w)
}

func (p *Pages) events(ctx context.Context, w io.Writer, doc *apidoc.Events) error {
	channel := doc.Channels[0].Value
	page := views.EventsPage{
		Version: doc.Info.Version, Address: channel.Address, Intro: paragraphs(channel.Description),
		Tables:   []views.FactTable{facts("Limits", apidoc.Limits), facts("When a connection ends", apidoc.CloseCodes)},
		Types:    typeDocs(doc.Components.Schemas),
		BasePath: p.cfg.BasePath, Asset: p.URL,
	}
	for _, op := range doc.Operations {
		message := doc.Components.Messages.Get(op.Name)
		out := views.MessageDoc{
			Anchor: anchor("message", message.Name), Name: message.Name, Summary: message.Summary, Text: message.Description,
			Sent: op.Value.Action == "send", Example: indented(message.Examples[0].Get("payload")),
		}
		if data := message.Payload.Properties.Get("data"); data != nil && len(data.Type) == 0 {
			out.Type, _ = typeRef(data)
		}
		if op.Value.Reply != nil {
			for _, reply := range op.Value.Reply.Messages {
				out.Reply = append(out.Reply, lastPart(reply.Ref))
			}
		}
		page.Messages = append(page.Messages, out)
	}
	return page.Render(ctx, w)
}

func facts(title string, rows []apidoc.Fact) views.FactTable {
	table := views.FactTable{Title: title}
	for _, f := range rows {
		table.Rows = append(table.Rows, views.Fact{Name: f.Name, Meaning: f.Meaning})
	}
	return table
}

func operationDoc(doc *apidoc.Document, method, path string, op *apidoc.OperationObject) views.OperationDoc {
	out := views.OperationDoc{Anchor: anchor(method, path), Method: strings.ToUpper(method), Path: path, Summary: op.Summary, Text: op.Description}
	for _, p := range op.Parameters {
		field := fieldDoc(p.Name, p.Schema)
		field.Text = p.Description
		if field.Range = "in the " + p.In; !p.Required {
			field.Range += ", optional"
		}
		out.Params = append(out.Params, field)
	}
	if op.Body != nil && op.Body.Content[0].Name == "application/json" { // a form has the same members
		out.Body, _ = typeRef(op.Body.Content[0].Value.Schema)
	}
	for _, r := range op.Responses {
		value := r.Value
		if value.Ref != "" {
			value = doc.Components.Responses.Get(lastPart(value.Ref))
		}
		answer := views.AnswerDoc{Status: r.Name, Text: value.Description}
		if len(value.Content) > 0 { // the first is what programs get
			media := value.Content[0]
			answer.Type = views.TypeRef{Name: media.Name}
			if media.Value.Schema != nil {
				answer.Type, _ = typeRef(media.Value.Schema)
			}
			if (r.Name == "200" || r.Name == "201") && len(media.Value.Examples) > 0 {
				out.Example = indented(media.Value.Examples[0].Value.Value)
			}
		}
		out.Answers = append(out.Answers, answer)
	}
	return out
}

func typeDocs(schemas apidoc.Members[*apidoc.Schema]) []views.TypeDoc {
	out := make([]views.TypeDoc, len(schemas))
	for i, s := range schemas {
		out[i] = views.TypeDoc{Anchor: anchor("type", s.Name), Name: s.Name, Text: s.Value.Description}
		for _, f := range s.Value.Properties {
			out[i].Fields = append(out[i].Fields, fieldDoc(f.Name, f.Value))
		}
	}
	slices.SortFunc(out, func(a, b views.TypeDoc) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func fieldDoc(name string, s *apidoc.Schema) views.FieldDoc {
	f := views.FieldDoc{Name: name, Text: s.Text}
	f.Type, f.Null = typeRef(s)
	value := s.Innermost()
	f.Unit, f.Range = value.Unit, rangeText(value)
	return f
}

// typeRef names the type of a value, and whether it may be null.
func typeRef(s *apidoc.Schema) (ref views.TypeRef, null bool) {
	switch {
	case s.Ref != "":
		name := lastPart(s.Ref)
		return views.TypeRef{Name: name, Anchor: anchor("type", name)}, false
	case len(s.AllOf) > 0:
		return typeRef(s.AllOf[0])
	case len(s.OneOf) > 0:
		ref, _ = typeRef(s.OneOf[0])
		return ref, s.Nullable()
	case s.Items != nil:
		ref, inner := typeRef(s.Items)
		return within("list of ", ref, inner), s.Nullable()
	case s.Values() != nil:
		ref, inner := typeRef(s.Values())
		return within("by name: ", ref, inner), s.Nullable()
	default:
		names := slices.DeleteFunc(slices.Clone(s.Type), func(t string) bool { return t == "null" })
		if s.Format == "date-time" {
			names = []string{"time"}
		}
		return views.TypeRef{Name: strings.Join(names, " or ")}, s.Nullable()
	}
}

func within(before string, ref views.TypeRef, null bool) views.TypeRef {
	ref.Before = before + ref.Before
	if null {
		ref.Before += "maybe null "
	}
	return ref
}

func rangeText(s *apidoc.Schema) string {
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			if text, ok := v.(string); ok {
				values = append(values, text)
			}
		}
		return strings.Join(values, ", ")
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return number(*s.Minimum) + " to " + number(*s.Maximum)
	case s.Minimum != nil:
		return "from " + number(*s.Minimum)
	case s.MaxLength > 0:
		return "at most " + strconv.Itoa(s.MaxLength) + " characters"
	default:
		return ""
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func lastPart(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

var notInAnchors = regexp.MustCompile(`[^A-Za-z0-9_]+`)

func anchor(kind, name string) string {
	return kind + "-" + strings.Trim(notInAnchors.ReplaceAllString(name, "-"), "-")
}

var (
	link   = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	spaces = regexp.MustCompile(`\s+`)
)

// paragraphs is a document's Markdown as plain text.
func paragraphs(text string) []string {
	text = strings.NewReplacer("**", "", "`", "").Replace(text)
	var out []string
	for p := range strings.SplitSeq(text, "\n\n") {
		p = spaces.ReplaceAllString(p, " ")
		out = append(out, link.ReplaceAllString(p, "$1"))
	}
	return out
}

func indented(example json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, example, "", "  "); err != nil {
		panic(fmt.Sprintf("an example is no JSON: %v", err))
	}
	return out.String()
}
