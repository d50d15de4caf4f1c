package access

import (
	"os"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/views"
)

// dear are the parameters of the product's hashes. All tests but [TestHashes] have cheaper ones.
var dear = *hashing

func TestMain(m *testing.M) {
	hashing.Memory, hashing.Iterations = 64, 1
	os.Exit(testkit.RunTests(m))
}

// Hashes have the parameters that OWASP recommends, and a password that no user has is compared with a hash of the same parameters.
func TestHashes(t *testing.T) { // alone, while no other test hashes
	cheap := *hashing
	*hashing = dear
	t.Cleanup(func() { *hashing = cheap })
	h := newHasher()
	t.Cleanup(h.close)
	const password = "four words are enough"
	hash, err := h.hash(password)
	if err != nil {
		t.Fatal(err)
	}
	const want = "$argon2id$v=19$m=19456,t=2,p=1$"
	if !strings.HasPrefix(hash, want) || !strings.HasPrefix(nobody(), want) || len(nobody()) != len(hash) {
		t.Errorf("hashes are %s and, of nobody, %s", hash, nobody())
	}
	for _, tt := range []struct {
		password, hash string
		want           bool
	}{{password, hash, true}, {password + ".", hash, false}, {password, "", false}, {"", "", false}} {
		if same, err := h.matches(tt.password, tt.hash); same != tt.want || err != nil {
			t.Errorf("%q has the hash %q: %v, %v", tt.password, tt.hash, same, err)
		}
	}
}

// pages has the pages of errors alone.
type pages struct{ shell }

// Error implements serve.Pages.
func (p pages) Error(status int, title string, advice gpu.Advice) templ.Component {
	return views.ErrorPage(status, title, advice, p.Plain())
}

// Docs implements serve.Pages.
func (pages) Docs() templ.Component { return nil }

// Reference implements serve.Pages.
func (pages) Reference(*apidoc.Document) templ.Component { return nil }

// Events implements serve.Pages.
func (pages) Events(*apidoc.Events) templ.Component { return nil }

// Asset implements serve.Pages.
func (pages) Asset(string) (serve.Asset, bool) { return serve.Asset{}, false }
