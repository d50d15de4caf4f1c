package export

import (
	"cmp"
	"math"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protowire"
)

// stale is the number, which is none, with which Prometheus marks that a series has ended.
var stale = math.Float64frombits(0x7ff0000000000002)

// A request is one that grows. Messages that follow each other are one message, in both formats.
type request struct {
	body    []byte
	samples int

	labels []label
	scratch,
	zipped []byte
	zip *gzip.Writer
}

type label struct{ name, value string }

// addRemoteWrite adds series of remote write 1.0: a WriteRequest has fields timeseries (1) of labels (1: name 1, value 2)
// and samples (2: value 1, timestamp 2). It calls full when it has become large.
func (r *request) addRemoteWrite(n *subject, families []*dto.MetricFamily, ended bool, full func()) {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			r.labels = append(r.labels[:0], label{"__name__", f.GetName()}, label{"instance", n.instance}, label{"job", "gpuwhy"})
			for _, l := range m.GetLabel() {
				r.labels = append(r.labels, label{l.GetName(), l.GetValue()})
			}
			slices.SortFunc(r.labels, func(a, b label) int { return cmp.Compare(a.name, b.name) })
			b := r.scratch[:0]
			for _, l := range r.labels {
				b = protowire.AppendTag(b, 1, protowire.BytesType)
				b = protowire.AppendVarint(b, uint64(2+protowire.SizeBytes(len(l.name))+protowire.SizeBytes(len(l.value)))) //nolint:gosec // a length
				b = protowire.AppendTag(b, 1, protowire.BytesType)
				b = protowire.AppendString(b, l.name)
				b = protowire.AppendTag(b, 2, protowire.BytesType)
				b = protowire.AppendString(b, l.value)
			}
			value := valueOf(m)
			if ended {
				value = stale
			}
			stamp := uint64(m.GetTimestampMs()) //nolint:gosec // as int64 is written
			b = protowire.AppendTag(b, 2, protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(1+8+1+protowire.SizeVarint(stamp))) //nolint:gosec // a length
			b = protowire.AppendTag(b, 1, protowire.Fixed64Type)
			b = protowire.AppendFixed64(b, math.Float64bits(value))
			b = protowire.AppendTag(b, 2, protowire.VarintType)
			b = protowire.AppendVarint(b, stamp)
			r.scratch = b
			r.body = protowire.AppendTag(r.body, 1, protowire.BytesType)
			r.body = protowire.AppendBytes(r.body, b)
			r.samples++
			if len(r.body) >= mostInRequest {
				full()
			}
		}
	}
}

// compress returns the body as it goes over the wire.
func (r *request) compress(f format) []byte {
	if f == remoteWrite {
		r.zipped = snappy.Encode(r.zipped[:cap(r.zipped)], r.body)
		return slices.Clone(r.zipped)
	}
	out := &writer{r.zipped[:0]}
	if r.zip == nil {
		r.zip, _ = gzip.NewWriterLevel(out, gzip.BestSpeed) // there is such a level
	} else {
		r.zip.Reset(out)
	}
	_, _ = r.zip.Write(r.body) // into memory
	_ = r.zip.Close()
	r.zipped = out.text
	return slices.Clone(out.text)
}

type writer struct{ text []byte }

func (w *writer) Write(text []byte) (int, error) {
	w.text = append(w.text, text...)
	return len(text), nil
}
