#!/usr/bin/env bash
# Holds the files below deploy against what they are for: shell against shellcheck, the options of
# Slurm against its manual pages, Kubernetes against its schema, the playbook against ansible's own
# reader. Each check is shown a wrong file too, which it must refuse.
#
# Usage: deploy.sh DIRECTORY: where the tools are; `make test-fleet` puts them there.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: deploy.sh DIRECTORY" >&2; exit 2; }
tools=$(realpath "$1")
export PATH="$tools/venv/bin:$PATH" LC_ALL=C.UTF-8 ANSIBLE_HOME=$tools/ansible ANSIBLE_ROLES_PATH=$PWD/deploy/ansible/roles
bad=$(mktemp -d)
trap 'rm -rf "$bad"' EXIT
# What is not checked for lack of a tool, which must be there where CI is true.
left_out() {
	echo "left out: $*" | tee -a "${BYTECOST_SKIPPED:-/dev/null}"
	[ "${CI:-}" != true ] || failed "where CI is true nothing may be left out"
}
failed() { echo "deploy: $*" >&2; exit 1; }

for script in deploy/slurm/*.sh tests/fleet.sh tests/deploy.sh; do bash -n "$script"; done
if command -v shellcheck >/dev/null; then
	shellcheck deploy/slurm/*.sh tests/fleet.sh tests/deploy.sh
else
	left_out "shellcheck is not installed"
fi

# The options of a manual page: at the start of a line, or after a short form.
listed() { zcat "$tools/slurm/usr/share/man/man1/$1.1.gz" | sed 's/\\-/-/g; s/\\f[BIPR]//g' | grep -oE -- '--[a-z][a-z-]+' | sort -u; }
# Those of a script: lines for sbatch, and calls of srun.
used() {
	case $1 in
	sbatch) sed -n 's/^#SBATCH //p' "$2" ;;
	srun) grep -oE '"srun .*"' "$2" || true ;;
	esac | grep -oE -- '--[a-z][a-z-]+' | sort -u
}
unknown() { comm -23 <(used "$1" "$2") <(listed "$1"); }
if [ -d "$tools/slurm" ]; then
	for command in sbatch srun; do
		for script in deploy/slurm/*.sh; do
			[ -z "$(unknown $command "$script")" ] || failed "$script: no option of $command: $(unknown $command "$script")"
		done
	done
	sed 's/--exclusive/--exclusively/; s/--overlap/--overlaps/' deploy/slurm/pair.sh >"$bad/pair.sh"
	[ "$(unknown sbatch "$bad/pair.sh")" = --exclusively ] || failed "a wrong option of sbatch was not seen"
	[ "$(unknown srun "$bad/pair.sh")" = --overlaps ] || failed "a wrong option of srun was not seen"
else
	left_out "options of Slurm, without its manual pages"
fi

kubernetes-validate --strict --quiet --no-warn deploy/kubernetes/*.yaml
sed 's/runAsNonRoot/runAsNobody/' deploy/kubernetes/job.yaml >"$bad/job.yaml"
! kubernetes-validate --strict --quiet --no-warn "$bad/job.yaml" >/dev/null 2>&1 || failed "a wrong field was not seen"

ansible-playbook --syntax-check -i localhost, deploy/ansible/fleet.yml >/dev/null
