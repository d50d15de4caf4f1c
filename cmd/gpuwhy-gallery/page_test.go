package main

import (
	"html"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// Pages have the answer and its evidence as the server sends them, and as they are live.
func TestPageHasEvidence(t *testing.T) {
	s := newStage(t)
	a := newActor(t, "dgx-h100", time.Now(), time.Now())
	snap := a.next(t, 0)
	s.Publish(snap)
	history := explain.NewHistory()
	answer := history.Add(snap)
	fourth := &answer.Devices[3]
	for _, page := range []struct {
		path, why string
		explain.Layers
		causes []explain.Cause
	}{
		{"", answer.Sentence, answer.Layers, answer.Main()},
		{"gpu/" + snap.Devices[3].UUID, fourth.Causes[0].Sentence, fourth.Layers, fourth.Causes},
	} {
		path, body := page.path, pageAt(t, s.url+page.path)
		for _, text := range []string{page.why, page.Headline, page.Facts[0].Text, page.Rest, page.Action.Text} {
			if !strings.Contains(body, ">"+html.EscapeString(text)+"</") {
				t.Errorf("%q lacks %q", path, text)
			}
		}
		for _, c := range page.causes {
			if !strings.Contains(body, `data-key="`+c.ID+`"`) || !strings.Contains(body, html.EscapeString(c.Sentence)) || !strings.Contains(body, html.EscapeString(c.Advice)) {
				t.Errorf("%q lacks %q, %q", path, c.Sentence, c.Advice)
			}
			for _, e := range c.Evidence {
				if !strings.Contains(body, ">"+html.EscapeString(e.Text)+"</b>") {
					t.Errorf("%q lacks %s, %s", path, e.Name, e.Text)
				}
			}
		}
	}
	if body := pageAt(t, s.url); !wattsOfProcess.MatchString(body) || !strings.Contains(body, `data-f="place">job `) {
		t.Error("no process has its watts, or says where it runs")
	}
	b := quietTab(t, 1440, 900)
	b.Visit(s.url + "gpu/" + snap.Devices[3].UUID)
	b.Until(live)
	next := a.next(t, time.Second)
	next.Devices[3].State, next.Devices[3].Since, next.Devices[3].Readings = gpu.StateLost, next.Time, gpu.Readings{}
	s.Publish(next)
	lost := history.Add(next).Devices[3]
	const headline = `document.querySelector("[data-broken] > .headline")?.textContent.replaceAll("\u00a0", " ")`
	b.Until(headline + ` === ` + strconv.Quote(lost.Headline))
	want := lost.Causes[0].Sentence
	if got := browsertest.Ask[string](b, `document.querySelector(".says").textContent.replaceAll("\u00a0", " ")`); got != want {
		t.Errorf("the first cause is %q, want %q", got, want)
	}
}

// Before the first reading, the page of alerts says that nothing is known.
func TestThePageOfAlertsBeforeTheFirstReading(t *testing.T) {
	if body := pageAt(t, newStage(t).url+"alerts"); !strings.Contains(body, "Nothing is known yet") {
		t.Errorf("the page is\n%s", body)
	}
}

// pageAt is a page as the server sends it.
func pageAt(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, answer.Status, err)
	}
	return strings.ReplaceAll(string(body), "\u00a0", " ") // the page binds numbers to their units
}

var wattsOfProcess = regexp.MustCompile(`data-f="power" data-label="Power">\d+ W</td>`)
