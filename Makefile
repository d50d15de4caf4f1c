# gpuwhy: `make run` builds and starts it, `make test` runs every test.
# `make help` lists all targets.

GO      ?= go
BIN     := bin
TOOLS   := $(BIN)/tools
ARGS    ?=

# go-nvml's header marks old calls as deprecated; the warnings are not about our code.
export CGO_CFLAGS ?= -O2 -g
override CGO_CFLAGS += -Wno-deprecated-declarations

# All commands compile with the same flags, so they share the build cache: the program and its tests
# have 700 packages in common.
export GOFLAGS
override GOFLAGS += -trimpath

.DEFAULT_GOAL := build
.PHONY: vulnerabilities packages test-packages image build run demo demo-fleet gallery site screenshots looks test test-race test-plain flaky test-kube cross wine soak faults stories check chart manifests bench bench-full fuzz generate fmt lint help clean needs-test needs-chromium needs-cross needs-wine needs-packages

build: ## build bin/gpuwhy
	$(GO) build -ldflags '-s -w' -o $(BIN)/gpuwhy ./cmd/gpuwhy

run: build ## build and start; the page is on http://127.0.0.1:8003 (ARGS='--interval 1s' passes flags)
	exec $(BIN)/gpuwhy $(ARGS)

demo: build ## start with a simulated machine that has 15 minutes of past, to look around without a GPU (ARGS='--listen 127.0.0.1:8004' passes flags)
	exec tools/demo $(BIN)/gpuwhy $(ARGS)

demo-fleet: build ## start a hub and three simulated machines that join it, to look around a fleet (ARGS='--listen 127.0.0.1:8003' passes flags to the hub)
	exec tools/demo-fleet $(BIN)/gpuwhy $(ARGS)

gallery: ## show every component of the page in every state, with made-up values
	$(GO) build -o $(BIN)/gpuwhy-gallery ./cmd/gpuwhy-gallery
	exec $(BIN)/gpuwhy-gallery $(ARGS)

site: ## write the guide as a folder of files, bin/site
	@rm -rf $(BIN)/site
	$(GO) run ./cmd/gpuwhy-guide $(BIN)/site

screenshots: needs-chromium ## retake the pictures in docs/screenshots
	$(GO) test -tags screenshots ./cmd/gpuwhy-gallery -run '^TestScreenshots$$' -count 1 -screenshots $(CURDIR)/docs/screenshots

looks: needs-chromium ## take pictures of every state of the pages, at four widths, light and dark
	@mkdir -p $(BIN)/looks
	$(GO) test ./cmd/gpuwhy-gallery -run '^TestEveryState$$' -count 1 -timeout 30m -looks $(CURDIR)/$(BIN)/looks

# The race detector makes tests several times slower, and it can't see into other processes or find anything in a single
# goroutine. Tests of that kind are in files that begin with '//go:build !race'. With the detector, random tests (rapid) try
# a tenth as many inputs. Tests in these two kinds of files also run without the detector; packages declare nothing else. The
# detector skips SQLite, which is C translated to Go and ten times slower with it. Both parts run at the same time: tests that
# compute and tests that wait for other processes share the cores well. Packages with many lines of such tests
# take longest and begin first.
CORES   := $(shell getconf _NPROCESSORS_ONLN)
TWICE   := $(shell expr 2 '*' $(CORES))
FILES    = $(shell grep -rlE --include='*_test.go' '^(//go:build !race( .*)?|.*"pgregory.net/rapid")$$' $(filter-out bin/ tools/,$(wildcard */)))
PLAIN    = $(shell wc -l $(FILES) | awk '/_test.go$$/ { sub(/[^\/]*$$/, "", $$2); lines[$$2] += $$1 } END { for (p in lines) print lines[p], p }' | sort -rn | cut -d ' ' -f 2)
empty   :=
ONLY     = ^($(subst $(empty) $(empty),|,$(sort $(shell grep -hoE '^func (Test|Fuzz|Example)[A-Za-z0-9_]+' $(FILES) | cut -c6-))))$$

# A hundred test programs are linked. Without debug information each links in three quarters of the time.
LINK     = -ldflags=-w
RACE     = -race -gcflags=modernc.org/...=-race=false $(LINK)

# Test programs have their files in memory if possible.
TEST     = $(GO) test -exec $(CURDIR)/tools/scratch -timeout 30m

test: needs-test ## run all tests, with the race detector where it helps; installs what they need
	$(MAKE) --no-print-directory -j 2 test-race test-plain

# By default each program waits a second for races of other goroutines when it ends.
test-race:
	GORACE=atexit_sleep_ms=50 RAPID_CHECKS=10 $(TEST) $(RACE) -p $(TWICE) -parallel $(TWICE) ./...

test-plain:
	@echo "$(TEST) $(LINK) -p $(CORES) -parallel $(TWICE) -run '(tests that the race detector does not help)' ..."
	@$(TEST) $(LINK) -p $(CORES) -parallel $(TWICE) -run '$(ONLY)' $(PLAIN:%=./%)

