"""Peak memory of compiled gradients beside that of NumPy's for the same gradients, written by hand.

Run: python benchmarks/peak_memory.py      (Linux; each number is of a process of its own)

In arrays as long as the argument (of 2^22 elements, where that is short), above what is there
before the call, so the argument does not count and the result does. The first call traces and
compiles, and is measured as NumPy's is; of later ones the results and the scratch of machine code
are counted.
"""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from memory import forget_peak, status
from peak_cases import CASES, Case
from peak_programs import PROGRAMS

import tracker

_LENGTH = 1 << 22  # arrays of whole huge pages
_ALL = CASES | PROGRAMS
_SMALL = 2500  # elements of the calls that load modules and start the compiler before


def _peak(call: Callable[..., Any], arguments: tuple[Any, ...], unit: int) -> float:
    gc.collect()
    forget_peak()
    before = status("VmRSS")
    call(*arguments)
    return (status("VmHWM") - before) / unit


def _of_machine_code(call: Any, arguments: tuple[Any, ...], unit: int) -> float:
    """What `explain` says: blocks that are kept for the next call would count in the process's."""
    call(*arguments)
    found = re.search(r"([\d,]+) of results, at most ([\d,]+) of scratch", call.explain(*arguments))
    assert found is not None
    return sum(int(number.replace(",", "")) for number in found.groups()) / unit


def compiled(case: Case) -> Callable[..., Any]:
    return tracker.jit(lambda x, *rest: tracker.withgradient(lambda y: case.loss(y, *rest), x))


def measured(name: str, what: str) -> float:
    """The peak of one call, in this process."""
    case = _ALL[name]
    small, large = case.make(_SMALL), case.make(_LENGTH)
    by_hand = what == "by hand"
    warm, run = (case.by_hand if by_hand else compiled(case) for _ in range(2))
    for _ in range(2):
        warm(*small)
    unit = 8 * _LENGTH if case.is_square else large[0].nbytes
    return (_of_machine_code if what == "later" else _peak)(run, large, unit)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(measured(*sys.argv[1:]))
    else:
        for name in _ALL:
            numbers = [
                float(subprocess.check_output([sys.executable, __file__, name, what]))
                for what in ("by hand", "first", "later")
            ]
            print("{:15} by hand {:5.2f}  first call {:5.2f}  later {:5.2f}".format(name, *numbers))
