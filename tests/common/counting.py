"""The cost of a call, for tests of bounds: lines and bytes, not seconds."""

import gc
import sys
import tracemalloc
from collections import Counter
from pathlib import Path


def lines_run(call):
    """About how many lines of Python run in a call (with the calls and returns among them)."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += 1
        return trace

    _traced(call, trace)
    return count


def lines_by_file(call, root):
    """About how many lines of each file below `root` run in a call, by the file's path there."""
    start, counters = f"{root}/", {}

    def trace(frame, event, arg):
        file = frame.f_code.co_filename
        if file not in counters:
            counters[file] = _counter() if file.startswith(start) else (None, None)
        return counters[file][0]

    _traced(call, trace)
    return Counter(
        {str(Path(file).relative_to(root)): read() for file, (_, read) in counters.items() if read}
    )


def _counter():
    """A function that counts the lines of a frame, and one that returns the count."""
    lines = 0

    def count(frame, event, arg):
        nonlocal lines
        lines += 1
        return count

    return count, lambda: lines


def _traced(call, trace):
    """Run a call under a trace function, with the garbage collector off."""
    old, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(old)
        if collects:
            gc.enable()


def peak_bytes(call):
    """The most that is allocated at a time in a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
