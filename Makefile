# Bare `make` lists what there is. Every target installs what it needs first.

export CGO_ENABLED ?= 0
export PATH := $(CURDIR)/.tools/go/bin:$(PATH)
# The version comes from git describe below; stamping would fail in a tree that
# another user owns, as a container's mounted volume. Without paths in it, what is
# compiled for one folder or target serves every other.
export GOFLAGS := -buildvcs=false -trimpath $(GOFLAGS)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
DATA    ?=
PACKAGES ?=
UP      := bin/handrail up --browser-sandbox auto $(if $(DATA),--data $(DATA))

.PHONY: help setup build packages test-packages up demo test test-long test-race check format lint arch fuzz cross suite \
	libraries products conformance clients clean \
	bench bench-browser bench-libraries bench-tasks bench-desktop bench-policy bench-spawn bench-worker bench-plane bench-console bench-governance \
	bench-media bench-tokens chaos-artifacts chaos chaos-mutations

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what running needs (Go, a browser) and say so
	@.ci/setup run

build: ## build bin/handrail
	@.ci/setup build
	.ci/build bin/handrail '$(VERSION)'

# KEY=FILE names the PEM file with the Ed25519 key that signs; TARGETS=linux/amd64,… makes less.
packages: ## what a release consists of, in dist/: archives, deb, rpm, apk, npm, images, manifests, SBOMs, checksums
	@.ci/setup build
	rm -rf dist
	.ci/release/run all $(if $(KEY),-key '$(KEY)') $(if $(TARGETS),-targets '$(TARGETS)')

test-packages: ## make, install, upgrade and remove the packages, and update a gateway (installing needs root)
	@.ci/setup test
	go test -count=1 -v -timeout 40m ./test/packages

up: setup build ## start a gateway and a paired node here, do a first task, and stay up
	@exec $(UP)

demo: setup build ## the same, and exit
	@exec $(UP) --once

# What failed is run again, alone, unless it cannot be chance (test/rerun). make lint
# vets; without tables for a debugger a test links in half the time. One package more runs than there
# are processors: each waits for a part of its time. With two for each processor browsers starve, and
# what goes by the clock fails.
RERUN = go run ./test/rerun -vet=off '-ldflags=-s -w' -p $$(($$(nproc) + 1)) -timeout 40m

# A test named so proves by much what one beside it proves by less: hundreds of kills, ten thousand
# tools, each case of a table in a browser.
AT_LENGTH = 'AtLength$$'

test: ## install what the tests need and run them, but for those at length; fuzz targets by their seeds (PACKAGES=./gateway/...)
	@.ci/setup test
	$(RERUN) -skip $(AT_LENGTH) -- $(or $(PACKAGES),$$(.ci/packages all))

test-long: ## the tests at length, and those of the measurements, which start many programs to compare
	@.ci/setup test
	$(RERUN) -run $(AT_LENGTH) -- $$(.ci/packages length)
	$(RERUN) -- $$(.ci/packages long)

# The scripts' engine and the database's are C made into Go; watched for races, the one is twenty
# times slower and fits no bound on memory, and the other takes a third of what tests of the ledger do.
# What compiles modules of users is a library, too, whose every access to their memory would be watched.
UNWATCHED = $(patsubst %,-gcflags=%=-race=false,$(addprefix modernc.org/,libquickjs sqlite/lib libc/... memory) \
	github.com/tetratelabs/wazero/...)

test-race: ## packages with goroutines, no browsers, by the race detector, but for tests at length (LENGTH=1: those alone)
	@.ci/setup test
	CGO_ENABLED=1 $(RERUN) -race $(UNWATCHED) $(if $(LENGTH),-run,-skip) $(AT_LENGTH) -- $$(.ci/packages race)

check: format lint arch ## format, vet, import rules and fast tests, in under two minutes
	go test -short -skip $(AT_LENGTH) ./...

format: ## fail if a file is not gofmt-clean
	@.ci/setup build
	@files=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$files" ] || { echo "not gofmt-clean:" $$files; exit 1; }

lint: ## go vet as every system sees the code, staticcheck, errname, containedctx, misspell, and tsc for the scripts of pages
	@.ci/setup build
	@.ci/lint/run

arch: ## import rules, rooms, documents
	@.ci/setup build
	go test -short ./test/arch

bench: setup build ## the measurements, each beside its floor in the same run (BENCH="--quick")
	go run ./test/bench $(BENCH)

