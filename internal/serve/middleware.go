package serve

import (
	"context"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rs/cors"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/negotiate"
)

// readTimeout is how long a whole request may take to come.
const readTimeout = 15 * time.Second

// writeTimeout is how long an answer may take to be taken; of one that goes on and on, a part of it.
const writeTimeout = 30 * time.Second

// maxBody is the most bytes of a request's body: a form with a thousand long names takes half of it.
const maxBody = 256 << 10

// HTTPServer returns a server that slow clients can't block: headers, bodies
// and answers have deadlines, and headers a limit. The deadlines end when a
// connection is handed over, as for a WebSocket. The server's own messages are
// logged as warnings.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          stdlog.New(serverLog{log.With("part", "http")}, "", 0),
	}
}

// serverLog writes what a server says of itself.
type serverLog struct{ log *slog.Logger }

// Write logs a line as a warning, but of failed handshakes, which anybody can cause, only for those who look for something.
func (l serverLog) Write(line []byte) (int, error) {
	level, text := slog.LevelWarn, strings.TrimSuffix(string(line), "\n")
	if strings.HasPrefix(text, "http: TLS handshake error") {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, text) //nolint:sloglint // the message is the server's
	return len(line), nil
}

// wrap puts the middleware in front of the routes; the first is the outermost.
func (s *Server) wrap(routes http.Handler) http.Handler {
	return limitBody(s.watch(securityHeaders(plainHost(s.checkHost(s.encryptAlways(s.allowOrigins(s.cross.Handler(s.identify(s.notice(routes))))))))))
}

// An Identifier decides who makes a request. It alone does.
type Identifier interface {
	// Identify returns the principal of a request. The zero Principal is somebody who first has to sign in. An error refuses the
	// request, such as one with an invalid token.
	Identify(w http.ResponseWriter, r *http.Request) (auth.Principal, error)
}

// Owner is an [Identifier] for programs without sign-in: everybody is the local owner.
type Owner struct{}

// Identify implements [Identifier].
func (Owner) Identify(http.ResponseWriter, *http.Request) (auth.Principal, error) {
	return auth.LocalOwner(), nil
}

// identify gives a request its principal. A request that comes with one keeps it, whatever it may do; one that gets by this function has
// none, and may do nothing.
func (s *Server) identify(next http.Handler) http.Handler {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		if _, known := auth.FromContext(r.Context()); !known {
			who, err := s.cfg.Identifier.Identify(w, r)
			if err != nil {
				return err
			}
			r = r.WithContext(auth.NewContext(r.Context(), &who))
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// notice tells that somebody looks, who may.
func (s *Server) notice(next http.Handler) http.Handler {
	if s.cfg.Watch == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth.FromRequest(r).May(auth.Read) {
			s.cfg.Watch.Noticed(r)
		}
		next.ServeHTTP(w, r)
	})
}

// errSignIn is for who has to sign in before.
var errSignIn = Refuse(http.StatusUnauthorized, "nobody has signed in",
	"sign in on the page, or send an API token as Authorization: Bearer TOKEN; 'gpuwhy token add' makes one").With("WWW-Authenticate", "Bearer")

// needs lets through only principals that have the access to an address. Who has too little is recorded.
func (s *Server) needs(access auth.Access, address string, next http.Handler) http.Handler {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		switch who := auth.FromRequest(r); {
		case who.May(access):
			if access > auth.Read && (r.Method == http.MethodGet || r.Method == http.MethodHead) && !who.MayOnAll(access) {
				return s.cfg.Actions.Deny(r.Context(), address, &who, ErrNotAll) // actions are for the desk, which knows what they reach
			}
		case who == auth.Principal{}:
			return s.signIn(w, r)
		default:
			return s.cfg.Actions.Deny(r.Context(), address, &who, action.Lacks(&who, access))
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// signIn leads a browser that wants a page to the page to sign in, which leads back. Others are refused.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.SignIn == "" || r.Method != http.MethodGet && r.Method != http.MethodHead || negotiate.Type(r.Header, typeProblem, typeJSON, typeHTML) != typeHTML {
		return errSignIn
	}
	addVary(w.Header(), byAccept)
	w.Header()["Cache-Control"] = cacheNever
	target := s.kit.BasePath + s.cfg.SignIn
	if to := strings.TrimPrefix(r.URL.RequestURI(), s.kit.BasePath); to != "/" && to != "" {
		target += "?to=" + url.QueryEscape(to)
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
	return nil
}

// limitBody ends the reading of a longer body. It must be the outermost middleware:
// it closes the connection, which only the first ResponseWriter can do.
func limitBody(next http.Handler) http.Handler {
	limited := http.MaxBytesHandler(next, maxBody)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		limited.ServeHTTP(w, r)
	})
}

