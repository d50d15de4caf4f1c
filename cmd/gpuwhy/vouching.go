package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/provider"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// vouchingFlags say who else may say who somebody is: OpenID Connect providers, and proxies that sign people in.
type vouchingFlags struct {
	PublicURL string `group:"access" name:"public-url" placeholder:"URL" help:"Where browsers reach gpuwhy, such as https://gpu.example.org, for the address that a provider sends them back to. By default that of each request." docs:"access.md#single-sign-on"`

	OIDCProviders        providerList `group:"access" name:"oidc-providers" placeholder:"LIST" help:"OpenID Connect providers that people can sign in with, as a list in the configuration file." docs:"access.md#single-sign-on"`
	OIDCIssuer           string       `group:"access" name:"oidc-issuer" placeholder:"URL" help:"The issuer of one more OpenID Connect provider, for which the other --oidc flags are." docs:"access.md#single-sign-on"`
	OIDCName             string       `group:"access" name:"oidc-name" placeholder:"NAME" help:"What the provider is called, on the page and in addresses; sso by default."`
	OIDCClientID         string       `group:"access" name:"oidc-client-id" placeholder:"ID" help:"The client ID of gpuwhy at the provider."`
	OIDCClientSecretFile string       `group:"access" name:"oidc-client-secret-file" placeholder:"FILE" help:"File with the client secret; read at each sign-in."`
	OIDCClientSecretEnv  string       `group:"access" name:"oidc-client-secret-env" placeholder:"VARIABLE" help:"Environment variable with the client secret, instead of a file."`
	OIDCScopes           []string     `group:"access" name:"oidc-scopes" placeholder:"SCOPE" help:"Scopes to ask for besides openid; profile and email by default."`
	OIDCNameClaim        string       `group:"access" name:"oidc-name-claim" placeholder:"CLAIM" help:"The claim with the person's name; preferred_username by default, or else a verified e-mail address."`
	OIDCGroupsClaim      string       `group:"access" name:"oidc-groups-claim" placeholder:"CLAIM" help:"The claim with the person's groups, such as groups or realm_access.roles."`
	OIDCRole             []string     `group:"access" name:"oidc-role" placeholder:"GROUP=ROLE" help:"The role of a group: viewer, operator or administrator, perhaps of some machines only, such as gpu-staff=operator@label:rack=r12, or of people who see only some, such as r12-users=viewer sees label:rack=r12; repeatable."`
	OIDCDefaultRole      string       `group:"access" name:"oidc-default-role" placeholder:"ROLE" help:"The role of people without another one: viewer, operator, or none, which refuses them; none by default."`
	OIDCCreateUsers      bool         `group:"access" name:"oidc-create-users" default:"true" negatable:"" help:"Give people an account when they first sign in."`

	ProxySignIn      string   `group:"access" placeholder:"HEADER" help:"Header with which a trusted proxy says who has signed in, such as Remote-User, X-Forwarded-User, Tailscale-User-Login or Cf-Access-Jwt-Assertion." docs:"access.md#behind-a-proxy-that-signs-people-in"`
	ProxyRole        []string `group:"access" placeholder:"GROUP=ROLE" help:"The role of a group that the proxy names, or of one person with user:NAME=ROLE; as for --oidc-role; repeatable."`
	ProxyDefaultRole string   `group:"access" placeholder:"ROLE" help:"The role of people without another one: viewer, operator, or none, which refuses them; viewer by default."`
	ProxyIssuer      string   `group:"access" placeholder:"URL" help:"The team's address at Cloudflare Access, such as https://team.cloudflareaccess.com."`
	ProxyAudience    string   `group:"access" placeholder:"TAG" help:"The audience tag of the application at Cloudflare Access."`

	providers []access.Provider
	proxied   *access.ProxySignIn // nil: no proxy signs people in
}

// vouched reports whether somebody else than gpuwhy can sign people in.
func (f *vouchingFlags) vouched() bool { return len(f.providers) > 0 || f.proxied != nil }

// secretVariables are the names of the variables that have secrets.
func (f *vouchingFlags) secretVariables() (names []string) {
	for i := range f.OIDCProviders {
		names = append(names, f.OIDCProviders[i].ClientSecretEnv)
	}
	return append(names, f.OIDCClientSecretEnv)
}

// check reads the providers and how proxies sign people in. proxies are the trusted ones, and basePath is the path that everything is below.
func (f *vouchingFlags) check(proxies serve.Proxies, basePath string) error {
	return first(
		func() error { return f.checkPublicURL(basePath) },
		f.checkProviders,
		func() error { return f.checkProxy(proxies) },
	)
}

