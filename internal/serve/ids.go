package serve

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
)

// A DeviceID is how a client names a device: by index, or by UUID.
type DeviceID struct {
	Text  string
	UUID  string // empty if it is a number
	Index int    // -1 for a number that no device can have
}

var (
	number = regexp.MustCompile(`^-?[0-9]+$`)
	// uuidShape is words followed by hexadecimal numbers: "GPU-5c8f…",
	// "pci-0000:03:00.0", "nvml-index-1", "MIG-GPU-5c8f…/7/0"; or the numbers of a
	// UUID alone. anyDigit must find a digit in it.
	uuidShape = regexp.MustCompile(`^([A-Za-z]+-)*[0-9A-Fa-f]+([-:./_][0-9A-Fa-f]+)*$`)
	anyDigit  = regexp.MustCompile(`-.*[0-9]|[0-9].*-`)
)

const longestUUID = 128

// ParseID parses a device ID, or returns an error.
func ParseID(text string) (DeviceID, error) {
	id := DeviceID{Text: text, Index: -1}
	switch {
	case number.MatchString(text):
		if i, _ := strconv.Atoi(text); strconv.Itoa(i) == text { // no device has -1, 007, or too large a number
			id.Index = i
		}
	case len(text) <= longestUUID && uuidShape.MatchString(text) && anyDigit.MatchString(text):
		id.UUID = text
	default:
		return id, Refuse(http.StatusUnprocessableEntity, Quote(text)+" is neither a GPU's index nor its UUID",
			"use a number such as 0, or a UUID such as GPU-5c8f0e9b-… (see /api/gpu/devices)")
	}
	return id, nil
}

// Find returns the device. An index is unique within a node alone.
func (id DeviceID) Find(f *insight.Fleet) (insight.Part, error) {
	if id.UUID == "" && len(f.Nodes()) > 1 {
		return insight.Part{}, ambiguous(id.Text)
	}
	for p := range f.Parts() {
		if d := p.Device; id.UUID == "" && d.Index == id.Index || id.UUID != "" && strings.EqualFold(d.UUID, id.UUID) {
			return p, nil
		}
	}
	var there []string
	for p := range f.Parts() {
		there = append(there, id.Like(p.Device.UUID, p.Device.Index))
	}
	return insight.Part{}, Refuse(http.StatusNotFound, "there is no GPU "+Quote(id.Text)+nearest.Hint(id.Text, there), id.hint(f.Nodes()))
}

// Like is how a device is named in the way in which this one is.
func (id DeviceID) Like(uuid string, index int) string {
	if id.UUID == "" {
		return strconv.Itoa(index)
	}
	return uuid
}

// ambiguous refuses an index where there are several nodes.
func ambiguous(index string) error {
	return Refuse(http.StatusBadRequest, "there are several nodes, and each may have a GPU "+index, "name the GPU by its UUID, or use an address below /node/{name}/")
}

// hint says where to look for a device that was not found.
func (id DeviceID) hint(nodes gpu.Nodes) string {
	for d := range nodes.Devices() {
		if id.UUID != "" && slices.ContainsFunc(d.Instances, func(in gpu.Instance) bool { return strings.EqualFold(in.UUID, id.UUID) }) {
			return "this is a MIG instance: request its GPU, " + d.UUID + ", and look in instances"
		}
	}
	return "see /api/gpu/devices for all GPUs"
}
