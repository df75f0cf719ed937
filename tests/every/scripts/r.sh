#!/usr/bin/env bash
# A language for statistics, whose vectors are malloc's.
Rscript --vanilla - <<'R'
set.seed(1)
x <- matrix(rnorm(400 * 400), 400)
cat("solve", isTRUE(all.equal(as.vector(solve(x, rowSums(x))), rep(1, 400))), "\n")
d <- data.frame(k = rep(1:100, 2000), v = (1:200000) %% 1013)
print(head(aggregate(v ~ k, d, sum), 3))
m <- lm(v ~ k, d)
cat(sprintf("%.6f", coef(m)), "\n")
l <- lapply(1:300, function(i) numeric(20000) + i)
cat(sum(sapply(l, sum)), length(unique(sample(1e6, 1e5))), "\n")
invisible(gc())
quit(status = 4)
R
echo "R $?"
