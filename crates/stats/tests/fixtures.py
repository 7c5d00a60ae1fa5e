"""Known answers for tests/fixtures.rs, by SciPy.

To make fixtures.json again:

    python3 -m venv /tmp/scipy && /tmp/scipy/bin/pip install scipy
    /tmp/scipy/bin/python crates/stats/tests/fixtures.py > crates/stats/tests/fixtures.json

The answers are SciPy's, not those of formulas written out here, except where a comment says so.
"""

import json
import sys

import numpy as np
from scipy import stats

rng = np.random.default_rng(20_240_611)


def rounded(values):
    return [float(f"{v:.6g}") for v in values]


SERIES = {
    "normal-6": rounded(rng.normal(0.05, 0.03, 6)),
    "normal-8": rounded(rng.normal(0.0, 1.0, 8)),
    "heavy-12": rounded(rng.standard_t(2, 12)),
    "skewed-15": rounded(rng.exponential(3.0, 15)),
    "outlier-10": rounded(list(rng.normal(1.0, 0.1, 9)) + [25.0]),
    "normal-20": rounded(rng.normal(10.0, 2.0, 20)),
    "ties-9": [1.0, 2.0, 2.0, 3.0, -1.0, 2.0, 5.0, -3.0, 4.0],
    "rising-14": rounded(np.arange(14) * 0.2 + rng.normal(0, 0.3, 14)),
    "three": [1.5, -0.25, 4.0],
}


def trimmed(values):
    """A second sample of zeros has no variance, so that Yuen's two-sample test becomes the
    one-sample test of Tukey and McLaughlin, with the classical h - 1 degrees of freedom."""
    x = np.array(values)
    test = stats.ttest_ind(x, np.zeros(len(x)), equal_var=False, trim=0.2)
    value = stats.trim_mean(x, 0.2)
    kept = len(x) - 2 * int(0.2 * len(x))
    return {
        "value": value,
        "standard_error": value / test.statistic,
        "classical_degrees": kept - 1,
        "classical_p": test.pvalue,
    }


def student(values):
    test = stats.ttest_1samp(values, 0.0)
    interval = test.confidence_interval(0.95)
    return {"p": test.pvalue, "low": interval.low, "high": interval.high}


def trend(values):
    n = len(values)
    ties = len(set(values)) < n
    result = stats.kendalltau(np.arange(n), values, method="asymptotic" if ties else "exact")
    return {
        "tau": result.statistic,
        "p": result.pvalue,
        "slope": stats.theilslopes(values, np.arange(n)).slope,
    }


def lag1(values):
    """NumPy has no such function; the definition of Box and Jenkins."""
    x = np.array(values) - np.mean(values)
    return float((x[1:] * x[:-1]).sum() / (x * x).sum())


def holm(p_values):
    """SciPy has no such function; R's p.adjust(p, "holm") written out."""
    p = np.array(p_values)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    out = np.empty(len(p))
    out[order] = np.minimum(steps, 1.0)
    return out.tolist()


def series(name, values):
    shares = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0]
    return {
        "name": name,
        "values": values,
        "variance": float(np.var(values, ddof=1)),
        "quantiles": [[s, float(np.quantile(values, s))] for s in shares],
        "lag1": lag1(values),
        "trimmed": trimmed(values),
        "student": student(values),
        "trend": trend(values) if len(values) >= 4 else None,
    }


DEGREES = [1, 1.6, 2.4, 3, 4, 5.6, 7, 11, 15.2, 30, 100, 4000]
P_FAMILIES = [
    [0.01, 0.04, 0.03, 0.005],
    [0.5, 0.9, 0.2],
    [0.02, 0.02, 0.02],
    [1e-9, 0.8, 0.049, 0.3, 0.0011, 0.0011],
    [0.04],
]

json.dump(
    {
        "series": [series(n, v) for n, v in SERIES.items()],
        "t_quantiles": [
            [q, d, float(stats.t.ppf(q, d))]
            for d in DEGREES
            for q in [0.025, 0.2, 0.5, 0.8, 0.95, 0.975, 0.995, 0.9995]
        ],
        "t_two_sided_p": [
            [t, d, float(2 * stats.t.sf(abs(t), d))]
            for d in DEGREES
            for t in [-8.0, -0.7, 0.0, 0.3, 2.1, 40.0]
        ],
        "holm": [{"p": p, "corrected": holm(p)} for p in P_FAMILIES],
    },
    sys.stdout,
    indent=1,
    default=float,
)
print()
