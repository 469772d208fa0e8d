"""The native ``int32_t launch(const FlyLaunch *)`` of HIP.

It switches to the launch's device if need be, checks what HIP reports badly or not at all, and
calls ``hipModuleLaunchKernel``. It is LLVM IR text, compiled for the host without data or
relocations: what it needs of this process comes through `FlyLaunch.driver` (`HipDriver`) and
`FlyLaunch.function` (`HipKernel`). Results: 0, a ``hipError_t``, or one of the negative statuses
below.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from flydsl.codegen.ir_text import IrText
from flydsl.runtime.abi import ABI_VERSION, FlyLaunch

if TYPE_CHECKING:
    from flydsl_rocdl.hip.core import HipDriver, HipKernel

__all__ = [
    "BAD_ABI",
    "BAD_BLOCK",
    "BAD_CLUSTER",
    "BAD_GRID",
    "BAD_LDS",
    "BAD_PARTS",
    "llvm_ir",
]

BAD_ABI, BAD_BLOCK, BAD_GRID, BAD_LDS, BAD_CLUSTER, BAD_PARTS = -1, -2, -3, -4, -5, -6
"""Launches that are refused; `flydsl_rocdl.hip.refusals` says why."""

_CLUSTER_ATTRIBUTE = 4
"""``hipLaunchAttributeClusterDimension``; a ``hipLaunchAttribute`` is the id, 4 bytes of padding
and 64 bytes of value, which begin with x, y, z."""

_BUFFER_POINTER, _BUFFER_SIZE, _BUFFER_END = 1, 2, 3
"""``HIP_LAUNCH_PARAM_*``: tags of the `extra` array that passes packed arguments."""


class _Body(IrText):
    """The function's body, and where it leaves early with which status.

    Args:
        entry: The function's name.
        kernel: The record of a loaded kernel.
        driver: The record of HIP's functions.
    """

    def __init__(self, entry: str, kernel: type[HipKernel], driver: type[HipDriver]) -> None:
        super().__init__()
        self.entry, self.kernel, self.driver = entry, kernel, driver
        self.refusals: list[tuple[str, int]] = []

    def refuse(self, condition: str, status: int) -> None:
        """Leave with `status` where `condition` holds."""
        self.refusals.append((self.block, status))
        label = self.fresh("checked")
        self.branch(condition, "refused", label)
        self.begin(label)


def llvm_ir(entry: str, kernel_type: type[HipKernel], driver_type: type[HipDriver]) -> str:
    """Return the module that defines the function.

    Args:
        entry: Its name.
        kernel_type: `flydsl_rocdl.hip.core.HipKernel`.
        driver_type: `flydsl_rocdl.hip.core.HipDriver`.
    """
    out = _Body(entry, kernel_type, driver_type)
    version = out.load("i32", "%launch", FlyLaunch.abi_version.offset)
    out.refuse(out.value(f"icmp ne i32 {version}, {ABI_VERSION}"), BAD_ABI)
    driver = out.load("ptr", "%launch", FlyLaunch.driver.offset)
    kernel = out.load("ptr", "%launch", FlyLaunch.function.offset)
    dims = {
        name: [out.load("i32", "%launch", field.offset + 4 * axis) for axis in range(3)]
        for name, field in (
            ("grid", FlyLaunch.grid),
            ("block", FlyLaunch.block),
            ("cluster", FlyLaunch.cluster),
        )
    }
    lds = out.load("i32", "%launch", FlyLaunch.dynamic_lds.offset)
    _check(out, kernel, dims, lds)
    clustered = _check_cluster(out, driver, dims["grid"], dims["cluster"])
    device = out.load("i32", "%launch", FlyLaunch.device.offset)
    get_device = out.load("ptr", driver, out.driver.get_device.offset)
    set_device = out.load("ptr", driver, out.driver.set_device.offset)
    asked = out.value(f"call i32 {get_device}(ptr %current)")
    unknown = out.value(f"icmp ne i32 {asked}, 0")
    out.branch(unknown, "nowhere", "somewhere")
    out.lines += ["nowhere:", f"  ret i32 {asked}"]
    out.begin("somewhere")
    before = out.value("load i32, ptr %current")
    same = out.value(f"icmp eq i32 {before}, {device}")
    out.branch(same, "ready", "switch")
    out.begin("switch")
    switched = out.value(f"call i32 {set_device}(i32 {device})")
    failed = out.value(f"icmp ne i32 {switched}, 0")
    out.branch(failed, "lost", "ready")
    out.lines += ["lost:", f"  ret i32 {switched}"]
    out.begin("ready")
    result = _launch(out, driver, kernel, dims, lds, clustered)
    out.branch(same, "finish", "back")
    out.begin("back")
    returned = out.value(f"call i32 {set_device}(i32 {before})")
    succeeded = out.value(f"icmp eq i32 {result}, 0")
    both = out.value(f"select i1 {succeeded}, i32 {returned}, i32 {result}")
    out.lines += ["  br label %finish", "finish:"]
    out.lines += [f"  %outcome = phi i32 [ {result}, %launched ], [ {both}, %back ]"]
    out.lines += ["  ret i32 %outcome"]
    return _module(out)


def _check(out: _Body, kernel: str, dims: dict[str, list[str]], lds: str) -> None:
    """Refuse what exceeds the kernel's or HIP's limits."""
    x, y, z = (out.value(f"zext i32 {size} to i64") for size in dims["block"])
    threads = out.value(f"mul i64 {out.value(f'mul i64 {x}, {y}')}, {z}")
    limit = out.load("i32", kernel, out.kernel.max_threads.offset)
    limit = out.value(f"zext i32 {limit} to i64")
    too_many = out.value(f"icmp ugt i64 {threads}, {limit}")
    for size in (x, y, z):
        # On its own too: the product may exceed 64 bits.
        alone = out.value(f"icmp ugt i64 {size}, {limit}")
        too_many = out.value(f"or i1 {too_many}, {alone}")
    none = out.value(f"icmp eq i64 {threads}, 0")
    out.refuse(out.value(f"or i1 {too_many}, {none}"), BAD_BLOCK)
    for count, size in zip(dims["grid"], (x, y, z), strict=True):
        # A packet counts threads, in 32 bits along each axis.
        wide = out.value(f"zext i32 {count} to i64")
        items = out.value(f"mul i64 {wide}, {size}")
        out.refuse(out.value(f"icmp ugt i64 {items}, {2**32 - 1}"), BAD_GRID)
    static = out.load("i32", kernel, out.kernel.lds_static.offset)
    capacity = out.load("i32", kernel, out.kernel.lds_capacity.offset)
    left = out.value(f"sub i32 {capacity}, {static}")
    out.refuse(out.value(f"icmp ugt i32 {lds}, {left}"), BAD_LDS)


def _check_cluster(out: _Body, driver: str, grid: list[str], cluster: list[str]) -> str:
    """Refuse clusters that HIP or the grid does not have; return whether there are any."""
    parts = [out.value(f"icmp ugt i32 {size}, 1") for size in cluster]
    clustered = out.value(f"or i1 {out.value(f'or i1 {parts[0]}, {parts[1]}')}, {parts[2]}")
    extended = out.load("i64", driver, out.driver.launch_ex.offset)
    missing = out.value(f"icmp eq i64 {extended}, 0")
    out.refuse(out.value(f"and i1 {clustered}, {missing}"), BAD_CLUSTER)
    for count, size in zip(grid, cluster, strict=True):
        some = out.value(f"icmp ugt i32 {size}, 1")
        part = out.value(f"urem i32 {count}, {out.value(f'select i1 {some}, i32 {size}, i32 1')}")
        out.refuse(out.value(f"icmp ne i32 {part}, 0"), BAD_PARTS)
    return clustered


def _launch(
    out: _Body, driver: str, kernel: str, dims: dict[str, list[str]], lds: str, clustered: str
) -> str:
    """Call HIP; return the result."""
    function = out.load("ptr", kernel, out.kernel.function.offset)
    stream = out.load("ptr", "%launch", FlyLaunch.stream.offset)
    kernarg = out.load("i64", "%launch", FlyLaunch.kernarg.offset)
    size = out.at("%launch", FlyLaunch.kernarg_size.offset)
    size = out.value(f"ptrtoint ptr {size} to i64")
    tagged = (_BUFFER_POINTER, kernarg, _BUFFER_SIZE, size, _BUFFER_END)
    for position, value in enumerate(tagged):
        out.store("i64", value, "%extra", 8 * position)
    out.branch(clustered, "extended", "plain")
    out.begin("plain")
    sizes = ", ".join(f"i32 {size}" for size in (*dims["grid"], *dims["block"]))
    address = out.load("ptr", driver, out.driver.launch.offset)
    plain = out.value(
        f"call i32 {address}(ptr {function}, {sizes}, i32 {lds}, ptr {stream}, "
        "ptr null, ptr %extra)"
    )
    out.lines += ["  br label %launched", "extended:"]
    for position, value in enumerate((*dims["grid"], *dims["block"], lds)):
        out.store("i32", value, "%config", 4 * position)
    out.store("ptr", stream, "%config", 32)
    out.store("ptr", "%attribute", "%config", 40)
    out.store("i32", 1, "%config", 48)
    out.store("i32", _CLUSTER_ATTRIBUTE, "%attribute", 0)
    for position, value in enumerate(dims["cluster"]):
        out.store("i32", value, "%attribute", 8 + 4 * position)
    address = out.load("ptr", driver, out.driver.launch_ex.offset)
    extended = out.value(f"call i32 {address}(ptr %config, ptr {function}, ptr null, ptr %extra)")
    out.lines += ["  br label %launched", "launched:"]
    return out.value(f"phi i32 [ {plain}, %plain ], [ {extended}, %extended ]")


def _module(out: _Body) -> str:
    statuses = ", ".join(f"[ {status}, %{block} ]" for block, status in out.refusals)
    words = ctypes.sizeof(FlyLaunch) // 8
    body = list(out.lines)
    out.lines.clear()
    target = out.load("ptr", "%launch", FlyLaunch.driver.offset)
    for word in range(words):
        value = out.load("i64", "%launch", 8 * word)
        out.store("i64", value, target, out.driver.failed.offset + 8 * word)
    return "\n".join(
        [
            f"define i32 @{out.entry}(ptr %launch) nounwind {{",
            "entry:",
            "  %current = alloca i32, align 4",
            "  %extra = alloca [5 x i64], align 8",
            "  %config = alloca [56 x i8], align 8",
            "  %attribute = alloca [72 x i8], align 8",
            *body,
            "refused:",
            f"  %status = phi i32 {statuses}",
            f"  %strange = icmp eq i32 %status, {BAD_ABI}",
            # With another ABI version the driver's address may be elsewhere.
            "  br i1 %strange, label %leave, label %record",
            "record:",
            *out.lines,
            "  br label %leave",
            "leave:",
            "  ret i32 %status",
            "}\n",
        ]
    )
