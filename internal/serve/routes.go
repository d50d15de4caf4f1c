package serve

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// A Handler answers a request, or writes nothing and returns the error to answer with: one that [Refuse] makes is told, a [gpu.Advice]
// too, and any other is an internal error. Where the answer has begun, [StreamJSON] and [StreamCSV] return an error that cuts the
// connection, so that nobody takes a part for the whole.
type Handler func(http.ResponseWriter, *http.Request) error

// Plain is a handler that needs nothing of this package.
func Plain(h http.Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// A Route is an address with its handler and its text in the documents. GET stands for HEAD too.
type Route struct {
	Method string
	Path   string      // below the base path, as in [http.ServeMux]
	Needs  auth.Access // what a principal needs to use it
	Answer Handler
	// Doc is nil for addresses that are no part of the API: pages and their files.
	Doc *apidoc.Operation
	// Live says that the page updates itself while somebody looks at it, see [Server.Render].
	Live bool
	// Whole says that the route is about the program: it is not there for a single node.
	Whole bool
}

// name is the route in the record of who was denied what: the ID of its operation, which for an action is the action's, or else its address.
func (r *Route) name() string {
	if r.Doc != nil {
		return r.Doc.ID
	}
	return r.Method + " " + r.Path
}

// Read is a route of the API that changes nothing. The parts say what it takes and answers.
func Read(path string, h Handler, whose contract.Client, id, summary string, parts ...apidoc.Part) Route {
	op := apidoc.Op(whose.Name, id, summary, parts...)
	return Route{Method: http.MethodGet, Path: path, Needs: auth.Read, Answer: h, Doc: &op}
}

// Strict returns the route as one that refuses parameters of which its document says nothing: who narrows an answer must not get
// all of it.
func (r Route) Strict() Route {
	r.Answer = taking(r.Doc.Params, r.Answer)
	return r
}

// Open returns the route as one that is also there for people who have not signed in.
func (r Route) Open() Route {
	r.Needs = auth.Anyone
	return r
}

// ProgramOnly returns the route as one that is about the program, and is not there for a single node.
func (r Route) ProgramOnly() Route {
	r.Whole = true
	return r
}

// Page is an address for people.
func Page(path string, h Handler) Route {
	return Route{Method: http.MethodGet, Path: path, Needs: auth.Read, Answer: h}
}

// OpenPage is an address for people who may not have signed in.
func OpenPage(path string, h Handler) Route {
	r := Page(path, h)
	r.Needs = auth.Anyone
	return r
}

// LivePage is a page whose handler answers by [Kit.LiveHTML].
func LivePage(path string, h Handler) Route {
	r := Page(path, h)
	r.Live = true
	return r
}

// counting has the handler of a live page know how much had changed before anything is read of what it shows.
func (s *Server) counting(h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return h(w, r.WithContext(context.WithValue(r.Context(), changesKey{}, s.kit.Hub.Changes())))
	}
}

type changesKey struct{}

// OK is an answer of a type of package contract, with the name of an example.
func OK(description string, value any, example string) apidoc.Answer {
	return apidoc.Answer{Status: http.StatusOK, Description: description, ContentType: typeJSON, Of: value, Example: example}
}

// Either is like OK, for an answer of one of two types.
func Either(description string, value, or any, example string) apidoc.Answer {
	a := OK(description, value, example)
	a.Or = or
	return a
}

// Fresh is like OK, for an answer about the present, which clients must not keep.
func Fresh(description string, value any, example string) apidoc.Parts {
	return apidoc.Parts{apidoc.Fresh{}, OK(description, value, example)}
}

// Typed is an answer that none of our structs describes, with its content type.
func Typed(contentType, description string) apidoc.Answer {
	return apidoc.Answer{Status: http.StatusOK, Description: description, ContentType: contentType}
}

// Refused is an answer with an error, which is its example.
func Refused(description string, err error) apidoc.Answer {
	e := asStatusError(err)
	return apidoc.Answer{Status: e.status, Description: description, Detail: e.advice.Text()}
}

// Failure is the error of a call that has another result too.
func Failure[T any](_ T, err error) error { return err }

// What operations of several rooms have in common.
var (
	noGPU = gpu.Nodes{{Source: gpu.SourceNVML}}

	AmbiguousDevice = Refused("There are several machines, so an index is ambiguous.", ambiguous("7"))
	UnknownDevice   = Refused("There is no such GPU.", Failure(DeviceID{Text: "7", Index: 7}.Find(nil)))
	UnknownNode     = Refused("There is no such machine.", noNode("other"))
	BadDeviceQuery  = Refused("The value is neither an index nor a UUID, or the query is invalid.", Failure(ParseID("first")))
	BadParameter    = Refused("A parameter is unknown, given twice or empty; or there are several machines and the request is ambiguous.",
		checkParams("/api/gpu/history", nil, url.Values{"user": {"anna"}}))
	BadQuery = Refused("The query is invalid, for example because it has a semicolon.",
		Failure(ParseQuery(&http.Request{URL: &url.URL{RawQuery: "cluster_id=a;b"}})))
	NothingToRead = Refused("No GPU can be read, or none has been read yet; detail says why.",
		Refuse(http.StatusServiceUnavailable, "no GPU can be read", contract.Reason(noGPU)))
	NotReadYet = Refused("The first reading is still in progress.", new(Kit).Readable(nil))

	// OneDevice has what all say that are about the GPU in their path, see [Each].
	OneDevice = apidoc.Parts{
		apidoc.InPath("id", "The GPU's index or UUID.", "0"),
		AmbiguousDevice, UnknownDevice, Refused("The value is neither an index nor a UUID.", Failure(ParseID("first"))), NothingToRead,
	}

	otherProblem = Refused("Another error, such as 421 for a host name that is not gpuwhy's. Browsers get a page instead.",
		foreignHost("gpu.example.org"))
)
