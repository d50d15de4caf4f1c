package explain

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Update is for the tests outside the package, too.
var Update = flag.Bool("update", false, "write the golden files anew; their diff is the review")

// Every sentence of words.go with example values: what a change of words changes, testdata/words.golden.txt shows.
func TestWords(t *testing.T) {
	const (
		file  = "testdata/words.golden.txt"
		who   = "python (pid 4242, alice)"
		short = "python (alice)"
		more  = ", 46 W above its idle draw"
		ends  = ", and should be quiet in about 4 min"
	)
	busy := manner{"busy at 98 %", "for 12 min"}
	reserved := func(it string) string { return it + " is reserved by pod ml/train-0" }
	var b strings.Builder
	says := func(name string, w wording) {
		text := sentence(w.clause(naming{
			it: "GPU 0 (RTX 4090)", fan: "fan 2 of GPU 0 (RTX 4090)", readings: ", 71 °C, 431 W of 450 W, fan at 66 %", brackets: " (71 °C, 431 W of 450 W, fan at 66 %)",
		}))
		fmt.Fprintf(&b, "\n# %s: %s\n%s\n", name, w.name, text)
		fmt.Fprintf(&b, "… %s.\n", w.clause(naming{it: "it", fan: "its fan 2"}))
		var told []string
		for _, h := range []heading{{}, {who: short}, {who: short + " and others", several: true}, {who: "a process", left: "4 min"}} {
			if w.headline == nil {
				break
			}
			h.gpu, h.fans = "the GPU", "your fan"
			now, past := w.headline(h)
			if text := now + "\n    " + past; !slices.Contains(told, text) {
				told = append(told, text)
			}
		}
		for _, text := range told {
			fmt.Fprintf(&b, "    %s\n", text)
		}
		fmt.Fprint(&b, lines("  ", w.advice, w.short))
	}
	says("lostWords", lostWords("NVRM and Xid lines", ", after XID 79 (the GPU has fallen off the bus)"))
	says("offTheBusWords", offTheBusWords("the card has fallen off the bus (0000:01:00.0)"))
	says("notListedWords", notListedWords("the driver does not list the card (0000:01:00.0)"))
	says("notAnsweringWords", notAnsweringWords("NVRM and Xid lines", ""))
	says("asleepWords", asleepWords())
	says("noReadingsWords", noReadingsWords(": it is left alone to fall asleep", "Open the page to wake it."))
	says("onlyMemoryWords", onlyMemoryWords("1.2 of 24.0 GiB of memory in use"))
	says("noneOfferedWords", noneOfferedWords())
	says("needsResetWords", needsResetWords())
	says("needsRestartWords", needsRestartWords())
	says("needsDrainWords", needsDrainWords())
	says("needsLaterResetWords", needsLaterResetWords())
	says("needsActionWords", needsActionWords())
	says("stuckCounterWords", stuckCounterWords("100 %", nothingRuns))
	says("frozenAtRestWords", frozenAtRestWords("71 °C", "34 °C"))
	says("frozenWords", frozenWords("71 °C", "231 W"))
	says("fanStillWords", fanStillWords("66 %"))
	says("fanSlowWords", fanSlowWords("900 RPM", "2100 RPM", "66 %"))
	says("fanOffWords", fanOffWords("84 °C"))
	says("fanUnaskedWords", fanUnaskedWords("2600 RPM"))
	says("fanUnreadableWords", fanUnreadableWords())
	says("fanLeastByHandWords", fanLeastByHandWords("0 %", "900 RPM", " (34 °C)"))
	says("fanCurveWords", fanCurveWords("66 %", " (71 °C)"))
	says("fanByHandWords", fanByHandWords("80 %", " (34 °C)"))
	says("fanByHandUnknownWords", fanByHandUnknownWords())
	says("fanFixedWords", fanFixedWords("66 %", "50 °C", "71 °C"))
	says("fanTargetWords", fanTargetWords("80 %", "30 %", " (34 °C)"))
	says("workWords", workWords(High, who, busy, ""))
	says("workWords, not sure", workWords(Medium, who, busy, withUnlisted))
	says("burstsWords", burstsWords(who, manner{how: "busy in bursts (40 % of the time)"}))
	says("comesBackWords", comesBackWords(manner{how: "busy in bursts"}, who))
	says("guessedWords", guessedWords(who, manner{how: "busy"}))
	says("hiddenWorkWords", hiddenWorkWords("4242", busy))
	says("nobodyWords", nobodyWords(busy, noneIsListed))
	says("unseenWorkWords", unseenWorkWords(busy, noneSeenExplains))
	says("unprovenWords", unprovenWords("100 %"))
	says("coolingWords", coolingWords(who, ", which left it ", "40 s ago", ends))
	says("letGoWords", letGoWords(who, "40 s ago", ends))
	says("coolingBeginsWords", coolingBeginsWords(who, ", which left it ", "4 s ago", ""))
	says("coolingUnseenWords", coolingUnseenWords(ends))
	says("leftBehindWords", leftBehindWords(who, more, "GPU-0"))
	says("leftInUseWords", leftInUseWords(who, more))
	says("leftForGoodWords", leftForGoodWords(who, more))
	says("hiddenHolderWords", hiddenHolderWords("4242", withOthers(2), more))
	says("holderWords", holderWords(who, withOthers(2), more+andClocksSet))
	says("lightUserWords", lightUserWords(who, "", more))
	says("clocksSetWords", clocksSetWords(more))
	says("displayWords", displayWords(more))
	says("persistenceWords", persistenceWords(": its clocks are up"))
	says("nothingHoldsWords", nothingHoldsWords(more, lookForContext))
	says("nothingHoldsWords, of another vendor", nothingHoldsWords(more, lookForProgram))
	says("heatDriverWords", heatDriverWords(" (71 °C, "+belowSlowdown("24 °C")+")"))
	says("heatHardwareWords", heatHardwareWords(" (95 °C)"))
	says("heatHotSpotWords", heatHotSpotWords("110 °C", " (71 °C)"))
	says("heatMemoryWords", heatMemoryWords("104 °C", " (71 °C)"))
	says("powerHardwareWords", powerHardwareWords())
	says("powerBrakeWords", powerBrakeWords())
	says("powerLimitWords", powerLimitWords(" (450 W)", "600 W"))
	says("powerLimitWords, at the most", powerLimitWords(" (450 W)", ""))
	says("hotterThanBeforeWords", hotterThanBeforeWords("12 °C", "431 W", ""))
	says("hotterThanBeforeWords, and than neighbors", hotterThanBeforeWords("12 °C", "431 W", "14 °C"))
	says("warmedBesideWords", warmedBesideWords("GPU 1 (RTX 4090)", "12 °C", "17 W"))
	says("hotterThanNeighborsWords", hotterThanNeighborsWords("14 °C", "431 W"))
	says("fanForMemoryWords", fanForMemoryWords("50 %", "90 °C"))
	says("fanForHotSpotWords", fanForHotSpotWords("50 %", "80 °C"))
	says("fanUnexplainedWords", fanUnexplainedWords("50 %", thoughNothingWorks, " at 34 °C", mayFollowUnshown))
	says("fanUnexplainedWords, all shown", fanUnexplainedWords("50 %", thoughCool, " at 34 °C", mayFollowCurve))
	says("fanLateWords", fanLateWords("50 %", " at 40 °C after "+who))
	says("fanOnAndOffWords", fanOnAndOffWords(" at 50 °C", "4 times"))
	says("fanHeldWords", fanHeldWords("30 %", " at 48 °C", "it only stops at 45 °C"))
	says("fanFloorWords", fanFloorWords("30 %", " at 34 °C"))
	says("unexplainedWords", unexplainedWords())
	says("idleUnknownWords", idleUnknownWords())
	says("idleCoolWords", idleCoolWords())
	says("idleWords", idleWords(" at 0 %"))
	says("idleFirstWords", idleFirstWords())
	says("idleTooEarlyWords", idleTooEarlyWords())
	says("idleWarmsWords", idleWarmsWords(" at 0 %"))
	says("idleCantTellWords", idleCantTellWords())
	says("idleStaysWarmWords", idleStaysWarmWords(" at 0 %"))
	says("reservedWords", reservedWords(reserved, "had no process on it for 12 min"))
	says("reservedBySeveralWords", reservedBySeveralWords(reserved, "had no process on it for 12 min"))
	says("noFanWords", noFanWords())
	says("processorFanWords", processorFanWords())
	says("fansNotShownWords", fansNotShownWords())
	says("driverErrorWords", driverErrorWords("XID 31 (a program used a wrong memory address)", "faulty memory rows waiting to be replaced", "Restart it."))
	says("brokenMemoryWords", brokenMemoryWords("faulty memory rows waiting to be replaced", "Restart it."))
	says("leftOutWords", leftOutWords("temperature (511 °C)"))
	says("probablyWrongWords", probablyWrongWords("power draw (3 W)"))
	says("wrongAndPerhapsWords", wrongAndPerhapsWords("temperature (511 °C)", "power draw (3 W)"))
	says("missingWords", missingWords("how hot it is (not offered by this product or driver)", ""))
	fmt.Fprintf(&b, "\n%s", lines("  ", giveFanBackNVIDIA))

	machine := func(name string, w machineWording) {
		fmt.Fprintf(&b, "\n# %s: %s\n%s\n", name, w.name, sentence(w.clause))
		fmt.Fprint(&b, lines("    ", w.headline, w.past), lines("  ", Advice(w.advice), w.short))
	}
	const temp, readings = " (84 °C)", " (84 °C, the CPU fan at 2100 RPM)"
	machine("startingWords", startingWords())
	machine("noMachineWords", noMachineWords())
	machine("noGPUWords", noGPUWords())
	machine("noGPUForWords", noGPUForWords("NVIDIA's library was not found", "install the driver"))
	machine("noCardWords", noCardWords())
	machine("sourceFailedWords", sourceFailedWords("amdgpu", "/sys can't be read", "run it as root"))
	machine("otherFanWords", otherFanWords("CPU fan", "3100 RPM, with the CPU at 91 °C", "top"))
	machine("loudFanBesideWords", loudFanBesideWords("CPU fan", "3100 RPM, with the CPU at 91 °C", "top"))
	machine("warmAirWords", warmAirWords("6", "8", "7 °C"))
	machine("cpuFanStillWords", cpuFanStillWords("91 °C"))
	machine("cpuHeatWords", cpuHeatWords("", readings))
	machine("cpuHeatWords, of a process", cpuHeatWords("cc1 (ann)", readings))
	machine("somethingWorksWords", somethingWorksWords(manner{"busy at 80 %", "for 12 min"}, temp))
	machine("manyWorkWords", manyWorkWords(manner{"busy at 80 %", "for 12 min"}, temp, "cc1 (pid 4242, ann)"))
	machine("processWorksWords", processWorksWords("cc1 (ann)", "cc1 (16 processes, ann)", manner{how: "busy at 80 %"}, temp, false, true))
	machine("processWorksWords, that is not to be ended", processWorksWords("gdm", "gdm (pid 900)", manner{"busy at 80 %", "for 12 min"}, temp, true, false))
	machine("cpuCoolingWords", cpuCoolingWords("cc1 (ann)", "cc1 (16 processes, ann)", "20 s ago"+readings))
	machine("hotSensorWords", hotSensorWords("chipset", "95 °C", false))
	machine("hotSensorWords, with a loud fan", hotSensorWords("chipset", "95 °C", true))
	machine("fanForHotCPUWords", fanForHotCPUWords("CPU fan", "3100 RPM", "80 °C"))
	machine("fanUntoldWords", fanUntoldWords("case fan", "3100 RPM"))
	machine("fanForNothingWords", fanForNothingWords("case fan", "3100 RPM"))
	machine("noFanShownWords", noFanShownWords("the system has no fan sensor", "load the driver"))
	machine("fanSensorsSilentWords", fanSensorsSilentWords())
	machine("restSlowFansWords", restSlowFansWords(", with its CPU at 2 %"))
	machine("restFansOffWords", restFansOffWords(", with its CPU at 2 %"))
	machine("restNoFanWords", restNoFanWords(", with its CPU at 2 %"))
	machine("restTooEarlyWords", restTooEarlyWords(readings))

	headline := func(now, past string) { fmt.Fprint(&b, lines("    ", now, past)) }
	b.WriteString("\n# headlines\n")
	headline(noGPUHeadline())
	headline(fanOffHeadline())
	headline(fanOffAtWorkHeadline(heading{who: short}))
	headline(fanOffAtWorkHeadline(heading{who: short + " and others", several: true}))
	headline(fanOffCoolingHeadline())
	headline(videoHeadline(heading{who: short, gpu: "the GPU"}, "encoding video", false))
	headline(videoHeadline(heading{who: short + " and others", several: true}, "decoding video", true))
	headline(fansRestHeadline())
	headline(nothingWorksHeadline())
	headline(fansOffHeadline())
	for _, tally := range []Tally{
		{Broken: 1, Silent: 1, Busy: 2}, {Broken: 2, Silent: 2}, {Loud: 1, Resting: 3}, {Silent: 1, Loud: 1}, {Silent: 2, Loud: 2}, {Silent: 1, Busy: 1},
		{Unread: 2, Resting: 2}, {Unread: 3}, {Busy: 2, Resting: 1}, {Cooling: 2}, {Resting: 3},
	} {
		headline(tally.headline("n1", "the GPU is lost", "the GPU was lost"))
	}
	parts(t, &b)
	calledIn(t, b.String())
	if *Update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("words have changed: go test ./internal/insight/explain -run TestWords -update, and look at the diff of %s", file)
	}
	for _, advice := range regexp.MustCompile(`(?m)^  \S.*\. .*$`).FindAllString(b.String(), -1) {
		if !regexp.MustCompile(`^  [A-Z].+\.$`).MatchString(advice) {
			t.Errorf("the advice is %q", advice)
		}
	}
}

