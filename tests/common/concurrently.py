"""Runs functions at the same time, each in its own thread."""

import threading


def at_once(*works):
    """Wait for all; an exception is reported by its thread (a warning in pytest)."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
