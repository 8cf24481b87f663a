# make help lists the targets.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
PROGRAMS := runtime-wrapper runtime-judge oci-hook nodeadmit
# Static, reproducible, and the same from a tarball as from a checkout.
BUILD     = CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w -X github.com/nodeadmit/nodeadmit/internal/version.Version=$(VERSION)'
# For go test: make test TESTFLAGS=-v
TESTFLAGS ?=

.DEFAULT_GOAL := build

.PHONY: build
build: ## build all programs into ./bin, static
	$(BUILD) -o bin/ $(PROGRAMS:%=./cmd/%)

.PHONY: prerequisites
prerequisites: ## install what tests need: packages (as root), containerd 2 from its module
	test/prerequisites.sh

.PHONY: test
test: prerequisites vet unit e2e ## all tests; needs root, and fails where a container engine is missing

.PHONY: unit
unit: ## unit and golden tests; need neither root nor an engine
	go test $(TESTFLAGS) ./...

.PHONY: e2e
e2e: ## tests on real containerds, as root; their output is shown as they go
	NODEADMIT_E2E=1 go test -count=1 -p 1 -timeout 15m -v ./test/engine ./test/e2e ./test/runtime ./test/cel ./test/conformance ./test/install ./test/packages

.PHONY: demo
demo: ## see it refuse pods on a private containerd, as root (ENGINES="distribution module": on containerd 2 as well)
	test/prerequisites.sh $(or $(ENGINES),distribution)
	go run -buildvcs=false ./test/demo $(ENGINES)

.PHONY: packages
packages: ## deb and rpm packages for amd64 and arm64, into bin/packages
	packaging/packages.sh '$(VERSION)' bin/packages

.PHONY: man
man: ## man pages and completions, into bin/docs
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) go run -buildvcs=false -tags docs ./cmd/nodeadmit docs bin/docs

.PHONY: bench
bench: prerequisites build ## what it costs, as ratios of one run; as root
	go run -buildvcs=false ./test/bench $(BENCHFLAGS)

.PHONY: vet
vet:
	go vet ./...

.PHONY: lint
lint: vet ## gofmt, go vet, and shellcheck where it is installed
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted:"; echo "$$unformatted"; exit 1; fi
	@if command -v shellcheck >/dev/null; then shellcheck .ci/run $$(find . -name '*.sh'); else echo "no shellcheck: shell scripts are not checked"; fi

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS='	' read -r target text; do printf '%-14s %s\n' "$$target" "$$text"; done
