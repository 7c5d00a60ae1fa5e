SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.PHONY: help test test-kernels check lint docs bench bench-truth bench-rounds bench-noise page goldens size fuzz deny dist bpf same-bpf chromium clang qemu tools test-fleet fleet-tools

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
PAGES := $(TARGET)/page
KERNELS := $(TARGET)/kernels
FLEET := $(TARGET)/fleet
# Every build of tests has the same features, so that nothing is built twice.
FULL := --features bytecost/full

BPF := $(wildcard crates/*/bpf/*.bpf.c)
# From within its folder, since its name is in the object.
compile = (cd "$$(dirname "$(1)")" && clang-14 -O2 -g -Wall -Wextra -Werror -target bpf -fdebug-compilation-dir=. \
	-c "$$(basename "$(1)")" -o - ) > "$(2)" && llvm-strip-14 -g "$(2)"

help: # What the words mean
	@grep -E '^[a-z-]+:.* # ' Makefile | sed -E 's/^([a-z-]+):.* # (.*)/make \1\t\2/' | expand -t 20

test: chromium tools # Install what the tests need, and run all of them
	@tests/all.sh "$(TARGET)/tests"
	$(MAKE) --no-print-directory page

# One program of the tests' own build, by its name.
built = sed -n 's/.*"executable":"\([^"]*\/$(1)-[0-9a-f]*\)".*/\1/p' <<<"$$built"

test-kernels: qemu # The truths about copies on a stock Debian kernel under qemu, as this one may refuse what they need
	@built=$$(cargo test -q --workspace $(FULL) --locked --no-run --message-format=json-render-diagnostics \
		--test truths --test copies --test copied)
	cargo build -q --workspace --bins --examples $(FULL) --locked
	PEER="$(TARGET)/debug/bytecost" GUEST_ENV=BYTECOST_MEANS=functions,tracepoints tests/kernels/boot.sh "$(KERNELS)" \
		"$(TARGET)/debug/bytecost-guest" "$$($(call built,truths))" \
		"$$($(call built,copies))" "$$($(call built,copied))=functions"

test-fleet: fleet-tools tools # The files of deploy by their schemas, and its role for real on three namespaces with SSH servers; as root
	@python3 tests/unpack.py
	if [ "$$(id -u)" != 0 ] || ! [ -x "$(FLEET)/venv/bin/kubernetes-validate" ] || ! [ -x /usr/sbin/sshd ]; then
		echo "skipped: it needs root, OpenSSH's server, and ansible-core and kubernetes-validate in $(FLEET)/venv"
		exit 0
	fi
	tests/deploy.sh "$(FLEET)"
	cargo build -q --workspace --bins --examples $(FULL) --locked
	tests/fleet.sh "$(TARGET)/debug/bytecost" "$(FLEET)"

check: lint docs # Lint and docs

docs: # Documentation without a warning
	@# With the examples, dependencies have the features that clippy has checked them with.
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --lib --bins --examples $(FULL) --locked

lint: same-bpf # Formatting and clippy without a warning; BPF objects; dependencies, if cargo-deny is there
	@cargo fmt --all --check
	cargo clippy --workspace --all-targets $(FULL) --locked -- -D warnings
	if command -v cargo-deny >/dev/null; then
		cargo deny check bans licenses sources
	else
		echo "cargo-deny is not installed, so dependencies were not checked: make deny"
	fi

dist: # One static file that needs nothing, with completions and manual pages, tried in an empty root: target/dist
	@tests/dist.sh "$(TARGET)/dist"

bench: # What bytecost must reach, against its peers, as ratios within one run
	@cargo run --release --locked -p bytecost-benches

bench-truth: # Whether reports keep their promises: 40 runs of equal cells, 40 with a planted 5 % and 40 with 25 %; resumed if stopped
	@cargo build --release --locked -p bytecost --features planted --target-dir "$(TARGET)/planted"
	cargo run --release --locked -p bytecost-benches -- truth

bench-rounds: # Whether another run confirms what a default run reports: 12 runs over an hour; resumed if stopped
	@cargo build --release --locked -p bytecost
	cargo run --release --locked -p bytecost-benches -- rounds

bench-noise: # How much ratios differ from round to round: 12 rounds over an hour; resumed if stopped
	@cargo build --release --locked -p bytecost
	cargo run --release --locked -p bytecost-benches -- noise

page: chromium # The report page in a browser: of made-up results and of a real short run
	@run=$$(mktemp -d)
	trap 'rm -rf "$$run"' EXIT
	mkdir -p "$(PAGES)"
	# Together with all tests: by themselves they would be built with other features once more.
	cargo build -q --workspace --bins --examples $(FULL) --locked
	sample() { "$(TARGET)/debug/examples/sample_page" "$(PAGES)/$$1" "$$2"; }
	sample report.html planted
	sample hostile.html hostile
	sample imported.html imported
	sample paired.html paired
	sample findings.json findings
	sample hosts.json hosts
	"$(TARGET)/debug/bytecost" run --quiet --no-history --mover null,send,sendfile --size 4KiB,64KiB \
		--budget 6s --blocks 8 --window 20ms --warmup 5ms --runs-dir "$$run" >/dev/null || [ $$? = 1 ]
	real=$$(echo "$$run"/*/report.html)
	cd tests/page
	npm ci --no-audit --no-fund --silent
	export CHROMIUM=$${CHROMIUM:-$$(command -v chromium chromium-browser google-chrome | head -n 1)}
	export BYTECOST_REPORT="$(PAGES)/report.html:$(PAGES)/hostile.html:$(PAGES)/imported.html:$(PAGES)/paired.html:$$real"
	export BYTECOST_REASONS="$(PAGES)/report.html" BYTECOST_DISTANCES="$(PAGES)/paired.html" BYTECOST_HOSTS="$(PAGES)/hosts.json"
	BYTECOST_FINDINGS="$(PAGES)/findings.json" npm test
	# Where a trial failed, reports say so by status 1.
	"$(TARGET)/debug/bytecost" report "$$run" --json >"$(PAGES)/real-hosts.json" || [ $$? = 1 ]
	BYTECOST_FINDINGS="$$(dirname "$$real")/findings.json" BYTECOST_HOSTS="$(PAGES)/real-hosts.json" \
		node --test --test-name-pattern 'fits its schema' findings.test.mjs

goldens: # Recorded runs of every built-in study anew, and what is said of them; as root, a quiet machine, five minutes
	@cargo build --release --locked -p bytecost
	tests/goldens/record.sh "$(TARGET)/release/bytecost" crates/bytecost/tests/goldens
	BYTECOST_GOLDENS=accept cargo test --locked -p bytecost --test all goldens::

size: # Lines of Rust by crate
	@tests/size.sh

fuzz: # All fuzz targets, briefly
	@cargo test --locked -p bytecost-fuzz

deny: # Licences, sources and duplicates of the dependencies; installs cargo-deny if it is not there
	@command -v cargo-deny >/dev/null || cargo install cargo-deny --locked
	cargo deny check bans licenses sources

bpf: clang # The BPF objects anew, each beside the file that it is made from; commit both
	@for source in $(BPF); do $(call compile,$$source,$${source%.c}.o); done

# Whether the committed objects are what the sources give. Bytes differ from compiler to compiler,
# so with any but this one nothing is compared.
same-bpf: clang
	@made=$$(mktemp -d)
	trap 'rm -rf "$$made"' EXIT
	if ! clang-14 --version 2>/dev/null | grep -q 'version 14\.0\.6' || ! command -v llvm-strip-14 >/dev/null; then
		echo "clang 14.0.6 or llvm-strip-14 is not installed, so BPF objects were not compared"
		exit 0
	fi
	for source in $(BPF); do
		$(call compile,$$source,$$made/object)
		cmp "$$made/object" "$${source%.c}.o" || {
			echo "$$source is not what $${source%.c}.o was made from: make bpf" >&2; exit 1; }
	done

# Installs the compiler of BPF objects, if there is none and that is allowed.
clang:
	@if command -v clang-14 >/dev/null && command -v llvm-strip-14 >/dev/null; then exit 0; fi
	if [ "$$(id -u)" = 0 ]; then
		sudo=""
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo="sudo"
	else
		exit 0
	fi
	if command -v apt-get >/dev/null; then
		export DEBIAN_FRONTEND=noninteractive
		$$sudo apt-get update -q
		$$sudo apt-get install -q -y --no-install-recommends clang-14 llvm-14 || true
	fi

# Installs what boots another kernel, if it is not there.
qemu:
	@if command -v qemu-system-x86_64 >/dev/null && command -v cpio >/dev/null; then exit 0; fi
	if [ "$$(id -u)" = 0 ]; then
		sudo=""
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo="sudo"
	else
		echo "Another kernel is booted by qemu: as root, apt-get install qemu-system-x86 cpio" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	$$sudo apt-get update -q
	$$sudo apt-get install -q -y --no-install-recommends qemu-system-x86 cpio

# Programs that tests start, each with the package of Debian that has it. What is not there is
# installed, if that is allowed; a test without its program says that it was skipped.
TOOLS := bindfs=bindfs javac=default-jdk-headless mkfs.btrfs=btrfs-progs mkfs.xfs=xfsprogs \
	perl=perl script=bsdutils sshd=openssh-server tc=iproute2
tools:
	@export PATH="$$PATH:/usr/sbin:/sbin"
	packages=$$(for tool in $(TOOLS); do
		command -v "$${tool%=*}" >/dev/null || echo "$${tool#*=}"
	done)
	if [ -n "$$packages" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		export DEBIAN_FRONTEND=noninteractive
		# Without a network those tests say that they were skipped.
		apt-get update -q || true
		apt-get install -q -y --no-install-recommends $$packages || true
	fi

# Installs what the files of deploy are tried with, below the target directory but for Debian's own
# tools, if it is not there and that is allowed. Without a network the test says what is missing.
fleet-tools:
	@if [ -x "$(FLEET)/venv/bin/kubernetes-validate" ]; then exit 0; fi
	mkdir -p "$(FLEET)"
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		export DEBIAN_FRONTEND=noninteractive
		apt-get update -q || true
		apt-get install -q -y --no-install-recommends python3 python3-venv openssh-client shellcheck || true
		(cd "$(FLEET)" && apt-get download -q slurm-client && dpkg -x slurm-client_*.deb slurm && rm slurm-client_*.deb) || true
	fi
	python3 -m venv "$(FLEET)/venv" &&
		"$(FLEET)/venv/bin/pip" install -q 'ansible-core==2.18.*' 'kubernetes-validate==1.37.*' || true

# Installs a browser, if there is none.
chromium:
	@for tool in cargo cc node npm; do
		command -v $$tool >/dev/null || { echo "$$tool is not installed: see CONTRIBUTING.md" >&2; exit 1; }
	done
	if [ -x "$${CHROMIUM:-}" ] || command -v chromium chromium-browser google-chrome >/dev/null; then
		exit 0
	fi
	if [ "$$(id -u)" = 0 ]; then
		sudo=""
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo="sudo"
	else
		echo "The page tests need a browser: install chromium (as root: apt-get install chromium)," >&2
		echo "or set CHROMIUM to the path of one." >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	$$sudo apt-get update -q
	$$sudo apt-get install -q -y --no-install-recommends chromium fonts-liberation
