package amd

import (
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// No file of the driver says whether a GPU is part of a processor (an APU) or a card. These
// are the signs of it, those first that decide alone.
//
//   - The PCI id: AMD numbers the GPUs of its processors apart from its cards.
//   - The version of the graphics engine, from the chip itself or the compute driver: each is
//     built into processors or into cards.
//   - The sensor of the northbridge's voltage (vddnb), which only a processor has.
//   - Processor cores in the GPU's own node of the compute driver.
//   - The format of gpu_metrics: 1 for cards, 2 and 3 for processors. Many products have no
//     table, or an empty one.
//
// Where none of these is there, what a card has speaks for a card: the PCI id of one, a fan, a limit of
// its power, a sensor of its memory or hot spot, a clock of its own memory. And how the memory is laid out
// speaks for a processor: the compute driver counts the machine's memory as the GPU's own, or
// the driver has no clock of the memory and lends the GPU more of the machine's than it has itself.

// A span is the first and the last of some numbers in a row.
type span struct{ first, last uint64 }

func inOneOf(spans []span, n uint64) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return n >= s.first && n <= s.last })
}

var (
	// productsOfProcessors are PCI ids: those of all processors since Kaveri (2014), and the
	// Instinct MI300A.
	productsOfProcessors = []span{{0x1100, 0x1fff}, {0x9830, 0x985f}, {0x9870, 0x987f}, {0x98e0, 0x98ef}, {0x74a0, 0x74a0}}

	// productsOfCards are those of cards since 2012, which amdgpu serves. So far one processor is
	// among them.
	productsOfCards = []span{{0x6600, 0x7fff}}

	// enginesOfProcessors are versions of the graphics engine (GC) as the chip has them, in the
	// form of the compute driver: 100301 is 10.3.1.
	enginesOfProcessors = []span{
		{90100, 90100}, {90202, 90202}, {90300, 90300}, // Raven, Raven 2 and Picasso, Renoir to Barcelo
		{100103, 100104}, {100301, 100301}, {100303, 100303}, {100306, 100307}, // Cyan Skillfish, Van Gogh, Rembrandt, Raphael, Mendocino
		{110001, 110001}, {110004, 110004}, {110500, 110599}, // Phoenix, Hawk Point, Strix and later
	}

	// targetsOfProcessors are instruction sets, as the compute driver has them: 90012 is gfx90c.
	targetsOfProcessors = []span{
		{70000, 70000}, {70003, 70003}, {70005, 70005}, {80001, 80001}, {80100, 80100}, // Kaveri to Stoney
		{90002, 90002}, {90009, 90009}, {90012, 90012}, {100103, 100103}, {100303, 100303}, {100305, 100306},
		{110003, 110003}, {110500, 110599},
	}
)

// signs are what the driver's files say that hardly changes.
type signs struct {
	processor bool      // a sign that decides alone
	card      bool      // something that only cards have
	clocks    bool      // the driver has a clock of the engine, and none of the memory
	counted   gpu.Bytes // what the compute driver counts as the memory of a node
}

// findSigns looks for the signs among the sensors, the compute driver's nodes and the files.
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

// engineVersion is the version of the graphics engine that the chip itself says, which the driver
// keeps; 0: not known.
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

// integrated reports whether the GPU is part of a processor, as far as the signs tell: those that
// were found, the format of gpu_metrics, its own memory, and the machine's that the driver lends it.
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
