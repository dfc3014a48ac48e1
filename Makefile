# rdmad: commands for developers and CI. `make help` lists the targets.
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

.PHONY: rpm image release reproducible packages-check
rpm: build $(if $(RDMACORE_BUILDS),build-rdmacore) ## RPM packages of both builds in bin/ (docs/packaging.md)
	VERSION='$(VERSION)' configs/debian/build.sh rdmad $(BIN) $(BIN) rpm
	$(if $(RDMACORE_BUILDS),VERSION='$(VERSION)' configs/debian/build.sh rdmad-rdmacore $(BIN)/rdmacore $(BIN) rpm)

BUILDER ?= $(firstword $(foreach b,buildah podman docker,$(if $(shell command -v $b),$b)))
image: build ## container image rdmad:VERSION, by buildah, podman or docker (docs/container.md)
	configs/container/rootfs.sh $(BIN) $(BIN)/image
	@[ -n '$(BUILDER)' ] || { echo "make image needs buildah, podman or docker"; exit 1; }
	$(BUILDER) build $(if $(filter docker,$(BUILDER)),,--format docker) $(if $(filter buildah,$(BUILDER)),--isolation chroot) \
	  --build-arg VERSION='$(VERSION)' -t rdmad:'$(VERSION)' $(BIN)/image

release: build $(if $(RDMACORE_BUILDS),build-rdmacore) ## bin/release: packages, programs, image, SBOM and SHA256SUMS (docs/packaging.md)
	VERSION='$(VERSION)' configs/release.sh $(BIN) $(BIN)/release

reproducible: ## make release twice, in two places, once without the build cache, and compare SHA256SUMS
	configs/reproducible.sh

packages-check: build ## the packages of one build: lintian, contents, scripts of the rpm, the same bytes twice; the image as a builder makes it
	VERSION='$(VERSION)' configs/packages-check.sh $(BIN)

.PHONY: deb-clean
SUITE ?= bookworm
deb-clean: ## make deb in a new Debian SUITE; installs, upgrades and removes the packages there (root, debootstrap; CLEAN keeps it)
	configs/debian/clean.sh $(SUITE) $(CLEAN)

build-rdmacore: ## the same with provider rdmacore (cgo; Debian: gcc, libibverbs-dev, librdmacm-dev), in bin/rdmacore
	CGO_ENABLED=1 $(GO) build -tags rdmacore -trimpath -ldflags '$(LDFLAGS) -extldflags "-Wl,-z,relro,-z,now"' -o $(BIN)/rdmacore/ ./cmd/rdmad ./cmd/rdmactl

demo: build ## run rdmad with real traffic in a temporary folder, in under a minute
	$(BIN)/rdmad version
	$(GO) run ./cmd/rdmad/demo -bin $(BIN)

.PHONY: fleet-demo
fleet-demo: build ## etcd and five rdmads with traffic: a good rollout, and a bad one that takes itself back, in under a minute
	$(GO) run ./cmd/rdmad/demo -bin $(BIN) -fleet

test: deps race unraced interop ## everything: unit, conformance, race, kernel guest

deps: ## packages that the tests need (installed when root on Debian)
	@sh interop/deps.sh || [ $$? -eq 3 -a -z "$(CI)" ]

unit: ## unit and conformance tests, without the race detector
	$(GO) test -timeout 30m $(TESTFLAGS) $(UNIT)

# Left out of the race run: tests of programs that are built without the race detector, and tests
# that take long in one goroutine, or in a browser.
NORACE = %/docs %/configs/container %/demo
SLOWLY = EveryByte|OldDamage|OldContentsAreChecked|Pictures|Accessibility
RACESKIP = ^Test($(SLOWLY))$$

race: ## the same under the race detector
	$(GO) vet ./...
	$(GO) test -race -timeout 30m -skip '$(RACESKIP)' $(TESTFLAGS) $(filter-out $(NORACE),$(UNIT))

# Packages with tests for which the race detector is too slow, and with tests that count
# allocations, which it changes.
TOO_SLOW = $(shell git grep -lwE '^func Test($(SLOWLY))' '*_test.go' | xargs dirname | sort -u | sed 's,^,./,')
ALLOCATING = $(shell git grep -lE 'AllocsPerRun|^//go:build !race' '*_test.go' | xargs dirname | sort -u | sed 's,^,./,')

