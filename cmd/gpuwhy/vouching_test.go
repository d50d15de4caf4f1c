//go:build !race

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong with a provider is said with its key, and nobody is asked.
func TestProvidersOfAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("SECRET_OF_A_PROVIDER", "s3cret")
	secret, empty := write("secret", "s3cret\n"), write("empty", "\n")
	const good = "name: lab\n  issuer: https://sso.example\n  client-id: gpuwhy\n  groups-claim: groups\n  roles: [gpu=operator]\n"
	for name, tt := range map[string]struct{ text, says string }{
		"good":                 {good, ""},
		"good, with all keys":  {good + "  title: Lab\n  client-secret-file: " + secret + "\n  scopes: [groups]\n  name-claim: email\n  default-role: viewer\n  create-users: false\n  require: {hd: example.org}\n", ""},
		"a secret's variable":  {good + "  client-secret-env: SECRET_OF_A_PROVIDER\n", ""},
		"roles as maps":        {strings.Replace(good, "[gpu=operator]", "[{group: gpu, role: operator, scope: \"label:rack=r12\"}, {user: u7, role: administrator, sees: \"node:a\"}, r12=viewer sees label:rack=r12]", 1), ""},
		"everybody":            {"name: lab\n  issuer: https://sso.example\n  client-id: gpuwhy\n  default-role: viewer\n", ""},
		"an unknown key":       {good + "  isuer: x\n", `unknown key "isuer" (did you mean "issuer"?)`},
		"a key twice":          {good + "  title: a\n  title: b\n", "title"},
		"no value":             {good + "  title:\n", "title: has no value"},
		"scopes as text":       {good + "  scopes: groups\n", "scopes: must be a list of texts"},
		"users as text":        {good + "  create-users: sure\n", "create-users: must be true or false"},
		"a role that is none":  {strings.Replace(good, "operator", "root", 1), "roles"},
		"a map without a role": {strings.Replace(good, "[gpu=operator]", "[{group: gpu}]", 1), "role"},
		"a scope that is none": {strings.Replace(good, "[gpu=operator]", "[{group: gpu, role: operator, scope: rack12}]", 1), "scope"},
		"a sight that is none": {strings.Replace(good, "[gpu=operator]", "[{group: gpu, role: viewer, sees: rack12}]", 1), "sees"},
		"no name":              {strings.Replace(good, "name: lab", "title: lab", 1), "name"},
		"a name with a slash":  {strings.Replace(good, "name: lab", "name: a/b", 1), "name"},
		"no issuer":            {strings.Replace(good, "  issuer: https://sso.example\n", "", 1), "issuer"},
		"an issuer in clear":   {strings.Replace(good, "https://", "http://", 1), "issuer"},
		"no client":            {strings.Replace(good, "  client-id: gpuwhy\n", "", 1), "client-id"},
		"no groups":            {strings.Replace(good, "  groups-claim: groups\n", "", 1), "groups-claim"},
		"nobody":               {strings.Replace(good, "  roles: [gpu=operator]\n", "", 1), "roles"},
		"a default of root":    {good + "  default-role: administrator\n", "default-role"},
		"no such file":         {good + "  client-secret-file: /nowhere/secret\n", "client-secret-file"},
		"an empty file":        {good + "  client-secret-file: " + empty + "\n", "client-secret-file"},
		"no such variable":     {good + "  client-secret-env: NOT_SET_ANYWHERE\n", "client-secret-env"},
		"two secrets":          {good + "  client-secret-env: SECRET_OF_A_PROVIDER\n  client-secret-file: " + secret + "\n", "client-secret-env"},
		"no certificates":      {good + "  ca-file: " + secret + "\n", "ca-file"},
		"the same name twice":  {good + "- " + good, "name"},
	} {
		file := write("gpuwhy.yaml", "oidc-providers:\n- "+tt.text)
		r := inside("check-config", "--config="+file, "--state-dir=none", "--listen=127.0.0.1:0", "--source=simulate:rtx-4090")
		switch {
		case tt.says == "" && (r.code != exitOK || r.stderr != ""):
			t.Errorf("%s: %+v", name, r)
		case tt.says != "" && (r.code != exitUsage || !strings.Contains(r.stderr, tt.says) || !strings.Contains(r.stderr, "oidc-providers") && name != "a key twice"):
			t.Errorf("%s: %+v, want %q", name, r, tt.says)
		}
		if strings.Contains(fmt.Sprint(r), "s3cret") {
			t.Errorf("%s: the secret is told: %+v", name, r)
		}
	}
}

// One provider and a proxy can be set by flags and variables, without a file.
func TestVouchingFlags(t *testing.T) {
	t.Setenv("SECRET_OF_A_PROVIDER", "s3cret")
	for args, says := range map[string]string{
		"--oidc-issuer=https://a --oidc-client-id=b --oidc-default-role=viewer":                                                                      "",
		"--oidc-issuer=https://a --oidc-client-id=b --oidc-groups-claim=groups --oidc-role=a=operator@label:rack=r1 --oidc-role=b=administrator":     "",
		"--oidc-issuer=https://a --oidc-client-id=b --oidc-client-secret-env=SECRET_OF_A_PROVIDER --oidc-default-role=viewer --no-oidc-create-users": "",
		"--oidc-issuer=https://a --oidc-client-id=b":                                                 "--oidc-role",
		"--oidc-issuer=https://a --oidc-client-id=b --oidc-role=a=operator":                          "--oidc-groups-claim",
		"--oidc-issuer=https://a":                                                                    "--oidc-client-id",
		"--oidc-issuer=https://a --oidc-client-id=b --oidc-default-role=administrator":               "--oidc-default-role",
		"--proxy-sign-in=remote-user --trusted-proxy=10.0.0.5":                                       "",
		"--proxy-sign-in=Remote-User --proxy-user=root --proxy-user=33 --proxy-role=user:a=operator": "",
		"--proxy-user=root":         "",
		"--proxy-user=no-such-user": "--proxy-user",
		"--proxy-sign-in=Remote-User --trusted-proxy=10.0.0.5 --proxy-default-role=none": "--proxy-default-role",
		"--proxy-sign-in=Remote-User":                                                                                                             "--trusted-proxy",
		"--proxy-sign-in=X-Nobody --trusted-proxy=10.0.0.5":                                                                                       "must be one of",
		"--proxy-sign-in=Cf-Access-Jwt-Assertion --trusted-proxy=10.0.0.5":                                                                        "--proxy-issuer",
		"--proxy-sign-in=Cf-Access-Jwt-Assertion --trusted-proxy=10.0.0.5 --proxy-issuer=https://team.cloudflareaccess.com":                       "--proxy-audience",
		"--proxy-sign-in=Cf-Access-Jwt-Assertion --trusted-proxy=10.0.0.5 --proxy-issuer=https://team.cloudflareaccess.com --proxy-audience=a1b2": "",
		"--public-url=https://gpu.example.org/gpuwhy/ --base-path=/gpuwhy":                                                                        "",
		"--public-url=https://gpu.example.org/other":                                                                                              "--public-url",
	} {
		err := checked(append([]string{"serve", "--state-dir=none"}, strings.Fields(args)...)...)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", args, err, says)
		}
	}
}
