package amd

import (
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// No driver file says whether a GPU is part of a processor (an APU) or a card. These signs tell them apart; each of the first ones is
// enough by itself.
//
//   - The PCI id: AMD uses separate ids for the GPUs of its processors and its cards.
//   - The version of the graphics engine, from the chip itself or the compute driver: each
//     version is built only into processors or only into cards.
//   - The sensor of the northbridge voltage (vddnb), which only a processor has.
//   - Processor cores in the GPU's own node of the compute driver.
//   - The format of gpu_metrics: 1 for cards, 2 and 3 for processors. Many products have no
//     table, or an empty one.
//
// Without any of these, features of a card suggest a card: a card's PCI id, a fan, a power limit, a memory or hot spot sensor, a memory
// clock of its own. And the memory layout suggests a processor: the compute driver counts the machine's memory as the GPU's own, or the
// driver has no memory clock and lends the GPU more of the machine's memory than the GPU has itself.

// A span is the first and the last of consecutive numbers.
type span struct{ first, last uint64 }

func inOneOf(spans []span, n uint64) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return n >= s.first && n <= s.last })
}

var (
	// productsOfProcessors are the PCI ids of all processors since Kaveri (2014), and of the Instinct MI300A.
	productsOfProcessors = []span{{0x1100, 0x1fff}, {0x9830, 0x985f}, {0x9870, 0x987f}, {0x98e0, 0x98ef}, {0x74a0, 0x74a0}}

	// productsOfCards are the PCI ids of cards since 2012 that amdgpu serves. So far they include one processor.
	productsOfCards = []span{{0x6600, 0x7fff}}

	// enginesOfProcessors are versions of the graphics engine (GC) as reported by the chip, in the compute driver's form: 100301 is 10.3.1.
	enginesOfProcessors = []span{
		{90100, 90100}, {90202, 90202}, {90300, 90300}, // Raven, Raven 2 and Picasso, Renoir to Barcelo
		{100103, 100104}, {100301, 100301}, {100303, 100303}, {100306, 100307}, // Cyan Skillfish, Van Gogh, Rembrandt, Raphael, Mendocino
		{110001, 110001}, {110004, 110004}, {110500, 110599}, // Phoenix, Hawk Point, Strix and later
	}

	// targetsOfProcessors are instruction sets in the compute driver's form: 90012 is gfx90c.
	targetsOfProcessors = []span{
		{70000, 70000}, {70003, 70003}, {70005, 70005}, {80001, 80001}, {80100, 80100}, // Kaveri to Stoney
		{90002, 90002}, {90009, 90009}, {90012, 90012}, {100103, 100103}, {100303, 100303}, {100305, 100306},
		{110003, 110003}, {110500, 110599},
	}
)

// signs are signs from the driver's files that hardly change.
type signs struct {
	processor bool      // a sign that is enough by itself
	card      bool      // a feature that only cards have
	clocks    bool      // the driver has an engine clock but no memory clock
	counted   gpu.Bytes // the memory of a node, as the compute driver counts it
}

// findSigns looks for the signs in the sensors, the compute driver's nodes and the files.
func (d *device) findSigns() signs {
	hw, s := &d.sensors, signs{}
	_, northbridge := hw.Labeled("in", "vddnb")
	s.processor = northbridge || inOneOf(productsOfProcessors, uint64(d.card.Product)) || inOneOf(enginesOfProcessors, d.engineVersion())
	for _, p := range d.kfd.parts {
		s.processor = s.processor || p.cores > 0 || inOneOf(targetsOfProcessors, p.target)
		s.counted = max(s.counted, p.memory.Or(0))
	}
	s.card = inOneOf(productsOfCards, uint64(d.card.Product)) || hw.Has("pwm1") || hw.Has("fan1_input") || hw.Has("power1_cap_max") || hw.junction.Number >= 0 || hw.memory.Number >= 0 || hw.mclk.Number >= 0
	s.clocks = hw.sclk.Number >= 0 && hw.mclk.Number < 0
	return s
}

// engineVersion returns the version of the graphics engine as the chip reports it and the driver keeps it; 0: not known.
func (d *device) engineVersion() uint64 {
	const graphics = "ip_discovery/die/0/11/0"
	engine := d.driver().In(graphics)
	major, err := engine.Number("major")
	minor, err2 := engine.Number("minor")
	revision, err3 := engine.Number("revision")
	const most = 99
	if err != nil || err2 != nil || err3 != nil || min(major, minor, revision) < 0 || max(major, minor, revision) > most {
		return 0
	}
	return uint64(major)*1e4 + uint64(minor)*100 + uint64(revision)
}

// integrated reports whether the GPU is part of a processor, as far as the signs show: the signs found, the format of gpu_metrics, its own
// memory, and the machine's memory that the driver lends it.
func (s *signs) integrated(format byte, own, lent gpu.Reading[gpu.Bytes]) gpu.Reading[bool] {
	total, known := own.Trusted()
	most, lends := lent.Trusted()
	switch {
	case s.processor, format == 2, format == 3:
		return gpu.Of(true)
	case s.card, format == 1:
		return gpu.Of(false)
	case known && s.counted > total+total/4, known && lends && s.clocks && most > total:
		return gpu.Of(true)
	default:
		return gpu.Reading[bool]{}
	}
}