// checkPublicURL makes it an origin. People may write the base path too.
func (f *vouchingFlags) checkPublicURL(basePath string) error {
	if f.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(f.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return bad("public-url", f.PublicURL, "must be a URL without a query, such as https://gpu.example.org")
	}
	if below := strings.TrimSuffix(u.Path, "/"); below != "" && below != strings.TrimSuffix(basePath, "/") {
		return bad("public-url", f.PublicURL, "its path must be that of --base-path, or empty")
	}
	f.PublicURL = u.Scheme + "://" + u.Host
	return nil
}

func (f *vouchingFlags) checkProviders() error {
	all := slices.Clone(f.OIDCProviders)
	if f.OIDCIssuer == "" {
		useless := "has no effect without --oidc-issuer, the issuer's URL, such as https://sso.example.org/realms/lab"
		if err := refuse(
			rule{f.OIDCName != "", "oidc-name", f.OIDCName, useless},
			rule{f.OIDCClientID != "", "oidc-client-id", f.OIDCClientID, useless},
			rule{f.OIDCClientSecretFile != "", "oidc-client-secret-file", f.OIDCClientSecretFile, useless},
			rule{f.OIDCClientSecretEnv != "", "oidc-client-secret-env", f.OIDCClientSecretEnv, useless},
			rule{len(f.OIDCScopes) > 0, "oidc-scopes", strings.Join(f.OIDCScopes, ","), useless},
			rule{f.OIDCNameClaim != "", "oidc-name-claim", f.OIDCNameClaim, useless},
			rule{f.OIDCGroupsClaim != "", "oidc-groups-claim", f.OIDCGroupsClaim, useless},
			rule{len(f.OIDCRole) > 0, "oidc-role", strings.Join(f.OIDCRole, ","), useless},
			rule{f.OIDCDefaultRole != "", "oidc-default-role", f.OIDCDefaultRole, useless},
			rule{!f.OIDCCreateUsers, "oidc-create-users", false, useless},
		); err != nil {
			return err
		}
	} else {
		one := providerEntry{
			Name: f.OIDCName, Issuer: f.OIDCIssuer, ClientID: f.OIDCClientID, ClientSecretFile: f.OIDCClientSecretFile, ClientSecretEnv: f.OIDCClientSecretEnv,
			Scopes: f.OIDCScopes, NameClaim: f.OIDCNameClaim, GroupsClaim: f.OIDCGroupsClaim, DefaultRole: f.OIDCDefaultRole, CreateUsers: &f.OIDCCreateUsers,
			place: func(key string) string { return "--oidc-" + map[bool]string{true: "role", false: key}[key == "roles"] },
		}
		if one.Name == "" {
			one.Name = "sso"
		}
		roles, err := grants("oidc-role", f.OIDCRole)
		if err != nil {
			return err
		}
		one.Roles = roles
		all = append(all, one)
	}
	seen := map[string]bool{}
	f.providers = nil
	for i := range all {
		p, err := all[i].provider()
		if err != nil {
			return err
		}
		if seen[p.Name] {
			return fmt.Errorf("%s: two providers are called %q: give each its own name", all[i].place("name"), p.Name)
		}
		seen[p.Name] = true
		f.providers = append(f.providers, p)
	}
	return nil
}

// grants reads grants from a flag.
func grants(flag string, texts []string) (all grantList, err error) {
	for _, text := range texts {
		g, err := access.ParseGrant(text)
		if err != nil {
			return nil, bad(flag, text, err.Error())
		}
		all = append(all, g)
	}
	return all, nil
}

// defaultRole reads the role of people without another one.
func defaultRole(text string, otherwise access.Role) (access.Role, error) {
	switch role := access.Role(text); {
	case text == "":
		return otherwise, nil
	case text == "none":
		return "", nil
	case role == access.Viewer, role == access.Operator:
		return role, nil
	}
	return "", errors.New("must be viewer, operator or none")
}