.PHONY: unraced
unraced: ## what race leaves out
	$(GO) test -timeout 30m $(TESTFLAGS) $(filter $(NORACE),$(UNIT)) $(filter-out ./interop%,$(ALLOCATING))
	$(GO) test -timeout 30m -run '$(RACESKIP)' $(TESTFLAGS) $(TOO_SLOW)

# The siege runs first and alone: beside a guest, the emulator would starve the
# clients that it judges.
interop: build ## short siege, then tests against the Linux kernel in a QEMU guest
	$(GO) test -count=1 -timeout 20m $(TESTFLAGS) ./interop/siege
	$(GO) test -count=1 -timeout 75m $(TESTFLAGS) $$($(GO) list ./interop/... | grep -v '/interop/siege$$')

.PHONY: test-long
test-long: build ## the tests in the guest that have a longer form: NFS, the gateways, the newer kernel, provider rdmacore, the packages
	$(GO) test -count=1 -timeout 300m $(TESTFLAGS) -run '^(TestNFS$$|TestGateway|TestNewerKernel|TestRdmacore|TestDebianPackage)' ./interop -args -long

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
vuln: ## known vulnerabilities of linked code, by govulncheck; needs its database, from the network or a copy (VULNDB=file:///DIR)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(VULNDB),-db $(VULNDB)) ./...

generate: ## protobuf code, docs/api.md, docs/settings.md, tables of keys, conditions and metrics, manual pages, XDR in tests; CI fails when the checked-in files differ
	$(TOOL) buf generate
	$(GO) generate ./rpcrdma/internal/goxdr ./cmd/internal/settingsdoc/...
	$(GO) test ./cmd/rdmad/internal/config -run '^Test(Reference|Manual)$$' -update
	$(GO) test ./dataplane/conditions -run TestPage -update
	$(GO) test ./dataplane/metrics -run TestPage -update
	$(GO) test ./cmd/rdmactl/internal/cli ./cmd/rdmad -run '^TestReference$$' -update

baseline: ## make today's API the one with which later versions must be compatible
	$(IMAGE) -o proto/baseline.binpb

bench: ## benchmarks, as ratios to TCP in the same run
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) ./verbs/softiwarp ./rpcrdma/... ./dataplane/...

BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

.PHONY: bench-guard bench-pair
bench-guard: ## the ratios to TCP that matter most, in about a minute; CI prints them
	@mkdir -p $(BIN)
	$(GO) test -run '^$$' -bench '^Benchmark(PingPong|Null|Read|Write)$$' -benchtime 100ms -count 6 ./verbs/softiwarp ./dataplane/echo > $(BIN)/guard.txt
	$(GO) run $(BENCHSTAT) -filter '.unit:(ratio OR ratio_to_tcp)' $(BIN)/guard.txt

ROUNDS ?= 10
bench-pair: ## the same for this tree and commit OLD in turns: medians and confidence intervals (make bench-pair OLD=HEAD~10)
	GO='$(GO)' BENCHSTAT='$(BENCHSTAT)' interop/bench-pair.sh '$(OLD)' $(ROUNDS)

.PHONY: syscalls
syscalls: build ## system calls of rdmad for each kind of NFS call, over softiwarp and over TCP (root, Linux perf)
	$(GO) test -run '^$$' -bench SystemCalls -benchtime 500x ./interop/costs -args -rdmad $(CURDIR)/$(BIN)/rdmad

.PHONY: many
many: build ## processor time for a call, descriptors and memory, of 10,000 connections that call seldom (MANYFLAGS="-connections 5000"); how soon 4,000 clients connect at once
	$(GO) test -run '^$$' -bench Many -benchtime 1x ./interop/costs -args -rdmad $(CURDIR)/$(BIN)/rdmad $(MANYFLAGS)

bench-gateway: ## a kernel client's work through rdmad to ganesha, as ratios to the same work straight on ganesha
	$(GO) test -run '^$$' -bench '^BenchmarkGateway$$' -benchtime 3x -timeout 1h ./interop

