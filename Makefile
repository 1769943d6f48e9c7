# Everything that developers and CI run. Needs Go 1.26, git, make and a POSIX shell;
# downloads nothing but Go modules and, for a test in a browser, axe-core. `make help` lists the targets.

.DEFAULT_GOAL := help
.SUFFIXES:

export CGO_ENABLED = 0

# One set of flags for every go command below, also those that tests run and the linter: a package is compiled once.
# The linkers leave debugging information out, which takes a seventh of the time to write; the parts are compiled like that, too.
BUILD_FLAGS    := -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(strip $(filter-out $(BUILD_FLAGS),$(GOFLAGS)) $(BUILD_FLAGS))

GO       ?= go
ROOT     := $(CURDIR)
BIN      := $(ROOT)/bin
OUT      := $(ROOT)/_output
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.buildVersion=$(VERSION)
ARCHES   ?= amd64 arm64
FUZZTIME ?= 20s

# Modules with code of ours; test/parts only pins versions.
MODULES      := . test test/image test/provider examples/generic-control-plane
UNIT_MODULES := . test/image test/provider
PHASES       ?= lint generate-check unit parts package integration
CHECK_PHASES  = lint generate-check unit check-planes

# Campaigns of make test-more; each but the last two takes less than an hour.
CAMPAIGNS    ?= more-planes race fuzz apiserver years equal pairs waves random adversary faults model gate-bench rollout-bench page-bench soak steady

# Packages that need a control plane. How many of them run at a time is up to the machine: each waits
# most of its time. test/packages.tsv has what each takes and starts.
PLANES       ?= ./...
AT_A_TIME    ?= 0
RECORD        = $(ROOT)/test/packages.tsv

# One package and its tests, of make test PKG=./gate RUN=TestEvents: of test/ where that has it, else of the product.
PKG          ?=
PLANE_PKG     = ./$(patsubst test/%,%,$(PKG:./%=%))
RUN          ?=

# Flags of go test, which runs after lint, which vets. The order of tests is another one each time; what fails has its number.
UNIT_FLAGS    = -vet=off -shuffle=on
PLANE_FLAGS   = -vet=off -shuffle=on -count 1 -timeout 60m
CAMPAIGN      = $(SUMMARY) test --gotestsum $(GOTESTSUM) -v -C test

# The part of the conformance scenarios that make check plays: another fifth for each commit.
FIFTH        ?= $(shell git rev-list --count HEAD 2>/dev/null | awk '{ print $$1 % 5 + 1 }')

LINT    = $(BIN)/golangci-lint-v2.12.2
CLI     = $(BIN)/crossplane-cli-v2.2.0
GEN     = $(BIN)/controller-gen
HELM    = $(BIN)/helm-v3.20.0
SUMMARY = $(BIN)/summary
DEMO    = $(BIN)/demo
# The directory of make demo KEEP=1.
PLAYGROUND = $(OUT)/playground
GOTESTSUM = $(BIN)/gotestsum-v1.13.0
VULN    = $(BIN)/govulncheck
SBOM    = $(BIN)/cyclonedx-gomod
IMAGE   = $(BIN)/image
CHART   = $(ROOT)/package/helm/kausality

