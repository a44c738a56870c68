# Thin front of CMake. `make help` lists the targets.
BUILD := build
PREFIX ?= /usr/local
PRESET_FLAGS := -G Ninja

.PHONY: lint valgrind coverage all bench help build-packages check-packages tools-packages demo check units install clean fuzz sanitize soak

all: build-packages $(BUILD)/build.ninja ## build build/kagamid and build/kagami (optimised, assertions on)
	@cmake --build $(BUILD) --target kagamid kagami

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile

build-packages:
	@scripts/install-packages build

check-packages:
	@scripts/install-packages check

tools-packages:
	@scripts/install-packages tools

$(BUILD)/build.ninja: | build-packages
	@cmake -S . -B $(BUILD) $(PRESET_FLAGS) > $(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }; mv $(BUILD).configure.log $(BUILD)/

demo: all check-packages ## the main job, shown: mirror a Kafka, lose it, take over
	@scripts/demo

check: check-packages all ## build and run all tests; what ran and what was skipped stands at the end
	@scripts/check $(BUILD)/check -DKAGAMI_TEST_HOOKS=ON

units: check-packages ## only the unit tests
	@scripts/check $(BUILD)/check -DKAGAMI_TEST_HOOKS=ON -- -L unit

sanitize: check-packages ## all tests under address+undefined, then under thread sanitizer
	@scripts/check $(BUILD)/asan -DKAGAMI_TEST_HOOKS=ON -DCMAKE_BUILD_TYPE=Debug -DKAGAMI_SANITIZE=address,undefined
	@scripts/check $(BUILD)/tsan -DKAGAMI_TEST_HOOKS=ON -DCMAKE_BUILD_TYPE=Debug -DKAGAMI_SANITIZE=thread

fuzz: check-packages ## run each fuzz target for FUZZ_SECONDS (default 60)
	@scripts/fuzz

soak: check-packages ## random walks beside a model (tests/model), lives on a failing disk (tests/disk), and the program killed under load (tests/loops), for SOAK_SECONDS (default 600)
	@scripts/soak $(BUILD)/check

valgrind: tools-packages ## units, models, failing disks and corpora under valgrind
	@scripts/valgrind $(BUILD)/valgrind

coverage: tools-packages ## which lines of src the tests run, by layer and by file (COVERAGE="-L unit": only units, models, disks and corpora)
	@scripts/coverage $(BUILD)/coverage $(COVERAGE)

lint: tools-packages ## clang-tidy and gcc's analyzer over src (LINT_TOOLS=gcc: only that one)
	@mkdir -p $(BUILD) && scripts/lint

install: all ## install the programs, man pages and completion under PREFIX
	@cmake --build $(BUILD) --target kagami_docs
	@cmake --install $(BUILD) --prefix $(PREFIX)

bench: all ## measure kagamid beside a real Kafka and print a table (BENCH_SCALE=0.1: a quick look)
	@cmake --build $(BUILD) --target kagami_bench
	@scripts/bench --build $(BUILD) $(BENCH)

clean: ## remove everything that was built
	@rm -rf $(BUILD)