func lines(indent string, texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		if text != "" {
			b.WriteString(indent + text + "\n")
		}
	}
	return b.String()
}

// parts writes the parts of sentences in words.go: its constants as written, and its functions with example values.
func parts(t *testing.T, b *strings.Builder) {
	text := map[string]func(string) string{
		"endHolder": endHolder, "partOfTime": partOfTime, "withVideo": withVideo, "atAbout": atAbout, "butForAMoment": butForAMoment, "butForALittle": butForALittle,
		"togetherWith": togetherWith, "manyNames": manyNames, "hiddenProcess": hiddenProcess, "slowedDownTo": slowedDownTo, "agoText": agoText, "quietIn": quietIn,
		"aboveIdle": aboveIdle, "belowSlowdown": belowSlowdown, "stopsOnlyAt": stopsOnlyAt, "noProcessFor": noProcessFor, "notOffered": notOffered,
		"notPermitted": notPermitted, "endOrPause": endOrPause, "capAt": capAt, "orCapAt": orCapAt, "lastHeard": lastHeard, "withCPUAt": withCPUAt, "withItsCPUAt": withItsCPUAt,
	}
	numbers := map[string]func(int) string{
		"moreLikeIt": moreLikeIt, "andOthers": andOthers, "withOthers": withOthers, "othersWork": othersWork, "othersAtWork": othersAtWork,
		"noneDoesAnything": noneDoesAnything, "whoRuns": whoRuns, "silentNodes": silentNodes,
	}
	others := map[string]string{
		"againFor": againFor("37 s", "24 min"), "alsoOthers": alsoOthers(1, "loud") + " |" + alsoOthers(2, "loud"), "memoryInUse": memoryInUse("1.2", "24.0"),
		"orLessPower": orLessPower("GPU-0", "360"),
	}
	file, err := parser.ParseFile(token.NewFileSet(), "words.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n# parts of sentences\n")
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING && d.Tok == token.CONST {
					fmt.Fprintln(b, l.Value)
				}
				return true
			})
		case *ast.FuncDecl:
			name := d.Name.Name
			switch {
			case text[name] != nil:
				fmt.Fprintf(b, "%s: %s\n", name, text[name]("…"))
			case numbers[name] != nil:
				fmt.Fprintf(b, "%s: %s |%s\n", name, numbers[name](1), numbers[name](2))
			case others[name] != "":
				fmt.Fprintf(b, "%s: %s\n", name, others[name])
			case d.Recv == nil && !strings.HasSuffix(name, "Words") && !strings.HasSuffix(name, "Headline") && !strings.HasPrefix(name, "fleet"):
				t.Errorf("%s has no example", name)
			}
		}
	}
}

// calledIn checks that the text contains each function of words.go that makes words.
func calledIn(t *testing.T, text string) {
	file, err := parser.ParseFile(token.NewFileSet(), "words.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || !strings.HasSuffix(f.Name.Name, "Words") {
			continue
		}
		if n++; !strings.Contains(text, "# "+f.Name.Name+":") {
			t.Errorf("%s is not among the examples", f.Name.Name)
		}
	}
	if n < 90 {
		t.Errorf("words.go has %d functions of words", n)
	}
}
