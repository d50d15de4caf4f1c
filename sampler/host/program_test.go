package host

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Command lines as programs have them, one word per argument.
func TestProgram(t *testing.T) {
	for line, want := range map[string]string{
		// Python.
		"python train_sdxl.py": "train_sdxl.py",
		"/opt/conda/bin/python3.11 -u -X dev -W ignore /home/alice/exp/train.py --lr 1e-4": "train.py",
		"python3 -Xfrozen_modules=off -Wignore::UserWarning -OO train.py":                  "train.py",
		"python -uBm my_pkg.train --config secret.yaml":                                    "my_pkg.train",
		"python -mmy_pkg.train":                       "my_pkg.train",
		"python --check-hash-based-pycs never run.py": "run.py",
		"python -c import_torch; extra.py":            "python",
		"python3 -ic print(1)":                        "python3",
		"python3":                                     "python3",
		"python -":                                    "python",
		"python -V":                                   "python",
		"python --new-option value run.py":            "python",
		"python --new-option run.py":                  "run.py",
		"/venv/bin/python main.py --listen 0.0.0.0 --port 8188": "main.py",
		"python ./ComfyUI/":                      "ComfyUI",
		"python .":                               "python",
		"pypy3.10 bench.py":                      "bench.py",
		"/usr/bin/python3 /usr/bin/gnome-tweaks": "gnome-tweaks",
		"/usr/bin/python3 /opt/conda/bin/jupyter-lab --no-browser":                       "jupyter-lab",
		"python -m jupyter notebook --port 8888":                                         "jupyter notebook",
		"python -m http.server 8000":                                                     "http.server",
		"python -m tensorboard.main --logdir /data/runs":                                 "tensorboard",
		"/usr/bin/python3 -m ipykernel_launcher -f /run/user/1/k.json":                   "jupyter kernel",
		"python /venv/lib/python3.11/site-packages/ipykernel_launcher.py -f /tmp/k.json": "jupyter kernel",
		"python -m ipykernel -f k.json":                                                  "jupyter kernel",
		"python -c from_multiprocessing.spawn_import_spawn_main --multiprocessing-fork":  "python",

		// Model servers.
		"python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B":                "vllm serve",
		"python3 /usr/local/bin/vllm serve meta-llama/Llama-3.1-8B --api-key abc":                     "vllm serve",
		"vllm bench throughput --model m":                                                             "vllm bench",
		"vllm --version":                                                                              "vllm",
		"python -m vllm.entrypoints.cli.main serve m":                                                 "vllm serve",
		"python -m sglang.launch_server --model-path m":                                               "sglang server",
		"/usr/local/bin/ollama serve":                                                                 "ollama serve",
		"/usr/local/bin/ollama runner --model /root/.ollama/models/blobs/sha256-8eeb --ctx-size 8192": "ollama runner",
		"/tmp/ollama12/runners/cuda_v11/ollama_llama_server --model /m --port 4":                      "ollama runner",
		"./llama-server -m /models/q4.gguf -ngl 99 -c 4096":                                           "llama-server",
		"tritonserver --model-repository=/models":                                                     "tritonserver",
		"/opt/venv/bin/python /opt/venv/bin/uvicorn app.main:app --workers 4":                         "uvicorn",
		"python /venv/bin/streamlit run /srv/dash.py --server.port 80":                                "dash.py",

		// Launchers of Python on several GPUs.
		"python /venv/bin/torchrun --nproc_per_node=8 --rdzv_endpoint 10.0.0.1:29500 train.py --lr 1":                             "train.py",
		"torchrun --standalone --nproc-per-node 8 -m my.train --x y":                                                              "my.train",
		"torchrun --nnodes 2 --no-python ./launch.sh a":                                                                           "launch.sh",
		"torchrun --nnodes 2 train --token abc":                                                                                   "torchrun",
		"python -m torch.distributed.run --nproc_per_node 2 finetune.py":                                                          "finetune.py",
		"python -u -m torch.distributed.launch --use_env main_dist.py":                                                            "main_dist.py",
		"/venv/bin/python /venv/bin/accelerate launch --config_file c.yaml --multi_gpu --num_processes 8 train_dreambooth.py --x": "train_dreambooth.py",
		"accelerate config": "accelerate",
		"python -m accelerate.commands.launch --mixed_precision bf16 -m pkg.run":                           "pkg.run",
		"deepspeed --num_gpus 8 --hostfile /job/hostfile --master_port 29501 train.py --deepspeed ds.json": "train.py",
		"python -u -m deepspeed.launcher.launch --world_info=eyJ --master_addr=127.0.0.1 train.py":         "train.py",
		"srun -N 2 --gres=gpu:8 -p gpu --ntasks-per-node 8 --container-image=x --pty bash -e /job/run.sh":  "run.sh",
		"srun -n8 python train.py": "train.py",
		"mpirun -np 8 -H a:4,b:4 --allow-run-as-root -x PATH python train_horovod.py":                       "train_horovod.py",
		"python -m debugpy --connect 127.0.0.1:5678 --adapter-access-token abc /home/x/train.py":            "train.py",
		"python /opt/pycharm/pydevd.py --multiprocess --client 127.0.0.1 --port 12 --file /home/x/train.py": "train.py",
		"python /x/bundled/libs/debugpy/adapter/../../debugpy/launcher 5000 -- /home/x/train.py --a":        "train.py",
		"python /x/libs/debugpy/launcher 5000 -- -m my.train":                                               "my.train",
		"python /x/libs/debugpy/launcher 5000 -- -c code":                                                   "debugpy",
		"python /x/libs/debugpy/launcher 5000":                                                              "debugpy",
		"python /x/libs/debugpy/adapter --port 5000":                                                        "debugpy",
		"python user:hunter2@host":                                                                          "python",
		"python pw:hunter2":                                                                                 "python",
		"python C:hunter2":                                                                                  "python",
		"python -m cProfile -o out.prof train.py":                                                           "train.py",
		"nsys profile -o report --trace=cuda python train.py":                                               "train.py",

		// Environments, entry points and wrappers that change how a program runs.
		"/opt/conda/bin/python /opt/conda/bin/conda run -n ml --no-capture-output python train.py": "train.py",
		"conda install pytorch":                                            "conda",
		"poetry run python -m app.worker":                                  "app.worker",
		"uv run --with torch --python 3.12 train.py":                       "train.py",
		"pipenv run python train.py":                                       "train.py",
		"/sbin/tini -g -- python train.py":                                 "train.py",
		"tini -p SIGTERM -- /bin/bash /start.sh":                           "start.sh",
		"/usr/bin/dumb-init --rewrite 15:3 -- node server.js":              "server.js",
		"/sbin/docker-init -- /usr/local/bin/app --token abc":              "app",
		"/bin/bash /opt/nvidia/nvidia_entrypoint.sh python train.py":       "train.py",
		"/usr/bin/env -i HF_TOKEN=abc PATH=/bin -u X python3 train.py":     "train.py",
		"env -S python train.py":                                           "env",
		"nice -n 10 ionice -c3 taskset -c 0-7 python train.py":             "train.py",
		"nice -19 ./a.out":                                                 "a.out",
		"numactl --cpunodebind=0 -m 0 ./xhpl":                              "xhpl",
		"nohup python -u train.py":                                         "train.py",
		"time -f %e python x.py":                                           "x.py",
		"/usr/bin/time -vo out.txt python x.py":                            "x.py",
		"/usr/bin/time --output=out.txt --format %e python x.py":           "x.py",
		"exec -a name python x.py":                                         "x.py",
		"sudo -u alice -E HF_TOKEN=abc python train.py":                    "train.py",
		"sudo --unheard-of value python train.py":                          "sudo",
		"timeout -s KILL 4h ./gpu_burn 3600":                               "gpu_burn",
		"flock -n /tmp/lock.txt ./job.sh":                                  "job.sh",
		"stdbuf -oL python train.py":                                       "train.py",
		"apptainer exec --nv -B /data:/data image.sif python train.py":     "train.py",
		"/lib64/ld-linux-x86-64.so.2 --library-path /x/lib /x/bin/blender": "blender",

		// Shells and other interpreters.
		"/bin/bash ./run.sh --password hunter2": "run.sh",
		"bash -euo pipefail train.sh":           "train.sh",
		"bash -lc ./x.sh":                       "bash",
		"-bash":                                 "bash",
		"sh -c python_train.py":                 "sh",
		"node --max-old-space-size=4096 -r ts-node/register src/index.ts":           "index.ts",
		"node --inspect server.js":                                                  "server.js",
		"node -e code.js":                                                           "node",
		"node /usr/lib/node_modules/npm/bin/npm-cli.js run x":                       "npm",
		"/usr/bin/node /srv/node_modules/.bin/vite build":                           "vite",
		"node /usr/lib/node_modules/@scope/tool/dist/cli.js":                        "tool",
		"deno run -A --allow-net --config deno.json server.ts":                      "server.ts",
		"deno run https://user:pass@h.example/a/mod.ts?token=abc":                   "mod.ts",
		"deno run npm:@scope/cowsay@1.5.0":                                          "cowsay",
		"deno eval x.ts":                                                            "deno",
		"bun run --watch index.tsx":                                                 "index.tsx",
		"bun run build":                                                             "bun",
		"java -Xmx8g -cp /a.jar:/b.jar -Dkey=abc com.example.server.Main --token x": "Main",
		"/usr/lib/jvm/bin/java --add-opens java.base/java.lang=ALL-UNNAMED -jar /opt/app/minio-1.2.jar s": "minio-1.2.jar",
		"java -m my.module/com.example.App": "App",
		"java Main.java":                    "Main.java",
		"java -Xmx4G net.minecraft.client.main.Main --accessToken abc": "Minecraft",
		"java @args.txt":                       "java",
		"java":                                 "java",
		"julia --threads 8 --project=. sim.jl": "sim.jl",
		"/usr/lib/R/bin/exec/R --no-echo --no-restore --file=/home/a/fit.R --args x": "fit.R",
		"perl -w tool.pl": "tool.pl",

		// Windows programs.
		`C:\windows\system32\explorer.exe /desktop`:                                        "explorer.exe",
		"/opt/wine/bin/wine64-preloader /opt/wine/bin/wine64 /games/Game.exe -dx11":        "Game.exe",
		"wine start /unix /home/a/Setup.EXE":                                               "Setup.EXE",
		"wine winecfg":                                                                     "wine",
		"python3 /steam/Proton/proton waitforexitandrun /steam/common/Elden/eldenring.exe": "eldenring.exe",

		// Programs.
		"blender -b /home/a/scene.blend -f 1":                "blender",
		"/usr/lib/xorg/Xorg :0 -auth /run/x":                 "Xorg",
		"/usr/bin/gnome-shell":                               "gnome-shell",
		"/opt/google/chrome/chrome --type=gpu-process --x=y": "chrome",
		"./Game.x86_64 -screen 1":                            "Game.x86_64",
		"mono /srv/Tool.exe --x":                             "Tool.exe",
		"dotnet /srv/app.dll --x y":                          "app.dll",
		"dotnet build secret":                                "dotnet",
		"s6-setuidgid abc python x.py":                       "x.py",
		"gamescope -W 1920 -- ./game":                        "gamescope",
	} {
		args := strings.Fields(line)
		if got := programOf(path.Base(args[0]), args); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", line, got, want)
		}
	}
}

