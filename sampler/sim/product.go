package sim

import "github.com/gpuwhy/gpuwhy/gpu"

const mib = 1 << 20

// A product is a model of GPU: what its data sheet and its driver say, and the few
// constants that determine its behavior.
type product struct {
	name, architecture string
	vbios              string
	serial             bool // a board of the data center reports one
	displayable        bool // can drive a display

	total, reserved gpu.Bytes
	ownUse          gpu.Bytes // what is used before any process
	bar1            gpu.Bytes

	// Power in watts: in deep idle (P8, or P0 for products without P8), with
	// the clocks kept high by an idle context, and under full work without
	// limits.
	deepIdle, heldIdle, full      float64
	limit, minLimit, maxLimit     float64
	ecc                           bool
	mig                           bool // MIG mode exists, on or off
	engines                       bool // has JPEG and optical flow engines
	counters                      bool // counts what its units do: from Hopper on
	powerStates                   bool // goes to P5 and P8 when idle; others stay in P0
	idleClock, boostClock         float64
	maxClock, maxMemory, maxVideo float64 // MHz
	idleMemory                    float64 // memory clock in deep idle
	computeMemory                 float64 // memory clock under compute work (P2 on GeForce)
	idleVideo                     float64

	slowdown, shutdown float64 // °C
	target             float64 // 0: not reported
	hotSpot            float64 // °C by which the hottest spot is above the sensor at the power limit; 0: not reported
	memoryMax          float64 // 0: not reported, and the memory has no sensor
	operating          float64 // °C at which the driver slows it down, before the hardware does

	fans           int // 0: passive, the fans of the chassis cool it
	fanMax         float64
	fanMin         float64 // percent, while it turns
	fanOn, fanOff  float64 // °C: starts and stops; 0 if it always turns
	still, blowing float64 // W/K to the air: with the fans stopped, and added at 100 %
	inertia        float64 // seconds: the time constant of the temperature

	pcieGen, pcieWidth int
}

// The products. The figures are from data sheets and from owners; the thermal ones are
// chosen so that a card reaches the temperature that such cards do.
var (
	rtx4090 = &product{
		name: "NVIDIA GeForce RTX 4090", architecture: "Ada", vbios: "95.02.3C.40.A1", displayable: true,
		total: 24564 * mib, reserved: 367 * mib, ownUse: 12 * mib, bar1: 32768 * mib,
		deepIdle: 21, heldIdle: 63, full: 478, limit: 450, minLimit: 150, maxLimit: 600,
		engines: true, powerStates: true,
		idleClock: 210, boostClock: 2745, maxClock: 3120, maxMemory: 10501, maxVideo: 2415,
		idleMemory: 405, computeMemory: 10251, idleVideo: 1185,
		hotSpot: 14, slowdown: 95, shutdown: 100, target: 83, operating: 90,
		fans: 2, fanMax: 3200, fanMin: 30, fanOn: 52, fanOff: 43, still: 2, blowing: 17, inertia: 75,
		pcieGen: 4, pcieWidth: 16,
	}
	a6000 = &product{
		name: "NVIDIA RTX A6000", architecture: "Ampere", vbios: "94.02.5C.00.02", serial: true, displayable: true,
		total: 49140 * mib, reserved: 454 * mib, ownUse: 1 * mib, bar1: 65536 * mib,
		deepIdle: 17, heldIdle: 68, full: 312, limit: 300, minLimit: 100, maxLimit: 300,
		ecc: true, engines: true, powerStates: true,
		idleClock: 210, boostClock: 1860, maxClock: 2100, maxMemory: 8001, maxVideo: 1950,
		idleMemory: 405, computeMemory: 7601, idleVideo: 555,
		slowdown: 95, shutdown: 98, target: 84, operating: 93,
		fans: 1, fanMax: 5400, fanMin: 30, still: 0.6, blowing: 8.6, inertia: 40,
		pcieGen: 4, pcieWidth: 16,
	}
	h100 = &product{
		name: "NVIDIA H100 80GB HBM3", architecture: "Hopper", vbios: "96.00.89.00.01", serial: true,
		total: 85520809984, reserved: 502267904, ownUse: 1 * mib, bar1: 131072 * mib,
		deepIdle: 72, heldIdle: 116, full: 722, limit: 700, minLimit: 200, maxLimit: 700,
		ecc: true, mig: true, engines: true, counters: true,
		idleClock: 345, boostClock: 1980, maxClock: 1980, maxMemory: 2619, maxVideo: 1545,
		idleMemory: 2619, computeMemory: 2619, idleVideo: 765,
		slowdown: 87, shutdown: 92, memoryMax: 95, operating: 85,
		still: 19, inertia: 24,
		pcieGen: 5, pcieWidth: 16,
	}
	a100 = &product{
		name: "NVIDIA A100-SXM4-80GB", architecture: "Ampere", vbios: "92.00.45.00.05", serial: true,
		total: 85899345920, reserved: 585 * mib, ownUse: 4 * mib, bar1: 131072 * mib,
		deepIdle: 58, heldIdle: 84, full: 412, limit: 400, minLimit: 100, maxLimit: 400,
		ecc: true, mig: true, engines: true,
		idleClock: 210, boostClock: 1410, maxClock: 1410, maxMemory: 1593, maxVideo: 1290,
		idleMemory: 1593, computeMemory: 1593, idleVideo: 585,
		slowdown: 89, shutdown: 92, memoryMax: 95, operating: 85,
		still: 12, inertia: 26,
		pcieGen: 4, pcieWidth: 16,
	}
	l40s = &product{
		name: "NVIDIA L40S", architecture: "Ada", vbios: "95.02.66.00.02", serial: true, displayable: true,
		total: 46068 * mib, reserved: 591 * mib, ownUse: 1 * mib, bar1: 65536 * mib,
		deepIdle: 33, heldIdle: 83, full: 366, limit: 350, minLimit: 100, maxLimit: 350,
		ecc: true, engines: true, powerStates: true,
		idleClock: 210, boostClock: 2520, maxClock: 2520, maxMemory: 9001, maxVideo: 1965,
		idleMemory: 405, computeMemory: 9001, idleVideo: 1185,
		slowdown: 92, shutdown: 97, operating: 88,
		still: 8, inertia: 38,
		pcieGen: 4, pcieWidth: 16,
	}
)

// A site is where a card is built in, and which chip it has.
type site struct {
	inlet   float64 // °C of the air that reaches it
	airflow float64 // 1: as designed; less if something blocks it
	grain   int     // varies the chip and its part of the work
}

// appetite is the power of the chip under work relative to its product's, within two
// percent.
func (s site) appetite() float64 { return 1 + 0.02*signed(mix(seedOf("chip"), uint64(s.grain))) }

var (
	desktop = site{inlet: 27, airflow: 1}
	front   = site{inlet: 27, airflow: 1}
	rear    = site{inlet: 33, airflow: 0.95}
	blocked = site{inlet: 33, airflow: 0.6} // a filter that nobody has cleaned
)
