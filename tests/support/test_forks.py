"""Hooks around forks."""

import os

from tracker.support.forks import register_at_fork


def test_systems_without_forks_need_no_hooks(monkeypatch):
    monkeypatch.delattr(os, "register_at_fork")
    register_at_fork(before=lambda: None)


def test_hooks_are_registered(monkeypatch):
    registered = []
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: registered.append(hooks))
    register_at_fork(before=len)
    assert registered == [{"before": len}]