// Arguments with spaces, and titles that programs write over them.
func TestProgramOfTitle(t *testing.T) {
	for _, tt := range []struct {
		comm string
		args []string
		want string
	}{
		{"VLLM::EngineCor", []string{"VLLM::EngineCore"}, "VLLM::EngineCore"},
		{"VLLM::Worker_TP", []string{"VLLM::Worker_TP0"}, "VLLM::Worker_TP0"},
		{"ray::Trainer.tr", []string{"ray::Trainer.train"}, "ray::Trainer.train"},
		{"ray::train", []string{"ray::train(secret)"}, "ray::train"},
		{"ray::IDLE", []string{"ray::IDLE"}, "ray::IDLE"},
		{"postgres", []string{"postgres: alice payroll 10.0.0.7(5432) SELECT"}, "postgres"},
		{"nginx", []string{"nginx: worker process"}, "nginx"},
		{"php-fpm8.2", []string{"php-fpm: pool www"}, "php-fpm"},
		{"python", []string{"hunter2: connected"}, "python"},
		{"celery", []string{"[celeryd: worker@host:MainProcess]"}, "celeryd"},
		{"text-generation", []string{"text-generation-server: worker 1"}, "text-generation-server"},
		{"npm exec secret", []string{"npm exec secret-thing with words"}, "npm"},
		{"next-server (v1", []string{"next-server (v14.1.0)"}, "next-server"},
		{"my title", []string{"my title"}, "my"},
		{"sglang::schedul", []string{"sglang::scheduler_TP0"}, "sglang::scheduler_TP0"},
		{"starter", []string{"Apptainer runtime parent"}, "starter"},
		{"python", []string{"python train.py --token abc"}, "train.py"},
		{"pt_main_thread", []string{"python3.11 -u train.py --token abc"}, "train.py"},
		{"chrome", []string{"/opt/google/chrome/chrome --type=gpu-process --path=/a/b"}, "chrome"},
		{"app", []string{"/opt/My Apps/app --type=gpu-process --path=/a/b"}, "app"},
		{"app", []string{"/opt/My Apps/app"}, "app"},
		{"app", []string{"/opt/My Apps/app", "--x"}, "app"},
		{"game.exe", []string{`C:\Program Files (x86)\A Game\game.exe -windowed`}, "game.exe"},
		{"game.exe", []string{`Z:\home\a\A Game\game.exe`, "-windowed"}, "game.exe"},
		{"python", []string{"python", "/home/a/my scripts/train it.py"}, "train it.py"},
		{"python", []string{"python", ""}, "python"},
		{"python", []string{"python", "a\x1b\u202eb\xff.py"}, "a\uFFFD\uFFFDb\uFFFD.py"},
		{"python", []string{"python", "hf_AbcdefGhijkl12.py"}, "python"},
		{"python", []string{"python", "key=abc"}, "python"},
		{"sh", []string{"", "x"}, "sh"},
		{"odd", []string{"/"}, "odd"},
		{"chrome", []string{"/proc/self/exe", "--type=gpu-process"}, "chrome"},
		{"chrome", []string{"/proc/self/exe --type=gpu-process"}, "chrome"},
		{"memfd", []string{"/proc/self/fd/5", "x"}, "memfd"},
		{"myprog", []string{"myprog:hunter2"}, "myprog"},
		{"python", []string{"pw:hunter2"}, "python"},
		{"bob@h:x", []string{"bob@h:x"}, "bob@h"},
		{"python", []string{"bob@example.com:hunter2"}, "python"},
		{"python", []string{"python", "train.py\u200b"}, "train.py"},
		{"python", []string{"python", "\u00adtr\u2060ain\ufeff\ufe0f\u3164.py"}, "train.py"},
		{"python", []string{"python", "\u200b"}, "python"},
		{"deno", []string{"deno", "run", "https://user:pass@host"}, "deno"},
	} {
		if got := programOf(tt.comm, tt.args); got != tt.want {
			t.Errorf("%q\ngot  %q\nwant %q", tt.args, got, tt.want)
		}
	}
	if got := programOf("python", []string{"python", strings.Repeat("ä", 200) + ".py"}); len(got) > maxName || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := programOf("env", strings.Fields(strings.Repeat("env ", 100)+"x")); got != "env" {
		t.Errorf("a hundred times: %q", got)
	}
}

