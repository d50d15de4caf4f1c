package access

import (
	"os"
	"testing"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/views"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

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
