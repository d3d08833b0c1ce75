"""Work counted by the interpreter, for tests that something is linear: steps, not seconds."""

import sys


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
