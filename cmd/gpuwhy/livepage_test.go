package main

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

// count counts the frames of pages, and their bytes.
const count = `window.frames_ = []; { const Real = WebSocket; window.WebSocket = class extends Real { constructor(...a) { super(...a); this.addEventListener("message", (e) => frames_.push(e.data)); } }; }`

func TestLivePage(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"rtx-4090", "dgx-h100", "fleet:64", "fleet:1000"} {
		t.Run(source, func(t *testing.T) {
			p := start(t, nil, "--source=simulate:"+source, fast)
			tab := quietTab(t, 1440, 900)
			tab.Before(count)
			tab.Visit(p.url)
			tab.Until(`document.getElementById("state")?.dataset.state === "live"`)
			tab.Until(`frames_.length > 20`)
			t.Log(browsertest.Ask[string](tab, `frames_.map((f) => f.length).join(" ")`))
			t.Log(browsertest.Ask[string](tab, `frames_.at(-1).slice(0, 4000)`))
			t.Log(browsertest.Ask[string](tab, `document.getElementById("state").innerText`))
			differs := browsertest.Ask[string](tab, `new Promise(async (resolve) => {
				document.getElementById("pause").click();
				await new Promise((r) => setTimeout(r, 300));
				resolve(document.body.dataset.paused + " " + document.getElementById("state").innerText);
			})`)
			t.Log(differs)
		})
	}
}
