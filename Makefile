# rdmad: what people and CI run. `make help` lists the targets.
GO      ?= go
BIN     := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL    := $(GO) tool -modfile=tools.mod
IMAGE   := $(TOOL) buf build --exclude-source-info --path proto/rdmad
LINT    := $(GO) tool -modfile=lint.mod
RDMACORE_PACKAGES := ./verbs/rdmacore/... ./rpcrdma ./cmd/internal/providers ./interop ./interop/rping
FUZZTIME ?= 20s
TESTFLAGS ?=
BENCHTIME ?= 2s
LOADFLAGS ?=
SIEGEFLAGS ?=
RECKONING := interop/reckoning/testdata

# Packages tested on this machine alone; interop needs the kernel guest.
UNIT = $(shell $(GO) list ./... | grep -v /interop)

.PHONY: help build build-rdmacore deb test unit race interop deps fuzz lint generate baseline bench bench-gateway bench-rdmacore roundtrips roundtrips-exact load siege plots demo screenshots clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: ## bin/rdmad and bin/rdmactl, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/rdmad ./cmd/rdmactl

# The second package needs what build-rdmacore needs.
RDMACORE_BUILDS = $(and $(wildcard /usr/include/infiniband/verbs.h),$(wildcard /usr/include/rdma/rdma_cma.h),$(shell command -v gcc))

deb: build $(if $(RDMACORE_BUILDS),build-rdmacore) ## Debian packages of both builds in bin/ (docs/packaging.md)
	VERSION='$(VERSION)' configs/debian/build.sh rdmad $(BIN) $(BIN)
	$(if $(RDMACORE_BUILDS),VERSION='$(VERSION)' configs/debian/build.sh rdmad-rdmacore $(BIN)/rdmacore $(BIN), \
	  @echo "rdmad-rdmacore is left out: it needs Debian's gcc, libc6-dev, libibverbs-dev and librdmacm-dev")

.PHONY: deb-clean
SUITE ?= bookworm
deb-clean: ## make deb, and the packages' life, in a new Debian SUITE (root, debootstrap; CLEAN keeps it)
	configs/debian/clean.sh $(SUITE) $(CLEAN)

build-rdmacore: ## the same with provider rdmacore (cgo; Debian: gcc, libibverbs-dev, librdmacm-dev), in bin/rdmacore
	CGO_ENABLED=1 $(GO) build -tags rdmacore -trimpath -ldflags '$(LDFLAGS) -extldflags "-Wl,-z,relro,-z,now"' -o $(BIN)/rdmacore/ ./cmd/rdmad ./cmd/rdmactl

demo: build ## rdmad at work in a temporary folder, in under a minute
	$(BIN)/rdmad version
	$(GO) run ./cmd/rdmad/demo -bin $(BIN)

test: deps unit race interop ## everything: unit, conformance, race, kernel guest

deps: ## packages that the kernel guest needs (installed when root on Debian)
	@sh interop/deps.sh || [ $$? -eq 3 -a -z "$(CI)" ]

unit: ## unit and conformance tests
	$(GO) vet ./...
	$(GO) test -timeout 30m $(TESTFLAGS) $(UNIT)

race: ## the same under the race detector
	$(GO) test -race -timeout 30m $(TESTFLAGS) $(UNIT)

interop: build ## tests against the Linux kernel in a QEMU guest
	$(GO) test -count=1 -timeout 60m $(TESTFLAGS) ./interop/...

.PHONY: test-long
test-long: build ## the NFS tests in the guest with nothing left out
	$(GO) test -count=1 -timeout 120m $(TESTFLAGS) -run '^(TestNFS$$|TestGateway|TestNewerKernel)' ./interop -args -long

fuzz: ## each fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg; done; done

.PHONY: fuzz-long
FUZZLONG ?= -time 1h
fuzz-long: ## all fuzz targets in turn, counted in docs/fuzzing.md (FUZZLONG="-time 8h")
	nice $(GO) run ./interop/fuzz $(FUZZLONG)