bench-browser: setup build ## the browser family beside bare Chrome, and beside the npm packages below PEERS=dir
	go run ./test/bench/browsers $(if $(PEERS),--peers $(PEERS)) $(BENCH)

bench-policy: build ## decision, consent, ticket, whole call, stop and ledger check beside their floors (FIGURES=docs/benchmarks.md)
	go run ./test/bench/policy $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))

bench-spawn: ## a program's start behind walls, warm and cold, beside bwrap and sandbox-runtime (FIGURES=docs/benchmarks/spawn.md)
	@.ci/setup test
	@$(ESCAPE_NEEDS)
	[ -e $(ESCAPE_PEERS)/node_modules/.bin/srt ] || npm install --prefix $(ESCAPE_PEERS) --silent --no-audit --no-fund --no-package-lock @anthropic-ai/sandbox-runtime@0.0.83
	go run ./test/bench/spawn -peers $(ESCAPE_PEERS) $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))

bench-worker: build ## router, gate, facts, engine, idle worker and first words beside their floors (FIGURES=docs/benchmarks/worker.md)
	go run ./test/bench/worker $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))

bench-plane: build ## selector, lists, calls of every kind, heartbeats and 10,000 tools beside their floors (FIGURES=docs/benchmarks.md)
	go run ./test/bench/plane $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))

bench-desktop: ## the desktop family beside bare X11 (FIGURES=docs/benchmarks.md writes them there)
	@.ci/setup test
	go test -v -count=1 -timeout 30m -run TestFigures ./test/bench/desktop -args -figures $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))

bench-console: ## the console in a real Chrome, over a long ledger and with many nodes (FIGURES=docs/benchmarks.md writes them there)
	@.ci/setup test
	go test -count=1 -timeout 30m -run TestFigures ./test/console -args -figures $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))

bench-governance: ## a fold beside reading alone, and pages over ten million packets (FIGURES=docs/benchmarks/governance.md)
	@.ci/setup test
	go test -run xxx -bench Fold -benchtime 3x ./gateway/governance
	go test -count=1 -timeout 30m -v -run TestGovernanceFigures ./test/console -args -figures $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))

# FIGURES=docs/benchmarks.md writes the figures there; MINUTES=10 watches the live view so long for growth.
bench-media: ## artifacts beside a bare QUIC stream, the live view (FIGURES=FILE, MINUTES=10), photos, positions
	@.ci/setup test
	go test -count=1 -timeout 30m -v -run Figures ./test/bench/media -args -figures $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))
	go test -count=1 -timeout 10m -v -run TestLiveFigures ./test/console -args -figures $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))
	$(if $(MINUTES),go test -count=1 -timeout 60m -v -run TestLiveGrowth ./test/console -args -minutes $(MINUTES))
	go test -count=1 -run xxx -bench 'Photo|Position' -benchtime 20x ./capabilities/sensor ./platform/geoclue

bench-tokens: ## what a model reads of the suite's recorded calls, as JSON and as plain text, in tokens
	@.ci/setup test
	@.ci/conformance install
	mkdir -p dist
	go test -count=1 -timeout 30m -run 'TestBehaviours$$' ./suite/browser -args -record $(CURDIR)/dist/calls.jsonl
	HANDRAIL_CONFORMANCE=$$(.ci/conformance where) go test -count=1 -v -run 'TestTokens$$' ./gateway/front/mcp \
		-args -recorded $(CURDIR)/dist/calls.jsonl

# DIR keeps the ledger, the logs and the effects of a run in a folder that does not exist yet. Parting
# gateways and small disks for nodes need root; a run says what it does without.
chaos: ## break a fleet of three gateways by the schedule of a seed, and judge what is left (SEED=1 MINUTES=20 NODES=6 DIR=)
	@.ci/setup test
	go test -count=1 -timeout 150m -v -run 'TestChaosAtLength$$' ./test/chaos -args -seed $(or $(SEED),1) -minutes $(or $(MINUTES),3) \
		-nodes $(or $(NODES),6) $(if $(DIR),-keep '$(abspath $(DIR))')

chaos-mutations: ## plant each fault of test/chaos/mutation.go, and see that a run finds it (PLANT=words SEED=1 MINUTES=0.7)
	@.ci/setup test
	go test -count=1 -timeout 150m -v -run 'TestPlanted$$' ./test/chaos -args \
		-plant '$(or $(PLANT),all)' -seed $(or $(SEED),1) -minutes $(or $(MINUTES),0.7)

