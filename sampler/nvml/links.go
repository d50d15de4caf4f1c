//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// readLinks reads the NVLinks. A recent card has 18 of them, with a call for each. If the calls are slow, links that don't fit into the
// deadline are not reported.
func (d *device) readLinks() {
	r, whole := &d.readings.NVLink, d.isDue("NVLinks", seldom)
	if whole {
		r.Count = linkCount(&d.handle)
	}
	if !d.isDue("NVLink errors", sometimes) && !whole {
		return
	}
	links := make([]gpu.Link, r.Count.Or(0))
	begun := d.cfg.Clock.Now()
	for i := range links {
		if d.cfg.Clock.Since(begun) > d.cfg.Deadline {
			withdraw(&links[i], i, gpu.NotReported)
			continue
		}
		if !whole {
			links[i] = r.Links[i]
		}
		d.readLink(&links[i], i, whole)
	}
	if whole {
		d.readSpeeds(links)
	}
	r.Links = links
}

func linkCount(h *handle) gpu.Reading[int] {
	v, c := fieldValue(h, nvml.FI_DEV_NVLINK_LINK_COUNT)
	return converted(v, c, func(v nvml.FieldValue) gpu.Reading[int] {
		n, ok := fieldNumber(v)
		return reported(ok && n <= nvml.NVLINK_MAX_LINKS, int(n))
	})
}

// readLink reads one link: all of it including what hardly changes (whole), or only its state and errors. If the link is not active,
// nothing more is asked: drivers answer with odd codes.
func (d *device) readLink(l *gpu.Link, i int, whole bool) {
	h := &d.handle
	was := l.Active.Or(false)
	l.Active = reading(h, "nvmlDeviceGetNvLinkState", bind(i, nvml.Device.GetNvLinkState), enabled)
	if !l.Active.Or(false) {
		active, q := l.Active, gpu.NotReported
		if !active.Present() {
			q = active.Quality()
		}
		withdraw(l, i, q)
		l.Active = active
		return
	}
	l.Index = i
	if whole || !was {
		l.Version = reading(h, "nvmlDeviceGetNvLinkVersion", bind(i, nvml.Device.GetNvLinkVersion), linkVersion)
		l.Peer = reading(h, "nvmlDeviceGetNvLinkRemoteDeviceType", bind(i, nvml.Device.GetNvLinkRemoteDeviceType), linkPeer)
		l.PeerPCI = reading(h, "nvmlDeviceGetNvLinkRemotePciInfo_v2", bind(i, nvml.Device.GetNvLinkRemotePciInfo), linkAddress)
	}
	errors := func(which nvml.NvLinkErrorCounter) gpu.Reading[uint64] {
		return reading(h, "nvmlDeviceGetNvLinkErrorCounter", func(dev nvml.Device) (uint64, nvml.Return) {
			return dev.GetNvLinkErrorCounter(i, which)
		}, plain[uint64])
	}
	l.CRCFlit, l.CRCData = errors(nvml.NVLINK_ERROR_DL_CRC_FLIT), errors(nvml.NVLINK_ERROR_DL_CRC_DATA)
	l.Replays, l.Recoveries = errors(nvml.NVLINK_ERROR_DL_REPLAY), errors(nvml.NVLINK_ERROR_DL_RECOVERY)
}

// withdraw makes everything about a link absent.
func withdraw(l *gpu.Link, i int, why gpu.Quality) {
	*l = gpu.Link{Index: i}
	gpu.Withdraw(l, why)
}

