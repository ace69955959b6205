# Each target does its own set-up. The first run of demo, test, up or tools builds the servers of the local stack
# (etcd, Kubernetes, KWOK, Temporal), which takes minutes; after that it takes seconds.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# VERSION is what the programs answer to --version.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# BENCH selects Go benchmarks by name, instead of the rollouts that bench measures otherwise.
BENCH ?=
# SIZES of those rollouts, such as 20x10@5,100x10@50: nodes x pods on each @ nodes at once. BENCH_JSON is a file for the numbers.
SIZES ?=
BENCH_JSON ?=
# MINUTES is how long chaos runs, or each target of fuzz; SEED is the random scenario that it runs instead.
MINUTES ?= 20
SEED ?=
# PKG are the packages that test runs instead of all.
PKG ?=

# Programs have no debug data and no paths of this machine in them. The servers of the local stack are compiled with the same flags
# (internal/devstack) and in the same versions of what they share with Drydock (deploy/devstack), so that nothing is compiled twice.
BUILD_FLAGS := -trimpath -gcflags=all=-dwarf=false
GO_BUILD := CGO_ENABLED=0 go build $(BUILD_FLAGS)
TOOLS := bin/tools
PROTO := internal/statuspage/proto
# BUF finds its plugins on the path.
BUF := PATH="$(CURDIR)/$(TOOLS):$$PATH" buf
# api_reference writes one page of Markdown for each API group to a directory.
api_reference = rm -rf bin/reference.raw $(1) && mkdir -p bin/reference.raw $(1) && \
	$(TOOLS)/crd-ref-docs --source-path=internal/apis --config=internal/tools/crd-ref-docs.yaml --renderer=markdown --output-mode=group --log-level=ERROR --output-path=bin/reference.raw && \
	awk -v out=$(1) -f internal/tools/reference-links.awk bin/reference.raw/*.md bin/reference.raw/*.md

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: demo
demo: dev ## Watch a rollout on a local stack: one hub, three clusters (KEEP=1 keeps it up afterwards)
	@exec bin/devstack/dev demo $(if $(KEEP),--keep)

.PHONY: up
up: dev ## Start a local stack and say how to reach it, until Ctrl-C
	@exec bin/devstack/dev up

.PHONY: build
build: ## Build bin/drydock, bin/drydock-worker and bin/drydock-prepare
	$(GO_BUILD) -ldflags "-s -w -X main.version=$(VERSION)" -o bin/drydock ./starter
	$(GO_BUILD) -ldflags "-s -w -X main.version=$(VERSION)" -o bin/drydock-worker ./worker
	$(GO_BUILD) -ldflags "-s -w -X main.version=$(VERSION)" -o bin/drydock-prepare ./deploy/prepare

# Temporal's server is compiled in a module of its own.
STANDALONE := deploy/standalone

.PHONY: standalone
standalone: ## Build bin/drydock-standalone: Drydock and Temporal in one process
	cd $(STANDALONE) && GOWORK=off $(GO_BUILD) -ldflags "-s -w -X main.version=$(VERSION)" -o ../../bin/drydock-standalone .

# Lint vets. Tests are built with the flags of programs: what both use is compiled once, and links faster without cgo. The race detector
# needs cgo; Go then links by itself what it would have gcc link, because something imports plugin.
TEST_FLAGS = -vet=off -timeout 60m $(BUILD_FLAGS)
GO_TEST = CGO_ENABLED=0 go test $(TEST_FLAGS) -ldflags='-s -w'
RACE_TEST = go test -race $(TEST_FLAGS) -ldflags='-s -w -linkmode=internal'
# CONCURRENT are the packages with goroutines or locks of their own, which the race detector watches. Workflow code has none: Temporal runs
# it in one thread. `make race` watches all packages.
CONCURRENT = $(shell go list ./starter ./activities/activitykit ./activities/harbor ./activities/manifestworks ./activities/node ./activities/policies \
	./activities/portals ./activities/remediation ./activities/rollouts ./activities/scheduler ./worker ./internal/controller ./internal/drain ./internal/kube/... \
	./internal/manifest ./internal/observe ./internal/snapshot ./internal/statuspage/... ./internal/temporal ./internal/devstack/...)

.PHONY: test
test: servers build chromium containerd alertmanager exim prometheus supply-chain helm ## Run all tests, those on the real servers included; PKG=./starter/... runs some
ifeq ($(PKG),)
	@$(call each,-j3 test-shared test-alone test-beside,-j2 test-concurrent test-servers)
else
	$(RACE_TEST) $(PKG)
endif

# The tests keep two processors busy all the time, and servers that get too little of them do not answer in time. So few tests with servers run at once: first
# the end-to-end tests, which take longest, beside the tests that need no servers, with a lower priority, and those of faults; then the others. End-to-end tests
# that run alone on their fleet have another fleet than those that share one.
.PHONY: test-shared test-alone test-beside test-without-servers test-concurrent test-servers test-faults test-standalone
test-shared:
	@E2E_PART=shared $(GO_TEST) ./internal/e2e
test-alone:
	@E2E_PART=alone $(GO_TEST) ./internal/e2e
test-beside:
	@$(call each,test-without-servers,test-faults test-standalone)
test-without-servers:
	@nice -n 10 env $(GO_TEST) -p 1 $(filter-out $(CONCURRENT) $(SERVER_TESTS),$(shell go list ./...))
test-concurrent:
	@$(RACE_TEST) -p 2 ./starter ./internal/statuspage $(CONCURRENT)
test-servers:
	@$(GO_TEST) -p 2 $(filter-out $(CONCURRENT) $(FAULT_TESTS) %/internal/e2e,$(SERVER_TESTS))
test-faults:
	@$(GO_TEST) -p 1 $(FAULT_TESTS)
test-standalone:
	@cd $(STANDALONE) && GOWORK=off $(GO_TEST) .

# FAULT_TESTS break servers, or attack them.
FAULT_TESTS = $(addprefix drydock.dev/drydock/internal/,chaos attack)
# each makes one after the other, even if the first fails.
each = failed=0; MAKEFLAGS= $(MAKE) $(MAKEOVERRIDES) --no-print-directory --keep-going $(1) || failed=1; MAKEFLAGS= $(MAKE) $(MAKEOVERRIDES) --no-print-directory --keep-going $(2) || failed=1; exit $$failed
# packagesWith are those whose tests contain a text. ONLY_SERVER_TESTS need servers in all tests: linking them takes longer than many tests.
packagesWith = $(shell go list $$(grep -rlE --include='*_test.go' --exclude-dir=standalone '$(1)' . | xargs dirname | sort -u))
SERVER_TESTS = $(call packagesWith,MainNeedsServers|activitytest\.Main|devstacktest\.(NeedServers|Start))
ONLY_SERVER_TESTS = $(call packagesWith,MainNeedsServers|activitytest\.Main)

.PHONY: test-fast
test-fast: helm ## Run the tests that need neither servers nor a browser
	@$(GO_TEST) -short $(filter-out $(ONLY_SERVER_TESTS),$(shell go list ./...))

.PHONY: race
race: servers build chromium containerd alertmanager exim prometheus supply-chain helm ## Run all tests under the race detector, which takes twice as long as test
	$(RACE_TEST) -p 2 ./internal/e2e ./...

# The tests of the status page look at it in a browser. Without one only they fail.
.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq --no-install-recommends chromium >/dev/null; \
	} || echo "tests of the status page will fail: they need Debian's chromium, which cannot be installed here: apt-get install chromium"

# The tests of drydock-prepare pull images with it. Without it only they fail.
.PHONY: containerd
containerd:
	@{ command -v containerd && command -v runc; } >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq --no-install-recommends containerd runc >/dev/null; \
	} || echo "tests of precaching will fail: they need Debian's containerd and runc, which cannot be installed here: apt-get install containerd runc"

# Tests of Temporal as in production use it. Without it only they fail.
.PHONY: postgresql
postgresql:
	@{ command -v postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres'; } >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq --no-install-recommends postgresql >/dev/null; \
	} || echo "tests on PostgreSQL will fail: they need Debian's postgresql, which cannot be installed here: apt-get install postgresql"

# An emulator needs no rights when it is called by its name.
.PHONY: emulator
emulator:
	@command -v qemu-aarch64-static >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq --no-install-recommends qemu-user-static >/dev/null; \
	} || { echo "needs Debian's qemu-user-static, which cannot be installed here: apt-get install qemu-user-static"; exit 1; }

.PHONY: test-emulated
test-emulated: emulator supply-chain ## Build the images for arm64, and run their programs in an emulator
	IMAGE_ARCHITECTURE=arm64 $(GO_TEST) -count 1 ./deploy/images -run TestImagesRunInAnEmptyRoot

# The programs of Temporal are compiled in the module of drydock-standalone, with the same flags: what both use is compiled once.
.PHONY: e2e-postgres
e2e-postgres: servers build postgresql ## Run the core of the end-to-end tests on Temporal as in production (a process for each service, PostgreSQL), and restart each of its servers
	TEMPORAL_ON=postgresql $(GO_TEST) -p 1 -count 1 -run OnPostgreSQL ./internal/devstack ./internal/temporal ./internal/e2e ./internal/chaos

.PHONY: install-test
install-test: servers postgresql helm ## Install the images and the packaged chart on the local stack, with Temporal on PostgreSQL, and finish a rollout there
	@rm -rf bin/chart && $(MAKE) --no-print-directory images chart PLATFORMS=linux/$$(go env GOARCH) VERSION=v0.0.0-install
	INSTALL_TEST="$(CURDIR)/bin" $(GO_TEST) -count 1 ./internal/installtest

# The tests of notifications send it alerts. Without it only they fail.
.PHONY: alertmanager
alertmanager:
	@command -v prometheus-alertmanager >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq --no-install-recommends prometheus-alertmanager >/dev/null; \
	} || echo "tests of notifications will fail: they need Debian's prometheus-alertmanager, which cannot be installed here: apt-get install prometheus-alertmanager"

# The tests of notifications send it e-mails. It is not installed where another mail server is: it would replace that. Without it only they fail.
.PHONY: exim
exim:
	@command -v exim4 >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && ! command -v sendmail >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends exim4-daemon-light >/dev/null; \
	} || echo "tests of notifications will fail: they need Debian's exim4-daemon-light, which cannot be installed here: apt-get install exim4-daemon-light"

# An end-to-end test scrapes with it, and its promtool tests the alerts. Without it only they fail.
.PHONY: prometheus
prometheus:
	@{ command -v prometheus && command -v promtool; } >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq --no-install-recommends prometheus >/dev/null; \
	} || echo "tests of monitoring will fail: they need Debian's prometheus, which cannot be installed here: apt-get install prometheus"

# A target is fuzzed on one core: others may work beside it. A failing input stays in testdata/fuzz of the package, where every test repeats it. A failure
# without one, "context deadline exceeded", is the end of the time within a run of the target.
.PHONY: fuzz
fuzz: ## Fuzz each parser of text that others write, in turn, for MINUTES (20) each
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z]+' . | sed -E 's#/[^/]+_test.go:func # #' | sort | { \
		failed=""; \
		while read -r package target; do \
			echo "$$package $$target"; \
			$(GO_TEST) "$$package" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(MINUTES)m -parallel 1 || failed="$$failed $$target"; \
		done; \
		test -z "$$failed" || { echo "failed:$$failed"; exit 1; }; \
	}

# REQUESTS are the sizes of requests from outside: by objects, and by workflows as drydock node maintain starts them, three rounds of each.
REQUESTS := 100x10@10*3/objects,100x10@50*3/objects,100x10@10*3/workflows,100x10@50*3/workflows

.PHONY: bench
bench: servers ## Measure what rollouts cost (SIZES=20x10@5, BENCH_JSON=file; BENCH=requests measures requests from outside, BENCH=name runs Go benchmarks)
ifeq ($(filter-out requests,$(BENCH)),)
	@exec bin/devstack/dev bench $(addprefix --sizes ,$(or $(SIZES),$(BENCH:requests=$(REQUESTS)))) $(if $(BENCH_JSON),--json '$(BENCH_JSON)')
else
	go test -run '^$$' -bench '$(BENCH)' -p 1 -timeout 60m ./...
endif

# The costs of a node do not depend on the speed of the machine; the baseline says what they may be.
.PHONY: bench-guard
bench-guard: servers ## Compare what a node costs (events, activities, API requests, CPU) with the baseline, and fail if it costs 5 % more; WRITE=1 replaces the baseline
	@exec bin/devstack/dev bench-guard $(if $(WRITE),--write) internal/bench/baseline.json

.PHONY: histories
histories: dev ## Record the workflow histories of a VERSION, which every later one must be able to replay
	@exec bin/devstack/dev histories $(VERSION)

.PHONY: chaos
chaos: servers build ## Run the soaks, then inject faults for MINUTES (20): all scenarios, then random ones; SEED=n replays a random one
ifeq ($(SEED),)
	SOAK=1 $(GO_TEST) -p 1 -count 1 -run 'Many|Hundred|AtAnyTime|TinyFleet|Simultaneous' ./internal/e2e ./internal/bench ./activities/lockcontroller
endif
	CHAOS_MINUTES=$(MINUTES) CHAOS_SEED=$(SEED) $(GO_TEST) ./internal/chaos -run TestMaintenanceRecovers -v -count 1 -timeout 0

# Checkers read what the compiler wrote for tests and programs.
LINT_ENV = CGO_ENABLED=0 GOFLAGS="$$GOFLAGS $(BUILD_FLAGS)"

.PHONY: lint
lint: checkers ## Check the code and the prose: vet, staticcheck, workflowcheck, gofumpt, buf, Vale, the modules, and that generated files match their sources
	go mod verify
	go mod tidy -diff
	$(LINT_ENV) go vet ./...
	$(LINT_ENV) $(TOOLS)/staticcheck ./...
	cd $(STANDALONE) && export GOWORK=off && go mod tidy -diff && $(LINT_ENV) go vet .
	$(LINT_ENV) $(TOOLS)/workflowcheck ./workflows/...
	@unformatted=$$($(TOOLS)/gofumpt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted (make format does it):"; echo "$$unformatted"; exit 1; fi
	@rm -rf bin/crds && $(TOOLS)/controller-gen crd paths=./internal/apis/... output:crd:dir=bin/crds && \
	if ! diff -r --exclude=testing --exclude='*.go' bin/crds deploy/crds; then echo "the CRDs do not match the types (make generate writes them)"; exit 1; fi
	@# Go does not look into a directory that begins with _: what is left there is no package.
	@cd $(PROTO) && $(BUF) lint && rm -rf $(CURDIR)/bin/_proto && $(BUF) generate -o $(CURDIR)/bin/_proto && \
	if ! diff -r --exclude='*.proto' --exclude='buf*.yaml' $(CURDIR)/bin/_proto .; then echo "the status page's API does not match its .proto (make generate writes it)"; exit 1; fi
	@$(call api_reference,bin/reference) && \
	if ! diff -r bin/reference docs/reference/api; then echo "the reference of the API does not match the types (make generate writes it)"; exit 1; fi
	$(GO_TEST) -count 1 ./starter -run TestReferenceMatchesTheCommands
	$(TOOLS)/vale --no-wrap README.md docs
	$(GO_TEST) -count 1 ./internal/architecture -run ProseStyle

.PHONY: format
format: checkers ## Format the code
	$(TOOLS)/gofumpt -w .

.PHONY: generate
generate: generate-api generate-chart ## Write all that is generated: generate-api, generate-chart, the code of the status page's API, the reference of the CLI, the code tour
	cd $(PROTO) && $(BUF) generate
	$(GO_TEST) -count 1 ./starter -run TestReferenceMatchesTheCommands -generate
	$(GO_TEST) -count 1 ./internal/architecture -run "CodeTour|Roles" -update

.PHONY: generate-api
generate-api: checkers ## Write what is generated from the types of the API: deepcopy methods, CRDs, the reference
	$(TOOLS)/controller-gen object paths=./internal/apis/...
	$(TOOLS)/controller-gen crd paths=./internal/apis/... output:crd:dir=deploy/crds
	$(call api_reference,docs/reference/api)

.PHONY: generate-chart
generate-chart: helm ## Write what the chart has from other directories, and what is rendered from it: the bases of kustomize
	$(GO_TEST) -count 1 ./deploy/chart -run 'Chart|Rendered|Kustomize' -generate

# PROGRAMS are what users get.
PROGRAMS := drydock drydock-worker drydock-prepare
# VULN_DB is a copy of the Go vulnerability database, such as file:///srv/vulndb, for where vuln.go.dev is out of reach.
VULN_DB ?=

.PHONY: vuln
vuln: supply-chain ## Look for known vulnerabilities in the code that the programs call (VULN_DB=url of a copy of the database)
	$(TOOLS)/govulncheck $(if $(VULN_DB),-db '$(VULN_DB)') ./starter ./worker ./deploy/prepare

.PHONY: sbom
sbom: build supply-chain ## List the modules in each program, as CycloneDX in bin/sbom
	@mkdir -p bin/sbom
	@for program in $(PROGRAMS); do \
		$(TOOLS)/cyclonedx-gomod bin -json -std -noserial -notimestamp -version '$(VERSION)' -output bin/sbom/$$program.cdx.json bin/$$program || exit 1; \
		echo "bin/sbom/$$program.cdx.json"; \
	done

# PLATFORMS are those of the images. REGISTRY, such as registry.example.com/drydock, also gets them.
PLATFORMS ?= linux/amd64,linux/arm64
REGISTRY ?=

.PHONY: images
images: supply-chain ## Build the container images, each as an OCI layout in bin/images (PLATFORMS=linux/amd64; REGISTRY=host/path pushes them)
	@$(GO_BUILD) -o bin/images/build ./deploy/images
	@bin/images/build --platforms '$(PLATFORMS)' $(if $(REGISTRY),--registry '$(REGISTRY)') --version '$(VERSION)' --revision "$$(git rev-parse HEAD)" --created "$$(git log -1 --format=%ct)"

.PHONY: chart
chart: helm ## Package the Helm chart in bin/chart (VERSION=v1.2.3)
	@$(TOOLS)/helm package deploy/chart --version '$(VERSION:v%=%)' --app-version '$(VERSION)' --destination bin/chart

# RELEASE_URL is where users will get the files of a release, and DOCS_URL where its pages are, for the links in the notes. RELEASE_PLATFORMS are those of the
# archives, instead of all.
RELEASE_URL ?= https://drydock.dev/releases/$(VERSION)
RELEASE_PLATFORMS ?=
DOCS_URL ?=
RELEASE = $(TOOLS)/release --version '$(VERSION)' --url '$(RELEASE_URL)' --docs-url '$(DOCS_URL)' $(if $(RELEASE_PLATFORMS),--platforms '$(RELEASE_PLATFORMS)') $(if $(REGISTRY),--registry '$(REGISTRY)') --created "$$(git log -1 --format=%ct)"

.PHONY: release
release: ## Build the files of a release in bin/release (VERSION=v1.2.3): archives, SBOMs, images, chart, checksums, manifests of krew and Homebrew, notes; REGISTRY=host/path pushes the images, and the chart takes them from there
	@rm -rf bin/release
	@$(GO_BUILD) -o $(TOOLS)/release ./deploy/release
	@$(RELEASE) --check
	@$(MAKE) --no-print-directory images chart
	@$(RELEASE) --chart 'bin/chart/drydock-$(VERSION:v%=%).tgz' --images bin/images
	@ls -l bin/release

# The second build has an empty cache, so that nothing of the first is compared with itself.
.PHONY: reproducible
reproducible: ## Build the last commit twice, in two folders, and compare the programs byte for byte
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	git clone -q . "$$dir/one" && git clone -q . "$$dir/another/folder" && \
	$(MAKE) -C "$$dir/one" --no-print-directory build && \
	GOCACHE="$$dir/cache" $(MAKE) -C "$$dir/another/folder" --no-print-directory build && \
	for program in $(PROGRAMS); do cmp "$$dir/one/bin/$$program" "$$dir/another/folder/bin/$$program" || exit 1; done && \
	cd "$$dir/one/bin" && sha256sum $(PROGRAMS)

.PHONY: supply-chain
supply-chain:
	@mkdir -p $(TOOLS)
	@cd internal/tools/supplychain && GOWORK=off go build -o ../../../$(TOOLS)/ tool

# Helm is compiled with the flags and in the versions of what it shares with Drydock.
.PHONY: helm
helm:
	@mkdir -p $(TOOLS)
	@cd internal/tools/helm && GOWORK=off $(GO_BUILD) -ldflags "-s -w" -o ../../../$(TOOLS)/ tool

.PHONY: tools
tools: checkers servers helm ## Build what the other targets use

.PHONY: checkers
checkers:
	@mkdir -p $(TOOLS)
	@cd internal/tools && GOWORK=off go build -o ../../$(TOOLS)/ tool
	@cd internal/tools/proto && GOWORK=off go build -o ../../../$(TOOLS)/ tool
	@cd internal/tools/prose && GOWORK=off go build -o ../../../$(TOOLS)/ tool

.PHONY: servers
servers: dev
	@bin/devstack/dev programs

# Built and not `go run`, which would leave the stack behind when it gets a SIGTERM.
.PHONY: dev
dev:
	@test -x bin/devstack/dev || echo "The first run builds Drydock and the servers of the local stack (etcd, Kubernetes, KWOK, Temporal) from source:" \
		"8 minutes on the reference machine (two cores); the next one takes seconds. Servers in KUBEBUILDER_ASSETS or on PATH are not built."
	@$(GO_BUILD) -ldflags "-s -w" -o bin/devstack/dev ./deploy/dev
