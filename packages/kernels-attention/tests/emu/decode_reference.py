"""Paged caches and attention to them in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)
FNUZ = np.dtype(ml_dtypes.float8_e4m3fnuz)
FN = np.dtype(ml_dtypes.float8_e4m3fn)
INT8 = np.dtype(np.int8)
UNIT = {BF16: 2.0**-8, F16: 2.0**-11}


@dataclass
class Case:
    """A call: everything that pages hold outside the sequences is NaN (127 in int8)."""

    lens: tuple[int, ...] = (0, 37, 300)
    layout: str = "linear"
    kind: Any = BF16
    dtype: Any = BF16
    queries: int = 1
    heads: int = 8
    kv: int = 2
    d: int = 128
    dv: int = 128
    page: int = 16
    window: int | None = None
    scale: str = "none"
    arrays: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = np.random.default_rng()
        page, used = self.page, [-(-n // self.page) for n in self.lens]
        count = sum(used) + 2
        size = 30 if self.kind == INT8 else 1
        keys, values = (
            np.round(size * random.standard_normal((count, page, self.kv, w))) if size > 1
            else random.standard_normal((count, page, self.kv, w))
            for w in (self.d, self.dv)
        )  # fmt: skip
        keys, values = (
            np.clip(keys, -127, 127).astype(self.kind),
            values.clip(-127, 127).astype(self.kind),
        )
        table = np.full((len(self.lens), max(1, *used)), 2**30, np.int32)
        valid, order = np.zeros((count, page), bool), random.permutation(count)
        for row, (length, pages) in enumerate(zip(self.lens, used, strict=True)):
            table[row, :pages], order = order[:pages], order[pages:]
            for turn in range(pages):
                valid[table[row, turn], : length - turn * page] = True
        bad = 127 if self.kind == INT8 else np.nan
        keys[~valid], values[~valid] = bad, bad
        shape = (len(self.lens), self.queries, self.heads, self.d)
        self.arrays = {
            "q": random.standard_normal(shape).astype(self.dtype),
            "keys": keys,
            "values": values,
            "table": table,
        }
        units = {"none": (None, None), "number": (0.05, np.array([0.07], np.float32))}
        if self.scale == "token":
            kept = random.uniform(0.01, 0.1, (2, count, self.kv, page)).astype(np.float32)
            kept[:, ~valid.reshape(count, 1, page).repeat(self.kv, 1)] = np.nan
            units["token"] = kept[0], kept[1]
        self.arrays["units"] = units[self.scale]

    def caches(self) -> tuple[Any, Any]:
        """Return both caches in their layout."""
        keys, values, page = self.arrays["keys"], self.arrays["values"], self.page
        if self.layout == "linear":
            return keys, values
        x, count = 16 // keys.itemsize, keys.shape[0]
        keys = keys.reshape(count, page, self.kv, self.d // x, x).transpose(0, 2, 3, 1, 4)
        if self.layout == "vectorised":
            values = values.reshape(count, page // x, x, self.kv, self.dv).transpose(0, 3, 1, 4, 2)
        else:
            values = values.transpose(0, 2, 3, 1)
        return np.ascontiguousarray(keys), np.ascontiguousarray(values)

    def expected(self, row: int, query: int, head: int) -> tuple[Any, Any, Any, Any]:
        """Return a result, the sums of weighted and of equal magnitudes of values, the logarithm.

        Both sums are shares of the sum of weights, of which the largest is 1.
        """
        length, a = self.lens[row], self.arrays
        at = np.arange(length)
        pages, inside, group = a["table"][row, at // self.page], at % self.page, head * self.kv
        group //= self.heads
        keys = a["keys"][pages, inside, group].astype(np.float64)
        values = a["values"][pages, inside, group].astype(np.float64)
        if self.scale == "number":
            keys, values = keys * np.float32(0.05), values * np.float32(0.07)
        if self.scale == "token":
            keys = keys * a["units"][0][pages, group, inside][:, None]
            values = values * a["units"][1][pages, group, inside][:, None]
        place = length - self.queries + query
        seen = at <= place
        if self.window is not None:
            seen &= at >= place - self.window
        if not seen.any():
            return np.zeros(self.dv), np.zeros(self.dv), np.zeros(self.dv), -np.inf
        scores = keys[seen] @ a["q"][row, query, head].astype(np.float64) / np.sqrt(self.d)
        weights = np.exp(scores - scores.max())
        total = weights.sum()
        weights = weights[:, None] / total
        result = (weights * values[seen]).sum(0)
        sizes = np.abs(values[seen])
        log = scores.max() + np.log(total)
        return result, (weights * sizes).sum(0), sizes.sum(0) / total, log

    def check(self, result: Any, logs: Any) -> None:
        """Compare with the reference.

        Weights are rounded to the type of q (u), relative to the exact one within u, or to half of
        the smallest number where they are not normal, the largest being at least 1; so is the
        result. Products and sums in f32, over at most 1300 keys, stay below a quarter of that.
        """
        unit, least = UNIT[self.dtype], float(ml_dtypes.finfo(self.dtype).smallest_subnormal) / 2
        for row in range(len(self.lens)):
            for query in range(self.queries):
                for head in range(self.heads):
                    exact, size, sizes, log = self.expected(row, query, head)
                    found = result[row, query, head].astype(np.float64)
                    bound = unit * (1.25 * size + np.abs(exact)) + least * sizes + 2.0**-24
                    assert (np.abs(found - exact) <= bound).all(), (row, query, head)
                    if np.isinf(log):
                        assert logs[row, head, query] == -np.inf
                        assert (found == 0).all()
                    else:
                        assert abs(logs[row, head, query] - log) < 2e-5 * (1 + abs(log))
