package app

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An attack is one that must fail.
type attack struct {
	what  string
	stops string   // what stops it
	tests []string // that try it, each as "folder: name"
}

// attacks are those that docs/security.md lists.
var attacks = []attack{
	{
		"Fixation: somebody gets a session before signing in, and hopes that it stays the same",
		"Signing in makes a new session, and ends the one before.",
		[]string{"internal/access: TestFixation"},
	},
	{
		"Replay: a link, a code, a passkey's answer or a provider's answer is used a second time",
		"Each is used up in the same change of the database that accepts it.",
		[]string{"internal/access: TestAttacksOnAnAttempt", "internal/access: TestRecoveryCodes", "internal/access: TestForgedPasskeys", "internal/access: TestSetup", "internal/access: TestReset"},
	},
	{
		"Forged and unsigned tokens, and alg=none, for a provider's answer",
		"Only signatures of the provider's published keys by asymmetric algorithms count.",
		[]string{"internal/access/provider: TestTokens", "internal/access/provider: TestKeysThatRotate"},
	},
	{
		"Forged and unsigned assertions of a proxy",
		"The signature is checked with the team's published keys, as for a provider.",
		[]string{"internal/access/proxy: TestAssertions"},
	},
	{
		"A forged API token",
		"A token has 256 random bits. Its hash is looked up, and compared in constant time.",
		[]string{"internal/access: TestTokenValues", "internal/access: TestTokensRecognize"},
	},
	{
		"A provider's answer for another audience, or of another issuer",
		"Issuer and audience must be those of the provider that the browser was sent to.",
		[]string{"internal/access/provider: TestTokens", "internal/access/provider: TestMixUp", "internal/access/provider: TestWhatAProviderSays"},
	},
	{
		"Reuse of the state of a sign-in with a provider, or its use in another browser",
		"The state belongs to one browser, is used once, and ends after ten minutes.",
		[]string{"internal/access: TestAttacksOnAnAttempt"},
	},
	{
		"Open redirect: signing in leads to a page of the attacker",
		"Only paths of gpuwhy itself are led back to.",
		[]string{"internal/access: TestBackTo", "internal/access: TestNoOpenRedirect", "internal/access: TestWhereAProviderSendsBack"},
	},
	{
		"Header spoofing: a client says in a proxy's headers who it is",
		"The headers count from trusted proxies alone, and are removed from all other requests, those for sockets too.",
		[]string{"internal/access: TestHeadersOfStrangers", "internal/access/proxy: TestHeadersThatAreRefused", "internal/access/proxy: TestStrip"},
	},
	{
		"Header spoofing: a client, or another user of the machine, says that it speaks TLS, or where it is",
		"X-Forwarded-Proto and X-Forwarded-For count from trusted proxies alone: by address, or by the user whom the kernel names.",
		[]string{"internal/access: TestNamedProxiesSpeakForBrowsers", "internal/access: TestPlainPasswords", "internal/serve: TestWhoTheClientIs", "internal/serve: TestPassedOn"},
	},
	{
		"Root of a container, behind a bridge or in a network namespace of its own, is taken for root",
		"The kernel knows no user for such a connection, so it is nobody's.",
		[]string{"internal/access: TestWhoComesFromAnotherNetworkNamespace", "internal/access/peer: TestAnotherNetworkNamespace"},
	},
	{
		"CSRF: a page of another site makes a browser act",
		"Requests that change something are refused unless they come from gpuwhy's own page or from no page; cookies are SameSite. Nothing that changes something is a GET.",
		[]string{"internal/app: TestForeignPagesChangeNothing", "internal/access: TestNoForgedRequests"},
	},
	{
		"Brute force: passwords and codes are guessed",
		"Attempts are delayed and limited for each account and each address, over all programs that share accounts.",
		[]string{"internal/access: TestBruteForce", "internal/access: TestFailuresOfUsersOfThisMachine"},
	},
	{
		"Timing and enumeration: answers tell whether an account exists",
		"Each failure has the same words and the same status, and takes the time of a password check, also for unknown names.",
		[]string{"internal/access: TestNoEnumeration", "internal/access: TestUnknownNamesHaveDelaysToo"},
	},
	{
		"The open socket of a revoked user, session or token",
		"Sockets are checked against the accounts, and closed within a second, also if the client does not answer: it gets not even the rest of a message.",
		[]string{"internal/access: TestRevoked", "internal/access: TestSocketsOfChangedUsers", "internal/app: TestOpenSocketsEnd", "hub: TestRevokedViewersThatDoNotAnswer", "cmd/gpuwhy: TestTwoHubsShareAccounts"},
	},
	{
		"A viewer calls each operation directly, past the buttons that are not drawn",
		"The declaration of an operation has the access that it needs, checked where it is run. A new one without it can be run by nobody.",
		[]string{"internal/app: TestActionsNeedAccess", "internal/app: TestRolesAndAddresses"},
	},
	{
		"Path tricks: encoded slashes, dot segments, a machine's prefix, other methods",
		"Each handler has its access around itself, whatever path leads to it.",
		[]string{"internal/app: TestNoPathLeadsAround", "internal/serve: TestNoPrincipalNoAnswer"},
	},
	{
		"Privileges after a role is lowered",
		"The role is read from the account for each request, and open sockets end.",
		[]string{"internal/access: TestRevoked", "internal/access: TestRolesOfAccounts", "internal/access: TestSocketsOfChangedUsers"},
	},
	{
		"Somebody looks for machines that the account does not see, by names, counts, downloads, errors or the socket",
		"What somebody may not see is left out before anything is encoded. A test asks at every address, and compares with a fleet without these machines.",
		[]string{"internal/app: TestLimitedSight", "internal/app: TestLimitedSocket", "internal/access: TestAccountsThatSeeSome"},
	},
	{
		"Somebody reads the command lines of others",
		"Only an administrator who asks for it sees them, for an hour, and it is in the audit. Neither a hub nor the history has more than the machine shows to everybody.",
		[]string{"internal/app: TestCommandLinesOfRoles", "internal/app: TestCommandLines", "internal/access: TestShownCommands"},
	},
	{
		"A token lives on after its owner lost the role at a provider or a proxy",
		"It may do what its owner may do now, is removed when the owner comes with less, and ends after 30 days.",
		[]string{"internal/access: TestTokensOfGuests", "internal/access: TestTokensOfVouchedAccounts", "internal/access: TestTokensAreLimited"},
	},
	{
		"Somebody fills the audit by changing what is their own, or by signing in, all day",
		"After 30 changes an account can make one a minute, and after 30 sign-ins it can sign in once a minute. Refusals are counted.",
		[]string{"internal/access: TestOwnChangesArePaced", "internal/access: TestSignInsArePaced"},
	},
	{
		"A stolen state directory",
		"It has slow hashes of passwords, and hashes of tokens, sessions, links and codes; none of them lets anybody in.",
		[]string{"internal/access: TestStolenStateDirectory", "internal/access: TestAStolenLedger"},
	},
	{
		"Symbolic links in the state directory",
		"The database is opened without following a link, and only if it is a regular file.",
		[]string{"internal/access/ledger: TestFile"},
	},
	{
		"Somebody changes or removes an entry of the audit",
		"The chain of hashes does not hold from there on.",
		[]string{"internal/access/ledger: TestTampering"},
	},
	{
		"Secrets in the audit and in the log",
		"Fields with secrets are declared, and masked when they are recorded.",
		[]string{"internal/action: TestSecretsAreMasked", "internal/audit: TestActionsAreRecorded"},
	},
	{
		"Somebody acts while nothing can be recorded",
		"The action is refused.",
		[]string{"internal/audit: TestUnrecordedActionsAreRefused"},
	},
	{
		"Somebody tries what is not theirs, and floods the audit to hide it",
		"Refused tokens, limited sign-ins and denials are recorded: the first of each person or token at an address, and then a count for each minute.",
		[]string{"internal/app: TestRefusalsAreRecorded", "internal/audit: TestRefusalsAreCounted", "internal/audit: TestAFloodOfRefusals"},
	},
	{
		"A hub that signs nothing says that somebody wants an alert acknowledged or silenced",
		"The machine lets it read alone, and says why.",
		[]string{"internal/fleet/downlink: TestEarlierHub"},
	},
	{
		"Another site's name points to this machine (DNS rebinding)",
		"Requests must name an address or a host of gpuwhy.",
		[]string{"internal/app: TestForeignHostsAndOriginsAreRefused"},
	},
}