# What `make generate` writes.
GENERATED = { ls api/*/zz_generated.* fn/*/zz_generated.* examples/*/garden/*/zz_generated.* test/provider/apis/*/zz_generated.* \
	package/crds/*.yaml package/input/*.yaml test/provider/crds/*.yaml docs/gate.md docs/function.md docs/rules.md docs/images/gate.svg docs/images/pending.svg \
	package/helm/kausality/files/crds/*.yaml package/helm/kausality/files/objects.yaml docs/metrics.md \
	docs/commands.md docs/kubectl-commands.md 2>/dev/null || true; }

##@ For all users

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^##@/ { print ""; print substr($$0, 5) ":" } \
		/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: $(DEMO) ## Play the story on a real control plane; KEEP=1 leaves a playground running, DIR=… the logs
	@exec $(DEMO) $(if $(KEEP),--keep --dir=$(or $(DIR),$(PLAYGROUND)),$(if $(DIR),--dir=$(DIR)))

.PHONY: demo-kro
demo-kro: $(DEMO) ## Play the story of a graph of kro, in a minute; DIR=… keeps the logs
	@exec $(DEMO) --kro $(if $(DIR),--dir=$(DIR))

.PHONY: demo-stop
demo-stop: $(DEMO) ## Stop the playground that make demo KEEP=1 left running; DIR=… if that had one
	@exec $(DEMO) --stop --dir=$(or $(DIR),$(PLAYGROUND))

.PHONY: $(DEMO)
$(DEMO):
	@$(GO) build -C test -o $@ ./cmd/demo

# What was tested is kept, and recorded in $(OUT)/passed, only where nothing was left out: a variable other than RESUME may change what runs.
WHOLE = $(if $(filter-out RESUME=%,$(MAKEOVERRIDES))$(filter-out file default,$(origin PHASES) $(origin PLANES)),,yes)
# The package is made for this machine's architecture: for another one, the product and all that it imports are compiled again.
TEST_ARCHES = $(if $(filter file,$(origin ARCHES)),$(shell $(GO) env GOARCH),$(ARCHES))
.PHONY: test
test: $(SUMMARY) ## Lint, unit and integration tests and the story, with a summary; RESUME=1, or PKG=./gate RUN=TestEvents
	@$(if $(PKG),,$(GO) run ./hack/campaigns)
	@$(if $(PKG),$(MAKE) --no-print-directory one,ARCHES="$(TEST_ARCHES)" $(SUMMARY) phases --make "$(MAKE)" $(if $(RESUME),--resume) \
		$(if $(WHOLE),--kept $(OUT)/test --passed $(OUT)/passed) \
		--flaky $(OUT)/flaky.tsv --durations $(OUT)/durations.tsv --record $(RECORD) $(PHASES))

.PHONY: check
check: $(SUMMARY) ## What to run before each commit: lint, unit tests, a fifth of the scenarios and the first chapter; 5 minutes
	@$(SUMMARY) phases --make "$(MAKE)" --kept $(OUT)/check --flaky $(OUT)/flaky.tsv $(CHECK_PHASES)

.PHONY: test-more
test-more: $(SUMMARY) ## Run the long campaigns, with a summary; resumes after an interruption, FRESH=1 begins again
	@$(SUMMARY) phases --make "$(MAKE)" $(if $(filter-out FRESH=%,$(MAKEOVERRIDES)),,--kept $(OUT)/test-more) $(if $(FRESH),,--resume) $(CAMPAIGNS)

.PHONY: build
build: ## Build bin/kausality and bin/kubectl-kausality
	@for program in kausality kubectl-kausality; do \
		$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/$$program ./cmd/$$program && \
		echo "$(BIN)/$$program $(VERSION)" || exit 1; \
	done

.PHONY: manifests
manifests: $(HELM) ## Print what the Helm chart installs, VALUES='--set …'; or a fixed configuration, ARGS='--webhook-url=… …'
	@$(if $(ARGS),$(MAKE) --no-print-directory build >&2 && $(BIN)/kausality manifests $(ARGS),printf 'apiVersion: v1\nkind: Namespace\nmetadata: {name: kausality-system}\n' && \
		$(HELM) template kausality $(CHART) --namespace kausality-system --set ungate.enabled=false $(VALUES))

##@ Parts of make test

.PHONY: vulncheck
vulncheck: $(VULN) ## Scan the dependencies of the product for known vulnerabilities; needs https://vuln.go.dev
	@out=$$($(VULN) ./... 2>&1); code=$$?; echo "$$out"; \
	case "$$out" in *"fetching vulnerabilities"*) \
		echo "vulncheck: NOT SCANNED: the database at https://vuln.go.dev cannot be reached from here" >&2; exit 2;; \
	esac; exit $$code

.PHONY: lint
lint: export GOLANGCI_LINT_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/golangci-lint$(subst /,-,$(ROOT))
lint: $(LINT) ## Run golangci-lint in every module, and compare the product with hack/figures/limits.tsv
	@failed=; for m in $(MODULES); do \
		echo "lint $$m"; \
		(cd $$m && $(LINT) run --allow-parallel-runners --config $(ROOT)/.golangci.yml ./...) || failed="$$failed $$m"; \
	done; \
	echo "lint hack/figures/limits.tsv"; \
	$(GO) test $(UNIT_FLAGS) ./hack/figures || failed="$$failed hack/figures"; \
	if [ -n "$$failed" ]; then echo "lint failed in:$$failed"; exit 1; fi

.PHONY: generate-check
generate-check: ## Fail if generated files are not what make generate writes
	@before=$$($(GENERATED) | xargs cksum); \
	$(MAKE) --no-print-directory generate || exit 1; \
	after=$$($(GENERATED) | xargs cksum); \
	if [ "$$before" != "$$after" ]; then \
		echo "generated files were stale and have been rewritten; commit them:"; \
		git diff --stat -- $$($(GENERATED)) 2>/dev/null; exit 1; \
	fi

.PHONY: unit
unit: $(SUMMARY) $(GOTESTSUM) ## Run the unit tests of every module
	@failed=; for m in $(UNIT_MODULES); do \
		$(SUMMARY) test --gotestsum $(GOTESTSUM) -C $$m -- $(UNIT_FLAGS) || failed="$$failed $$m"; \
	done; \
	if [ -n "$$failed" ]; then echo "unit tests failed in:$$failed"; exit 1; fi

.PHONY: race
race: $(SUMMARY) $(GOTESTSUM) ## Run the unit tests under the race detector, which takes a C compiler
	@if ! command -v $$($(GO) env CC) >/dev/null; then echo "race: SKIPPED: the race detector takes a C compiler, and there is no $$($(GO) env CC) here" >&2; exit 0; fi; \
	failed=; for m in $(UNIT_MODULES); do \
		CGO_ENABLED=1 $(SUMMARY) test --gotestsum $(GOTESTSUM) -C $$m -- $(UNIT_FLAGS) -race -timeout 30m || failed="$$failed $$m"; \
	done; \
	if [ -n "$$failed" ]; then echo "tests failed under the race detector in:$$failed"; exit 1; fi

integration check-planes more-planes one: export KAUSALITY_PREBUILT = 1
integration check-planes more-planes one: export KAUSALITY_BINARY = $(BIN)/from-image/kausality
# Where tests have failed, the logs of their control planes are here for a day.
integration check-planes more-planes one: export KAUSALITY_LOGS = $(OUT)/logs

.PHONY: integration
integration: $(SUMMARY) $(GOTESTSUM) parts from-image ## Test against real control planes: all of the following and more; PLANES=./gate AT_A_TIME=3
	@mkdir -p $(OUT)/logs && find $(OUT)/logs -mindepth 1 -maxdepth 1 -mtime +0 -exec rm -rf {} +
	@$(SUMMARY) test --gotestsum $(GOTESTSUM) -C test --each --at-a-time $(AT_A_TIME) --record $(RECORD) --packages "$(PLANES)" -- $(PLANE_FLAGS)

.PHONY: check-planes
check-planes: $(SUMMARY) $(GOTESTSUM) parts from-image
	@$(SUMMARY) test --gotestsum $(GOTESTSUM) -C test --each --record $(RECORD) --packages ./conformance -- $(PLANE_FLAGS) -args -conformance.part=$(FIFTH)/5
	@$(SUMMARY) test --gotestsum $(GOTESTSUM) -C test --each --packages ./e2e/chapters -- $(PLANE_FLAGS) -run '^TestStory$$/^hans_requests_a_database$$'

# One package of test/, or of the product.
.PHONY: one
ifneq ($(wildcard test/$(PLANE_PKG)),)
one: $(SUMMARY) $(GOTESTSUM) parts from-image
	@$(SUMMARY) test --gotestsum $(GOTESTSUM) -C test --each --packages "$(PLANE_PKG)" -- $(PLANE_FLAGS) $(if $(RUN),-run '$(RUN)')
else
one: $(SUMMARY) $(GOTESTSUM)
	@$(SUMMARY) test --gotestsum $(GOTESTSUM) --packages "$(PKG)" -- $(UNIT_FLAGS) -count 1 $(if $(RUN),-run '$(RUN)')
endif

.PHONY: more-planes
more-planes: $(SUMMARY) $(GOTESTSUM) parts from-image ## Test against real control planes what make test leaves out
	@$(SUMMARY) test --gotestsum $(GOTESTSUM) -C test --each --more --at-a-time $(AT_A_TIME) --record $(RECORD) -- $(PLANE_FLAGS)

.PHONY: conformance
conformance: ## Play the conformance scenarios
	@$(MAKE) --no-print-directory integration PLANES=./conformance/...

.PHONY: terraform
terraform: $(SUMMARY) $(GOTESTSUM) ## Run the real OpenTofu under the gate, with Workspaces on the real Crossplane
	@$(CAMPAIGN) --packages ./terraform/... -- -count 1 -timeout 15m

.PHONY: e2e
e2e: ## Play the story as a test, with the program that is in the image
	@$(MAKE) --no-print-directory integration PLANES=./e2e/...

.PHONY: from-image
from-image: $(IMAGE)
	@$(MAKE) --no-print-directory image ARCHES=$$($(GO) env GOARCH) && \
		$(IMAGE) extract --output $(BIN)/from-image/kausality $(OUT)/kausality-$$($(GO) env GOARCH).tar

##@ For maintainers

.PHONY: generate
generate: $(GEN) ## Write deepcopy functions, CRDs and the generated pages
	@$(GEN) object paths=./api/...
	@$(GEN) crd:crdVersions=v1 paths=./api/... output:crd:artifacts:config=package/crds
	@$(GEN) object paths=./fn/input/...
	@$(GEN) crd:crdVersions=v1 paths=./fn/input/... output:crd:artifacts:config=package/input
	@$(GO) generate -C test/provider ./...
	@cd examples/generic-control-plane && $(GEN) object paths=./garden/... && $(GO) generate ./garden/...
	@$(GO) run ./hack/gatediagram
	@$(GO) run ./hack/screens
	@$(GO) run ./hack/rules
	@$(GO) run ./hack/campaigns -write
	@$(GO) run -C test ./cmd/reference --types ../fn/input/v1alpha1 --page ../docs/function.md Input Audit
	@rm -rf $(CHART)/files/crds && mkdir -p $(CHART)/files/crds && cp package/crds/*.yaml $(CHART)/files/crds/
	@$(GO) test ./internal/manifests -run '^TestChartFile$$' -update >/dev/null
	@$(GO) test ./internal/telemetry -run '^TestReference$$' -update >/dev/null
	@$(GO) test ./cmd/... -run '^TestReference$$' -update >/dev/null

.PHONY: image
image: $(IMAGE) ## Make the container image for every architecture, without Docker
	@for arch in $(ARCHES); do \
		GOOS=linux GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' \
			-o $(BIN)/linux_$$arch/kausality ./cmd/kausality && \
		$(IMAGE) build --binary $(BIN)/linux_$$arch/kausality --arch $$arch \
			--version '$(VERSION)' --output $(OUT)/kausality-$$arch.tar || exit 1; \
	done
	@$(IMAGE) inspect $(ARCHES:%=$(OUT)/kausality-%.tar)

# xpkg build takes every YAML file below its root, so the package is staged.
.PHONY: package
package: image $(CLI) ## Build the function's Crossplane packages and inspect them
	@rm -rf $(OUT)/package && mkdir -p $(OUT)/package/input
	@cp crossplane.yaml $(OUT)/package/ && cp package/input/*.yaml $(OUT)/package/input/
	@for arch in $(ARCHES); do \
		$(CLI) xpkg build --package-root $(OUT)/package --examples-root $(OUT)/package/examples \
			--embed-runtime-image-tarball $(OUT)/kausality-$$arch.tar \
			--package-file $(OUT)/function-kausality-$$arch.xpkg || exit 1; \
	done
	@$(IMAGE) inspect --package $(ARCHES:%=$(OUT)/function-kausality-%.xpkg)

# What a release publishes, in $(OUT)/release, without a registry. .github/workflows/release.yaml pushes it.
RELEASE     = $(OUT)/release
PLATFORMS  ?= linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64
RELEASE_URL ?= https://github.com/kausality-io/function-kausality/releases/download

.PHONY: release
release: $(IMAGE) $(HELM) $(SBOM) ## Make everything that a release publishes, without a registry; VERSION=v0.1.0
	@rm -rf $(RELEASE) && mkdir -p $(RELEASE) && $(IMAGE) checksums --version '$(VERSION)' $(RELEASE) >/dev/null
	@$(MAKE) --no-print-directory package
	@$(IMAGE) layout --output $(RELEASE)/image $(ARCHES:%=$(OUT)/kausality-%.tar)
	@cp $(ARCHES:%=$(OUT)/function-kausality-%.xpkg) $(RELEASE)/
	@$(HELM) package $(CHART) --version '$(VERSION:v%=%)' --app-version '$(VERSION:v%=%)' --destination $(RELEASE) >/dev/null
	@$(MAKE) --no-print-directory manifests VALUES='--set image.tag=$(VERSION)' > $(RELEASE)/kausality.yaml
	@for p in $(PLATFORMS); do \
		program=$(OUT)/plugin_$$p/kubectl-kausality; case $$p in windows_*) program=$$program.exe;; esac; \
		GOOS=$${p%_*} GOARCH=$${p#*_} $(GO) build -ldflags '$(LDFLAGS)' -o $$program ./cmd/kubectl-kausality && \
		$(IMAGE) archive --output "$(RELEASE)/kubectl-kausality_$(VERSION)_$$p.tar.gz" $$program LICENSE || exit 1; \
	done
	@$(IMAGE) krew --version '$(VERSION)' --url '$(RELEASE_URL)' --output $(RELEASE)/krew.yaml $(RELEASE)/kubectl-kausality_*.tar.gz
	@for arch in $(ARCHES); do \
		$(SBOM) bin -json -noserial -std -version '$(VERSION)' -output $(RELEASE)/kausality-$$arch.cdx.json $(BIN)/linux_$$arch/kausality || exit 1; \
	done
	@$(IMAGE) checksums --version '$(VERSION)' $(RELEASE)

.PHONY: bench
bench: ## Measure requests, memory and the gate; ARGS=code for benchmarks of the code
	@$(GO) build -C test -o $(BIN)/bench ./cmd/bench
	@exec $(BIN)/bench $(ARGS)

.PHONY: gate-bench
gate-bench: ## Put 10,000 managed resources on one gate
	@$(MAKE) --no-print-directory bench ARGS=gate

.PHONY: rollout-bench
rollout-bench: ## Roll changes out to 10,000 objects
	@$(MAKE) --no-print-directory bench ARGS=rollout

.PHONY: page-bench
page-bench: ## Show 10,000 changes on the page
	@$(MAKE) --no-print-directory bench ARGS=page

.PHONY: equal
equal: $(SUMMARY) $(GOTESTSUM) ## Manifests of all built-in kinds through the real provider-kubernetes
	@$(CAMPAIGN) --packages ./e2e -- -count 1 -timeout 1h -run '^TestEqual$$' -args -equal.all

.PHONY: pairs
pairs: $(SUMMARY) $(GOTESTSUM) ## Time to Ready and Crossplane's circuit breaker with and without Kausality, on a quiet machine; PAIRS=20
	@$(CAMPAIGN) --packages ./e2e -- -count 1 -timeout 1h -run '^TestPairs$$' -args -pairs=$(or $(PAIRS),20)

.PHONY: waves
waves: $(SUMMARY) $(GOTESTSUM) ## Roll a Composition revision that breaks, and then one that works, out to many composites; WAVES=60
	@$(CAMPAIGN) --packages ./e2e -- -count 1 -timeout 1h -run '^TestWaves$$' -args -waves=$(or $(WAVES),60)

# Results of a campaign, a line for each item. RESUME=1 leaves out what passed with the same product; with ONLY nothing is kept.
RESULTS = $(if $(ONLY),,-campaign.file=$(OUT)/campaigns/$@.tsv $(if $(RESUME),-campaign.resume))

.PHONY: adversary
adversary: $(SUMMARY) $(GOTESTSUM) ## Users with few rights against a running story, by seed; SEEDS=200 FIRST=57, RESUME=1
	@$(CAMPAIGN) --packages ./adversary -- -count 1 -timeout 2h -run '^TestAdversary$$' -args -adversary.seeds=$(or $(SEEDS),200) \
		-adversary.first=$(or $(FIRST),1) $(RESULTS)

.PHONY: faults
faults: $(SUMMARY) $(GOTESTSUM) ## Processes, networks, clocks, certificates that fail, in all pairs; ONLY=gate/kill, RESUME=1
	@$(CAMPAIGN) --packages ./faults -- -count 1 -timeout 4h -run '^TestCampaign$$' -args -faults.all -faults.only='$(ONLY)' $(RESULTS)

.PHONY: random
random: $(SUMMARY) $(GOTESTSUM) ## Random interleavings of all actors around the gate, on the real processes; SEEDS=100, RESUME=1
	@$(CAMPAIGN) --packages ./gate -- -count 1 -timeout 4h -run '^TestRandom$$' -args -random.seeds=$(or $(SEEDS),100) $(RESULTS)

.PHONY: model
model: $(SUMMARY) $(GOTESTSUM) ## The same on a model; SEEDS=100000, RESUME=1
	@$(SUMMARY) test --gotestsum $(GOTESTSUM) --packages ./admission -- -count 1 -timeout 6h -run '^TestModel$$' -args \
		-model.seeds=$(or $(SEEDS),100000) $(RESULTS)

.PHONY: soak
soak: $(SUMMARY) $(GOTESTSUM) ## A hundred composites of twenty kinds that live for an hour, with users, drift, approvals and restarts; FOR=1h
	@$(CAMPAIGN) --packages ./soak -- -count 1 -timeout 0 -run '^TestSoak$$' -args -soak.for=$(or $(FOR),1h) -soak.kinds=20 -soak.each=5 \
		-campaign.file=$(OUT)/campaigns/$@.tsv

.PHONY: results
results: ## Take over what campaigns have shown, to be committed
	@mkdir -p test/campaigns && cp $(OUT)/campaigns/*.tsv test/campaigns/
	@$(GO) run ./hack/campaigns -write
	@$(GO) test -C test ./faults -count 1 -run '^TestResults$$' -args -update

.PHONY: kro
kro: $(SUMMARY) $(GOTESTSUM) ## Graphs of kro, with the real kro: all tests, and what 100 instances cost
	@$(CAMPAIGN) --packages ./kro/... -- -count 1 -timeout 1h

# The plugin under the conformance scenarios, once with the settings of each configuration, and the example.
PLUGIN_CONFIGURATIONS = enforce log user-hash field-manager approver-rbac alternatives
.PHONY: apiserver
apiserver: $(SUMMARY) $(GOTESTSUM) ## The admission plugin in kube-apiserver under the conformance scenarios, and the example
	@$(CAMPAIGN) --packages ./embedded -- -count 1 -timeout 10m
	@for c in $(PLUGIN_CONFIGURATIONS); do \
		$(CAMPAIGN) --packages ./conformance -- -count 1 -timeout 1h -args -conformance.plugin -conformance.configuration=$$c || exit 1; \
	done

# What make test runs, as often as ROUNDS, beside BUSY processes that never wait. A test that fails at first fails the campaign.
ROUNDS ?= 3
BUSY   ?= 4
STEADY ?= unit integration
.PHONY: steady
steady: $(SUMMARY) ## All tests three times, each in another order, beside four busy processes (three hours at most); ROUNDS=3 BUSY=4
	@mkdir -p $(OUT) && rm -f $(OUT)/steady.tsv; busy=; trap 'kill $$busy 2>/dev/null' EXIT INT TERM; \
	for i in $$(seq $(BUSY)); do (while :; do :; done) & busy="$$busy $$!"; done; \
	for round in $$(seq $(ROUNDS)); do \
		echo "steady: round $$round of $(ROUNDS), beside $(BUSY) busy processes"; \
		timeout -k 1m 1h $(SUMMARY) phases --make "$(MAKE)" --flaky $(OUT)/steady.tsv $(STEADY) || exit 1; \
	done; \
	if [ -s $(OUT)/steady.tsv ]; then echo "steady: failed at first:"; cat $(OUT)/steady.tsv; exit 1; fi

.PHONY: years
years: $(SUMMARY) $(GOTESTSUM) ## Rotate certificates as often as five years do, under load (6 minutes); YEARS=5
	@$(CAMPAIGN) --packages ./operations/changes -- -count 1 -timeout 2h -run '^TestRotationAndRestarts$$' -args -rotation.years=$(or $(YEARS),5)

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME each (20s)
	@find . -name '*_test.go' -exec grep -l '^func Fuzz' {} + | sort | while read -r file; do \
		for f in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$file"); do \
			echo "fuzz $$f in $$(dirname "$$file")"; \
			$(GO) test -C "$$(dirname "$$file")" -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) . || exit 1; \
		done || exit 1; \
	done

# Everything is built and compiled before the first control plane starts: on a busy machine a build
# takes minutes, which no test waits for.
.PHONY: parts
parts: ## Build all programs that tests and demo run, ahead of time
	@$(GO) run -C test ./cmd/parts --tests
	@$(GO) list -C test -test -export -f '{{""}}' ./... >/dev/null

.PHONY: clean
clean: ## Remove what was built; PARTS=1 also bin/ and the user's cache of parts, which take minutes to build
	@$(if $(PARTS),$(GO) run -C test ./cmd/parts --clean)
	@rm -rf $(OUT) $(if $(PARTS),$(BIN),$(BIN)/linux_* $(BIN)/kausality $(BIN)/kubectl-kausality $(BIN)/demo $(BIN)/bench $(SUMMARY) $(IMAGE) $(GEN))

# Programs of this repository are passed to go build every time, which knows what changed.

.PHONY: FORCE
FORCE:

$(SUMMARY): FORCE
	@$(GO) build -C test/image -o $@ ./cmd/summary

$(IMAGE): FORCE
	@$(GO) build -C test/image -o $@ .

$(GEN): FORCE
	@$(GO) build -C test/parts/controller-gen -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(VULN): FORCE
	@$(GO) build -C test/parts/govulncheck -o $@ golang.org/x/vuln/cmd/govulncheck

$(SBOM): test/parts/cyclonedx-gomod/go.sum
	@$(GO) build -C test/parts/cyclonedx-gomod -o $@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

$(LINT):
	@$(GO) run -C test ./cmd/parts golangci-lint

# What it prints is not of what make manifests writes to a file.
$(HELM):
	@$(GO) run -C test ./cmd/parts helm >&2

$(CLI):
	@$(GO) run -C test ./cmd/parts crossplane-cli

$(GOTESTSUM):
	@$(GO) run -C test ./cmd/parts gotestsum
