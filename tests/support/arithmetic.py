"""Environments in which libm and numpy calculate with other instructions, and sets iterate otherwise."""

import importlib
from typing import Any

UNTUNED = {"PYTHONHASHSEED": "1"}


def dispatched() -> list[str]:
    """Instruction sets that numpy would choose on this machine, in its own words."""
    core: Any = importlib.import_module("numpy._core._multiarray_umath")
    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]


def tuned() -> dict[str, str]:
    found = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2,-FMA4", "PYTHONHASHSEED": "2"}
    features = dispatched()
    return {**found, "NPY_DISABLE_CPU_FEATURES": " ".join(features)} if features else found
