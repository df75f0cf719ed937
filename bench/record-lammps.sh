#!/usr/bin/env bash
# What `hearth record` costs on a real program: the lammps melt with and without it, in alternating pairs.
#
#   bench/record-lammps.sh [PAIRS] [STEPS] [CELLS]
#
# Prints every pair and the medians of the ratios of wall time and of user + system time (the recorder's included).
# HEARTH names the binary; further words after `record` come from HEARTH_OPTIONS.
set -euo pipefail

pairs=${1:-7} steps=${2:-40} cells=${3:-60}
root=$(cd "$(dirname "$0")/.." && pwd)
hearth=${HEARTH:-$root/target/release/hearth}
[ -x "$hearth" ] || { echo "$hearth is not there: cargo build --release" >&2; exit 2; }
command -v lmp >/dev/null || { echo "lmp is not there: apt-get install lammps" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 LC_ALL=C
cd "$folder"

melt=(lmp -in "$root/tests/lammps/in.melt" -var size "$cells" -var steps "$steps" -log none)
read -ra options <<<"${HEARTH_OPTIONS:-}"
recorded=("$hearth" record "${options[@]}" -o "$folder/lammps.hearth" -- "${melt[@]}")

# Runs the command; leaves "wall cpu" in seconds in `figures`.
timed() {
  local TIMEFORMAT='%R %U %S' line
  line=$({ time "$@" >"$folder/out" 2>"$folder/err"; } 2>&1) || { cat "$folder/err" >&2; exit 1; }
  figures=$(awk '{ printf "%s %.3f", $1, $2 + $3 }' <<<"$line")
}

median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

timed "${melt[@]}" # Warms the file cache.
echo "pair  plain wall  cpu  recorded wall  cpu  ratio wall  cpu"
for ((pair = 1; pair <= pairs; pair++)); do
  if ((pair % 2)); then
    timed "${melt[@]}" && plain=$figures
    timed "${recorded[@]}" && with=$figures
  else
    timed "${recorded[@]}" && with=$figures
    timed "${melt[@]}" && plain=$figures
  fi
  awk -v n="$pair" '{ printf "%d  %.2f %.2f  %.2f %.2f  %.4f %.4f\n", n, $1, $2, $3, $4, $3 / $1, $4 / $2 }' \
    <<<"$plain $with" | tee -a "$folder/table"
done
wall=$(awk '{ print $6 }' "$folder/table" | median)
cpu=$(awk '{ print $7 }' "$folder/table" | median)
echo "median ratio over $pairs pairs: wall $wall, user + system $cpu"