// docs/security.md lists the attacks, and each test that it names is there.
func TestAttacksAreDocumented(t *testing.T) {
	declared := map[string]map[string]bool{} // names of tests by folder
	testsOf := func(folder string) map[string]bool {
		if names, read := declared[folder]; read {
			return names
		}
		names := map[string]bool{}
		files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, is := d.(*ast.FuncDecl); is && f.Recv == nil {
					names[f.Name.Name] = true
				}
			}
		}
		declared[folder] = names
		return names
	}
	var table strings.Builder
	table.WriteString("| attack | what stops it | tests |\n| --- | --- | --- |\n")
	for _, a := range attacks {
		var tests []string
		for _, test := range a.tests {
			folder, name, _ := strings.Cut(test, ": ")
			if !testsOf(folder)[name] {
				t.Errorf("%s: there is no test %s in %s", a.what, name, folder)
			}
			tests = append(tests, fmt.Sprintf("`%s` in `%s`", name, folder))
		}
		if len(tests) == 0 {
			t.Errorf("%s: no test tries it", a.what)
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", a.what, a.stops, strings.Join(tests, ", "))
	}
	const name, begin, end = "../../docs/security.md", "<!-- attacks: go test ./internal/app -run TestAttacksAreDocumented -update -->\n", "<!-- end of attacks -->\n"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	was, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the attacks", name)
	}
	switch {
	case was == table.String():
	case *update:
		if err := os.WriteFile(name, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not list the attacks: run 'go test ./internal/app -run TestAttacksAreDocumented -update', and look at what changed", name)
	}
}
