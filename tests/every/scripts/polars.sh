#!/usr/bin/env bash
# Data frames in Rust, whose allocator is bundled.
POLARS_MAX_THREADS=2 "$VENV/bin/python" - <<'PYTHON'
import polars as pl

n = 1_500_000
frame = pl.DataFrame({"i": pl.arange(0, n, eager=True)}).with_columns(
    k=pl.col("i") * 7919 % 997, x=(pl.col("i") * 31 % 10007) / 7, s=pl.format("name {}", pl.col("i") % 4999)
)
print(frame.group_by("k").agg(pl.len(), pl.col("x").max()).sort("k").head(5).rows())
print(frame.join(frame.filter(pl.col("i") % 3 == 0), on="i").select(pl.col("x").sum().round(3)).item())
print(frame.sort("x", "i", descending=True).select("i").head(5).rows())
print(frame.lazy().filter(pl.col("s").str.ends_with("7")).select(pl.len()).collect().item())
frame.write_parquet("frame.parquet")
print(pl.read_parquet("frame.parquet").equals(frame))
PYTHON
