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
		"looks like HF":         {[]string{"x", "--login", "hf_abcdefghijkl"}, "x --login ***"},
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

func TestCommandLineIsCut(t *testing.T) {
	got := commandLine([]string{"x", strings.Repeat("ä", maxCommand)})
	if len(got) > maxCommand || len(got) < maxCommand-8 || !utf8.ValidString(got) || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, valid %v, ends in %q", len(got), utf8.ValidString(got), got[len(got)-8:])
	}
	// A secret is masked whole, also where its end is cut off.
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
