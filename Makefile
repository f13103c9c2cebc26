# Everything that is done to this repository, by name. `make test` is the whole truth; the others are parts of it.
#
# Needed: Go, and for the end-to-end tests Node 20 or newer with npm. The rest is fetched, pinned, into .tools or Go's
# module cache. The browser tests need Chromium and those of several hubs HAProxy, which are installed where apt-get can;
# elsewhere these tests are skipped.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

GO ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2

# What tests leave for people to look at: pictures of every page of the console, and of what failed.
export STOA_ARTIFACTS ?= $(CURDIR)/artifacts

# Go says 0 where there is no C compiler, and the race detector needs one.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
TIMEOUT ?= 40m
FUZZTIME ?= 100000x
SOAKTIME ?= 20000000x
BENCHCOUNT ?= 1
BENCHFLAGS ?=

# Integration tests start a whole hub or the built binary; unit tests are all others.
E2E := ./e2e/...
INTEGRATION = $(shell $(GO) list ./... | grep -E '/(hub|hubtest|cli|attach|bench|bench/tokens|pkg/[a-z]+)$$')
UNIT = $(shell $(GO) list ./... | grep -vE '/(hub|hubtest|cli|attach|bench|bench/tokens|pkg/[a-z]+)$$|/e2e')

.PHONY: build release test test-packages test-codecs test-unit test-integration test-auto-server test-session test-oracle test-e2e tools lint fuzz bench soak clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/stoa .

# release makes an archive per platform and their checksums in dist. The same commit gives the same bytes: the times in
# the archives are the commit's, and nothing of this machine is in them.
RELEASE = $(shell sed -n 's/^const Release = "\(.*\)"/\1/p' internal/mcp/outgoing.go)
VERSION ?= $(patsubst v%,%,$(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo $(RELEASE)-$$(git describe --always --dirty)))
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
LDFLAGS = -s -w -X github.com/stoahub/stoa/internal/cli.release=$(VERSION)

