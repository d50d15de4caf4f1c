package export

import (
	"cmp"
	"math"
	"strings"

	dto "github.com/prometheus/client_model/go"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otel "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/gpuwhy/gpuwhy/internal/metrics"
)

const (
	scope  = "github.com/gpuwhy/gpuwhy"
	schema = "https://opentelemetry.io/schemas/" + metrics.ConventionsVersion
)

// addOTLP adds a subject's series: those of our names and those of OpenTelemetry's, each in a scope. The message has
// the fields of an ExportMetricsServiceRequest, which has the same.
func (r *request) addOTLP(p *Pusher, n *subject, readings metrics.Readings, ended bool) {
	c := &converter{pusher: p, subject: n, ended: ended, attributes: map[*dto.LabelPair]*common.KeyValue{}}
	var scopes []*otel.ScopeMetrics
	if all := c.metrics(readings.Families, nil); len(all) > 0 {
		scopes = append(scopes, &otel.ScopeMetrics{Scope: &common.InstrumentationScope{Name: scope, Version: p.cfg.Version}, Metrics: all})
	}
	if all := c.metrics(readings.OTel, metrics.Instruments); len(all) > 0 {
		scopes = append(scopes, &otel.ScopeMetrics{
			Scope: &common.InstrumentationScope{Name: scope + "/hw", Version: p.cfg.Version}, SchemaUrl: schema, Metrics: all,
		})
	}
	if len(scopes) == 0 {
		return
	}
	host := n.instance
	if n.cluster != "" {
		host = strings.TrimPrefix(host, n.cluster+":")
	}
	about := []*common.KeyValue{
		text("service.name", "gpuwhy"), text("service.version", p.cfg.Version), text("service.instance.id", n.instance), text("host.name", host),
	}
	if n.cluster != "" {
		about = append(about, text("k8s.cluster.name", n.cluster))
	}
	body, err := proto.MarshalOptions{}.MarshalAppend(r.body, &otel.MetricsData{ResourceMetrics: []*otel.ResourceMetrics{{
		Resource: &resource.Resource{Attributes: about}, ScopeMetrics: scopes,
	}}})
	if err != nil { // a text that is no UTF-8
		p.cfg.Log.Error("series can't be encoded", "part", "export", "node", n.name, "err", err)
		return
	}
	r.body, r.samples = body, r.samples+c.points
}

type converter struct {
	pusher     *Pusher
	subject    *subject
	ended      bool
	attributes map[*dto.LabelPair]*common.KeyValue // series share label pairs
	points     int
}

func text(name, value string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\uFFFD")}}}
}

// metrics converts families. The instruments are those of names that are not ours.
func (c *converter) metrics(families []*dto.MetricFamily, instruments map[string]metrics.Instrument) []*otel.Metric {
	var out []*otel.Metric
	for _, f := range families {
		if len(f.GetMetric()) == 0 {
			continue
		}
		counts := f.GetType() == dto.MetricType_COUNTER
		how, ok := instruments[f.GetName()]
		if !ok {
			how = metrics.Instrument{Sum: counts, Grows: counts}
		}
		points := make([]*otel.NumberDataPoint, len(f.GetMetric()))
		for i, m := range f.GetMetric() {
			points[i] = c.point(f.GetName(), m, how)
		}
		c.points += len(points)
		metric := &otel.Metric{Name: f.GetName(), Description: f.GetHelp(), Unit: how.Unit}
		if how.Sum {
			metric.Data = &otel.Metric_Sum{Sum: &otel.Sum{
				DataPoints: points, IsMonotonic: how.Grows, AggregationTemporality: otel.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
			}}
		} else {
			metric.Data = &otel.Metric_Gauge{Gauge: &otel.Gauge{DataPoints: points}}
		}
		out = append(out, metric)
	}
	return out
}

func (c *converter) point(name string, m *dto.Metric, how metrics.Instrument) *otel.NumberDataPoint {
	const nanos = 1e6 // in a millisecond
	stamp := m.GetTimestampMs()
	point := &otel.NumberDataPoint{TimeUnixNano: uint64(stamp) * nanos, Attributes: make([]*common.KeyValue, len(m.GetLabel()))} //nolint:gosec // after 1970
	for i, l := range m.GetLabel() {
		attribute := c.attributes[l]
		if attribute == nil {
			attribute = text(l.GetName(), l.GetValue())
			c.attributes[l] = attribute
		}
		point.Attributes[i] = attribute
	}
	if c.ended {
		point.Flags = uint32(otel.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
		return point
	}
	value := valueOf(m)
	if how.Grows {
		point.StartTimeUnixNano = uint64(c.start(name, m, value, stamp)) * nanos //nolint:gosec // after 1970
	}
	if how.Whole {
		point.Value = &otel.NumberDataPoint_AsInt{AsInt: int64(math.Round(value))}
	} else {
		point.Value = &otel.NumberDataPoint_AsDouble{AsDouble: value}
	}
	return point
}

// start is since when a counter counts. Where nobody knows, it is the time of the first point, as OpenTelemetry's data
// model has it: that point then says how far the counter was when it was first seen.
func (c *converter) start(name string, m *dto.Metric, value float64, stamp int64) int64 {
	if !c.subject.began.IsZero() {
		return min(c.subject.began.UnixMilli(), stamp)
	}
	series := c.pusher.hash(name, m.GetLabel())
	first, ok := c.subject.counters[series]
	if !ok || value < first.value {
		first.stamp = stamp
	}
	first.value = value
	if c.subject.counters == nil {
		c.subject.counters = map[uint64]beginning{}
	}
	c.subject.counters[series] = first
	return cmp.Or(first.stamp, stamp)
}
