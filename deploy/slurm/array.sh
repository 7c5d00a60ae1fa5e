#!/bin/bash
# A study on each of several nodes: one task of an array on a node of its own.
#
#     sbatch --array=0-7 array.sh
#
# BYTECOST_PROGRAM is the static program, BYTECOST_STUDY the study with its options, BYTECOST_RUNS the
# directory for runs; the first and the last lie on a file system that all nodes have. Two tasks may
# come to one node, one after the other: the table over hosts then has the newer run.
#SBATCH --job-name=bytecost
#SBATCH --array=0-3
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --time=00:30:00
#SBATCH --output=bytecost-%A-%a.log
set -euo pipefail

program=${BYTECOST_PROGRAM:-$PWD/bytecost}
read -ra study <<<"${BYTECOST_STUDY:-send-copies}"
runs=${BYTECOST_RUNS:-$PWD/runs}

# Status 1 says that a part of the run failed; its samples are kept.
"$program" run "${study[@]}" --quiet --runs-dir "$runs/$SLURMD_NODENAME" || [ $? = 1 ]