flaky: needs-test ## run each package's tests 30 times beside 2 and 8 busy processes, with random stops of 1 to 3 s; lists failures with their seeds; takes hours (FLAKY='-runs 5 ./sampler/...')
	@RAPID_CHECKS=10 $(GO) run ./internal/testkit/flaky -build '$(RACE)' -plain '$(PLAIN)' -only '$(ONLY)' $(FLAKY)

# The programs are kept outside the tree, since kube-apiserver takes five minutes to build on two cores.
KUBE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpuwhy-kube
KUBE_VERSION = $(shell sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' tools/kube/go.mod)

test-kube: $(KUBE)/kube-apiserver $(KUBE)/etcd $(KUBE)/kubelet ## read a cluster through a real kube-apiserver and etcd, built once (eight minutes of CPU time), and 500 driver pods behind one API server
	$(GO) test -tags kube -run '^(TestRealServer|TestManyPods)$$' -count 1 -timeout 10m ./sampler/kube -programs $(KUBE)

$(KUBE)/kube-apiserver: tools/kube/go.mod tools/kube/go.sum
	$(GO) -C tools/kube build -o $@ -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION)' k8s.io/kubernetes/cmd/kube-apiserver

$(KUBE)/etcd: tools/kube/go.mod tools/kube/go.sum
	$(GO) -C tools/kube build -o $@ -ldflags '-s -w' go.etcd.io/etcd/server/v3

$(KUBE)/kubelet: tools/kube/go.mod tools/kube/go.sum tools/kube/kubelet/main.go
	$(GO) -C tools/kube build -o $@ ./kubelet

cross: needs-cross ## build for arm64, Windows and macOS, and start the arm64 build under QEMU; installs what that needs
	$(GO) test -tags cross -run '^(TestLinuxOnARM|TestWindowsBuilds|TestMacOS)$$' -count 1 -timeout 20m ./cmd/gpuwhy

wine: needs-wine ## start the Windows build under Wine; installs Wine, which is large
	$(GO) test -tags cross -run '^TestWindows$$' -count 1 -timeout 20m ./cmd/gpuwhy

soak: needs-test ## run tests that take minutes: the page over 10,000 updates, accessibility of every state, nginx's 60 s timeout, viewers that never read, random faults (SOAK=duration), an unwritable database, a database's writer and the program killed 200 times each, a PostgreSQL outage of 5 min, 20,000 random machines explained, forecasts of 30 series of each family
	$(GO) test -tags soak -run '^TestSoak' -count 1 -v -timeout 0 -p 1 ./static ./cmd/gpuwhy ./cmd/gpuwhy-gallery
	$(GO) test -tags soak -run '^TestEveryState$$' -count 1 -timeout 0 ./cmd/gpuwhy-gallery
	$(GO) test -tags soak -run '^TestKilled$$' -count 1 -v -timeout 0 ./internal/past/store/sqlite
	$(GO) test -tags soak -run '^TestNothingIsSaidThatWasNotSeen$$' -count 1 -v -timeout 0 ./internal/insight/explain
	$(GO) test -tags soak -run '^TestKillsOfTheProgram$$' -count 1 -v -timeout 0 -parallel 8 ./cmd/gpuwhy
	$(GO) test -tags soak -run '^Test(Heat|Memory)Families$$' -count 1 -v -timeout 0 ./internal/forecast/method

faults: ## cause every fault in docs/reliability.md in the running program, and write there what it did
	$(GO) test -tags soak -run '^TestFaults$$' -count 1 -timeout 0 -parallel 8 ./cmd/gpuwhy -update

check: generate fmt lint vulnerabilities test cross chart ## run what a reviewer runs: generate (no diff), format, vet, lint, known vulnerabilities, race tests, each benchmark once
	@git diff --exit-code --stat -- '*_templ.go' static/colors.css static/dist go.mod go.sum || { echo 'generated code differs from the committed code: commit it'; exit 1; }
	$(GO) test -run '^$$' -bench . -benchtime 1x ./... >/dev/null

chart: $(TOOLS)/helm ## lint the chart, check its output, and that deploy/kubernetes matches it; builds helm, which takes minutes the first time
	$(GO) test ./deploy/helm -count 1 -helm $(CURDIR)/$(TOOLS)/helm

manifests: $(TOOLS)/helm ## generate deploy/kubernetes from the chart
	$(GO) test ./deploy/helm -count 1 -run '^TestChart$$' -helm $(CURDIR)/$(TOOLS)/helm -update

packages: $(TOOLS)/packages needs-cross ## build the packages of a release into bin/packages: deb, rpm and tar for amd64 and arm64, SBOM, checksums (SIGNING_KEY=FILE, SIGNING_PASSWORD_FILE=FILE: signed with minisign)
	$(TOOLS)/packages -out $(BIN)/packages $(if $(SIGNING_KEY),,-unsigned) $(PACKAGES)

# The clean Debian is kept outside the tree, since it takes minutes to download.
CLEAN := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpuwhy-packages

