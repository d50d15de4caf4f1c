package host

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCommandLine(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"nothing to hide":       {[]string{"python", "train.py", "--lr", "1e-4", "--steps=200"}, "python train.py --lr 1e-4 --steps=200"},
		"models have tokens":    {[]string{"vllm", "serve", "m", "--tokenizer", "mistral", "--max-tokens=512", "--max-num-batched-tokens", "8192", "--token-ids", "1"}, "vllm serve m --tokenizer mistral --max-tokens=512 --max-num-batched-tokens 8192 --token-ids 1"},
		"option with =":         {[]string{"x", "--password=hunter2"}, "x --password=***"},
		"value with spaces":     {[]string{"x", "--db-password=correct horse"}, "x --db-password=***"},
		"option and value":      {[]string{"x", "--token", "abc", "y"}, "x --token *** y"},
		"one dash":              {[]string{"x", "-token", "abc"}, "x -token ***"},
		"option, then another":  {[]string{"x", "--token", "--verbose", "y"}, "x --token --verbose y"},
		"value like an option":  {[]string{"x", "--token", "-Zk3.q"}, "x --token ***"},
		"option at the end":     {[]string{"x", "--token"}, "x --token"},
		"key=":                  {[]string{"x", "key=abc"}, "x key=***"},
		"variable":              {[]string{"env", "HF_TOKEN=hf_x", "WANDB_API_KEY=1234", "python"}, "env HF_TOKEN=*** WANDB_API_KEY=*** python"},
		"capitals in the name":  {[]string{"java", "-Dapp.apiKey=abc", "-DsecretName=s3"}, "java -Dapp.apiKey=*** -DsecretName=s3"},
		"where it is kept":      {[]string{"x", "--password-file", "/run/p", "--key-path=/k"}, "x --password-file /run/p --key-path=/k"},
		"a short command":       {[]string{"sh", "-c", "HF_HOME=/x python a.py --api-key abc && MY_TOKEN=d run"}, "sh -c HF_HOME=/x python a.py --api-key *** && MY_TOKEN=*** run"},
		"URL with a password":   {[]string{"x", "postgres://bob:pa55@db/x"}, "x postgres://bob:***@db/x"},
		"URL without a user":    {[]string{"x", "redis://:pa55@db:6379/0"}, "x redis://:***@db:6379/0"},
		"URL without secret":    {[]string{"x", "http://db:8080/a?page=2"}, "x http://db:8080/a?page=2"},
		"URL with a token":      {[]string{"x", "https://h/a?page=2&access_token=abc&x=1"}, "x https://h/a?page=2&access_token=***&x=1"},
		"header":                {[]string{"curl", "-H", "Authorization: Bearer abcdef123"}, "curl -H Authorization: ***"},
		"header with a key":     {[]string{"curl", "-H", "X-Api-Key: abc"}, "curl -H X-Api-Key: ***"},
		"JSON":                  {[]string{"x", `{"model": "m", "api_key": "abc"}`}, `x {"model": "m", "api_key": ***}`},
		"looks like OpenAI":     {[]string{"x", "sk-proj-abcDEF123456"}, "x ***"},
		"looks like HF":         {[]string{"x", "--login", "hf_AbcdefGhijkl12"}, "x --login ***"},
		"looks like GitHub":     {[]string{"git", "https://ghp_abcdefghijkl@github.com/a/b"}, "git https://***@github.com/a/b"},
		"looks like AWS":        {[]string{"x", "AKIAIOSFODNN7EXAMPLE"}, "x ***"},
		"looks like a JWT":      {[]string{"x", "eyJhbGciOiJI.eyJzdWIi.SflKxwRJ"}, "x ***"},
		"sk in a word":          {[]string{"x", "task-list-of-things"}, "x task-list-of-things"},
		"no valid UTF-8":        {[]string{"x", "a\xffb"}, "x a\uFFFDb"},
		"control characters":    {[]string{"x", "a\x1b[31mb\nc", "\u202egnp"}, "x a\uFFFD[31mb c \uFFFDgnp"},
		"secret and line break": {[]string{"x", "--password=a\nb"}, "x --password=***"},
		"empty arguments":       {[]string{"x", "", "y"}, "x  y"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := commandLine(tt.args); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// What a person who reads every command line must not learn.
func TestSecretsThatAreNotNamed(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"sshpass":                    {[]string{"sshpass", "-p", "hunter2", "ssh", "-p", "22", "h"}, "sshpass -p *** ssh -p 22 h"},
		"sshpass, attached":          {[]string{"sudo", "/usr/bin/sshpass", "-phunter2", "ssh", "h"}, "sudo /usr/bin/sshpass -p*** ssh h"},
		"mysql":                      {[]string{"mysql", "-uroot", "-phunter2", "db"}, "mysql -uroot -p*** db"},
		"mysql asks, and a database": {[]string{"mysql", "-p", "db"}, "mysql -p db"},
		"mysql in a shell":           {[]string{"sh", "-c", "cd /x && mysqldump -u root -p'hunter 2' db | gzip"}, "sh -c cd /x && mysqldump -u root -p*** db | gzip"},
		"mongo":                      {[]string{"mongosh", "-u", "bob", "-p", "hunter2"}, "mongosh -u bob -p ***"},
		"docker login":               {[]string{"docker", "login", "-u", "bob", "-p", "hunter2", "r.example"}, "docker login -u bob -p *** r.example"},
		"redis":                      {[]string{"redis-cli", "-a", "hunter2", "ping"}, "redis-cli -a *** ping"},
		"ipmitool":                   {[]string{"ipmitool", "-U", "admin", "-P", "hunter2", "sdr"}, "ipmitool -U admin -P *** sdr"},
		"-p of another program":      {[]string{"backup", "-p", "Tr0ub4dor&3"}, "backup -p ***"},
		"curl -u":                    {[]string{"curl", "-u", "bob:hunter2", "https://h"}, "curl -u bob:*** https://h"},
		"curl -u, attached":          {[]string{"curl", "-ubob:hunter2", "https://h"}, "curl -ubob:*** https://h"},
		"curl --user":                {[]string{"curl", "--user", "bob:hunter2", "--proxy-user=bob:hunter3"}, "curl --user bob:*** --proxy-user=bob:***"},
		"curl in a shell":            {[]string{"bash", "-c", "curl -sf -u bob:hunter2 https://h"}, "bash -c curl -sf -u bob:*** https://h"},
		"openssl":                    {[]string{"openssl", "rsa", "-passin", "pass:hunter2"}, "openssl rsa -passin pass:***"},
		"--jwt":                      {[]string{"x", "--jwt", "abc", "y"}, "x --jwt *** y"},
		"a JWT":                      {[]string{"x", "--with=" + jwt, jwt}, "x --with=*** ***"},
		"a JWT without a signature":  {[]string{"x", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0."}, "x ***"},
		"Slack":                      {[]string{"curl", "https://hooks.slack.com/services/T00/B00/XXXX"}, "curl https://hooks.slack.com/services/***"},
		"Slack, named":               {[]string{"x", "--url=https://hooks.slack.com/services/T00/B00/XXXX", "y"}, "x --url=https://hooks.slack.com/services/*** y"},
		"Discord":                    {[]string{"x", "https://discord.com/api/webhooks/123/abcdef-XYZ"}, "x https://discord.com/api/webhooks/***"},
		"Telegram":                   {[]string{"x", "https://api.telegram.org/bot123:AbC-def/sendMessage?chat_id=1"}, "x https://api.telegram.org/bot***/sendMessage?chat_id=1"},
		"Teams":                      {[]string{"x", "https://acme.webhook.office.com/webhookb2/1-2@3/IncomingWebhook/4"}, "x https://acme.webhook.office.com/webhookb2/***"},
		"Mattermost":                 {[]string{"x", "https://chat.example/hooks/abcdefghijklmnopqrstuvwxyz"}, "x https://chat.example/hooks/***"},
		"?sig=":                      {[]string{"x", "https://h/c?sv=2024&sig=abc%3D&se=1"}, "x https://h/c?sv=2024&sig=***&se=1"},
		"?token=":                    {[]string{"x", "https://h/c?token=abc#a"}, "x https://h/c?token=***"},
		"?token=, named":             {[]string{"x", "--url=https://h/c?token=abc"}, "x --url=https://h/c?token=***"},
		"S3":                         {[]string{"x", "https://b.s3/o?X-Amz-Credential=AKIAIOSFODNN7EXAMPLE&X-Amz-Expires=60&X-Amz-Signature=0a1b"}, "x https://b.s3/o?X-Amz-Credential=***&X-Amz-Expires=60&X-Amz-Signature=***"},
		"Weights & Biases":           {[]string{"python", "t.py", "wandb.api=0a1b2c", "+logger.api=0123456789abcdef0123"}, "python t.py wandb.api=*** +logger.api=***"},
		"Hydra":                      {[]string{"python", "t.py", "a.api_key=x", "++b.c.api_key=y&z"}, "python t.py a.api_key=*** ++b.c.api_key=***"},
		"a variable for a container": {[]string{"docker", "run", "--env=WANDB_API_KEY=abc", "-e", "HF_TOKEN=d"}, "docker run --env=WANDB_API_KEY=*** -e HF_TOKEN=***"},
		"a flag before":              {[]string{"sh", "-c", "x --verbose --token abc"}, "sh -c x --verbose --token ***"},
		"another scheme":             {[]string{"curl", "-H", "Authorization: token abc def"}, "curl -H Authorization: ***"},
		"a header in a shell":        {[]string{"sh", "-c", "curl -H 'Authorization: Bearer abc' https://h"}, "sh -c curl -H 'Authorization: ***' https://h"},
		"cookies":                    {[]string{"curl", "-H", "Cookie: a=b; c=d"}, "curl -H Cookie: ***"},
		"AWS":                        {[]string{"x", "--id=AKIAIOSFODNN7EXAMPLE"}, "x --id=***"},
		"GitHub":                     {[]string{"x", "a=github_pat_11ABCDEF0_abc", "ghp_abcdef123456"}, "x a=*** ***"},
		"Hugging Face":               {[]string{"x", "login:hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}, "x login:***"},
		"OpenAI":                     {[]string{"x", "-k=sk-abcdefghijkl1234", "sk-ant-api03-abc_def"}, "x -k=*** ***"},
		"a password with an @":       {[]string{"x", "postgres://bob:p@55@db/x"}, "x postgres://bob:***@db/x"},
		"a token as a user":          {[]string{"git", "https://0123456789abcdef0123@h/a"}, "git https://***@h/a"},
		"a private key":              {[]string{"x", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"}, "x -----BEGIN RSA PRIVATE KEY-----***"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := commandLine(tt.args); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Shell characters in a secret, and a next command that looks like an option's value, don't keep a secret from being masked.
func TestSecretsAmongCommands(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"signs that a shell is not to read":       {[]string{"bash", "-c", `tool --password p\&ss9X\;x`}, "bash -c tool --password ***"},
		"a token after another":                   {[]string{"bash", "-c", "curl --oauth2-bearer 'abc' --token ab;cd9X x"}, "bash -c curl --oauth2-bearer *** --token *** x"},
		"an address of a database":                {[]string{"psql", "host=db user=x password=ab|cd9X dbname=y"}, "psql host=db user=x password=*** dbname=y"},
		"an address of a database, with ODBC":     {[]string{"app", "Driver={ODBC};Uid=x;Pwd=ab|cd9X;Database=my db"}, "app Driver={ODBC};Uid=x;Pwd=***;Database=my db"},
		"an option for Java":                      {[]string{"sh", "-c", "java -Dapp.token=ab|cd9X -jar x"}, "sh -c java -Dapp.token=*** -jar x"},
		"a command for another machine":           {[]string{"ssh", "h", "tool --api-key ab|cd9X db"}, "ssh h tool --api-key *** db"},
		"a token from a file, then mysql":         {[]string{"sh", "-c", "cat tok | gh auth login --with-token && mysql -phunter2 db"}, "sh -c cat tok | gh auth login --with-token *** mysql -p*** db"},
		"a token from a file, then mysql, as one": {[]string{"gh auth login --with-token|mysqldump -phunter2 db"}, "gh auth login --with-token|mysqldump -p*** db"},
		"a password from a file, then sshpass":    {[]string{"sh", "-c", "docker login --password-stdin; sshpass -p hunter2 ssh h"}, "sh -c docker login --password-stdin; sshpass -p *** ssh h"},
		"a token that is asked for, then redis":   {[]string{"vault login --token\nredis-cli -a hunter2 ping"}, "vault login --token *** -a *** ping"},
		"a token that is asked for, then zip":     {[]string{"bash", "-c", "x --auth & zip -P hunter2 a.zip b"}, "bash -c x --auth *** zip -P *** a.zip b"},
		"time -p":                                 {[]string{"time", "-p", "sshpass", "-p", "hunter2", "ssh", "h"}, "time -p sshpass -p *** ssh h"},
		"time -p, with a user":                    {[]string{"time", "-p", "mongosh", "-u", "admin", "-p", "hunter2"}, "time -p mongosh -u admin -p ***"},
		"time -p, in a shell":                     {[]string{"sh", "-c", "time -p sshpass -p hunter2 ssh h"}, "sh -c time -p sshpass -p *** ssh h"},
		"command -p":                              {[]string{"command", "-p", "sshpass", "-p", "hunter2", "x"}, "command -p sshpass -p *** x"},
		"xargs -P":                                {[]string{"xargs", "-P", "sqlcmd", "-P", "hunter2"}, "xargs -P sqlcmd -P ***"},
		"ps -a, then redis":                       {[]string{"sh", "-c", "ps -a | redis-cli -a hunter2"}, "sh -c ps -a | redis-cli -a ***"},
		"netstat -p, then sshpass":                {[]string{"sh", "-c", "netstat -p; sshpass -p hunter2 ssh h"}, "sh -c netstat -p; sshpass -p *** ssh h"},
		"passwords twice":                         {[]string{"mysql", "--password", "-pfoo", "-pbar"}, "mysql --password *** -p***"},
		"passwords twice, apart":                  {[]string{"mongosh", "--password", "-pfoo9", "-p", "bar9"}, "mongosh --password *** -p ***"},
		"a password like a command":               {[]string{"docker", "--password", "login", "-p", "8080:80", "x"}, "docker --password *** -p 8080:80 x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := commandLine(tt.args); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Command lines without a secret stay as they are.
func TestOrdinaryCommandLines(t *testing.T) {
	for _, line := range []string{
		"python train.py --lr 1e-4 --tokenizer x --epochs 3",
		"python -u train.py -p 8080 -u user",
		"python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B --port 8000 --api-server-count 2",
		"vllm serve m --token-limit 4096 --max-token 512 --max_new_tokens=64 --pad_token 0 --eos-token </s>",
		"llama-cli -m /models/q4.gguf -p Tell me a story about GPUs. -ngl 99",
		"llama-server --host 0.0.0.0:8080 -np 4 -c 4096",
		"srun -p gpu --gres=gpu:8 python t.py",
		"sbatch -p A100-80gb_long job.sh",
		"ssh -p 2222 bob@host",
		"docker run -p 8080:80 -u 1000:1000 --gpus all -v /data:/data nvcr.io/nvidia/pytorch:24.05-py3",
		"docker run -u www-data:www-data nginx",
		"pytest -p no:cacheprovider -k test_token_limit tests/",
		"mkdir -p /var/lib/x/Run1Data",
		"ffmpeg -hwaccel cuda -i in.mp4 -pass 1 -passlogfile /tmp/log out.mp4",
		"deepspeed --num_gpus 8 train.py --input-key question --label_key answer --apply-chat-template",
		"torchrun --nproc_per_node=8 --rdzv_endpoint=10.0.0.1:29500 t.py model=hf_transformers script=hf_finetune.py",
		"accelerate launch --mixed_precision bf16 run.py trainer.api=rest --lora_rank=64",
		"curl -u https://h:8080/x -o sk-learn-env.tar.gz https://h/hooks/list?page=2&signal=1",
		"blender -b scene.blend -o //out/frame_#### -f 1..250",
		"mysql -h db -P 3306 -u root",
		"/usr/lib/xorg/Xorg -core :0 -seat seat0 -auth-type none -nolisten tcp vt7",
		"nvidia-cuda-mps-server -p 0123456789abcdef",
		"git clone git@github.com:a/b.git https://bob@example.com/x",
		"tar xzf sha256-0123456789abcdef0123456789abcdef.tgz",
	} {
		if got := commandLine(strings.Fields(line)); got != line {
			t.Errorf("got  %s\nwant %s", got, line)
		}
		if got := commandLine([]string{"sh", "-c", line}); got != "sh -c "+line {
			t.Errorf("in one argument\ngot  %s\nwant sh -c %s", got, line)
		}
	}
}

// The longest command lines, full of text that begins like a secret and never is one: quadratic time would show here.
func TestLongCommandLines(t *testing.T) {
	for _, part := range []string{"a:", "a=", "-a ", "x.api=", "token=", "--token ", "http://", "eyJ.", "'", "user=", "--proxy ", "u:p@", "set token ", `token="`, `token='a`, `\"`, `token=\"a`, "('token', '", "set -x ", "token=--", "pwd=/", "wandb a ", "login a "} {
		got := commandLine([]string{"x", strings.Repeat(part, 64<<10/len(part))})
		if len(got) > maxCommand || !strings.HasPrefix(got, "x ") {
			t.Errorf("%q: %d bytes: %.40s", part, len(got), got)
		}
	}
}

func TestCommandLineIsCut(t *testing.T) {
	got := commandLine([]string{"x", strings.Repeat("ä", maxCommand)})
	if len(got) > maxCommand || len(got) < maxCommand-8 || !utf8.ValidString(got) || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, valid %v, ends in %q", len(got), utf8.ValidString(got), got[len(got)-8:])
	}
	// A secret is masked completely, even if its end is cut off.
	got = commandLine([]string{"x", strings.Repeat("y", maxCommand-20), "--token", strings.Repeat("s", 99)})
	if strings.Contains(got, "ss") {
		t.Errorf("the secret shows: %q", got[maxCommand-30:])
	}
}

func FuzzCommandLine(f *testing.F) {
	f.Add("python", "--token", "a\xff\x00")
	f.Add("sh -c", "{\"key\": \"v", "a=b")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		args := []string{a, b, c, "--password", "hunter2-hunter2"}
		got := commandLine(args)
		if len(got) > maxCommand || !utf8.ValidString(got) || clean(got) != got {
			t.Errorf("not fit to be shown: %q", got)
		}
		if !strings.Contains(a+b+c, "hunter2") && strings.Contains(got, "hunter2") {
			t.Errorf("the secret shows: %q", got)
		}
		if args[4] != "hunter2-hunter2" {
			t.Error("the caller's arguments were changed")
		}
	})
}
