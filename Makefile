SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.PHONY: help test torture test-kernels check lint docs bench bench-truth bench-rounds bench-noise bench-profile page goldens size fuzz deny dist bpf same-bpf chromium clang qemu tools test-fleet fleet-tools

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
PAGES := $(TARGET)/page
KERNELS := $(TARGET)/kernels
FLEET := $(TARGET)/fleet
# Every build of tests has the same features, so that nothing is built twice.
FULL := --features bytecost/full

# Reports what is not checked, also in the list that the run prints in the end.
noted = echo "left out: $(1)" | tee -a "$${BYTECOST_SKIPPED:-/dev/null}"
# The same for lack of a tool or a right, which must be there where CI is true.
left_out = { $(call noted,$(1)); [ "$${CI:-}" != true ] || { echo "where CI is true nothing may be left out" >&2; exit 1; }; }
# Installs packages of Debian where that is allowed. Without a network they are missing afterwards.
install = if command -v apt-get >/dev/null && { [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then \
	as_root() { if [ "$$(id -u)" = 0 ]; then "$$@"; else sudo -n "$$@"; fi; }; \
	export DEBIAN_FRONTEND=noninteractive; \
	as_root apt-get update -q || true; \
	as_root apt-get install -q -y --no-install-recommends $(1) || true; \
	fi
BROWSERS := chromium chromium-browser google-chrome

BPF := $(wildcard crates/*/bpf/*.bpf.c)
# From within its folder, since its name is in the object.
compile = (cd "$$(dirname "$(1)")" && clang-14 -O2 -g -Wall -Wextra -Werror -target bpf -fdebug-compilation-dir=. \
	-c "$$(basename "$(1)")" -o - ) > "$(2)" && llvm-strip-14 -g "$(2)"

help: # What the words mean
	@grep -E '^[a-z-]+:.* # ' Makefile | sed -E 's/^([a-z-]+):.* # (.*)/make \1\t\2/' | expand -t 20

test: chromium tools # Install what the tests need, and run all of them; says what it left out without a network
	@tests/all.sh "$(TARGET)/tests"
	$(MAKE) --no-print-directory page

torture: # Runs to which the worst happens at random moments: TORTURE=1000 of them, again by TORTURE_SEED
	@TORTURE=$${TORTURE:-1000} cargo test -q --workspace $(FULL) --locked --test torture

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
		$(call left_out,test-fleet needs root and OpenSSH's server and ansible-core and kubernetes-validate in $(FLEET)/venv)
		exit 0
	fi
	tests/deploy.sh "$(FLEET)"
	cargo build -q --workspace --bins --examples $(FULL) --locked
	tests/fleet.sh "$(TARGET)/debug/bytecost" "$(FLEET)"

check: lint docs # Lint and docs

docs: # Documentation without a warning
	@# With the examples, dependencies have the features that clippy has checked them with.
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --lib --bins --examples $(FULL) --locked

# Advisories need a database, which comes from the network.
define check_deny
cargo deny check bans licenses sources
if cargo deny fetch db; then
	cargo deny check --disable-fetch advisories
else
	$(call noted,advisories on dependencies as their database cannot be fetched)
fi
endef

lint: same-bpf # Formatting and clippy without a warning; BPF objects; dependencies, if cargo-deny is there
	@cargo fmt --all --check
	cargo clippy --workspace --all-targets $(FULL) --locked -- -D warnings
	if command -v cargo-deny >/dev/null; then
		$(check_deny)
	else
		$(call noted,dependencies as cargo-deny is not installed: make deny)
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

bench-profile: # What profiling costs a program, and whether another way saves what a profile predicts; as root
	@cargo build --release --locked -p bytecost --bins --examples
	cargo run --release --locked -p bytecost-benches -- profile

page: chromium # The report page in a browser: of made-up results and of a real short run
	@export CHROMIUM=$${CHROMIUM:-$$(command -v $(BROWSERS) | head -n 1)}
	if ! { [ -x "$$CHROMIUM" ] && (cd tests/page && npm ci --prefer-offline --no-audit --no-fund --silent); }; then
		$(call left_out,the report page in a browser needs node 18 and chromium (or CHROMIUM=its path) and packages of npm)
		exit 0
	fi
	run=$$(mktemp -d)
	trap 'rm -rf "$$run"' EXIT
	mkdir -p "$(PAGES)"
	# Together with all tests: by themselves they would be built with other features once more.
	cargo build -q --workspace --bins --examples $(FULL) --locked
	sample() { "$(TARGET)/debug/examples/sample_page" "$(PAGES)/$$1" "$$2"; }
	sample report.html planted
	sample hostile.html hostile
	sample paired.html paired
	sample findings.json findings
	sample hosts.json hosts
	"$(TARGET)/debug/bytecost" run --quiet --no-history --mover null,send,sendfile --size 4KiB,64KiB \
		--budget 6s --blocks 8 --window 20ms --warmup 5ms --runs-dir "$$run" >/dev/null || [ $$? = 1 ]
	real=$$(echo "$$run"/*/report.html)
	cd tests/page
	export BYTECOST_REPORT="$(PAGES)/report.html:$(PAGES)/hostile.html:$(PAGES)/paired.html:$$real"
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

deny: # Licences, sources, duplicates and advisories of the dependencies; installs cargo-deny if it is not there
	@command -v cargo-deny >/dev/null || cargo install cargo-deny --locked
	$(check_deny)

bpf: clang # The BPF objects anew, each beside the file that it is made from; commit both
	@for source in $(BPF); do $(call compile,$$source,$${source%.c}.o); done

# Whether the committed objects are what the sources give. Bytes differ from compiler to compiler,
# so with any but this one nothing is compared.
same-bpf: clang
	@made=$$(mktemp -d)
	trap 'rm -rf "$$made"' EXIT
	if ! clang-14 --version 2>/dev/null | grep -q 'version 14\.0\.6' || ! command -v llvm-strip-14 >/dev/null; then
		$(call left_out,BPF objects as clang 14.0.6 or llvm-strip-14 is not installed)
		exit 0
	fi
	for source in $(BPF); do
		$(call compile,$$source,$$made/object)
		cmp "$$made/object" "$${source%.c}.o" || {
			echo "$$source is not what $${source%.c}.o was made from: make bpf" >&2; exit 1; }
	done

# Installs the compiler of BPF objects.
clang:
	@if command -v clang-14 >/dev/null && command -v llvm-strip-14 >/dev/null; then exit 0; fi
	$(call install,clang-14 llvm-14)

# Installs what boots another kernel; boot.sh says what is missing.
qemu:
	@if command -v qemu-system-x86_64 >/dev/null && command -v cpio >/dev/null; then exit 0; fi
	$(call install,qemu-system-x86 cpio)

# Programs that tests start, each with the package of Debian that has it. A test without its program
# is reported as skipped, and fails where CI is true.
TOOLS := bindfs=bindfs gcc=gcc javac=default-jdk-headless mkfs.btrfs=btrfs-progs mkfs.xfs=xfsprogs \
	perl=perl script=bsdutils setpriv=util-linux sshd=openssh-server strace=strace tc=iproute2 unshare=util-linux
tools:
	@export PATH="$$PATH:/usr/sbin:/sbin"
	packages=$$(for tool in $(TOOLS); do
		command -v "$${tool%=*}" >/dev/null || echo "$${tool#*=}"
	done)
	[ -z "$$packages" ] || $(call install,$$packages)

# Installs what the files of deploy are tried with, below the target directory but for Debian's own
# tools. Without a network the test says what is missing.
fleet-tools:
	@if [ -x "$(FLEET)/venv/bin/kubernetes-validate" ]; then exit 0; fi
	mkdir -p "$(FLEET)"
	$(call install,python3 python3-venv openssh-client shellcheck)
	if command -v apt-get >/dev/null; then
		(cd "$(FLEET)" && apt-get download -q slurm-client && dpkg -x slurm-client_*.deb slurm && rm slurm-client_*.deb) || true
	fi
	python3 -m venv "$(FLEET)/venv" &&
		"$(FLEET)/venv/bin/pip" install -q 'ansible-core==2.18.*' 'kubernetes-validate==1.37.*' || true

# Installs a browser.
chromium:
	@if [ -x "$${CHROMIUM:-}" ] || command -v $(BROWSERS) >/dev/null; then exit 0; fi
	$(call install,chromium fonts-liberation)