func TestProgramsOfOthers(t *testing.T) {
	const me, other = 1000, 1001
	hidden := gpu.Absent[string](gpu.NotPermitted)
	for show, want := range map[ShowCommands][2]gpu.Reading[string]{
		"":           {hidden, hidden},
		ShowNone:     {hidden, hidden},
		ShowOwn:      {gpu.Of("mine.py"), hidden},
		ShowNames:    {gpu.Of("mine.py"), gpu.Of("his.py")},
		ShowAll:      {gpu.Of("mine.py"), gpu.Of("his.py")},
		"everything": {hidden, hidden},
	} {
		m := newMachine(t)
		m.process(10, "python", me, 200, 0, "python", "/home/me/mine.py", "--token", "x")
		m.process(11, "python", other, 300, 0, "python", "/home/him/his.py", "--token", "x")
		r := m.reader(show)
		r.uid = me
		if got := [2]gpu.Reading[string]{facts(t, r, 10).Program, facts(t, r, 11).Program}; got != want {
			t.Errorf("%q: %v, want %v", show, got, want)
		}
	}
}

func TestProgramIsAbsent(t *testing.T) {
	m := newMachine(t)
	m.process(10, "kworker/0:1", 0, 100, 0)
	r := m.reader(ShowAll)
	if got := facts(t, r, 10).Program; got != (gpu.Reading[string]{}) {
		t.Errorf("of a thread of the kernel: %v", got)
	}
	m.process(11, "python", 0, 100, 0, "python", "x.py")
	m.remove("proc/11/cmdline")
	if got := facts(t, r, 11).Program; got != (gpu.Reading[string]{}) {
		t.Errorf("without a command line: %v", got)
	}
	if got := facts(t, r, 12).Program; got.Present() {
		t.Errorf("of no process: %v", got)
	}
}

