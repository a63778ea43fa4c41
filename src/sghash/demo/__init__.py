"""The demonstration: what the package does, shown on data that is always there."""

from __future__ import annotations

from sghash.demo.page import write_page
from sghash.demo.sets import DEMO_SETS, load_set
from sghash.demo.story import Story, tell
from sghash.demo.terminal import Terminal
from sghash.demo.text import story_text

__all__ = ["DEMO_SETS", "Story", "Terminal", "load_set", "story_text", "tell", "write_page"]
