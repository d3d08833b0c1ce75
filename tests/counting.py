"""What a call takes, for tests that something is bounded: steps and bytes, not seconds."""

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
    counts = Counter()
    start = f"{root}/"

    def trace(frame, event, arg):
        file = frame.f_code.co_filename
        if not file.startswith(start):
            return None

        def count(frame, event, arg):
            counts[file] += 1
            return count

        return count

    _traced(call, trace)
    return Counter({str(Path(file).relative_to(root)): n for file, n in counts.items()})


def _traced(call, trace):
    """Run a call under a trace function."""
    old = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(old)


def peak_bytes(call):
    """The most that is allocated at a time in a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