chaos-artifacts: ## kill gateway and node 200 times while files are on their way (KILLS=200 SEED=1)
	@.ci/setup build
	HANDRAIL_KILLS=$(or $(KILLS),200) HANDRAIL_SEED=$(or $(SEED),1) go test -count=1 -timeout 60m -v -run TestArtifactsSurviveKills ./test/e2e

fleet: ## three gateways of one site here, at once and in turns: one is killed, one stands still, one ledger verifies
	@.ci/setup test
	go test -count=1 -v -run 'TestGatewaysServeAtOnce$$|TestGatewaysOfOneSiteAtLength$$' ./test/e2e

fuzz: ## every fuzz target for a short time each (SECONDS=5)
	@.ci/setup build
	@.ci/fuzz $(or $(SECONDS),5)

cross: ## compile for every supported system
	@.ci/setup build
	HANDRAIL_CROSS=all go test -count=1 -timeout 30m -run CrossCompile -v ./test/arch

suite: setup build ## the browser's capability suite by the built binary, its report in dist/suite (SUITE="--run REGEXP")
	bin/handrail ci --browser-sandbox auto -- bin/handrail suite browser --report dist/suite $(SUITE)

# RUN=REGEXP chooses by ID; FIGURES=1 writes the table.
libraries: setup build ## the browser's tools on pages of real npm packages, as docs/libraries.md says of them (RUN=REGEXP FIGURES=1)
	.ci/libraries
	bin/handrail ci --browser-sandbox auto -- go run ./test/libraries -packages "$$(.ci/libraries where)" \
		$(if $(RUN),-run '$(RUN)') $(if $(FIGURES),-out) -report dist/libraries

# The peer is what the conformance folder has; SAMPLE=1 takes every behaviour.
bench-libraries: setup build ## a sample of the libraries by us and by Playwright MCP (SAMPLE=8 FIGURES=docs/benchmarks/libraries.md)
	.ci/libraries
	@.ci/conformance install
	bin/handrail ci --browser-sandbox auto -- go run ./test/libraries -packages "$$(.ci/libraries where)" \
		-peer "$$(.ci/conformance where)" -sample $(or $(SAMPLE),8) $(if $(RUN),-run '$(RUN)') $(if $(FIGURES),-figures $(FIGURES))

bench-tasks: setup build ## five tasks, and four pages that settle late, by us and by Playwright MCP (FIGURES=docs/benchmarks/tasks.md)
	@.ci/conformance install
	bin/handrail ci --browser-sandbox auto -- go run ./test/libraries -of tasks \
		-peer "$$(.ci/conformance where)" $(if $(RUN),-run '$(RUN)') $(if $(FIGURES),-figures $(FIGURES))

products: setup build ## whole products, each a server of its own, worked as an agent would, as docs/products.md says (RUN=REGEXP FIGURES=1)
	.ci/libraries products
	go run ./test/libraries -of products -packages "$$(.ci/libraries products where)" \
		$(if $(RUN),-run '$(RUN)') $(if $(FIGURES),-out) -report dist/products

# PEERS names another folder for the peer; FIGURES=docs/isolation.md writes the table there.
ESCAPE_PEERS = $(or $(PEERS),$(CURDIR)/dist/escape)

# The npm package starts no program without socat and rg.
ESCAPE_NEEDS = for program in bwrap socat rg npm; do command -v $$program >/dev/null || \
	{ echo "make $@ compares with others: install bubblewrap, socat, ripgrep and npm" >&2; exit 1; }; done

escape: ## hostile programs in our walls, in bwrap and in @anthropic-ai/sandbox-runtime (FIGURES=docs/isolation.md)
	@.ci/setup test
	@$(ESCAPE_NEEDS)
	[ -e $(ESCAPE_PEERS)/node_modules/.bin/srt ] || npm install --prefix $(ESCAPE_PEERS) --silent --no-audit --no-fund --no-package-lock @anthropic-ai/sandbox-runtime@0.0.83
	go test -count=1 -v -timeout 10m -run 'TestNothingEscapes|TestHarm|TestModules|TestTable' ./test/escape \
		-args -peers $(ESCAPE_PEERS) $(if $(FIGURES),-out $(CURDIR)/$(FIGURES))

conformance: build ## the official MCP conformance suite and inspector against a running gateway
	@.ci/setup run
	@.ci/conformance

clients: build ## the real Claude Code, Codex and Gemini CLI on what handrail connect writes (downloads a gigabyte)
	@.ci/clients

clean: ## remove what was built
	rm -rf bin dist