bench-rdmacore: ## a kernel client's work over rdmad on rdmacore and on softiwarp, as ratios to the kernel's server in one guest
	$(GO) test -run '^$$' -bench '^BenchmarkRdmacore$$' -benchtime 5x -timeout 2h ./interop

GANESHAROUNDS ?= 15
.PHONY: bench-ganesha
bench-ganesha: build ## rdmad's NFSv3 over TCP, as ratios to nfs-ganesha on the same tmpfs; figures in bin/ganesha.json (root; downloads ganesha and libnfs)
	$(GO) test -run '^$$' -bench '^BenchmarkGanesha$$' -benchtime $(GANESHAROUNDS)x -timeout 1h ./interop \
	  -args -rdmad $(CURDIR)/$(BIN)/rdmad -sides.json $(CURDIR)/$(BIN)/ganesha.json

plots: ## docs/adaptive.svg, docs/roundtrips.svg and docs/ratios.svg, from checked-in data
	cd docs/plots && $(GO) run . -data ../../dataplane/adaptive/testdata/simulation.csv -out ../adaptive.svg
	cd docs/plots && $(GO) run . -kind reckoning -data ../../$(RECKONING)/loopback.json -out ../roundtrips.svg
	cd docs/plots && $(GO) run . -kind ratios -data ratios.csv -out ../ratios.svg

roundtrips: roundtrips-exact ## cost of calls in each version and with its extensions: counts, round trips, latencies; docs/roundtrips.md
	$(GO) test -count=1 -timeout 35m -run '^TestVersion2$$/^round_trips$$' ./interop -args -roundtrips.json $(CURDIR)/$(RECKONING)/guest.json
	$(GO) test -count=1 -v -run '^TestPage$$' ./interop/reckoning -args -update

roundtrips-exact: ## the same without the kernel guest; its figures stay as they are
	$(GO) test -count=1 -run '^TestReckoning$$' ./cmd/rdmactl/internal/bench -args -update
	$(MAKE) plots
	$(GO) test -count=1 -v -run '^TestPage$$' ./interop/reckoning -args -update

load: ## settings updates, and 50 web consoles, beside 1,000 connections with traffic; figures in bin/load.json (LOADFLAGS changes the load)
	@mkdir -p $(BIN)
	TEST_UNJUDGED=1 $(GO) test -count=1 -timeout 30m -v -run '^TestSettingsUnderLoad$$' ./cmd/rdmad -args \
	  -load.connections 1000 -load.time 1m -load.slice 3s -load.calls 4000 -load.updates 100 -load.consoles 50 -load.json $(CURDIR)/$(BIN)/load.json $(LOADFLAGS)

.PHONY: fleet-scale
fleet-scale: ## 300 nodes of a fleet on three members of etcd: changes, restarts, load and sizes (docs/fleet.md)
	$(GO) test -count=1 -timeout 30m -v -run '^TestScale$$' ./interop/fleet -args -scale.nodes 300 -scale.steps 3 -scale.changes 10 -scale.window 30s

.PHONY: fleet-robustness
EXECUTIONS ?= 100
SEED ?= 1
fleet-robustness: ## EXECUTIONS of a fleet under faults from SEED on, and planted bugs (docs/fleet.md)
	$(GO) test -count=1 -timeout 6h -v -run '^Test(Robustness|PlantedBugs)$$' ./interop/fleet -args -executions $(EXECUTIONS) -faults 10 -outages -seed $(SEED)

siege: build ## attacks on rdmad beside innocent clients, two hours; figures in bin/siege.json and, without SIEGEFLAGS, docs/security.md
	$(GO) build -o $(BIN)/siege ./interop/cmd/siege
	$(BIN)/siege run -rdmad $(BIN)/rdmad -json $(BIN)/siege.json $(SIEGEFLAGS); code=$$?; \
	  $(if $(SIEGEFLAGS),,$(BIN)/siege page -json $(BIN)/siege.json &&) exit $$code

screenshots: ## docs/images: pictures of rdmactl top and of the console, in real runs
	$(GO) test -count=1 -run '^TestPictures$$' ./cmd/rdmactl/internal/top -args -pictures $(CURDIR)/docs/images
	$(GO) test -count=1 -run '^TestPictures$$' ./controlplane/console -args -pictures $(CURDIR)/docs/images

clean: ## remove the results of build
	rm -rf $(BIN)
