package views

import (
	"net/http"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// ErrorPage tells a person what happened and what to do. The page of a status 503
// (not there yet) reloads itself.
func ErrorPage(status int, title string, advice gpu.Advice, base string, asset func(name string) string) templ.Component {
	h := head{Title: title + " · gpuwhy", asset: asset, Styles: []string{"app.css"}, Again: status == http.StatusServiceUnavailable}
	return document(h, errorBody(status, title, advice, base))
}
