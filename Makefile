# Spate: `make up` to see it, `make test` to trust it. `make help` lists the rest.

SHELL       := /bin/bash
GO          ?= go
CACHE       := $(CURDIR)/.cache
BIN         := $(CURDIR)/bin/spate
DATA_DIR    ?= $(CURDIR)/var
CHDB        := @chdb/lib-linux-x64-gnu
CHDB_VERSION := 26.7.3-stable.1
LIBCHDB     := $(CACHE)/lib/libchdb-$(CHDB_VERSION).so
ASN_VERSION := 2.3.2026061719
ASNDB       := $(CACHE)/geo/asn.db
WEB_SOURCES := $(shell find web -type f -not -path '*/node_modules/*' -not -path '*/dist/*' 2>/dev/null)

export SPATE_LIBCHDB ?= $(LIBCHDB)
export CGO_ENABLED := 0

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z0-9_-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

.PHONY: up
up: deps-up build ## build everything and run it: all roles, embedded engines, a demo edge
	SPATE_DATA_DIR=$(DATA_DIR) $(BIN) up --demo

.PHONY: build
build: $(LIBCHDB) $(ASNDB) web/dist/index.html ## build bin/spate
	$(GO) build -trimpath -o $(BIN) ./cmd/spate

# libchdb is ClickHouse as a library. It is large (566 MB); it is fetched once and stays outside the binary.
$(LIBCHDB):
	npm install --no-save --no-audit --no-fund --ignore-scripts --prefix $(CACHE)/npm-chdb $(CHDB)@$(CHDB_VERSION)
	mkdir -p $(@D)
	mv $(CACHE)/npm-chdb/node_modules/$(CHDB)/libchdb.so $@
	ln -sf $(@F) $(@D)/libchdb.so
	rm -rf $(CACHE)/npm-chdb

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	cd web && npm run build

# Autonomous systems of addresses: a table made from public CSV files.
.PHONY: geo
geo: $(ASNDB) ## fetch and build the table of autonomous systems

$(ASNDB):
	npm install --no-save --no-audit --no-fund --ignore-scripts --prefix $(CACHE)/npm-asn @ip-location-db/asn@$(ASN_VERSION)
	mkdir -p $(@D)
	$(GO) run ./internal/enrich/asndb/build $@ $(CACHE)/npm-asn/node_modules/@ip-location-db/asn/asn-ipv4.csv $(CACHE)/npm-asn/node_modules/@ip-location-db/asn/asn-ipv6.csv
	rm -rf $(CACHE)/npm-asn

.PHONY: deps-up
deps-up: ## install what the demo edge needs (nginx with Lua), if it is missing
	scripts/deps up

.PHONY: deps-test
deps-test: ## install what the tests need, if it is missing
	scripts/deps test

.PHONY: test
test: deps-test build ## everything CI runs: vet, unit, conformance, real servers, browser
	$(GO) vet ./...
	cd web && npm run check
	$(GO) test -shuffle=on -timeout 20m $$($(GO) list ./... | grep -v '/test/')
	cd test/browser && npm ci --no-audit --no-fund
	SPATE_BIN=$(BIN) $(GO) test -count=1 -p 1 -timeout 30m ./test/...

.PHONY: race
race: build ## unit tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout 30m $$($(GO) list ./... | grep -v '/test/')

.PHONY: fuzz
fuzz: ## each fuzz target for 10 s
	scripts/fuzz 10s

MINUTES ?= 10
SEED    ?= 1

.PHONY: chaos
chaos: build ## break everything for MINUTES=10 with SEED=1, and count
	MINUTES=$(MINUTES) SEED=$(SEED) SPATE_BIN=$(BIN) $(GO) test ./test/chaos -count=1 -v -timeout 24h -run TestChaos

.PHONY: bench
bench: build ## measure the store on this machine (about ten minutes); BENCH="--events 100000000 --log access.log" for more
	$(BIN) bench store $(BENCH)

.PHONY: bench-go
bench-go: $(LIBCHDB) ## all Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: gen
gen: ## regenerate what is generated; must leave no difference
	$(GO) generate ./...

.PHONY: lint
lint: ## golangci-lint with .golangci.yml
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0 run ./...

.PHONY: clean
clean: ## remove what was built; data in var/ and fetched libraries stay
	rm -rf bin web/dist/assets web/dist/index.html
