#!/bin/bash
# A study between two nodes: the first one sends, and srun starts bytecost on the second one.
#
#     sbatch pair.sh
#     sbatch --nodelist=n1,n2 pair.sh
#
# BYTECOST_PROGRAM is the static program, BYTECOST_STUDY the study with its options, BYTECOST_RUNS the
# directory for runs; the first and the last lie on a file system that both nodes have.
#SBATCH --job-name=bytecost-pair
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=00:30:00
#SBATCH --output=bytecost-pair-%j.log
set -euo pipefail

program=${BYTECOST_PROGRAM:-$PWD/bytecost}
read -ra study <<<"${BYTECOST_STUDY:-send-copies}"
runs=${BYTECOST_RUNS:-$PWD/runs}
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")

# What the two say to each other has no lines, and srun would wait for the end of one: --unbuffered.
# The batch step holds the CPUs of its node: --overlap.
peer="srun --unbuffered --overlap --nodes=1 --ntasks=1 --nodelist=${nodes[1]}"

# Status 1 says that a part of the run failed; its samples are kept.
"$program" run "${study[@]}" --quiet --runs-dir "$runs/${nodes[0]}" \
	--peer "$peer" --peer-program "$program" || [ $? = 1 ]