func (f *vouchingFlags) checkProxy(proxies serve.Proxies) error {
	if f.ProxySignIn == "" {
		f.proxied = nil
		useless := "has no effect without --proxy-sign-in"
		return refuse(
			rule{len(f.ProxyRole) > 0, "proxy-role", strings.Join(f.ProxyRole, ","), useless},
			rule{f.ProxyDefaultRole != "", "proxy-default-role", f.ProxyDefaultRole, useless},
			rule{f.ProxyIssuer != "", "proxy-issuer", f.ProxyIssuer, useless},
			rule{f.ProxyAudience != "", "proxy-audience", f.ProxyAudience, useless},
		)
	}
	p := new(access.ProxySignIn)
	p.Header, p.Issuer, p.Audience = http.CanonicalHeaderKey(f.ProxySignIn), f.ProxyIssuer, f.ProxyAudience
	if setting, err := p.Check(); err != nil {
		flag := map[string]string{"header": "proxy-sign-in", "issuer": "proxy-issuer", "audience": "proxy-audience"}[setting]
		value := map[string]string{"header": f.ProxySignIn, "issuer": f.ProxyIssuer, "audience": f.ProxyAudience}[setting]
		return bad(flag, value, err.Error())
	}
	if proxies.None() {
		return bad("proxy-sign-in", f.ProxySignIn, "nobody may send it yet: name the proxy with --trusted-proxy, or with --proxy-user if it runs on this machine")
	}
	roles, err := grants("proxy-role", f.ProxyRole)
	if err != nil {
		return err
	}
	p.Roles = roles
	if p.Others, err = defaultRole(f.ProxyDefaultRole, access.Viewer); err != nil {
		return bad("proxy-default-role", f.ProxyDefaultRole, err.Error())
	}
	if p.Others == "" && len(p.Roles) == 0 {
		return bad("proxy-default-role", f.ProxyDefaultRole, "nobody could come in: give roles with --proxy-role")
	}
	f.proxied = p
	return nil
}

// A providerEntry is a provider as the configuration file has it.
type providerEntry struct {
	Name             string            `yaml:"name"`
	Title            string            `yaml:"title"`
	Issuer           string            `yaml:"issuer"`
	ClientID         string            `yaml:"client-id"`
	ClientSecretFile string            `yaml:"client-secret-file"`
	ClientSecretEnv  string            `yaml:"client-secret-env"`
	CAFile           string            `yaml:"ca-file"`
	Scopes           []string          `yaml:"scopes"`
	NameClaim        string            `yaml:"name-claim"`
	GroupsClaim      string            `yaml:"groups-claim"`
	Roles            grantList         `yaml:"roles"`
	DefaultRole      string            `yaml:"default-role"`
	CreateUsers      *bool             `yaml:"create-users"`
	Require          map[string]string `yaml:"require"`

	place func(key string) string // where a key is, for errors
}

