# The daily life of jhalak. `make` alone lists the verbs.

CARGO ?= cargo
PYTHON ?= python3
DATA := examples/data
# Longest sequence of the comparison that `make run` shows.
COMPARE_MAX ?= 4096
# The oldest compiler that builds jhalak: rust-version in Cargo.toml, as rustup names it.
MSRV ?= 1.89.0
# Instrumented objects stay apart, so that they do not push out the usual ones.
ASAN_TARGET_DIR ?= $(or $(CARGO_TARGET_DIR),target)/asan

.PHONY: help run test test-rust test-python gate-tools test-gpu gpu-bundle check lint docs package licences bench bench-cpu
.PHONY: msrv asan clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

run: ## attention on real input, checked against an independent answer; then a short comparison
	$(CARGO) run --release -- attend $(DATA)/bert_tiny.safetensors --expect $(DATA)/bert_tiny_expected.safetensors
	$(CARGO) run --release -- compare --max $(COMPARE_MAX)

test: test-rust ## all tests of the Rust crates, and examples of the documentation

test-rust: gate-tools ## those of the Rust crates only: no Python packages, a quicker start
	$(PYTHON) -m unittest discover --start-directory benchmarks/peers --quiet
	$(CARGO) test --workspace --all-features

# Some 6 GB, once, into the user's cache folder: torch, transformers, JAX and two small models.
test-python: ## those of the Python package, with the real libraries
	$(PYTHON) scripts/python_env.py -m pytest --quiet

# Some 90 MB, once, into the user's cache folder; nothing happens where they are already.
gate-tools: ## NVIDIA's PTX assembler and disassembler for the tests, from PyPI
	$(PYTHON) scripts/gate_tools.py

test-gpu: gpu-bundle ## the tests that need an NVIDIA GPU, on a machine with one
	gpu-bundle/run_gpu_tests.sh

gpu-bundle: ## those tests as programs in gpu-bundle/, for a machine with a GPU and without Rust
	$(PYTHON) scripts/gpu_bundle.py gpu-bundle

check: lint docs package licences ## format, lints, documentation, packages, licences

lint:
	$(CARGO) fmt --all --check
	rustfmt --check --edition 2024 crates/jhalak-cuda/tests/fake_driver/lib.rs
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps

package:
	$(CARGO) package --workspace --no-verify --allow-dirty --quiet

licences:
	$(PYTHON) scripts/licences.py

bench: ## speed against the machine's peak and against standard attention
	$(CARGO) bench -p jhalak-cpu --bench attention

bench-cpu: ## speed beside PyTorch, ONNX Runtime and candle; ARGS="--quick" for three minutes
	CARGO="$(CARGO)" $(PYTHON) benchmarks/peers/run.py $(ARGS)

msrv: ## check with the oldest supported compiler (rustup toolchain 1.89.0)
	$(CARGO) +$(MSRV) check --workspace --all-features

# Neither the standard library nor the examples of the documentation are instrumented. The test of
# memory is left out, since the sanitizer's own memory would count as jhalak's. Another asks for more
# memory than there can be, and wants null for it, not an end.
asan: ## the CPU crate's tests under AddressSanitizer (a nightly toolchain)
	ASAN_OPTIONS="allocator_may_return_null=1" RUSTFLAGS="-Zsanitizer=address" $(CARGO) +nightly test \
		-p jhalak-cpu --target x86_64-unknown-linux-gnu --target-dir $(ASAN_TARGET_DIR) --lib --tests \
		-- --skip work_space_stays_small

clean: ## remove what was built
	$(CARGO) clean
