package views

import (
	"context"
	"io"
	"strings"
)

// A DocsPage is the API's interactive documentation, still empty. A script of
// package static fills it.
type DocsPage struct {
	BasePath string // begins and ends with "/"
	Asset    func(name string) string
}

// Render writes the whole page as HTML.
func (p DocsPage) Render(ctx context.Context, w io.Writer) error {
	return document(docsHead("API", "docs.js", p.Asset), docsBody(p)).Render(ctx, w)
}

func docsHead(title, script string, asset func(string) string) head {
	return newHead(title+" · gpuwhy", asset, script, "app.css", "docs.css")
}

// A ReferencePage is the API's document as a page to read and to print.
type ReferencePage struct {
	Title, Version string
	Intro          []string // paragraphs
	Groups         []OperationGroup
	Types          []TypeDoc
	BasePath       string // begins and ends with "/"
	Asset          func(name string) string
}

// An OperationGroup is what one client uses.
type OperationGroup struct {
	Anchor, Name, Text string
	Operations         []OperationDoc
}

// An OperationDoc is one address.
type OperationDoc struct {
	Anchor, Method, Path, Summary, Text string
	Body                                TypeRef // what a client sends; empty for nothing
	Params                              []FieldDoc
	Answers                             []AnswerDoc
	Example                             string // of the answer, as JSON; may be empty
}

// An AnswerDoc is one status that an address answers with.
type AnswerDoc struct {
	Status, Text string
	Type         TypeRef
}

// A TypeRef names a type: "list of GPU".
type TypeRef struct {
	Before string // "list of "
	Name   string
	Anchor string // of the type on the page; empty where it is none of ours
}

// A TypeDoc is one object with its members.
type TypeDoc struct {
	Anchor, Name, Text string
	Fields             []FieldDoc
}

// A FieldDoc is one member, or a parameter.
type FieldDoc struct {
	Name  string
	Type  TypeRef
	Null  bool // it may be null
	Unit  string
	Range string // "0 to 100"; its values, where they are few
	Text  string
}

// Render writes the whole page as HTML.
func (p ReferencePage) Render(ctx context.Context, w io.Writer) error {
	return document(docsHead("API reference", "", p.Asset), referenceBody(p)).Render(ctx, w)
}

// An EventsPage is the WebSocket protocol as a page to read.
type EventsPage struct {
	Version  string
	Address  string // of the socket: "/ws"
	Intro    []string
	Messages []MessageDoc
	Tables   []FactTable
	Types    []TypeDoc
	BasePath string // begins and ends with "/"
	Asset    func(name string) string
}

// A MessageDoc is one kind of message.
type MessageDoc struct {
	Anchor, Name, Summary, Text string
	Sent                        bool // by gpuwhy, not by a client
	Type                        TypeRef
	Reply                       []string // names of the messages that answer it
	Example                     string   // as JSON
}

// A FactTable says what a list of names means.
type FactTable struct {
	Title string
	Rows  []Fact
}

// A Fact is a row of it.
type Fact struct{ Name, Meaning string }

// Render writes the whole page as HTML.
func (p EventsPage) Render(ctx context.Context, w io.Writer) error {
	return document(docsHead("Events", "", p.Asset), eventsBody(p)).Render(ctx, w)
}

func (t FactTable) anchor() string { return strings.ReplaceAll(strings.ToLower(t.Title), " ", "-") }