release:
	@rm -rf dist; mkdir -p dist; at=$$(git log -1 --format=%cI); \
	for platform in $(PLATFORMS); do \
		name=stoa_$(VERSION)_$${platform/\//_}; mkdir dist/$$name; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o dist/$$name/stoa .; \
		cp LICENSE README.md dist/$$name; chmod 755 dist/$$name dist/$$name/stoa; chmod 644 dist/$$name/LICENSE dist/$$name/README.md; \
		tar -C dist --sort=name --mtime="$$at" --owner=0 --group=0 --numeric-owner -cf - $$name | gzip -9n > dist/$$name.tar.gz; \
		rm -r dist/$$name; echo "dist/$$name.tar.gz"; \
	done; \
	cd dist && sha256sum *.tar.gz > SHA256SUMS

# make test runs four parts beside each other: tests wait far more than they compute, and lint fills the gaps. Packages
# whose tests run the product in their own process have the race detector. Those that only drive programs are built as
# the product is, so that both share one build; make soak runs them, and the programs, with the detector. The packages
# that take longest go first. Temporary files are in memory where there is room; those of the build are not.
LONGEST = ./internal/hub ./internal/cli ./internal/store ./internal/session ./internal/plan
AT_ONCE ?= 3
WITH_SCRATCH = export GOTMPDIR=$${TMPDIR:-/tmp} TMPDIR=$$(e2e/scratch);
test: tools race-note formatted
	@$(MAKE) --no-print-directory -j 4 test-packages test-e2e test-codecs lint

test-codecs:
	@nice $(ORACLE)/compare

test-packages:
	$(WITH_SCRATCH) $(GO) test $(RACE) -vet off -p $(AT_ONCE) -timeout $(TIMEOUT) $(LONGEST) $$($(GO) list ./... | grep -v /e2e)

test-e2e: tools compile
	$(WITH_SCRATCH) $(AS_PRODUCT) STOA_E2E=require STOA_BROWSER=$$(e2e/chromium) STOA_HAPROXY=$$(e2e/haproxy) $(GO) test -vet off -timeout $(TIMEOUT) $(E2E)

test-unit: race-note
	$(GO) test $(RACE) -timeout $(TIMEOUT) $(UNIT)

test-integration: race-note
	$(GO) test $(RACE) -timeout $(TIMEOUT) $(INTEGRATION)

# test-auto-server tests the thin client: that hubs are found and launched, and that their end goes unnoticed.
test-auto-server: race-note
	$(GO) test $(RACE) -timeout $(TIMEOUT) ./internal/attach
	$(GO) test $(RACE) -timeout $(TIMEOUT) -run 'TestScripts/(attach|stdio)$$|TestTenClients|TestHub(Killed|Stopped|Ends)|TestLaunchBeside|TestSessionSurvives' ./internal/cli

# test-session tests what is kept: the store, the Sessions in it, and what the faces make of them.
test-session: race-note
	$(GO) test $(RACE) -timeout $(TIMEOUT) ./internal/store/... ./internal/session
	$(GO) test $(RACE) -timeout $(TIMEOUT) -run 'Session|Reference|Handle|Card|Value|Resource|Kill|Durable|Binding|Bound' ./internal/hub

# test-oracle compares our codecs for models with the providers' own SDKs, and a load of conversations with a bare loop
# of one. They are a module apart, so that they are no dependencies of the product; it is fetched here. make test does so
# only when the codecs have changed.
ORACLE = internal/llm/oracle
test-oracle:
	nice $(ORACLE)/compare --always

# tools installs the third-party peers of the end-to-end tests, and Chromium and HAProxy where this user can; it does
# nothing when they are there already.
tools:
	@e2e/npm/install
	@e2e/chromium > /dev/null
	@e2e/haproxy > /dev/null

.PHONY: race-note
race-note:
	@$(if $(RACE),:,echo "note: no C compiler found, so the tests run without the race detector")

# Both checks look at the packages as the product is built, and staticcheck is built so, too: all that is compiled is
# compiled in two ways only, that and with the race detector.
AS_PRODUCT = CGO_ENABLED=0 GOFLAGS="$(strip $(shell $(GO) env GOFLAGS) -trimpath)"
lint: formatted compile
	$(AS_PRODUCT) nice $(GO) vet ./...
	@$(AS_PRODUCT) GOBIN=$(CURDIR)/.tools/bin nice $(GO) install $(STATICCHECK)
	$(AS_PRODUCT) nice .tools/bin/staticcheck ./...

.PHONY: formatted compile
formatted:
	@unformatted=$$(find . -name '*.go' -not -path './.*/*' -print0 | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi

# compile builds once what lint and the end-to-end tests both need, before they run beside each other.
compile:
	@$(AS_PRODUCT) $(GO) build ./...

# fuzz gives each fuzz target FUZZTIME; go test takes one target at a time. FUZZTIME is a number of executions, since
# Go 1.26 sometimes reports the end of a duration as a failure (golang/go#75804).
fuzz:
	@targets=$$(grep -rnoE --include='*_test.go' --exclude-dir='.[!.]*' '^func Fuzz[A-Za-z0-9_]*' .); \
	while IFS=: read -r file _ func; do \
		name=$${func#func }; \
		echo "$$(dirname "$$file") $$name, $(FUZZTIME)"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -timeout 0 "$$(dirname "$$file")"; \
	done <<< "$$targets"

# bench measures the stages, then whole calls: direct, through a plain reverse proxy and through stoa, in one run.
bench:
	$(GO) test -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) $(UNIT)
	$(GO) test -run '^$$' -bench Plan -benchtime 10x -count $(BENCHCOUNT) ./internal/hub
	$(GO) run ./bench $(BENCHFLAGS)

# soak holds what takes too long for `make test`: the full forms of the heavy tests (STOA_SOAK), ten thousand schedules
# of queues and tasks, ten minutes of the console on a crowded hub (its figures are printed, so that it runs without the race detector), each fuzz target for SOAKTIME executions, the race detector over repeated runs of the unit tests, and the benchmarks. What came of it, with
# commit and date, goes into docs/verification.md.
soak: tools
	STOA_SOAK=1 $(GO) test $(RACE) -count 1 -timeout 90m $(INTEGRATION) ./internal/store ./internal/session ./internal/task ./internal/plan ./internal/plan/search
	STOA_SOAK=1 $(GO) test -count 1 -timeout 60m -run TestAnySchedule ./internal/chat
	STOA_SOAK=1 STOA_E2E=require STOA_BROWSER=$$(e2e/chromium) STOA_HAPROXY=$$(e2e/haproxy) $(GO) test $(RACE) -count 1 -timeout 90m -skip '^TestConsoleScale$$' $(E2E)
	STOA_SOAK=1 STOA_E2E=require STOA_BROWSER=$$(e2e/chromium) STOA_HAPROXY=$$(e2e/haproxy) $(GO) test -count 1 -timeout 30m -run '^TestConsoleScale$$' -v ./e2e
	$(MAKE) test-oracle
	cd $(ORACLE) && STOA_SOAK=1 $(GO) test -count 1 -timeout 60m -run TestLoad -v ./load
	$(GO) test -count 1 -timeout 60m ./internal/task -rapid.checks=10000
	$(MAKE) fuzz FUZZTIME=$(SOAKTIME)
	$(GO) test $(RACE) -count 20 -timeout 60m $(UNIT)
	$(MAKE) bench BENCHCOUNT=10

clean:
	rm -rf bin dist artifacts .tools
