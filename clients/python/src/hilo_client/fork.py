"""Tells a process from its children, also from those that were forked in C, of which Python does not hear."""

from __future__ import annotations

import mmap
import os

# Children find the page empty (Linux, from 4.14 on).
MADV_WIPEONFORK = 18


class Number:
    """For systems that cannot empty a page: its only element costs a system call."""

    def __init__(self) -> None:
        self._number = os.getpid()

    def __getitem__(self, _: int) -> int:
        return self._number == os.getpid()


def mark() -> mmap.mmap | Number:
    """Its first element is 1 in this process, and 0 in its children."""
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
    try:
        page.madvise(MADV_WIPEONFORK)
    except OSError:
        return Number()
    page[0] = 1
    return page