// policy lets a page load its parts from this server alone; 'self' covers the socket too.
func policy(style string) string {
	return "default-src 'none'; script-src 'self'; style-src " + style + "; img-src 'self' data:; " +
		"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

// fixedHeaders are those of every answer. All share the values, and nobody changes them.
var fixedHeaders = []struct {
	name  string
	value []string
}{
	{"Content-Security-Policy", []string{policy("'self'")}},
	{"Cross-Origin-Opener-Policy", []string{"same-origin"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
	{"Referrer-Policy", []string{"same-origin"}}, // without it forms would have no origin
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"X-Frame-Options", []string{"DENY"}},
}

func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, fixed := range fixedHeaders {
			h[fixed.name] = fixed.value
		}
		next.ServeHTTP(w, r)
	})
}

// plainHost takes the usual port off the host of a request for a page whose origin names no port. Browsers leave it out, and
// proxies put it in, as nginx does where it is told to pass on $host:$server_port. Else the page's own requests look like another site's.
func plainHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, usual := strings.CutSuffix(r.Host, ":443")
		if !usual {
			host, usual = strings.CutSuffix(r.Host, ":80")
		}
		if _, page, found := strings.Cut(r.Header.Get("Origin"), "://"); usual && found && strings.EqualFold(page, host) {
			plain := *r
			plain.Host = page
			r = &plain
		}
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses requests for names that are not this server's.
func (s *Server) checkHost(next http.Handler) http.Handler {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		if !s.hosts.allowed(r.Host) {
			return foreignHost(r.Host)
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// allowOrigins lets pages of the configured origins read answers (CORS), without credentials.
func (s *Server) allowOrigins(next http.Handler) http.Handler {
	if len(s.kit.AllowOrigins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowOriginFunc: s.kit.AllowOrigins.Allow,
		AllowedMethods:  []string{http.MethodGet, http.MethodHead},
		AllowedHeaders:  []string{"Content-Type", "If-None-Match"},
		ExposedHeaders:  []string{"ETag", "Retry-After"},
		MaxAge:          600, // seconds
	}).Handler(next)
}

// encryptAlways has browsers use TLS for a name from then on (HSTS, RFC 6797) where that can lock nobody out: a public authority vouches for
// the name, and this is its usual port. At another port, other programs may use the name without TLS.
func (s *Server) encryptAlways(next http.Handler) http.Handler {
	if s.cfg.Proven == nil {
		return next
	}
	age := []string{"max-age=" + strconv.Itoa(int(s.cfg.HSTS/time.Second))}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			name, address := HostName(r.Host)
			_, port, _ := net.SplitHostPort(r.Host)
			if !address.IsValid() && (port == "" || port == "443") && s.cfg.Proven(name) {
				w.Header()["Strict-Transport-Security"] = age
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Redirect returns a handler for requests without TLS, which leads to the same address over TLS at that port.
func (s *Server) Redirect(port string) http.Handler {
	return securityHeaders(s.checkHost(s.handle(func(w http.ResponseWriter, r *http.Request) error {
		name, address := HostName(r.Host)
		if address.Is6() {
			name = "[" + name + "]"
		}
		if port != "443" {
			name += ":" + port
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return Refuse(http.StatusForbidden, "this port only leads to https", "send the request to https://"+name+s.kit.Root())
		}
		target := url.URL{Scheme: "https", Host: name, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		w.Header()["Cache-Control"] = []string{"no-store"}
		http.Redirect(w, r, target.String(), http.StatusTemporaryRedirect)
		return nil
	})))
}