var providerName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$`)

// largestSecret is how long a file with a secret or certificates may be, in bytes.
const largestSecret = 1 << 20

// provider checks an entry. It asks nobody.
func (e *providerEntry) provider() (p access.Provider, err error) {
	wrong := func(key, value, what string) error { return fmt.Errorf("%s %q: %s", e.place(key), value, what) }
	others, badRole := defaultRole(e.DefaultRole, "")
	switch {
	case !providerName.MatchString(e.Name):
		return p, wrong("name", e.Name, "must be up to 32 small letters, digits and dashes, such as keycloak: it is a part of addresses")
	case e.Issuer == "":
		return p, wrong("issuer", "", "is missing: give the issuer's URL, such as https://sso.example.org/realms/lab")
	case provider.CheckURL(e.Issuer) != nil:
		return p, fmt.Errorf("%s: %w", e.place("issuer"), provider.CheckURL(e.Issuer))
	case e.ClientID == "":
		return p, wrong("client-id", "", "is missing: the provider gives you one for gpuwhy")
	case e.ClientSecretFile != "" && e.ClientSecretEnv != "":
		return p, wrong("client-secret-env", e.ClientSecretEnv, "can't be used with client-secret-file")
	case badRole != nil:
		return p, wrong("default-role", e.DefaultRole, badRole.Error())
	case len(e.Roles) == 0 && others == "":
		return p, wrong("roles", "", "nobody could sign in: give roles to groups, or a default-role to everybody whom the provider signs in")
	case e.GroupsClaim == "" && slices.ContainsFunc(e.Roles, func(g access.Grant) bool { return g.Group != "" }):
		return p, wrong("groups-claim", "", "is needed for roles of groups: name the claim that has them, such as groups")
	}
	p = access.Provider{
		Config: provider.Config{
			Name: e.Name, Title: e.Title, Issuer: e.Issuer, ClientID: e.ClientID, Scopes: e.Scopes, NameClaim: e.NameClaim, GroupsClaim: e.GroupsClaim, Require: e.Require,
		},
		Roles: e.Roles, Others: others, Create: e.CreateUsers == nil || *e.CreateUsers,
	}
	if e.Scopes == nil {
		p.Scopes = []string{"profile", "email"}
	}
	if p.Secret, err = e.secret(); err != nil {
		return p, err
	}
	if e.CAFile == "" {
		return p, nil
	}
	file, err := pathOf(e.place("ca-file"), e.CAFile)
	if err != nil {
		return p, err
	}
	text, err := regular.Read(file, largestSecret)
	if err != nil {
		return p, fmt.Errorf("%s: %w", e.place("ca-file"), err)
	}
	if p.CAs = x509.NewCertPool(); !p.CAs.AppendCertsFromPEM(text) {
		return p, wrong("ca-file", e.CAFile, "has no certificate in PEM")
	}
	return p, nil
}

// secret returns what reads the client's secret; nil for a public client.
func (e *providerEntry) secret() (func() (string, error), error) {
	if e.ClientSecretEnv != "" {
		value := strings.TrimSpace(os.Getenv(e.ClientSecretEnv))
		if value == "" {
			return nil, fmt.Errorf("%s: the variable %s is not set", e.place("client-secret-env"), e.ClientSecretEnv)
		}
		return func() (string, error) { return value, nil }, nil
	}
	if e.ClientSecretFile == "" {
		return nil, nil
	}
	file, err := pathOf(e.place("client-secret-file"), e.ClientSecretFile)
	if err != nil {
		return nil, err
	}
	read := func() (string, error) {
		text, err := regular.Read(file, largestSecret)
		if err != nil {
			return "", err
		}
		if secret := strings.TrimSpace(string(text)); secret != "" {
			return secret, nil
		}
		return "", fmt.Errorf("%s is empty", file)
	}
	if _, err := read(); err != nil {
		return nil, fmt.Errorf("%s: %w", e.place("client-secret-file"), err)
	}
	return read, nil
}

// A providerList is the value of a setting that is a list of maps.
type providerList []providerEntry

// wholeValue is a setting whose value in the file is more than text and lists of texts. It reads that as YAML.
type wholeValue interface{ whole() }

func (providerList) whole() {}

// Decode reads the list from YAML, for kong.
func (l *providerList) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("list", &text); err != nil {
		return err
	}
	var nodes []yaml.Node
	if err := yaml.Unmarshal([]byte(text), &nodes); err != nil {
		return errors.New("must be a list of providers, each a map with name, issuer, client-id and more")
	}
	*l = make(providerList, len(nodes))
	for i := range nodes {
		e := &(*l)[i]
		where := fmt.Sprintf("[%d]", i)
		if err := decodeKeys(&nodes[i], where, e); err != nil {
			return err
		}
		if e.Name != "" {
			where += " (" + e.Name + ")"
		}
		e.place = func(key string) string { return "--oidc-providers: " + where + ": " + key }
	}
	return nil
}

// A grantList is a list of grants, each as a text or a map.
type grantList []access.Grant

// UnmarshalYAML implements [yaml.Unmarshaler].
func (l *grantList) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.SequenceNode {
		return errors.New("must be a list")
	}
	for _, item := range node.Content {
		if item.Kind == yaml.ScalarNode {
			g, err := access.ParseGrant(item.Value)
			if err != nil {
				return fmt.Errorf("%q: %w", item.Value, err)
			}
			*l = append(*l, g)
			continue
		}
		var entry struct {
			Group string `yaml:"group"`
			User  string `yaml:"user"`
			Role  string `yaml:"role"`
			Scope string `yaml:"scope"`
			Sees  string `yaml:"sees"`
		}
		if err := decodeKeys(item, fmt.Sprintf("[%d]", len(*l)), &entry); err != nil {
			return err
		}
		g, setting, err := access.NewGrant(entry.Group, entry.User, entry.Role, entry.Scope, entry.Sees)
		if err != nil {
			return fmt.Errorf("[%d]: %s: %w", len(*l), setting, err)
		}
		*l = append(*l, g)
	}
	return nil
}

// decodeKeys reads a map into a struct whose fields have their key as a yaml tag. where is where the map is, for errors.
func decodeKeys(node *yaml.Node, where string, into any) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: must be a map of keys and values", where)
	}
	fields := map[string]reflect.Value{}
	var known []string
	for field, value := range reflect.ValueOf(into).Elem().Fields() {
		if key := field.Tag.Get("yaml"); key != "" {
			fields[key], known = value, append(known, key)
		}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i].Value, node.Content[i+1]
		field, is := fields[key]
		switch {
		case !is:
			return fmt.Errorf("%s: unknown key %q%s; known keys: %s", where, key, nearest.Hint(key, known), strings.Join(known, ", "))
		case seen[key]:
			return fmt.Errorf("%s: %s: appears twice", where, key)
		case value.Tag == "!!null":
			return fmt.Errorf("%s: %s: has no value: set one, or leave it out", where, key)
		}
		seen[key] = true
		err := value.Decode(field.Addr().Interface())
		if _, mismatch := errors.AsType[*yaml.TypeError](err); mismatch {
			err = errors.New(map[reflect.Kind]string{
				reflect.String: "must be text", reflect.Slice: "must be a list of texts", reflect.Pointer: "must be true or false", reflect.Map: "must be a map of texts",
			}[field.Kind()])
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", where, key, err)
		}
	}
	return nil
}
