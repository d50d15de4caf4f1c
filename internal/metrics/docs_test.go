package metrics

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"text/template"

	gocmp "github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
)

type families = []*dto.MetricFamily

func newLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// A metric is a row of a table, as docs/metrics.md has it.
type metric struct {
	Name, Type, Unit, Labels, Help, Absent, From, DCGM, OTel string

	hasGetter, dcgmNeedsValue bool
}

// typeOf is what Prometheus calls it.
func typeOf(counts bool) string {
	if counts {
		return "counter"
	}
	return "gauge"
}

func describe[T any](rows []Row[T]) []metric {
	var out []metric
	for _, r := range rows {
		m := metric{
			Name: r.name, Type: typeOf(r.counts()), Unit: r.unit.name, Labels: strings.Join(r.labels, ", "),
			Help: r.help, Absent: r.absent, From: r.source, OTel: r.otel,
			hasGetter: r.each != nil || r.name == doubtfulRow.name,
		}
		if r.dcgm != nil {
			m.DCGM = r.dcgm.name
			m.dcgmNeedsValue = r.dcgm.value == nil
		}
		out = append(out, m)
	}
	return out
}

// ofProgram are the metrics of the program: those of capabilities are before those of its helpers.
func ofProgram() []metric {
	own := describe(ownRows)
	var told []metric
	for _, t := range Capabilities.Healthy {
		told = append(told, describe(t.declared())...)
	}
	return slices.Insert(own, slices.IndexFunc(own, func(m metric) bool { return strings.HasPrefix(m.Name, "gpuwhy_helper_") }), told...)
}

type chapter struct {
	Title, Labels string
	Metrics       []metric
}

func chapters() []chapter {
	return []chapter{
		{"gpuwhy itself", "node", ofProgram()},
		{"Each node of a fleet", "node", describe(memberRows)},
		{"The machine", "node", describe(nodeRows)},
		{"Each GPU", "node, uuid", append(describe(deviceRows), describe([]Row[*device]{doubtfulRow})...)},
	}
}

func document() []metric {
	var out []metric
	for _, c := range chapters() {
		out = append(out, c.Metrics...)
	}
	return out
}

type dcgmLine struct{ Name, Type, Help, From string }

func dcgmLines() []dcgmLine {
	var out []dcgmLine
	for _, r := range deviceRows {
		if r.dcgm != nil {
			out = append(out, dcgmLine{r.dcgm.name, typeOf(r.dcgm.counts), r.dcgm.help, r.name})
		}
	}
	return out
}

// docs/metrics.md is made of the tables.
func TestDocument(t *testing.T) {
	const path = "../../docs/metrics.md"
	tmpl, err := template.New("metrics.md.tmpl").Funcs(template.FuncMap{
		"cell": func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
		"code": func(s string) string {
			if s == "" {
				return ""
			}
			return "`" + s + "`"
		},
	}).ParseFiles("testdata/metrics.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = tmpl.Execute(&out, map[string]any{
		"Chapters": chapters(), "DCGM": dcgmLines(), "Missing": dcgmMissing, "MaxGroups": maxGroups, "Conventions": ConventionsVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(out.String(), string(got)); diff != "" {
		t.Errorf("docs/metrics.md is out of date (go test ./internal/metrics -run Document -update):\n%s", diff)
	}
}

// dcgmMissing are the metrics that dcgm-exporter exports by default and for which
// gpuwhy has no reading, with the reason.
var dcgmMissing = map[string]string{
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "the counters of the links are not read; their traffic is `DCGM_FI_PROF_NVLINK_TX_BYTES` and `…_RX_BYTES`",
	"DCGM_FI_DEV_VGPU_LICENSE_STATUS":    "vGPU licenses are not read",
}
