package sim

import (
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A tape covers one cycle, and a roster has at most maxRoster jobs.
const (
	cycleSeconds = 1800
	cycle        = cycleSeconds * time.Second
	maxRoster    = 8
)

// A job is what happens in one cycle on one device or on each device of a group. Times
// are seconds of the cycle.
type job struct {
	name      string
	phases    []phase // the device is idle in between
	processes []process
	faults    []fault
}

// A level is what the clocks do without work.
type level uint8

const (
	atRest level = iota // nobody needs the device, or a desktop draws a little
	held                // a context keeps the clocks high
)

// A phase is a stretch of one kind of work. Shares are percent.
type phase struct {
	from, to   int
	level      level
	gpu        float64 // utilization: the mean, around which it swings
	swing      float64
	memory     float64 // of the memory's bandwidth, with the GPU at 100 %
	enc, dec   float64
	intensity  float64 // of the power that full work can draw; 0 is 1
	every, dip int     // work pauses for dip seconds, every so many seconds
}

// A process has a context on each device of its group.
type process struct {
	name, user, command string
	kind                gpu.ProcessType
	from, to            int // seconds of the cycle; to 0: a service that runs since boot
	memory              gpu.Bytes
	ramp                int     // seconds until it has all that memory
	share               float64 // of the device's work, 0 to 1
	cpu, cpuIdle        float64 // percent of one core: with the device at 100 %, and at 0 %
	rss                 gpu.Bytes
	instance            int // MIG: the GPU instance's id; 0: the whole device
	in                  place
	// remains: the job's first process is dead, and this is its memory, which
	// the driver has not freed.
	remains bool
}

func (p *process) service() bool { return p.to == 0 }

// at reports whether the process exists in that second of the cycle.
func (p *process) at(second float64) bool {
	return p.service() || second >= float64(p.from) && second < float64(p.to)
}

// holds is the device memory that the process has in that second.
func (p *process) holds(second float64) gpu.Bytes {
	if p.service() || p.ramp == 0 {
		return p.memory
	}
	grown := min(1, (second-float64(p.from)+1)/float64(p.ramp+1))
	return gpu.Bytes(float64(p.memory)*grown) &^ (2*mib - 1) // the driver gives pages of 2 MiB
}

// A fault is a time in which the device can't be read.
type fault struct {
	from, to int
	state    gpu.State
	reason   gpu.Advice
}

// load is what a job asks of a device in one second.
type load struct {
	gpu, memory, enc, dec, intensity float64
	level                            level
	compute                          bool
}

// at returns the load in that second, for one of several devices that share the job.
func (j *job) at(second, grain int) load {
	for i := range j.phases {
		p := &j.phases[i]
		if second < p.from || second >= p.to {
			continue
		}
		l := load{level: p.level, intensity: p.intensity, compute: j.computes(second)}
		if l.intensity == 0 {
			l.intensity = 1
		}
		if p.every > 0 && (second-p.from)%p.every >= p.every-p.dip {
			return l
		}
		seed := mix(seedOf(j.name), uint64(grain))
		if p.gpu > 0 {
			l.gpu = math.Round(min(100, max(0, p.gpu+p.swing*wobble(seed, second))))
		}
		l.memory = math.Round(l.gpu / 100 * p.memory)
		if p.enc > 0 {
			l.enc = math.Round(min(100, p.enc+5*wobble(seed+2, second)))
		}
		if p.dec > 0 {
			l.dec = math.Round(min(100, p.dec+4*wobble(seed+3, second)))
		}
		return l
	}
	return load{intensity: 1}
}

// computes reports whether a compute context is open in that second.
func (j *job) computes(second int) bool {
	return slices.ContainsFunc(j.processes, func(p process) bool {
		return p.kind == gpu.TypeCompute && p.at(float64(second))
	})
}

// The desktop's services and jobs.
var desktopServices = []process{
	{name: "Xorg", user: "root", command: "/usr/lib/xorg/Xorg vt2 -displayfd 3 -auth /run/user/1000/gdm/Xauthority -nolisten tcp -background none -noreset -keeptty -novtswitch -verbose 3",
		kind: gpu.TypeGraphics, memory: 402 * mib, share: 0.02, cpu: 9, cpuIdle: 1.4, rss: 142 * mib,
		in: session("session-2.scope", "user-1000.slice")},
	{name: "gnome-shell", user: "alex", command: "/usr/bin/gnome-shell",
		kind: gpu.TypeGraphics, memory: 118 * mib, share: 0.02, cpu: 14, cpuIdle: 2.1, rss: 318 * mib,
		in: session("org.gnome.Shell@x11.service", "session.slice")},
	{name: "firefox", user: "alex", command: "/usr/lib/firefox/firefox",
		kind: gpu.TypeGraphics, memory: 236 * mib, share: 0.01, cpu: 22, cpuIdle: 3.2, rss: 1124 * mib,
		in: session("app-gnome-firefox-3104.scope", "app.slice")},
}

// drawing is an idle desktop with windows that move from time to time.
func drawing(from, to int) phase {
	return phase{from: from, to: to, gpu: 1, swing: 2, memory: 3, intensity: 0.25}
}

// desktopJobs: a game, a chat with a model that then stays loaded, a training
// run at the power limit, a render, and a film being encoded.
var desktopJobs = []job{
	{name: "game",
		phases: []phase{
			drawing(0, 75),
			{from: 75, to: 100, level: held, gpu: 34, swing: 20, memory: 40, intensity: 0.5},
			{from: 100, to: 1080, level: held, gpu: 96, swing: 4, memory: 52, intensity: 0.86, every: 420, dip: 12},
			drawing(1080, cycleSeconds),
		},
		processes: []process{{name: "Cyberpunk2077.exe", user: "alex",
			command: `Z:\home\alex\.steam\steam\steamapps\common\Cyberpunk 2077\bin\x64\Cyberpunk2077.exe`,
			kind:    gpu.TypeComputeGraphics, from: 75, to: 1080, memory: 11742 * mib, ramp: 40, share: 0.94,
			cpu: 640, cpuIdle: 60, rss: 9421 * mib, in: session("app-gnome-steam-5120.scope", "app.slice")}},
	},
	{name: "chat",
		phases: []phase{
			drawing(0, 60),
			{from: 60, to: 68, level: held, gpu: 12, swing: 8, memory: 60},
			{from: 68, to: 240, level: held, gpu: 91, swing: 6, memory: 92, intensity: 0.62, every: 60, dip: 25},
			{from: 240, to: 420, level: held},
			{from: 420, to: 660, level: held, gpu: 93, swing: 5, memory: 92, intensity: 0.62, every: 50, dip: 15},
			{from: 660, to: 960, level: held}, // the model stays loaded for five minutes
			drawing(960, cycleSeconds),
		},
		processes: []process{{name: "ollama", user: "ollama",
			command: "/usr/local/bin/ollama runner --ollama-engine --model /usr/share/ollama/.ollama/models/blobs/sha256-e7b273f9636059a689e3ddcab3716e4f65abe0143ac978e46673ad0e52d09efb --port 41233",
			kind:    gpu.TypeCompute, from: 60, to: 960, memory: 14228 * mib, ramp: 7, share: 0.97,
			cpu: 102, cpuIdle: 0.3, rss: 1418 * mib, in: service("ollama.service")}},
	},
	{name: "training",
		phases: []phase{
			drawing(0, 45),
			{from: 45, to: 70, level: held, gpu: 8, swing: 8, memory: 20},
			{from: 70, to: 1150, level: held, gpu: 98, swing: 2, memory: 71, every: 300, dip: 14},
			drawing(1150, cycleSeconds),
		},
		processes: []process{{name: "python", user: "alex",
			command: "python train.py --config configs/vit_small.yaml --batch-size 192 --amp",
			kind:    gpu.TypeCompute, from: 45, to: 1150, memory: 20894 * mib, ramp: 30, share: 0.97,
			cpu: 385, cpuIdle: 180, rss: 6210 * mib,
			in: rootless("vit-small", "docker.io/pytorch/pytorch:2.7.0-cuda12.8-cudnn9-runtime")}},
	},
	{name: "render",
		phases: []phase{
			drawing(0, 90),
			{from: 90, to: 900, level: held, gpu: 99, swing: 1, memory: 38, intensity: 0.83, every: 135, dip: 6},
			drawing(900, cycleSeconds),
		},
		processes: []process{{name: "blender", user: "alex",
			command: "blender -b scenes/harbour.blend -E CYCLES -s 1 -e 240 -a -- --cycles-device OPTIX",
			kind:    gpu.TypeComputeGraphics, from: 84, to: 900, memory: 8312 * mib, ramp: 6, share: 0.97,
			cpu: 118, cpuIdle: 95, rss: 5120 * mib, in: session("app-org.gnome.Terminal-6233.scope", "app.slice")}},
	},
	{name: "encode",
		phases: []phase{
			drawing(0, 60),
			{from: 60, to: 780, level: held, gpu: 9, swing: 3, memory: 24, enc: 74, dec: 31, intensity: 0.7},
			drawing(780, cycleSeconds),
		},
		processes: []process{{name: "ffmpeg", user: "alex",
			command: "ffmpeg -hwaccel cuda -hwaccel_output_format cuda -i holiday.mov -c:v av1_nvenc -preset p6 -b:v 8M holiday.mkv",
			kind:    gpu.TypeCompute, from: 60, to: 780, memory: 642 * mib, ramp: 1, share: 0.9,
			cpu: 46, cpuIdle: 38, rss: 412 * mib, in: session("app-org.gnome.Terminal-6233.scope", "app.slice")}},
	},
}

// The data centre's jobs.
var (
	resting = job{name: "resting"}

	pretraining = job{name: "pretraining",
		phases: []phase{
			{from: 40, to: 95, level: held},
			{from: 95, to: 1290, level: held, gpu: 98, swing: 2, memory: 64, every: 360, dip: 18},
		},
		processes: []process{{name: "python3", user: "mchen",
			command: "/opt/venv/bin/python3 -u pretrain.py --model llama-8b --tensor-parallel 4 --data /raid/tokens --wandb-project llama-8b",
			kind:    gpu.TypeCompute, from: 40, to: 1290, memory: 74652 * mib, ramp: 50, share: 1,
			cpu: 128, cpuIdle: 104, rss: 18240 * mib, in: slurm("0")}},
	}

	finetuning = job{name: "finetuning",
		phases: []phase{
			{from: 25, to: 60, level: held},
			{from: 60, to: 840, level: held, gpu: 88, swing: 9, memory: 58, intensity: 0.8, every: 120, dip: 9},
			{from: 840, to: 1020, level: held}, // finished, but the notebook is still open
		},
		processes: []process{{name: "python", user: "agarcia",
			command: "/home/agarcia/miniconda3/envs/ft/bin/python -m ipykernel_launcher -f /home/agarcia/.local/share/jupyter/runtime/kernel-7f21.json",
			kind:    gpu.TypeCompute, from: 25, to: 1020, memory: 41218 * mib, ramp: 30, share: 1,
			cpu: 101, cpuIdle: 0.4, rss: 9120 * mib, in: service("jupyter-agarcia.service")}},
	}

	// serving and diffusion never end: the end of their tape joins its beginning.
	serving = job{name: "serving",
		phases: []phase{
			{from: 0, to: 120, level: held},
			{from: 120, to: 420, level: held, gpu: 72, swing: 24, memory: 80, intensity: 0.72},
			{from: 420, to: 560, level: held},
			{from: 560, to: 1240, level: held, gpu: 86, swing: 13, memory: 84, intensity: 0.78, every: 170, dip: 20},
			{from: 1240, to: cycleSeconds, level: held},
		},
		processes: []process{{name: "VLLM::EngineCore", user: "svc-llm",
			command: "/usr/bin/python3 /usr/local/bin/vllm serve meta-llama/Llama-3.1-70B-Instruct --quantization fp8 --gpu-memory-utilization 0.92 --port 8000",
			kind:    gpu.TypeCompute, memory: 75310 * mib, share: 1,
			cpu: 112, cpuIdle: 3, rss: 14380 * mib, in: docker("vllm-llama-70b", "vllm/vllm-openai:v0.8.4")}},
	}

	diffusion = job{name: "diffusion",
		phases: []phase{{from: 0, to: cycleSeconds, level: held, gpu: 99, swing: 1, memory: 55, every: 600, dip: 15}},
		processes: []process{{name: "python3", user: "jokafor",
			command: "/opt/venv/bin/python3 train_sdxl.py --train-data-dir /raid/laion --mixed-precision bf16 --resume latest",
			kind:    gpu.TypeCompute, memory: 68914 * mib, share: 1,
			cpu: 240, cpuIdle: 120, rss: 22410 * mib, in: slurm("batch")}},
	}

	// notebooks run in MIG instances.
	notebooks = job{name: "notebooks",
		phases: []phase{
			{from: 0, to: 200, level: held},
			{from: 200, to: 900, level: held, gpu: 46, swing: 18, memory: 50, intensity: 0.6},
			{from: 900, to: cycleSeconds, level: held},
		},
		processes: []process{
			{name: "tritonserver", user: "svc-llm", command: "tritonserver --model-repository=/models --http-port 8100",
				kind: gpu.TypeCompute, memory: 21206 * mib, share: 0.4, cpu: 34, cpuIdle: 2, rss: 3122 * mib, instance: 1,
				in: pod("inference", "triton-6c9f7d5b8-x2kq4", "triton", "nvcr.io/nvidia/tritonserver:25.03-py3")},
			{name: "python", user: "lfischer", command: "/home/lfischer/.venv/bin/python -m ipykernel_launcher -f kernel-19ab.json",
				kind: gpu.TypeCompute, from: 180, to: 1100, memory: 8342 * mib, ramp: 20, share: 0.6, cpu: 98, cpuIdle: 0.3, rss: 2840 * mib, instance: 5,
				in: pod("jupyterhub", "jupyter-lfischer", "notebook", "quay.io/jupyter/pytorch-notebook:cuda12-2025-04-14")},
		},
	}

	// failing is a card in trouble: within each cycle it works, stops answering,
	// comes back with the memory of a process that was killed, is lost, comes back,
	// is put to sleep and wakes.
	failing = job{name: "failing",
		phases: []phase{
			{from: 20, to: 45, level: held},
			{from: 45, to: 420, level: held, gpu: 94, swing: 5, memory: 60, intensity: 0.85},
			{from: 600, to: 650, level: held},
			{from: 660, to: 690, level: held},
			{from: 690, to: 1020, level: held, gpu: 95, swing: 4, memory: 60, intensity: 0.85},
		},
		processes: []process{
			{name: "python3", user: "mchen", command: "/opt/venv/bin/python3 -u evaluate.py --checkpoint /raid/ckpt/llama-8b/latest",
				kind: gpu.TypeCompute, from: 20, to: 420, memory: 38112 * mib, ramp: 25, share: 1, cpu: 110, cpuIdle: 90, rss: 11200 * mib,
				in: slurm("0")},
			{name: "python3", user: "mchen", command: "/opt/venv/bin/python3 -u evaluate.py --checkpoint /raid/ckpt/llama-8b/latest --retry",
				kind: gpu.TypeCompute, from: 660, to: 1020, memory: 38112 * mib, ramp: 25, share: 1, cpu: 110, cpuIdle: 90, rss: 11200 * mib,
				in: slurm("1")},
			{remains: true, kind: gpu.TypeCompute, from: 600, to: 650, memory: 38112 * mib},
		},
		faults: []fault{
			{from: 420, to: 600, state: gpu.StateNotAnswering, reason: gpu.Advice{
				What: "the driver has not come back from a call for this GPU",
				Try:  "look for NVRM and Xid lines in the kernel log; a GPU reset or a restart may be needed",
				Err:  gpu.ErrNotAnswering}},
			{from: 1020, to: 1200, state: gpu.StateLost, reason: gpu.Advice{
				What: "the driver says that the GPU has fallen off the bus",
				Try:  "check its power cables and seating, look for Xid 79 in the kernel log, then restart the machine"}},
			{from: 1380, to: 1680, state: gpu.StateAsleep, reason: gpu.Advice{
				What: "the system has powered the GPU down, and it is left asleep",
				Try:  "it wakes when a program uses it"}},
		},
	}
)

// Rosters: which jobs take turns on a device.
var (
	trainingRoster = []job{pretraining, finetuning}
	labRoster      = []job{finetuning, resting, pretraining, resting}
)
