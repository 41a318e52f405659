# Each target is a script of the same name in scripts/, which says what it does while it does it.
#
#   PG=15          the major version of PostgreSQL to build for and to test with
#   PG_CONFIG=…    the pg_config of a particular installation instead

export PG PG_CONFIG TAG TEST CASE MINUTES SEED SCENE STEADY_SECONDS QUICK AGAIN ONLY KEEP PROCESSES COUNTERS TEST_TIMEOUT

.DEFAULT_GOAL := all
.PHONY: all help demo psql test test-core test-django torture bench bench-refill lint unit build package dist install uninstall test-lite install-lite \
    release-debian release-notes crates wheel image checksums clean

all: build

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PG=15 selects the major version of PostgreSQL, PG_CONFIG=… an installation of your own."
	@echo "  CONTRIBUTING.md has all other switches."

demo: ## see hilo at work in a throwaway cluster
	@scripts/demo

psql: ## open psql on a throwaway cluster with the current build
	@scripts/psql

test: ## run every check and every test, on PostgreSQL 15 and what depends on the version on 18; TEST=crash only that file, CASE=… only these tests of it
	@scripts/test

test-core: ## run core's regression and isolation suites on a server that has hilo in every database
	@scripts/test-core

test-django: ## run Django's own suite with every key from hilo
	@scripts/test-django

torture: ## crash it for MINUTES=5 by the choices of SEED=… and check what anybody saw
	@scripts/torture

bench: ## measure hilo beside core's sequences, write docs/benchmarks.md; QUICK=1 only tries it
	@scripts/bench

bench-refill: ## show how refills behave at full speed, for STEADY_SECONDS=30
	@scripts/bench-refill

lint: ## check formatting, Rust and shell code, warnings denied
	@scripts/lint

unit: ## run the tests that need no Postgres, and the model checker
	@scripts/unit

build: ## build the extension into target/package-pg15: what make does without a target
	@scripts/setup
	@scripts/build

package: ## build a Debian package of it, target/postgresql-15-hilo_….deb
	@scripts/setup
	@scripts/build
	@scripts/package

dist: ## make the distribution for PGXN, target/hilo-….zip, of the last commit
	@scripts/dist

install: ## build the extension and install it into the server of PG_CONFIG
	@scripts/install

test-lite: ## run the tests of both clients against hilo_lite
	@scripts/test-lite

install-lite: ## install hilo_lite, which needs no library, into the server of PG_CONFIG
	@scripts/install-lite

uninstall: ## remove it from the server of PG_CONFIG
	@scripts/uninstall

release-debian: ## build the Debian package for PG, and draw a number from what it holds
	@scripts/release-debian

release-notes: ## check that all versions agree, and write the notes of the version
	@scripts/release-notes

crates: ## package hilo-core and hilo-client as they would be published
	@scripts/crates

wheel: ## build the wheel of the Python client, and import it
	@scripts/wheel

image: ## build the container images, of a server and of hilo's files alone, and draw a number from the first
	@scripts/image

checksums: ## write SHA256SUMS of target/release-files
	@scripts/checksums

clean: ## remove what was built
	rm -rf target
