//go:build !race

package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// Accounts and tokens are made before a program runs and while it does, by the same commands, and hold in both. Programs come in with a
// token until it is removed, and nothing that gpuwhy writes has a secret.
func TestAccountsAndTokens(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), t.TempDir()
	const password = "seven wet otters in a tub"
	secret := filepath.Join(files, "secret")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var told strings.Builder // what commands print that is to be kept out of records
	do := func(code int, says string, args ...string) string {
		t.Helper()
		r := command(t, nil, append(args, "--state-dir", dir)...)
		if r.code != code || !strings.Contains(r.stdout+r.stderr, says) || (code == exitOK) != (r.stderr == "") {
			t.Errorf("gpuwhy %v: %+v, want %q", args, r, says)
		}
		return r.stdout
	}
	token := func(args ...string) (made contract.AddedToken) {
		t.Helper()
		text := do(exitOK, "gpw_", append([]string{"token", "add"}, append(args, "--json")...)...)
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			t.Fatal(err)
		}
		told.WriteString(made.Value + "\n")
		return made
	}

	do(exitOK, "There is no account.\n", "user", "list")
	write(password)
	do(exitOK, "Account: ann, administrator\n", "user", "add", "ann", "--role", "administrator", "--password-file", secret)
	do(exitOK, "\n/gpus/reset?link=", "user", "add", "bob", "--scope", "label:rack=r12", "--base-path", "/gpus")
	do(exitError, "gpuwhy: name is that of another account: choose another name\n", "user", "add", "Ann")
	do(exitError, "gpuwhy: password must have at least 15 characters", "user", "add", "cleo", "--password-file", shortSecret(t))
	before := token("before", "--access", "metrics")

	p := start(t, nil, "--source", "simulate:rtx-4090", "--interval", "250ms", "--state-dir", dir, "--sign-in")
	p.await("it reads", func(u contract.Update) bool { return u.Available })
	if listed := do(exitOK, "ann", "user", "list"); !strings.Contains(listed, "label:rack=r12") {
		t.Errorf("the program has %s", listed)
	}
	do(exitOK, "Changed: bob, operator\n", "user", "change", "bob", "--role", "operator", "--scope", "")
	do(exitError, "gpuwhy: role is \"boss\"", "user", "change", "bob", "--role", "boss")
	do(exitOK, "The account is removed.\n", "user", "remove", "bob")
	reads := token("reads")

	// curl, with a token that was made before the program ran.
	if curl, err := exec.LookPath("curl"); err == nil {
		for path, want := range map[string]string{"metrics": "200", "api/alerts": "403", "health": "200"} {
			out, err := exec.CommandContext(t.Context(), curl, "-s", "-o", filepath.Join(files, "answer"), "-w", "%{http_code}", "-H", "Authorization: Bearer "+before.Value, p.url+path).Output()
			if err != nil || string(out) != want {
				t.Errorf("curl %s: %s, %v, want %s", path, out, err, want)
			}
		}
		if text, err := os.ReadFile(filepath.Join(files, "answer")); err != nil || len(text) == 0 {
			t.Errorf("curl got %q, %v", text, err)
		}
	}

	// Our client, and commands that ask, with the token in the environment or in a file.
	mine, err := client.Do(t.Context(), p.client(client.Options{Token: reads.Value}), client.GetAccount())
	if err != nil || mine.Name != "reads" || mine.Access != "read" || mine.Way != "token" {
		t.Errorf("the token is %+v, %v", mine, err)
	}
	write(reads.Value)
	for _, r := range []result{
		command(t, []string{"GPUWHY_TOKEN=" + reads.Value}, "why", "--url", p.url), command(t, nil, "why", "--url", p.url, "--token-file", secret),
	} {
		if r.code != exitOK || r.stdout == "" {
			t.Errorf("gpuwhy why: %+v", r)
		}
	}
	if r := command(t, []string{"GPUWHY_TOKEN=" + reads.Value}, "do", "test-target", "phone", "--url", p.url); r.code != exitError || !strings.Contains(r.stderr, `it needs the access "operate", and you have "read"`) {
		t.Errorf("what the token may not do: %+v", r)
	}
	if r := command(t, []string{"GPUWHY_TOKEN=" + reads.Value}, "user", "list", "--url", p.url); r.code != exitError || !strings.Contains(r.stderr, `it needs the access "administer"`) {
		t.Errorf("what the token may not see: %+v", r)
	}

	// A removed token ends what is open with it, and lets nobody in.
	v, err := p.view(client.Options{Token: reads.Value})
	if err != nil {
		t.Fatal(err)
	}
	do(exitOK, "The token is removed.\n", "token", "remove", reads.ID)
	for err = nil; err == nil; {
		_, err = v.message()
	}
	_, err = client.Do(t.Context(), p.client(client.Options{Token: reads.Value}), client.GetAccount())
	if refused, ok := errors.AsType[*client.Problem](err); !ok || refused.Status != 401 || !strings.Contains(refused.Detail, "is not valid") {
		t.Errorf("with the removed token: %v", err)
	}
	if r := command(t, []string{"GPUWHY_TOKEN=" + reads.Value}, "why", "--url", p.url); r.code != exitError || !strings.Contains(r.stderr, "the API token is not valid") {
		t.Errorf("gpuwhy why with the removed token: %+v", r)
	}
	if err := p.stop(os.Interrupt); err != nil {
		t.Error(err)
	}

	do(exitOK, "before", "token", "list")
	told.WriteString(password + "\n")
	for line := range strings.Lines(told.String()) {
		value := strings.TrimSpace(line)
		if strings.Contains(p.log.String(), value) {
			t.Errorf("the log has the secret %.8s…", value)
		}
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			if strings.Contains(string(text), value) {
				t.Errorf("%s has the secret %.8s…", name, value)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func shortSecret(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(name, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Whoever lists, and misspells the folder, is told so, and there is no new folder.
func TestListsMakeNoFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "misspelled")
	for _, args := range [][]string{{"user", "list"}, {"token", "list"}, {"session", "list"}, {"audit", "list"}, {"audit", "check"}} {
		r := command(t, nil, append(args, "--state-dir", dir)...)
		if r.code != exitError || r.stderr != "gpuwhy: there is no folder "+dir+": name that of the gpuwhy with --state-dir, or its address with --url\n" {
			t.Errorf("%v: %+v", args, r)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%v: %v", args, err)
		}
	}
}
