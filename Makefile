# Tasks.  Each sets up what it needs in $(VENV).
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
# Many tests wait for processes, files or a browser.
WORKERS = $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2)
# Tiles are emulated there, which takes a CPU that has all but them.
SANITIZED_LEVELS = $(shell grep -q avx512_bf16 /proc/cpuinfo && echo "v4;amx" || echo v3)
SANITIZE = $(BIN)/cmake -G Ninja -DCMAKE_BUILD_TYPE=Release -DOVERT_EMULATE_TILES=ON \
  -DPython_EXECUTABLE=$(abspath $(BIN)/python) -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) \
  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -S .
SANITIZERS = PYTHONPATH=build/sanitized/site ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)"
# Libraries that were built without it keep their own counsel.
TSAN = PYTHONPATH=build/threads/site TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1 OPENBLAS_NUM_THREADS=1 \
  LD_PRELOAD="$$(g++ -print-file-name=libtsan.so)"

.PHONY: example test lint check sanitize tsan fuzz aarch64 docs screenshots clean

# What is said before each phase of a task; pip and npm show how far they are.
SAY = @echo "==>"

# The main job on what comes with the project.
example: $(VENV)/overt
	$(SAY) "A sentence, translated, and where each word of the translation looked"
	$(BIN)/overt translate "I love you." --show
	$(SAY) "A text that looks for what it said before"
	$(BIN)/python examples/induction.py

# Everything that must pass before a change lands.
test: lint check sanitize

lint: $(VENV)/dev node_modules/.package-lock.json
	$(SAY) "Linters: ruff, tsc, Biome, mypy"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	npm run --silent lint
	$(BIN)/mypy

# What checks the page's JavaScript: tsc and Biome, as package-lock.json has them.
node_modules/.package-lock.json: package.json package-lock.json
	@command -v npm >/dev/null || { echo "make lint checks the page's JavaScript by node 18 or later: apt-get install nodejs npm"; exit 1; }
	$(SAY) "Fetching tsc and Biome into node_modules"
	npm ci --no-audit --no-fund
	touch $@

check: $(VENV)/dev
	$(SAY) "Tests, in Chromium too: most of the time of make test"
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --durations=20

# The native code under AddressSanitizer and UndefinedBehaviorSanitizer, driven by the tests of the kernels, and its threads
# under ThreadSanitizer.
sanitize: $(VENV)/dev tsan
	$(SAY) "Kernels under AddressSanitizer and UndefinedBehaviorSanitizer: compiling, then tests"
	$(SANITIZE) -B build/sanitized -DOVERT_SANITIZE=address,undefined -DOVERT_LEVELS='$(SANITIZED_LEVELS)'
	$(BIN)/cmake --build build/sanitized
	mkdir -p build/sanitized/site && cp -r src/overt build/sanitized/site && rm -f build/sanitized/site/overt/_native*.so
	$(BIN)/cmake --install build/sanitized --prefix build/sanitized/site
	$(SANITIZERS) $(BIN)/python -c 'import overt; assert "sanitized" in overt.__file__, overt.__file__'
	$(SANITIZERS) $(BIN)/python -m pytest -q -n auto --dist worksteal tests/test_kernels.py tests/test_backward.py

tsan: $(VENV)/dev
	$(SAY) "Kernels under ThreadSanitizer: compiling, then races"
	$(SANITIZE) -B build/threads -DOVERT_SANITIZE=thread -DOVERT_LEVELS=v3
	$(BIN)/cmake --build build/threads
	mkdir -p build/threads/site && cp -r src/overt build/threads/site && rm -f build/threads/site/overt/_native*.so
	$(BIN)/cmake --install build/threads --prefix build/threads/site
	$(TSAN) $(BIN)/python tests/races.py

# Problems that no test has seen, for SECONDS; a seed that is printed brings a round back (tests/fuzz.py --help).
SECONDS ?= 600
fuzz: $(VENV)/dev
	$(BIN)/python tests/fuzz.py --seconds $(SECONDS)

# The kernels on an emulated AArch64: takes a cross compiler and qemu (Debian: g++-aarch64-linux-gnu, qemu-user-static).
AARCH64 = $(patsubst native/%.cpp,build/aarch64/%.o,$(filter-out native/bind.cpp,$(wildcard native/*.cpp)))
aarch64: build/aarch64/run
	qemu-aarch64-static build/aarch64/run

build/aarch64/run: tests/aarch64.cpp $(AARCH64)
	aarch64-linux-gnu-g++ -std=c++20 -O2 -static -pthread -Inative $^ -o $@

build/aarch64/%.o: native/%.cpp $(wildcard native/*.h)
	mkdir -p build/aarch64
	aarch64-linux-gnu-g++ -std=c++20 -O2 -pthread -DOVERT_LEVEL=base -c $< -o $@

# The site, offline, with lessons that run while it is built.
docs: $(VENV)/docs
	$(SAY) "Building the site; every lesson runs"
	$(BIN)/python -m sphinx -q -W -b html docs build/site
	@echo "open build/site/index.html"

# The page as a desktop, the dark and a phone show it, of eleven tokens and of 131,072: look at them.
screenshots: $(VENV)/dev
	$(BIN)/python -m benchmarks.screenshots build/screenshots

$(VENV)/overt: pyproject.toml CMakeLists.txt $(wildcard native/*) $(shell find src -name '*.py' -o -path '*/views/page/*')
	$(SAY) "Setting up $(VENV): five packages, and the kernels are compiled, which takes half a minute on two idle cores"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check .
	touch $@

$(VENV)/docs: $(VENV)/overt
	$(SAY) "Setting up what builds the site: torch and Sphinx are fetched"
	$(BIN)/pip install --disable-pip-version-check '.[docs]'
	touch $@

# timm requires torchvision, and none fits a torch for the CPU: timm alone is fetched, and its tests have a stand-in.
$(VENV)/dev: pyproject.toml CMakeLists.txt $(wildcard native/*) $(shell find src -name '*.py' -o -path '*/views/page/*')
	$(SAY) "Setting up $(VENV) for tests: torch and other peers are fetched, and the kernels are compiled"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check '.[dev]'
	$(BIN)/pip install --disable-pip-version-check --no-deps timm==1.0.31
	touch $@

clean:
	rm -rf build node_modules $(VENV)
