"""Runs functions in threads of their own, all at once."""

import threading


def at_once(*works):
    """Return when all have; what one raises is for its thread (pytest makes it a warning)."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
