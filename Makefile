# The menu. `make` alone lists it.

.DEFAULT_GOAL := help
.PHONY: help run test test-learners lint docs bench bench-train bench-exact bench-python fuzz check-slow figures

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

run: ## the demo: train, run, compare, change the requirements
	cargo run --release -- demo

test: ## all tests, those in Python too (installs chromium for the browser tests where there is none)
	tests/install-browser.sh
	cargo test --workspace --profile checked
	tests/python/run.sh

test-learners: ## the examples with Stable-Baselines3, torch and RLlib (installs them on first use; minutes)
	tests/learners/run.sh

lint: ## formatting, lints, documentation without warnings, packages
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --profile checked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --profile checked
	cargo package --workspace --exclude acrl-py --quiet --allow-dirty --no-verify # dirty: lint runs before a commit
	tests/python/run.sh lint

docs: ## build the API documentation
	cargo doc --workspace --no-deps --release

bench: ## speed of execution beside a bare loop
	cargo bench -p acrl-learn --bench execution

bench-train: ## PPO beside its peers (installs them on first use); ARGS=--curves: do they learn alike?
	cargo build --release -p acrl-learn --example bench-train
	python3 benches/train/run.py --acrl "$${CARGO_TARGET_DIR:-target}/release/examples/bench-train" $(ARGS)

bench-exact: ## exact solving beside HiGHS, Clarabel and Storm (installs them on first use; hours, ARGS=--quick: a minute)
	cargo build --release
	python3 benches/exact/run.py --acrl "$${CARGO_TARGET_DIR:-target}/release/acrl" $(ARGS)

bench-python: ## a step of an agent in Python, and batches beside Rust (status 1 if a target is missed)
	tests/python/run.sh bench $(ARGS)

figures: ## redraw the pictures of the README
	cargo run --release -- demo --out-dir target/figures
	for name in comparison averages policy occupancy; do cp target/figures/figures/$$name.png docs/images/demo-$$name.png; done

fuzz: ## fuzz the .drn reader for five minutes (needs cargo-fuzz)
	RUSTC_BOOTSTRAP=1 cargo fuzz run drn fuzz/corpus/drn fuzz/seeds/drn -- -max_total_time=300 -dict=fuzz/drn.dict

check-slow: ## statistical checks over many seeds and models, before a release
	PROPTEST_CASES=20000 cargo test --workspace --profile checked
	HIGHS_SEEDS=1000 STORM=1 tests/python/run.sh
	cargo test --workspace --profile checked --test promise --test diagnosis --test near_optimal -- --ignored --nocapture