func TestNotebooks(t *testing.T) {
	const me, other = 1000, 1001
	kernel := []string{"/venv/bin/python", "-m", "ipykernel_launcher", "-f", "/run/user/1000/kernel-1.json"}
	for name, tt := range map[string]struct {
		uid     int
		environ string
		want    string
	}{
		"a notebook":      {me, "HOME=/home/alice\x00JPY_SESSION_NAME=/home/alice/work/train.ipynb\x00HF_TOKEN=hf_abc\x00", "jupyter kernel of train.ipynb"},
		"the first":       {me, "JPY_SESSION_NAME=train it.ipynb\x00", "jupyter kernel of train it.ipynb"},
		"odd signs":       {me, "JPY_SESSION_NAME=/a/tr\x1bain\xff.ipynb\x00", "jupyter kernel of tr\uFFFDain\uFFFD.ipynb"},
		"a long name":     {me, "JPY_SESSION_NAME=" + strings.Repeat("ä", 200) + ".ipynb\x00", "jupyter kernel of " + strings.Repeat("ä", 117) + "…"},
		"a console":       {me, "JPY_SESSION_NAME=/home/alice/Console 1\x00", "jupyter kernel"},
		"a hidden file":   {me, "JPY_SESSION_NAME=/home/alice/.env\x00", "jupyter kernel"},
		"a secret":        {me, "JPY_SESSION_NAME=/home/hf_AbcdefGhijkl12.x\x00", "jupyter kernel"},
		"no notebook":     {me, "HOME=/home/alice\x00NOT_JPY_SESSION_NAME=x.ipynb\x00", "jupyter kernel"},
		"somebody else’s": {other, "JPY_SESSION_NAME=/home/bob/train.ipynb\x00", "jupyter kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.process(10, "python", tt.uid, 200, 0, kernel...)
			m.write("proc/10/environ", tt.environ)
			r := m.reader(ShowAll)
			r.uid = me
			if got := facts(t, r, 10).Program; got != gpu.Of(tt.want) {
				t.Errorf("got %v, want %s", got, tt.want)
			}
			if strings.Contains(string(r.buf), "hf_abc") {
				t.Error("the environment is kept")
			}
			m.remove("proc/10/environ")
			m.now = m.now.Add(2 * refreshAfter)
			if got := facts(t, r, 10).Program; got != gpu.Of(jupyterKernel) {
				t.Errorf("without an environment: %v", got)
			}
		})
	}
}

