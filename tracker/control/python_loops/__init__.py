"""Python loops of traced code, at the price of a few turns."""

from tracker.control.python_loops.iterator import start
from tracker.tape.python_loops import set_loop_starter

set_loop_starter(start)
