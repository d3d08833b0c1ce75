"""What a call takes, for tests that something is bounded: steps and bytes, not seconds."""

import sys
import tracemalloc


def lines_run(call):
    """About how many lines of Python run in a call (with the calls and returns among them)."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += 1
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(old)
    return count


def peak_bytes(call):
    """The most that is allocated at a time in a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
