# The short way to everything; `make help` lists it. Phases live in scripts/phases.

.PHONY: help demo test setup fmt lint tidy docs bench

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: ## name what is missing, build, then show Hawser beside Linux's own TCP, on two paths, under a browser
	@scripts/phases demo-setup
	cargo build --locked -p hawser-cli
	cargo run -q --locked -p hawser-cli -- demo

test: ## every check and every test that needs no root, with times and what was skipped
	@scripts/phases setup format build tidy deny idle:doctests idle:lint idle:facade idle:bench idle:swarm \
		idle:mutants idle:docs tests editors

setup: ## install what tests and demo call (as root), or name what is missing
	@scripts/phases setup

fmt: ## format the sources
	cargo fmt --all

lint: ## clippy, warnings are errors
	@scripts/phases lint

tidy: ## the repository's rules
	@scripts/phases tidy

docs: ## the crates' documentation
	@scripts/phases docs

bench: ## measure beside Linux's TCP and smoltcp (evaluation/bench/README.md)
	cargo build --release --locked -p hawser-cli
	cargo build --release --locked --manifest-path evaluation/Cargo.toml -p hawser-bench
	target/release/hawser bench bulk
