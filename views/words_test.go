//go:build !race

package views

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

var update = flag.Bool("update", false, "write testdata/words.golden.txt")

// functions of words.go whose values are one text each.
var wordsOfText = map[string]struct {
	words func(string) string
	value string
}{
	"notReadSince": {notReadSince, "22:31"}, "staleSince": {staleSince, "22:31"}, "sinceText": {sinceText, "22:31"}, "agoText": {agoText, "30 s"},
	"forText": {forText, "12 min"}, "ofText": {ofText, "450 W"}, "fanAt": {fanAt, "66 %"}, "slowedBy": {slowedBy, "heat and the power supply"},
	"slowsAt": {slowsAt, "90 °C"}, "memoryAt": {memoryAt, "9501 MHz"}, "encoderAt": {encoderAt, "30 %"}, "decoderAt": {decoderAt, "30 %"}, "videoAt": {videoAt, "30 %"},
	"processesAre": {processesAre, "not permitted"}, "withoutUnified": {withoutUnified, "2 GPUs"}, "driverText": {driverText, "580.65.06"}, "cudaText": {cudaText, "13.0"},
	"failingFor": {failingFor, "12 min"}, "tryingAgainIn": {tryingAgainIn, "30 s"}, "temperatureOf": {temperatureOf, "CPU"}, "readsText": {readsText, "1.2 MB/s"},
	"writesText": {writesText, "1.2 MB/s"}, "outgoing": {outgoing, "1.2 MB/s"}, "ofMemory": {ofMemory, "40 MiB"}, "upFor": {upFor, "3 days"},
	"processesNotKnown": {processesNotKnown, "GPU 0 and GPU 1"}, "processesNotListed": {processesNotListed, "GPU 0 and GPU 1"}, "processesHidden": {processesHidden, "GPU 0 and GPU 1"},
	"podText": {podText, "ml/train-0"}, "containerText": {containerText, "trainer"}, "commandIs": {commandIs, "not permitted"},
}

var wordsOfNumber = map[string]func(int) string{
	"gpuCount": gpuCount, "processCount": processCount, "nodeCount": nodeCount, "fleetText": fleetText, "coreCount": coreCount, "kindCount": kindCount, "moreProcesses": moreProcesses,
	"migInstances": migInstances, "partitionCount": partitionCount, "gpuName": gpuName, "notKnown": notKnown, "moreWrong": moreWrong, "andOthers": andOthers,
	"pidText": pidText, "notRead": notRead, "jobText": jobText,
}

// Every text of words.go with example values: what a change of words changes, testdata/words.golden.txt shows.
func TestWords(t *testing.T) {
	const file = "testdata/words.golden.txt"
	examples := map[string][]string{
		"andText": {andText("431", "450")}, "gpusFrom": {gpusFrom(0, 7)}, "pcieLink": {pcieLink(4, 16)}, "loads": {loads("1.20", "0.80")},
		"onInstance": {onInstance("GPU 3", 7)}, "didBy": {didBy(acknowledgedText, "ann")}, "didSaying": {didSaying(acknowledgedText+" by ann", "I look at it")},
		"certainty": {certainty(explain.High), certainty(explain.Medium), certainty(explain.Low)},
		"splitBy":   {splitBy(attribute.BySM), splitBy(attribute.ByMemory)}, "alertStateName": {alertStateName(alert.NoData), alertStateName(alert.Resolved)},
	}
	for name, w := range wordsOfText {
		examples[name] = []string{w.words(w.value)}
	}
	for name, words := range wordsOfNumber {
		examples[name] = []string{words(1), words(2)}
	}
	for _, state := range []string{stateBusy, stateIdle, stateOn, stateSilent, string(gpu.StateLost), string(gpu.StateAsleep), string(gpu.StateNotAnswering)} {
		examples["stateText"] = append(examples["stateText"], state+": "+stateText(state))
		examples["whatToDo"] = append(examples["whatToDo"], state+": "+whatToDo(state))
	}
	for q := range gpu.Doubtful {
		a := absenceOf(q)
		examples["absenceOf"] = append(examples["absenceOf"], q.String()+": "+a.text+": "+a.why)
	}
	for _, s := range alert.Severities() {
		examples["severityName"] = append(examples["severityName"], severityName(s))
	}
	for _, w := range append(alert.Watches(), noData, easing) {
		is := beingOf(w)
		examples["beingOf"] = append(examples["beingOf"], fmt.Sprintf("%s: GPU 0 %s | 2 GPUs %s", w, is.counted(1), is.counted(2)))
	}
	source, err := parser.ParseFile(token.NewFileSet(), "words.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range source.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				fmt.Fprintf(&b, "%s\n    %s\n", d.Name.Name, strings.Join(examples[d.Name.Name], "\n    "))
				if len(examples[d.Name.Name]) == 0 {
					t.Errorf("%s has no example", d.Name.Name)
				}
			}
		case *ast.GenDecl: // constants, absences and tables, as they are written
			ast.Inspect(d, func(n ast.Node) bool {
				if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING && d.Tok != token.IMPORT {
					text, _ := strconv.Unquote(l.Value)
					fmt.Fprintln(&b, text)
				}
				return true
			})
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("words have changed: go test ./views -run TestWords -update, and look at the diff of %s", file)
	}
}

// Each reason of the clocks has words, in the order of its names.
func TestReasonsHaveWords(t *testing.T) {
	var all gpu.ClockEventReasons
	reasons := each(holdsClocks, func(h *struct {
		reason gpu.ClockEventReasons
		text   string
	}) gpu.ClockEventReasons {
		return h.reason
	})
	for _, r := range reasons {
		all |= r
	}
	if !slices.IsSorted(reasons) || len(all.Names()) != len((^gpu.ClockEventReasons(0)).Names()) {
		t.Errorf("words are of %v", reflect.ValueOf(reasons))
	}
}