// oldSpeeds are the per-link speed fields, for drivers without the common field.
var oldSpeeds = [...]uint32{
	nvml.FI_DEV_NVLINK_SPEED_MBPS_L0, nvml.FI_DEV_NVLINK_SPEED_MBPS_L1, nvml.FI_DEV_NVLINK_SPEED_MBPS_L2,
	nvml.FI_DEV_NVLINK_SPEED_MBPS_L3, nvml.FI_DEV_NVLINK_SPEED_MBPS_L4, nvml.FI_DEV_NVLINK_SPEED_MBPS_L5,
	nvml.FI_DEV_NVLINK_SPEED_MBPS_L6, nvml.FI_DEV_NVLINK_SPEED_MBPS_L7, nvml.FI_DEV_NVLINK_SPEED_MBPS_L8,
	nvml.FI_DEV_NVLINK_SPEED_MBPS_L9, nvml.FI_DEV_NVLINK_SPEED_MBPS_L10, nvml.FI_DEV_NVLINK_SPEED_MBPS_L11,
}

// readSpeeds reads the speeds of all active links in one call.
func (d *device) readSpeeds(links []gpu.Link) {
	var fields []nvml.FieldValue
	var active []*gpu.Link
	for i := range links {
		if links[i].Active.Or(false) {
			fields = append(fields, nvml.FieldValue{FieldId: nvml.FI_DEV_NVLINK_GET_SPEED, ScopeId: uint32(i)})
			active = append(active, &links[i])
		}
	}
	c := d.fieldValues(fields)
	for i, l := range active {
		v, c := fields[i], fieldCode(c, fields[i])
		if c.older() && l.Index < len(oldSpeeds) {
			v, c = fieldValue(&d.handle, oldSpeeds[l.Index])
		}
		l.Speed = converted(v, c, linkSpeed)
	}
}

// linkSpeed converts MB per second.
func linkSpeed(v nvml.FieldValue) gpu.Reading[gpu.BytesPerSecond] {
	n, ok := fieldNumber(v)
	return nvidia.Within(reported(ok && known(n), 1e6*gpu.BytesPerSecond(n)), gpu.Of(nvidia.FastestLink))
}

// linkVersion names the values of NVML_NVLINK_VERSION_…
var linkVersion = named(map[uint32]string{1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"})

var linkPeer = named(map[nvml.IntNvLinkDeviceType]string{
	nvml.NVLINK_DEVICE_TYPE_GPU: "GPU", nvml.NVLINK_DEVICE_TYPE_SWITCH: "switch", nvml.NVLINK_DEVICE_TYPE_IBMNPU: "processor",
})

func linkAddress(p nvml.PciInfo) gpu.Reading[string] {
	return gpu.Of(fmt.Sprintf("%04x:%02x:%02x.0", p.Domain, p.Bus, p.Device))
}

// fieldValue reads one field of the device.
func fieldValue(h *handle, field uint32) (nvml.FieldValue, code) {
	one := []nvml.FieldValue{{FieldId: field}}
	_, c := ask(h, "nvmlDeviceGetFieldValues", alone(func(dev nvml.Device) nvml.Return { return dev.GetFieldValues(one) }))
	return one[0], fieldCode(c, one[0])
}

// fieldValues fills in the fields, if there are any.
func (d *device) fieldValues(fields []nvml.FieldValue) code {
	if len(fields) == 0 {
		return success
	}
	_, c := ask(&d.handle, "nvmlDeviceGetFieldValues", alone(func(dev nvml.Device) nvml.Return { return dev.GetFieldValues(fields) }))
	return c
}

// fieldCode returns the code of the call or, if the call succeeded, of the field.
func fieldCode(c code, v nvml.FieldValue) code {
	if c != success {
		return c
	}
	return code(v.NvmlReturn)
}

// fieldNumber returns the number in a field; ok is false if it has an unexpected type.
func fieldNumber(v nvml.FieldValue) (n uint32, ok bool) {
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
		return binary.NativeEndian.Uint32(v.Value[:]), true
	default:
		return 0, false
	}
}

// fieldInteger returns the number in a field that may have 64 bits; ok is false if it is negative or no whole number.
func fieldInteger(v nvml.FieldValue) (n uint64, ok bool) {
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		n = binary.NativeEndian.Uint64(v.Value[:])
		return n, n <= math.MaxInt64
	default:
		small, ok := fieldNumber(v)
		return uint64(small), ok && small <= math.MaxInt32
	}
}