lint: ## gofmt, golangci-lint with gosec, modules as in go.sum, buf lint, API compatible with proto/baseline.binpb
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(LINT) golangci-lint run ./...
	@if [ -e /usr/include/rdma/rdma_cma.h ]; then CGO_ENABLED=1 $(LINT) golangci-lint run --build-tags rdmacore,rdmadevice $(RDMACORE_PACKAGES); \
	else echo "provider rdmacore left out: libibverbs-dev and librdmacm-dev are missing"; fi
	$(GO) mod verify
	$(TOOL) buf lint
	$(IMAGE) -o - | $(TOOL) buf breaking - --against proto/baseline.binpb

.PHONY: vuln
VULNDB ?=
vuln: ## known vulnerabilities of what is linked, by govulncheck; needs its database: the network's, or a copy (VULNDB=file:///DIR)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(VULNDB),-db $(VULNDB)) ./...

generate: ## protobuf code, docs/api.md, docs/settings.md, tables of keys, XDR in tests; CI fails when what is checked in differs
	$(TOOL) buf generate
	$(GO) generate ./rpcrdma/wire/rpcrdma2/... ./rpcrdma/referee/... ./cmd/internal/settingsdoc/...
	$(GO) test ./cmd/rdmad/internal/config -run TestReference -update

baseline: ## the API as it is becomes the one that later versions must be compatible with
	$(IMAGE) -o proto/baseline.binpb

bench: ## benchmarks, as ratios to TCP in the same run
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) ./verbs/softiwarp ./rpcrdma/... ./dataplane/...

bench-gateway: ## a kernel client's work over rdmad and ganesha, as ratios to the same straight on ganesha
	$(GO) test -run '^$$' -bench '^BenchmarkGateway$$' -benchtime 3x -timeout 1h ./interop

bench-rdmacore: ## a kernel client's work over rdmad on rdmacore and on softiwarp, as ratios to the kernel's server in one guest
	$(GO) test -run '^$$' -bench '^BenchmarkRdmacore$$' -benchtime 5x -timeout 2h ./interop

plots: ## docs/adaptive.svg, docs/roundtrips.svg and docs/ratios.svg, from checked-in data
	cd docs/plots && $(GO) run . -data ../../dataplane/adaptive/testdata/simulation.csv -out ../adaptive.svg
	cd docs/plots && $(GO) run . -kind reckoning -data ../../$(RECKONING)/loopback.json -out ../roundtrips.svg
	cd docs/plots && $(GO) run . -kind ratios -data ratios.csv -out ../ratios.svg

roundtrips: roundtrips-exact ## what calls cost in each version and with its extensions: counts, round trips, latencies; docs/roundtrips.md
	$(GO) test -count=1 -timeout 35m -run '^TestVersion2$$/^round_trips$$' ./interop -args -roundtrips.json $(CURDIR)/$(RECKONING)/guest.json
	$(GO) run ./interop/reckoning/page

roundtrips-exact: ## the same without the kernel guest, whose figures stay
	$(GO) test -count=1 -run '^TestReckoning$$' ./cmd/rdmactl/internal/bench -args -update
	$(MAKE) plots
	$(GO) run ./interop/reckoning/page

load: ## settings updates under 1,000 connections with traffic; figures in bin/load.json (LOADFLAGS changes what)
	@mkdir -p $(BIN)
	TEST_UNJUDGED=1 $(GO) test -count=1 -timeout 30m -v -run '^TestSettingsUnderLoad$$' ./cmd/rdmad -args \
	  -load.connections 1000 -load.time 1m -load.slice 3s -load.calls 4000 -load.updates 100 -load.json $(CURDIR)/$(BIN)/load.json $(LOADFLAGS)

siege: build ## attacks on rdmad beside innocent clients, two hours; figures in bin/siege.json and, without SIEGEFLAGS, docs/security.md
	$(GO) build -o $(BIN)/siege ./interop/cmd/siege
	$(BIN)/siege run -rdmad $(BIN)/rdmad -json $(BIN)/siege.json $(SIEGEFLAGS); code=$$?; \
	  $(if $(SIEGEFLAGS),,$(BIN)/siege page -json $(BIN)/siege.json &&) exit $$code

screenshots: ## docs/images, of rdmactl top in a real run
	$(GO) run ./cmd/rdmactl/internal/top/shot

clean: ## what build made
	rm -rf $(BIN)