test-packages: $(TOOLS)/packages needs-packages ## install, upgrade and remove the packages in a clean Debian with systemd, and with rpm; build and start the image (as root)
	@mkdir -p $(BIN)/key && minisign -G -W -f -p $(BIN)/key/minisign.pub -s $(BIN)/key/minisign.key >/dev/null
	$(TOOLS)/packages -out $(BIN)/test-packages -key $(BIN)/key/minisign.key -only linux_amd64,linux_amd64_static
	$(GO) -C tools/packages test -tags packages -count 1 -timeout 30m -v . -packages $(CURDIR)/$(BIN)/test-packages -cache $(CLEAN)

$(TOOLS)/packages: tools/packages/go.mod tools/packages/go.sum $(wildcard tools/packages/*.go)
	$(GO) -C tools/packages build -o ../../$@ .

# COMMIT and DATE are what `gpuwhy version` prints in the image.
ENGINE ?= $(firstword $(foreach engine,docker podman buildah,$(shell command -v $(engine))))
image: ## build the container image (BASE=debian@sha256:…, BUILDER=golang@sha256:…, ENGINE=docker, podman or buildah)
	@[ -n '$(ENGINE)' ] || { echo 'install docker, podman or buildah' >&2; exit 1; }
	@case '$(BASE)' in *@sha256:*) ;; *) echo 'name the base by its digest: make image BASE=debian@sha256:…' >&2; exit 1 ;; esac
	$(ENGINE) build -t gpuwhy --build-arg BASE=$(BASE) $(if $(BUILDER),--build-arg BUILDER=$(BUILDER)) \
	  --build-arg COMMIT="$$(git describe --always --abbrev=40 --exclude='*' --dirty)" --build-arg DATE="$$(git log -1 --format=%cI)" .

stories: ## play the stories, print how many answers are right, and write that into docs/why.md (DIR=folder of other stories)
	cd internal/story && $(GO) test -count 1 -run '^TestStories$$' -table -update $(if $(DIR),-stories $(abspath $(DIR)))

bench: ## run the benchmarks; docs/performance.md explains the figures (BENCH=regexp, COUNT=n)
	$(GO) test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),1) ./...

bench-full: ## measure 1,000 to 10,000 viewers for a quarter of an hour: also slow and hostile ones, and ones that come and go or send requests (BENCH=regexp, COUNT=n)
	$(GO) test -tags soak -run '^$$' -bench '$(or $(BENCH),.)' -count $(or $(COUNT),1) -timeout 0 ./internal/bench

fuzz: ## fuzz every target for FUZZTIME (a minute by default)
	@for f in $$(grep -rlE --include='*_test.go' '^func Fuzz' .); do \
	  for t in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$f | cut -c6-); do \
	    echo "== $$(dirname $$f) $$t"; $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzzminimizetime 100x -fuzztime $(or $(FUZZTIME),1m) $$(dirname $$f) || exit 1; done; done

generate: ## generate *_templ.go from *.templ, static/colors.css, and the bundles in static/dist
	$(GO) tool templ generate -include-version=false -path views
	$(GO) generate ./static

fmt: ## list files that are not formatted
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted (gofmt -w):"; echo "$$out"; exit 1; }

# Packages that differ between systems. Their tests are for Linux, and not vetted for others.
ELSEWHERE := ./cmd/gpuwhy ./internal/clock ./internal/neterr ./sampler/host ./sampler/drm ./sampler/intel ./sampler/nvidia ./sampler/nvml ./sampler/smi

lint: $(TOOLS)/golangci-lint ## vet and lint
	$(GO) vet -tags soak,screenshots,gpu,cross,kube ./...
	@for system in windows/amd64 darwin/arm64; do for p in $(ELSEWHERE); do \
	  export GOOS=$${system%/*} GOARCH=$${system#*/} CGO_ENABLED=0; \
	  $(GO) vet $$($(GO) list -f '{{range .GoFiles}}{{$$.Dir}}/{{.}} {{end}}' $$p) || exit 1; done; done
	CGO_ENABLED=0 $(GO) vet ./sampler/... ./cmd/...
	$(TOOLS)/golangci-lint run --build-tags soak,screenshots,cross,kube ./...

$(TOOLS)/golangci-lint: tools/go.mod tools/go.sum
	$(GO) -C tools build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

vulnerabilities: $(TOOLS)/govulncheck ## look for known vulnerabilities in what gpuwhy calls; without their database, list the dates of the modules
	GO=$(GO) tools/vulnerabilities $(CURDIR)/$(TOOLS)/govulncheck

$(TOOLS)/govulncheck: tools/go.mod tools/go.sum
	$(GO) -C tools build -o ../$@ golang.org/x/vuln/cmd/govulncheck

$(TOOLS)/helm: tools/helm/go.mod tools/helm/go.sum
	$(GO) -C tools/helm build -o ../../$@ helm.sh/helm/v4/cmd/helm

# tools/needs says what each tool is for.
needs-test:
	@tools/needs chromium prometheus nginx postgresql tmux systemd e2fsprogs curl openssl minisign zsh fish mandoc
needs-chromium:
	@tools/needs chromium
needs-cross:
	@tools/needs qemu arm
needs-packages:
	@tools/needs mmdebstrap rpm minisign nspawn buildah
needs-wine:
	@tools/needs wine mingw

clean: ## remove build output
	rm -rf $(BIN)

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12