// The result is safe to show, and contains nothing of the arguments except the last part of a name, a module, a class, or known words.
func FuzzProgram(f *testing.F) {
	f.Add("python", "-u", "train.py", "python")
	f.Add("sudo", "-u", "--weird", "env")
	f.Add("ray::Trainer.train", "", "", "")
	f.Add("C:\\a b\\c.exe", "deno", "npm:@a/b@1", "https://u:p@h/x?y")
	f.Add("torchrun", "--nproc", "8", "/a/b.py")
	f.Add("java", "-cp", "a", "b.C")
	f.Fuzz(func(t *testing.T, a, b, c, comm string) {
		args := []string{a, b, c, "script", "--password", "hunter2", "password=hunter2", "https://x:hunter2@h/?key=hunter2"}
		got := programOf(comm, args)
		if len(got) > maxName || !utf8.ValidString(got) || clean(got) != got || strings.Contains(got, "/") {
			t.Errorf("not fit to be shown: %q", got)
		}
		if !strings.Contains(a+b+c+comm, "hunter2") && strings.Contains(got, "hunter2") {
			t.Errorf("a value shows: %q", got)
		}
		if !nameFrom(got, append(args, comm)) {
			t.Errorf("%q is from no argument of %q", got, args)
		}
		one := programOf(comm, []string{strings.Join([]string{a, b, c}, " ")})
		if len(one) > maxName || !utf8.ValidString(one) || strings.Contains(one, "/") {
			t.Errorf("not fit to be shown: %q", one)
		}
	})
}

// nameFrom reports whether a name is a known one, or is in an argument with only the end, a path or punctuation around it.
func nameFrom(name string, args []string) bool {
	known := knownPrograms()
	for _, called := range known.Called {
		if name == called {
			return true
		}
	}
	for program, words := range known.Commands {
		for _, word := range words {
			if name == program+" "+word {
				return true
			}
		}
	}
	for _, arg := range args {
		if strings.Contains(clean(arg), strings.TrimSuffix(name, "…")) {
			return true
		}
	}
	return false
}
